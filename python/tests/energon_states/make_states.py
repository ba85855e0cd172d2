"""Makes loader states of the real megatron-energon, and lists its batches, for tests of the import.

    python make_states.py ENERGON_PROGRAM FOLDER < jobs.json

Needs megatron-energon and torch, but not our package. FOLDER receives data (tars and metadatasets,
prepared by the program energon) and, for each job NAME, files NAME.POINT.RANK.pt with the states of its
ranks after POINT batches, and NAME.POINT.pt with all of them. A job has name, path, ranks, points,
count and options of Job below. Standard output is JSON: for each job by name, a list per rank of the
delivered batches, each a list of keys, with null at the end of an epoch.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tarfile
from typing import Any, Optional

# Keys of batches, with None at the end of an epoch.
Items = list[Optional[list[str]]]

# The number of samples in the shards of each dataset.
DATASETS = {"a": [13, 7, 20, 11], "b": [9, 14, 8], "c": [5, 30], "excluding": [12, 9, 21, 10]}
EXCLUDED = {"excluding": "- shard_1.tar\n- shard_2.tar/excluding{0022..0026}\n"}
METADATASETS = {
    "blend": ("train", "blend", ["weight: 3", "weight: 1", "weight: 2"]),
    "epochized": ("train", "blend_epochized", [f"repetitions: {n}" for n in (1, 2, 1)]),
    "fractional": ("train", "blend_epochized", [f"repetitions: {n}" for n in (1, 1.5, 0.5)]),
    "concat": ("val", "blend", ["weight: 1, split_part: train"] * 3),
}


def make_data(program: str, folder: pathlib.Path) -> None:
    """Three datasets with parts txt, and metadatasets of them."""
    for name, shards in DATASETS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        number = 0
        for shard, count in enumerate(shards):
            with tarfile.open(folder / name / f"shard_{shard}.tar", "w") as tar:
                for _ in range(count):
                    data = f"{name} {number}".encode()
                    member = tarfile.TarInfo(f"{name}{number:04}.txt")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
                    number += 1
        command = [program, "prepare", str(folder / name), "--non-interactive", "--no-progress"]
        command += ["--split-ratio", "1,0,0"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        if name in EXCLUDED:
            split = folder / name / ".nv-meta" / "split.yaml"
            text = split.read_text().replace("exclude: []\n", f"exclude:\n{EXCLUDED[name]}")
            split.write_text(text)
        yaml = folder / name / ".nv-meta" / "dataset.yaml"
        yaml.write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")
    for name, (split, kind, options) in METADATASETS.items():
        lines = "".join(f"      - {{path: {d}, {o}}}\n" for d, o in zip(DATASETS, options))
        head = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"
        (folder / f"{name}.yaml").write_text(f"{head}  {split}:\n    {kind}:\n{lines}")


def keys_of(batch: Any) -> list[str]:
    keys = batch["__key__"]
    return list(keys) if isinstance(keys, (list, tuple)) else [keys]


def encoder_of(energon: Any, kind: str) -> Any:
    """plain: cooked samples in batches; skipping, skipping_cook: leave out every fifth sample; doubling: makes two
    samples of each; packing: packs of at most three samples; grouping: batches of samples with even
    and with odd numbers."""

    @energon.stateless
    def cook(sample: Any) -> dict[str, Any]:
        return dict(**energon.basic_sample_keys(sample), txt=sample["txt"])

    class Plain(energon.DefaultTaskEncoder):  # type: ignore[misc]
        decoder = None
        cookers = [energon.Cooker(cook)]

        @energon.stateless
        def batch(self, samples: list[Any]) -> dict[str, Any]:
            keys = [key for sample in samples for key in keys_of(sample)]
            return {"__key__": keys, "__restore_key__": ()}

    @energon.stateless
    def cook_some(sample: Any) -> dict[str, Any]:
        if int(sample["__key__"][1:]) % 5 == 0:
            raise energon.SkipSample()
        return dict(**energon.basic_sample_keys(sample), txt=sample["txt"])

    class SkippingCook(Plain):
        cookers = [energon.Cooker(cook_some)]

    class Skipping(Plain):
        @energon.stateless
        def encode_sample(self, sample: Any) -> Any:
            if int(sample["__key__"][1:]) % 5 == 0:
                raise energon.SkipSample()
            return sample

    class Doubling(Plain):
        @energon.stateless
        def encode_sample(self, sample: Any) -> Any:
            for _ in range(2):
                yield sample.copy()

    class Grouping(Plain):
        def batch_group_criterion(self, sample: Any) -> tuple[Any, int]:
            is_odd = int(sample["__key__"][1:]) % 2
            return is_odd, 2 + is_odd

    class Packing(Plain):
        def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
            ordered = sorted(samples, key=lambda sample: sample["__key__"])
            return [ordered[i : i + 3] for i in range(0, len(ordered), 3)]

        @energon.stateless
        def pack_selected_samples(self, samples: list[Any]) -> Any:
            keys = [key for sample in samples for key in keys_of(sample)]
            return {"__key__": keys, "__restore_key__": ()}

    kinds = {"plain": Plain, "skipping": Skipping, "doubling": Doubling}
    kinds["skipping_cook"] = SkippingCook
    return {**kinds, "grouping": Grouping, "packing": Packing}[kind]()


class Stream:
    """The items of a loader, across the ends of epochs. Without workers, Energon's iterator covers only
    one pass, so it must be restarted."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.iterator: Any = None

    def take(self, count: int) -> Items:
        """`count` batches, and None for each end of an epoch before the last of them."""
        items: Items = []
        empty = 0
        while count > 0:
            if self.iterator is None:
                self.iterator = iter(self.loader)
            batch = next(self.iterator, None)
            items.append(None if batch is None else keys_of(batch))
            if batch is None:
                self.iterator = None
                empty += 1
                if empty > 3:
                    raise RuntimeError("the data ended")
                continue
            empty = 0
            count -= 1
        return items


class Job:
    """name, path (in the folder), ranks, points and count; num_workers, mode, encoder, seed_offset,
    checkpoint_every_sec, and `options` of get_train_dataset() or get_val_dataset().

    forms: more files NAME.POINT.FORM with the same content as NAME.POINT.pt. then: entries of another
    job, NAME+, that continues from the states at the point `from`; if it has other ranks, from the
    result of Energon's command `checkpoint redist` on these states: NAME+.pt."""

    def __init__(self, spec: dict[str, Any], folder: pathlib.Path) -> None:
        self.spec = spec
        self.folder = folder

    def dataset(self, energon: Any, rank: int) -> Any:
        spec = self.spec
        config = energon.WorkerConfig(
            rank=rank,
            world_size=spec.get("ranks", 1),
            num_workers=spec.get("num_workers", 0),
            seed_offset=spec.get("seed_offset", 0),
        )
        is_training = spec.get("mode", "train") == "train"
        make = energon.get_train_dataset if is_training else energon.get_val_dataset
        options = {"batch_size": 4, **spec.get("options", {})}
        if not is_training and not spec["path"].endswith(".yaml"):
            options["split_part"] = "train"
        if is_training:
            options = {"shuffle_buffer_size": None, "max_samples_per_sequence": None, **options}
        return make(
            str(self.folder / spec["path"]),
            worker_config=config,
            task_encoder=encoder_of(energon, spec.get("encoder", "plain")),
            **options,
        )

    def loader(self, energon: Any, rank: int) -> Any:
        every = self.spec.get("checkpoint_every_sec", 0)
        return energon.get_savable_loader(
            self.dataset(energon, rank), checkpoint_every_sec=every, watchdog_timeout_seconds=None
        )

    def run(self, energon: Any, torch: Any, kept: list[Any]) -> dict[str, list[Items]]:
        """Keeps the loaders, because dropping a loader with workers takes seconds."""
        delivered, states = self.deliver(energon, [None] * self.spec.get("ranks", 1), kept)
        self.write(torch, states)
        results = {self.spec["name"]: delivered}
        if then := self.spec.get("then"):
            later = Job(spec_after(self.spec), self.folder)
            restored = states[then["from"]]
            if "ranks" in then:
                name = f"{self.spec['name']}.{then['from']}"
                files = [self.folder / f"{name}.{rank}.pt" for rank in range(len(restored))]
                restored = later.redistribute(torch, files)
            results |= later.go_on(energon, torch, copy.deepcopy(restored), kept)
        return results

    def go_on(
        self, energon: Any, torch: Any, restored: list[Any], kept: list[Any]
    ) -> dict[str, list[Items]]:
        delivered, states = self.deliver(energon, restored, kept)
        self.write(torch, states)
        return {self.spec["name"]: delivered}

    def deliver(
        self, energon: Any, restored: list[Any], kept: list[Any]
    ) -> tuple[list[Items], dict[int, list[Any]]]:
        """The items that each rank delivers, and its states at the points."""
        spec = self.spec
        delivered: list[Items] = []
        states: dict[int, list[Any]] = {point: [] for point in spec["points"]}
        for rank, state in enumerate(restored):
            loader = self.loader(energon, rank)
            kept.append(loader)
            loader.restore_state_rank(state)
            stream = Stream(loader)
            delivered.append([])
            reached = 0
            for point in [*spec["points"], spec["count"]]:
                delivered[rank] += stream.take(point - reached)
                reached = point
                if point in states:
                    states[point].append(copy.deepcopy(loader.save_state_rank()))
        return delivered, states

    def write(self, torch: Any, states: dict[int, list[Any]]) -> None:
        for point, of_ranks in states.items():
            path = f"{self.folder / self.spec['name']}.{point}"
            for rank, state in enumerate(of_ranks):
                torch.save(state, f"{path}.{rank}.pt")
            torch.save(of_ranks, f"{path}.pt")
            if self.spec.get("forms"):
                torch.save(of_ranks, f"{path}.old", _use_new_zipfile_serialization=False)
                torch.save({"dataloader_state_dict": of_ranks[0]}, f"{path}.megatron")
                for protocol in (2, 4, 5):
                    with open(f"{path}.protocol{protocol}", "wb") as file:
                        pickle.dump(of_ranks, file, protocol)

    def redistribute(self, torch: Any, files: list[pathlib.Path]) -> list[Any]:
        """The states in the files of all ranks, as Energon's command converts them for our ranks. The
        command does not take a file with the states of all ranks."""
        from megatron.energon.epathlib import EPath
        from megatron.energon.tools.checkpoint import command_redist

        folder = self.folder / f"{self.spec['name']}redist"
        folder.mkdir()
        command_redist.callback([EPath(file) for file in files], EPath(folder), self.spec["ranks"])
        states = [torch.load(file, weights_only=False) for file in sorted(folder.iterdir())]
        torch.save(states, self.folder / f"{self.spec['name']}.pt")
        return states


def spec_after(spec: dict[str, Any]) -> dict[str, Any]:
    """The job that continues with `spec`."""
    then = spec["then"]
    options = {**spec.get("options", {}), **then.get("options", {})}
    later = {**spec, **then, "name": f"{spec['name']}+", "options": options}
    return {name: value for name, value in later.items() if name not in ("then", "from", "forms")}


def main() -> None:
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    jobs = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        import torch

        import megatron.energon as energon

        make_data(program, folder)
        kept: list[Any] = []
        results: dict[str, list[Items]] = {}
        for spec in jobs:
            results |= Job(spec, folder).run(energon, torch, kept)
    json.dump(results, sys.stdout)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
