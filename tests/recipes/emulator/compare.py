#!/usr/bin/env python3
"""Compares the order of `energon run` with that of energon_order.py, over random recipes.

Each seed makes its own recipe: data, metadatasets, layout and flags. A seed that fails prints its
recipe; `--first-seed N --count 1` repeats it.
"""

import argparse
import concurrent.futures
import io
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

import energon_order


# --- Data ---


class Dataset:
    """A dataset on disk, and the keys of its samples in the order of its split."""

    def __init__(self, folder, name, keys, shard_counts, excluded=()):
        self.path, self.name = folder / name, name
        self.keys, self.shard_counts, self.excluded = keys, shard_counts, excluded


def write_tar(path, keys):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for key in keys:
            member = tarfile.TarInfo(key + ".txt")
            member.size = len(key)
            tar.addfile(member, io.BytesIO(key.encode()))


def make_webdataset(draw, program, folder, number, least):
    """At least `least` samples; sometimes with shards and samples excluded, or reordered."""
    counts = [draw.randint(1, 14) for _ in range(draw.randint(1, 6))]
    counts[0] += max(least - sum(counts), 0)
    name = f"ds{number}"
    (folder / name / "parts").mkdir(parents=True)
    numbers = itertools.count(1000 * number)
    shards = []
    for i, count in enumerate(counts):
        shards.append((f"parts/data-{i}.tar", [f"{next(numbers):06}" for _ in range(count)]))
        write_tar(folder / name / shards[-1][0], shards[-1][1])
    subprocess.run([program, "prepare", str(folder / name), "--non-interactive", "--no-progress",
                    "--split-ratio", "1,0,0"], check=True, stdout=subprocess.DEVNULL)

    if draw.random() < 0.3:
        draw.shuffle(shards)
    split = ["split_parts:", "  train:"] + [f"  - {shard}" for shard, _ in shards]
    exclude = []
    if len(shards) > 1 and sum(len(keys) for _, keys in shards[1:]) >= least and draw.random() < 0.2:
        exclude.append(shards.pop(0)[0])
    keys = [key for _, keys in shards for key in keys]
    excluded = []
    if least and len(keys) >= 4 * least and draw.random() < 0.3:  # leaves each worker something
        excluded = sorted(draw.sample(range(len(keys)), 2))
        in_shard = {key: f"{shard}/{key}" for shard, keys in shards for key in keys}
        exclude += [in_shard[keys[i]] for i in excluded]
    split += ["exclude:"] + [f"- {entry}" for entry in exclude] if exclude else ["exclude: []"]
    (folder / name / ".nv-meta" / "split.yaml").write_text("\n".join(split) + "\n")
    return Dataset(folder, name, keys, [len(keys) for _, keys in shards], excluded)


def make_jsonl(draw, folder, least):
    count = max(draw.randint(3, 40), least)
    (folder / "lines.jsonl").write_text("".join(f'{{"n": {i}}}\n' for i in range(count)))
    return Dataset(folder, "lines.jsonl", [str(i) for i in range(count)], [count])


# --- Recipes ---


def make_subset(draw, length, may_be_absolute):
    """The text of a subset, and a function that maps a range to the subset's range within it."""
    if may_be_absolute and draw.random() < 0.5:
        begin = draw.randint(0, length // 3)
        end = draw.randint(2 * length // 3 + 1, length)
        text = f"[{begin}, {'end' if end == length else end}]"
        return text, lambda r: (r[0] + begin, r[0] + end)
    low, high = draw.randint(0, 30), draw.randint(70, 100)

    def within(r):
        n = r[1] - r[0]
        return r[0] + int(n * (low / 100)), r[0] + int(n * (high / 100))

    return f"[{low}%, {high}%]", within


def make_reference(draw, dataset, mixing):
    """An entry of a metadataset, and its leaf."""
    leaf = energon_order.Leaf(dataset.name, dataset.shard_counts, excluded=dataset.excluded)
    entry = [f"path: {dataset.name}"]
    if draw.random() < 0.3:
        text, within = make_subset(draw, leaf.length, may_be_absolute=True)
        leaf.range = within((0, leaf.length))
        entry.append(f"subset: {{range: {text}}}")
    if draw.random() < 0.4:
        leaf.multiplier = draw.choice([2, 3, None, -1] if mixing == "blend" else [2, 3, None])
        text = "null" if leaf.multiplier is None else leaf.multiplier
        entry.append(f"shuffle_over_epochs_multiplier: {text}")
    return entry, leaf


def share_of(draw, mixing, with_fractions):
    if mixing == "blend":
        return "weight", draw.choice([1, 2, 3, 0.5, 7.25])
    return "repetitions", draw.choice([1, 2, 3] + [0.5, 0.7, 1.5, 2.25] * with_fractions)


def make_metadataset(draw, folder, name, mixing, with_fractions, datasets, may_nest):
    """Writes the metadataset and returns its leaves."""
    entries, groups = [], []
    remaining = list(datasets)
    while remaining:
        key, share = share_of(draw, mixing, with_fractions)
        if may_nest and len(remaining) > 1 and draw.random() < 0.4:
            taken = [remaining.pop() for _ in range(draw.randint(1, len(remaining)))]
            inner = f"inner{len(entries)}.yaml"
            leaves = make_metadataset(draw, folder, inner, mixing, with_fractions, taken, False)
            entry = [f"path: {inner}"]
        else:
            entry, leaf = make_reference(draw, remaining.pop(), mixing)
            leaves = [leaf]
        entries.append(f"    - {{{', '.join(entry + [f'{key}: {share}'])}}}\n")
        groups.append((share, leaves))
    text = f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    {mixing}:\n" + "".join(entries)
    total = sum(share for share, _ in groups)
    for share, leaves in groups:
        for leaf in leaves:
            leaf.weight *= share / total
            leaf.repetitions *= share
    leaves = [leaf for _, leaves in groups for leaf in leaves]
    (folder / name).write_text(text)
    return leaves


class Recipe:
    def __init__(self, program, folder, seed):
        draw = random.Random(seed)
        self.num_workers = draw.choice([0, 0, 1, 2, 3])
        self.world_size = draw.choice([1, 1, 2, 3])
        self.rank = draw.randrange(self.world_size)
        self.mode = draw.choice(["endless", "endless", "epochs", "val"])
        self.mixing = draw.choice(["single", "blend", "blend", "blend_epochized", "blend_epochized"])
        if self.mixing == "blend" and self.mode == "epochs":
            self.mode = "endless"
        self.epochs = draw.randint(1, 3)
        with_fractions = (self.mode == "epochs" and self.epochs == 1) or self.mode == "val"

        # The first has samples for each worker, whatever is excluded.
        workers = self.world_size * max(self.num_workers, 1)
        datasets = [make_webdataset(draw, program, folder, 1, 5 * workers)]
        if self.mixing != "single":
            for number in range(2, draw.randint(3, 5)):
                datasets.append(make_webdataset(draw, program, folder, number, 0))
            if draw.random() < 0.3:
                datasets.append(make_jsonl(draw, folder, 0))
            if draw.random() < 0.2:
                datasets.append(datasets[0])
        self.keys = {dataset.name: dataset.keys for dataset in datasets}
        if self.mixing == "single":
            self.path = folder / datasets[0].name
            leaves = [energon_order.Leaf(datasets[0].name, datasets[0].shard_counts,
                                         excluded=datasets[0].excluded)]
        else:
            self.path = folder / "m.yaml"
            leaves = make_metadataset(draw, folder, "m.yaml", self.mixing, with_fractions, datasets,
                                      True)

        self.batch_size = draw.choice([1, 2, 5])
        # With replacement and in endless modes, there are no epochs.
        shuffle = draw.choice([1, 1, 1, 2, None] + [-1] * (self.mode == "endless"
                                                           and self.mixing != "blend_epochized"))
        self.job = energon_order.Job(
            leaves, self.mixing, world_size=self.world_size, num_workers=self.num_workers,
            seed_offset=draw.choice([0, 0, 1, 42]), shuffle=shuffle,
            parallel=draw.choice([16, 16, 1, 3]), longest=draw.choice([None, None, 1, 2, 4, 7]),
            shuffle_buffer=draw.choice([0, 0, 2, 10, 50]), repeat=self.mode == "endless")

    def flags(self):
        job = self.job
        flags = ["--num-workers", job.num_workers, "--world-size", job.world_size, "--rank",
                 self.rank, "--batch-size", self.batch_size, "--seed-offset", job.seed_offset]
        if self.mode == "val":
            return [str(flag) for flag in flags + ["--mode", "val"]]
        flags += ["--shuffle-buffer-size", job.shuffle_buffer, "--shuffle-over-epochs",
                  "none" if job.shuffle is None else job.shuffle]
        if job.shuffle is not None:
            flags += ["--parallel-slices", job.parallel]
        if job.longest is not None:
            flags += ["--max-samples-per-sequence", job.longest]
        flags += ["--epochs", self.epochs] if self.mode == "epochs" else ["--limit", 150]
        return [str(flag) for flag in flags]

    def expected(self, worker, count):
        """The keys that the worker delivers; in an endless mode the first `count`."""
        if self.mode == "val":
            stream = self.job.val(self.rank, worker).epoch()
        else:
            order = self.job.train(self.rank, worker)
            epochs = self.epochs if self.mode == "epochs" else 1
            stream = itertools.chain.from_iterable(order.epoch() for _ in range(epochs))
        if self.mode == "endless":
            stream = itertools.islice(stream, count)
        return [self.keys[name][sample] for name, sample in stream]


# --- Comparison ---


def delivered(recipe, program):
    """The keys of each worker, in order."""
    command = [program, "run", str(recipe.path)] + recipe.flags()
    result = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {result.returncode}\n{result.stderr}")
    keys = {worker: [] for worker in range(max(recipe.num_workers, 1))}
    for line in result.stdout.splitlines():
        batch = json.loads(line)
        keys[batch["worker"]] += batch["keys"]
    return keys


def describe(recipe, folder):
    """A description of the recipe, for a report."""
    lines = [f"flags: {' '.join(recipe.flags())}"]
    for path in sorted(folder.glob("*.yaml")) + sorted(folder.glob("*/.nv-meta/split.yaml")):
        lines.append(f"--- {path.relative_to(folder)}\n{path.read_text().rstrip()}")
    return "\n".join(lines + [f"leaf {leaf.name}: shards of {leaf.shard_counts}"
                              for leaf in recipe.job.leaves])


def check(program, seed):
    """The number of samples compared, and the problem (empty if none)."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        recipe = Recipe(program, folder, seed)
        samples = 0
        try:
            for worker, keys in delivered(recipe, program).items():
                expected = recipe.expected(worker, len(keys))
                samples += len(keys)
                if keys != expected:
                    at = next((i for i, (a, b) in enumerate(zip(keys, expected)) if a != b),
                              min(len(keys), len(expected)))
                    raise RuntimeError(
                        f"worker {worker} differs at {at}: {keys[at:at + 5]}, expected "
                        f"{expected[at:at + 5]}; {len(keys)} of {len(expected)} samples")
        except RuntimeError as error:
            return samples, f"seed {seed}: {error}\n{describe(recipe, folder)}"
        return samples, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built energon")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)),
                        help="recipes at a time, by default one per core")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.count)
    samples, failed = 0, 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ENERGON_CACHE_DIR"] = cache
        with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
            for count, problem in pool.map(check, itertools.repeat(arguments.program), seeds):
                samples += count
                if problem:
                    failed += 1
                    print(problem)
    print(f"{len(seeds)} recipes, {samples} samples, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
