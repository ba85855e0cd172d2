"""Loader states of the real megatron-energon, and what it delivers: for tests of their import.

    python make_states.py ENERGON_PROGRAM FOLDER < jobs.json

Needs megatron-energon and torch; not our package. FOLDER gets data (tars and metadatasets, prepared
by the program energon), and for each job NAME files NAME.POINT.RANK.pt, the states of its ranks
after POINT batches, and NAME.POINT.pt with those of all. A job: name, path, ranks, points, count
and options of Job below. Standard output: for each job by name a list per rank of its batches, each
a list of keys, as JSON.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
from typing import Any, Iterator

# Samples of the shards of each dataset.
DATASETS = {"a": [13, 7, 20, 11], "b": [9, 14, 8], "c": [5, 30]}
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
    """plain: cooked samples in batches; skipping: leaves out every fifth sample; packing: packs of
    at most three samples."""

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

    class Skipping(Plain):
        @energon.stateless
        def encode_sample(self, sample: Any) -> Any:
            if int(sample["__key__"][1:]) % 5 == 0:
                raise energon.SkipSample()
            return sample

    class Packing(Plain):
        def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
            ordered = sorted(samples, key=lambda sample: sample["__key__"])
            return [ordered[i : i + 3] for i in range(0, len(ordered), 3)]

        @energon.stateless
        def pack_selected_samples(self, samples: list[Any]) -> Any:
            keys = [key for sample in samples for key in keys_of(sample)]
            return {"__key__": keys, "__restore_key__": ()}

    return {"plain": Plain, "skipping": Skipping, "packing": Packing}[kind]()


class Job:
    """name, path (in the folder), ranks, points and count; num_workers, mode, encoder, seed_offset,
    and `options` of get_train_dataset() or get_val_dataset()."""

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

    def run(self, energon: Any, torch: Any, kept: list[Any]) -> list[list[list[str]]]:
        """Keeps the loaders: to drop one with workers takes seconds."""
        spec = self.spec
        ranks = range(spec.get("ranks", 1))
        batches: list[list[list[str]]] = []
        states: dict[int, list[Any]] = {point: [] for point in spec["points"]}
        for rank in ranks:
            loader = self.loader(energon, rank)
            kept.append(loader)
            batches.append([])
            for point in [*spec["points"], spec["count"]]:
                for batch in endless(loader, point - len(batches[rank]), kept):
                    batches[rank].append(keys_of(batch))
                if point in states:
                    states[point].append(copy.deepcopy(loader.save_state_rank()))
        for point, of_ranks in states.items():
            for rank, state in enumerate(of_ranks):
                torch.save(state, self.folder / f"{spec['name']}.{point}.{rank}.pt")
            torch.save(of_ranks, self.folder / f"{spec['name']}.{point}.pt")
        return batches


def endless(loader: Any, count: int, kept: list[Any]) -> Iterator[Any]:
    """The next `count` batches, over the ends of epochs. Without workers an iterator is one pass,
    which must go on."""
    iterator = getattr(loader, "test_iterator", None)
    empty = 0
    while count > 0:
        if iterator is None:
            iterator = loader.test_iterator = iter(loader)
        batch = next(iterator, None)
        if batch is None:
            iterator = None
            empty += 1
            if empty > 3:
                raise RuntimeError("the data ended")
            continue
        empty = 0
        count -= 1
        yield batch


def main() -> None:
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    jobs = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        import torch

        import megatron.energon as energon

        make_data(program, folder)
        kept: list[Any] = []
        results = {spec["name"]: Job(spec, folder).run(energon, torch, kept) for spec in jobs}
    json.dump(results, sys.stdout)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
