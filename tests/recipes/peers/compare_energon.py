#!/usr/bin/env python3
"""Compares the order of `energon run` with that of the real Megatron-Energon, over random recipes.

Runs in the environment that python/make_environment.sh makes. The recipes are those of
../emulator/compare.py. Their datasets are prepared by our program, or for every `--their-files`-th
recipe by Energon, and read by both.
"""

import argparse
import itertools
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "emulator"))

import compare

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
from megatron.energon import (Cooker, DefaultTaskEncoder, WorkerConfig, get_loader,
                              get_train_dataset, get_val_dataset, stateless)
from megatron.energon.task_encoder.cooking import basic_sample_keys


@stateless
def cook(sample):
    return {**basic_sample_keys(sample), "key": sample["__key__"]}


class KeysOnly(DefaultTaskEncoder):
    """Batches that contain only their keys and their worker."""

    cookers = [Cooker(cook)]

    def batch(self, samples):
        return {"keys": [sample["key"] for sample in samples],
                "worker": WorkerConfig.active_worker_config.rank_worker_id()}


def write_dataset_yaml(folder):
    """The files that Energon needs to read a dataset unchanged."""
    for meta in folder.glob("*/.nv-meta"):
        (meta / "dataset.yaml").write_text(
            "__module__: megatron.energon\n__class__: CrudeWebdataset\n")


def energon_loader(recipe):
    job = recipe.job
    config = WorkerConfig(rank=recipe.rank, world_size=job.world_size,
                          num_workers=job.num_workers, seed_offset=job.seed_offset)
    common = dict(worker_config=config, batch_size=recipe.batch_size, task_encoder=KeysOnly())
    if recipe.mode == "val":
        return get_loader(get_val_dataset(recipe.path, split_part="train", **common))
    shuffle = job.shuffle
    return get_loader(get_train_dataset(
        recipe.path, split_part="train", shuffle_buffer_size=job.shuffle_buffer or None,
        max_samples_per_sequence=job.longest, shuffle_over_epochs_multiplier=shuffle,
        parallel_shard_iters=1 if shuffle is None else job.parallel, repeat=job.repeat, **common))


def keys_of_energon(recipe, batches):
    """The keys of each worker, in order, for the first `batches` batches or all epochs."""
    keys = {worker: [] for worker in range(max(recipe.num_workers, 1))}
    loader = energon_loader(recipe)
    for _ in range(recipe.epochs if recipe.mode == "epochs" else 1):
        stream = iter(loader)
        if recipe.mode == "endless":
            stream = itertools.islice(stream, batches)
        for batch in stream:
            keys[batch["worker"]] += batch["keys"]
    return keys


def can_be_compared(recipe):
    """Whether Energon supports the recipe: a multiplier of null fails an assertion there."""
    return all(leaf.multiplier is not None for leaf in recipe.job.leaves)


def check(program, energon, seed, by_energon):
    """The problem or an empty string, or None if there is nothing to compare."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        recipe = compare.Recipe(energon if by_energon else program, folder, seed)
        if not can_be_compared(recipe):
            return None
        write_dataset_yaml(folder)
        for lines in folder.glob("*.jsonl"):
            subprocess.run([energon if by_energon else program, "prepare", str(lines)], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            ours = compare.delivered(recipe, program)
            theirs = keys_of_energon(recipe, 150)
        except Exception as error:  # of either program: the report is its message
            return f"seed {seed}: {error!r}\n{compare.describe(recipe, folder)}"
        for worker, keys in ours.items():
            if keys != theirs[worker]:
                at = next((i for i, (a, b) in enumerate(zip(keys, theirs[worker])) if a != b),
                          min(len(keys), len(theirs[worker])))
                return (f"seed {seed}: worker {worker} differs at {at}: {keys[at:at + 5]}, Energon "
                        f"{theirs[worker][at:at + 5]}; {len(keys)} samples, Energon "
                        f"{len(theirs[worker])}\n{compare.describe(recipe, folder)}")
        return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built energon")
    parser.add_argument("--first-seed", type=int, default=5000)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--their-files", type=int, default=10,
                        help="every N-th recipe is prepared by Energon (0 = none)")
    arguments = parser.parse_args()
    energon = str(pathlib.Path(sys.executable).parent / "energon")
    compared, differ = 0, 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ENERGON_CACHE_DIR"] = cache
        for seed in itertools.count(arguments.first_seed):
            if compared == arguments.count:
                break
            by_energon = arguments.their_files > 0 and compared % arguments.their_files == 0
            problem = check(arguments.program, energon, seed, by_energon)
            compared += problem is not None
            if problem:
                differ += 1
                print(problem, flush=True)
    print(f"{compared} recipes, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
