"""The same scripts with energon_cpp and with the real Megatron-Energon: wrappers, lengths,
indices of calls, functions called by hand."""

from __future__ import annotations

import io
import os
import pathlib
import pickle
import random
import subprocess
import tarfile
import warnings
from typing import Any, Callable

import pytest

import energon_cpp as ours

theirs = pytest.importorskip("megatron.energon")
utils = pytest.importorskip("torch.utils.data._utils")
# How long a worker of Energon that has nothing to do may live on: 5 s by default.
utils.MP_STATUS_CHECK_INTERVAL = utils.worker.MP_STATUS_CHECK_INTERVAL = 0.1
BOTH = [theirs, ours]
# The real package takes seconds to close a loader with workers. ALL_LAYOUTS=1 tests with them, too.
ALL_LAYOUTS = bool(os.environ.get("ALL_LAYOUTS"))
SHARDS = {"a": [13, 7, 20, 11], "b": [9, 14, 8]}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("data")
    program = [os.environ["ENERGON_PROGRAM"], "prepare"]
    for name, counts in SHARDS.items():
        (folder / name).mkdir()
        number = 0
        for shard, count in enumerate(counts):
            with tarfile.open(folder / name / f"s{shard}.tar", "w") as tar:
                for _ in range(count):
                    text = f"{name}{number}".encode()
                    member = tarfile.TarInfo(f"{name}{number:03}.txt")
                    member.size = len(text)
                    tar.addfile(member, io.BytesIO(text))
                    number += 1
        options = ["--non-interactive", "--no-progress", "--split-ratio", "1,0,0"]
        options += ["--sample-type", "TextSample", "--field-map", "text=txt"]
        subprocess.run([*program, str(folder / name), *options], check=True, stdout=subprocess.DEVNULL)
        meta = folder / name / ".nv-meta"
        (meta / "raw.yaml").write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")
        split = (meta / "split.yaml").read_text()
        (meta / "half.yaml").write_text(f"{split}\nexclude:\n- s0.tar\n- s1.tar/{name}01{{4..6}}\n")
    head = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"
    blend = "".join(f"    - {{weight: {w}, path: {n}, split_part: train}}\n" for n, w in (("a", 3), ("b", 1)))
    (folder / "blend.yaml").write_text(f"{head}  train:\n    blend:\n{blend}  val:\n    blend:\n{blend}")
    missing = "{path: gone, aux: {x: lost, y: 'filesystem://files'}, subflavors: {k: 1}}"
    (folder / "missing.yaml").write_text(f"{head}  train: {missing}\n")
    return folder


Made = tuple[Any, Any]


def config_of(energon: Any, num_workers: int, **more: Any) -> Any:
    return energon.WorkerConfig(**{"rank": 0, "world_size": 1, "num_workers": num_workers, **more})


def val(energon: Any, path: Any, num_workers: int, **options: Any) -> Made:
    config = config_of(energon, num_workers)
    given = {"batch_size": 4, "split_part": "train", **options}
    return energon.get_val_dataset(str(path), worker_config=config, **given), config


def train(energon: Any, path: Any, num_workers: int, **options: Any) -> Made:
    config = config_of(energon, num_workers)
    given = {"batch_size": 4, "shuffle_buffer_size": 7, "max_samples_per_sequence": 6, **options}
    return energon.get_train_dataset(str(path), worker_config=config, **given), config


def limit(energon: Any, made: Made, length: int, **more: Any) -> Made:
    return energon.LimitDataset(made[0], length, worker_config=made[1], **more), made[1]


def repeat(energon: Any, made: Made, **more: Any) -> Made:
    return energon.RepeatDataset(made[0], worker_config=made[1], **more), made[1]


def keys(batch: Any) -> Any:
    return list(batch.__key__)


class Stream:
    """Batches of a savable loader over the ends of epochs. Loops are not left early: without
    workers, Energon would deliver what its buffers hold twice."""

    def __init__(self, dataset: Any, energon: Any, state: Any = None) -> None:
        self.loader = energon.get_savable_loader(dataset)
        if state is not None:
            self.loader.restore_state_rank(state)
        self.loop: Any = iter(self.loader)

    def take(self, count: int) -> list[Any]:
        found: list[Any] = []
        empty = 0
        while len(found) < count and empty < 3:
            batch = next(self.loop, None)
            if batch is None:
                found.append("end")
                self.loop = iter(self.loader)
                empty += 1
            else:
                found.append(keys(batch))
                empty = 0
        return found


PIPELINES: dict[str, Callable[[Any, pathlib.Path, int], Made]] = {
    "limit of val": lambda e, d, n: limit(e, val(e, d / "a", n), 7, reset_after_epoch=True),
    "limit without reset": lambda e, d, n: limit(e, val(e, d / "a", n), 5),
    "limit beyond the data": lambda e, d, n: limit(e, val(e, d / "a", n), 99),
    "limit of train": lambda e, d, n: limit(e, train(e, d / "a", n), 9),
    "limit of train once": lambda e, d, n: limit(e, train(e, d / "a", n, repeat=False), 9),
    "limit of a blend": lambda e, d, n: limit(e, train(e, d / "blend.yaml", n), 11),
    "repeated limit": lambda e, d, n: repeat(
        e, limit(e, val(e, d / "a", n), 6, reset_after_epoch=True)
    ),
    "repeated val": lambda e, d, n: repeat(e, val(e, d / "a", n)),
    "repeated concat": lambda e, d, n: repeat(e, val(e, d / "blend.yaml", n)),
    "val three times": lambda e, d, n: repeat(e, val(e, d / "a", n), repeats=3),
    "val 1.4 times": lambda e, d, n: repeat(e, val(e, d / "a", n), repeats=1.4),
    "limit 2.5 times": lambda e, d, n: repeat(e, limit(e, val(e, d / "a", n), 6), repeats=2.5),
    "val half": lambda e, d, n: repeat(e, val(e, d / "a", n), repeats=0.5),
    "val twice, no restart": lambda e, d, n: repeat(
        e, val(e, d / "a", n), repeats=2, restart=False
    ),
    "train once, repeated": lambda e, d, n: repeat(
        e, train(e, d / "a", n, repeat=False), repeats=2
    ),
    "virtual epochs, repeated": lambda e, d, n: repeat(
        e, train(e, d / "a", n, virtual_epoch_length=5), repeats=2
    ),
    "nested": lambda e, d, n: limit(e, repeat(e, limit(e, val(e, d / "b", n), 4)), 10),
}


@pytest.mark.parametrize("num_workers", [0, 2, 3] if ALL_LAYOUTS else [0])
@pytest.mark.parametrize("name", list(PIPELINES))
def test_wrapped_datasets(data: pathlib.Path, name: str, num_workers: int) -> None:
    expected, found = (
        Stream(PIPELINES[name](energon, data, num_workers)[0], energon).take(45) for energon in BOTH
    )
    assert found == expected
    lengths = [len(PIPELINES[name](energon, data, num_workers)[0]) for energon in BOTH]
    # A limit around an endless repetition is exact here; Energon takes the length of one pass.
    assert lengths == ([4, 10] if name == "nested" else lengths[:1] * 2)


@pytest.mark.parametrize("num_workers", [0, 2] if ALL_LAYOUTS else [0])
@pytest.mark.parametrize("name", ["limit of val", "repeated limit", "repeated val", "limit of train"])
def test_states_of_wrapped_datasets(data: pathlib.Path, name: str, num_workers: int) -> None:
    """Also those that Energon saved."""
    make = PIPELINES[name]
    for at in (0, 1, 3, 8, 13, 20):
        stream = Stream(make(ours, data, num_workers)[0], ours)
        got = [one for one in stream.take(at) if one != "end"]
        of_ours = stream.loader.save_state_rank()
        real = Stream(make(theirs, data, num_workers)[0], theirs)
        assert [one for one in real.take(at) if one != "end"] == got
        of_theirs = real.loader.save_state_rank()
        rest = real.take(30)
        assert stream.take(30) == rest
        for state in (of_ours, pickle.loads(pickle.dumps(of_ours)), of_theirs):
            again = Stream(make(ours, data, num_workers)[0], ours, state)
            assert again.take(30) == rest, at


def packing(energon: Any) -> Any:
    class Packs(energon.DefaultTaskEncoder):  # type: ignore[misc]
        def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
            return [samples[i : i + 2] for i in range(0, len(samples), 2)]

        @energon.stateless
        def pack_selected_samples(self, samples: list[Any]) -> Any:
            return samples[0]

    return Packs()


def grouping(energon: Any) -> Any:
    class Groups(energon.DefaultTaskEncoder):  # type: ignore[misc]
        def batch_group_criterion(self, sample: Any) -> tuple[Any, Any]:
            return int(sample.text[1:]) % 2, None

    return Groups()


@pytest.mark.parametrize("num_workers", [0, 1, 2, 3])
def test_lengths(data: pathlib.Path, num_workers: int) -> None:
    def lengths(energon: Any) -> list[int]:
        path, blend, n = data / "a", data / "blend.yaml", num_workers
        made = [train(energon, path, n), train(energon, blend, n), val(energon, path, n)]
        made += [val(energon, blend, n), val(energon, path, n, batch_size=None)]
        made += [train(energon, path, n, batch_drop_last=True), val(energon, path, n, limit=3)]
        made += [train(energon, path, n, virtual_epoch_length=7), val(energon, path, n, limit=99)]
        made += [train(energon, path, n, repeat=False)]
        for function in (packing, grouping):
            more = {"packing_buffer_size": 6} if function is packing else {}
            encoder = function(energon)
            made += [make(energon, path, n, task_encoder=encoder, **more) for make in (train, val)]
        return [len(dataset) for dataset, _ in made] + [
            len(energon.get_loader(dataset)) for dataset, _ in made[:8]
        ]

    assert lengths(ours) == lengths(theirs)


def indexed(energon: Any) -> Any:
    """Each function notes the indices that it sees."""

    def note(encoder: Any, name: str) -> tuple[str, int, int]:
        return name, encoder.current_sample_index, encoder.current_batch_index

    class Indexed(energon.DefaultTaskEncoder):  # type: ignore[misc]
        @energon.stateless
        def encode_sample(self, sample: Any) -> Any:
            number = int(sample.text[1:])
            if number % 7 == 3:
                raise energon.SkipSample()
            for part in range(1 + number % 2):
                noted = [(sample.__key__, part), note(self, "encode_sample")]
                yield dict(__key__=sample.__key__, __restore_key__=sample.__restore_key__, noted=noted)

        @energon.stateless
        def batch(self, samples: list[Any]) -> Any:
            noted = [one for sample in samples for one in sample["noted"]] + [note(self, "batch")]
            return dict(__key__=[s["__key__"] for s in samples], __restore_key__=(), noted=noted)

        @energon.stateless
        def encode_batch(self, batch: Any) -> Any:
            batch["noted"].append(note(self, "encode_batch"))
            return batch

    return Indexed()


def indexed_packing(energon: Any) -> Any:
    def note(encoder: Any, name: str) -> tuple[str, int, int]:
        return name, encoder.current_sample_index, encoder.current_batch_index

    class Indexed(energon.DefaultTaskEncoder):  # type: ignore[misc]
        @energon.stateless
        def preencode_sample(self, sample: Any) -> Any:
            noted = [sample.__key__, note(self, "preencode")]
            return dict(__key__=sample.__key__, __restore_key__=sample.__restore_key__, noted=noted)

        def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
            chosen = note(self, "select")
            for sample in samples:
                sample["noted"] = [*sample["noted"], chosen]
            return [samples[i : i + 3] for i in range(0, len(samples), 3)]

        @energon.stateless
        def postencode_sample(self, sample: Any) -> Any:
            return {**sample, "noted": [*sample["noted"], note(self, "postencode")]}

        @energon.stateless
        def pack_selected_samples(self, samples: list[Any]) -> Any:
            noted = [one for sample in samples for one in sample["noted"]] + [note(self, "pack")]
            return {**samples[0], "noted": noted}

        @energon.stateless
        def batch(self, samples: list[Any]) -> Any:
            noted = [one for sample in samples for one in sample["noted"]] + [note(self, "batch")]
            return dict(__key__=[s["__key__"] for s in samples], __restore_key__=(), noted=noted)

    return Indexed()


def plain(value: Any) -> Any:
    """Tuples as lists: torch's thread that pins memory makes lists of them."""
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", ["encode", "pack"])
def test_indices_of_calls(data: pathlib.Path, kind: str, num_workers: int) -> None:
    def noted(energon: Any) -> Any:
        packs = {"packing_buffer_size": 7} if kind == "pack" else {}
        encoder = (indexed_packing if kind == "pack" else indexed)(energon)

        def make() -> Any:
            return train(energon, data / "a", num_workers, task_encoder=encoder, **packs)[0]

        loader = energon.get_savable_loader(make())
        loop = iter(loader)
        batches = [next(loop) for _ in range(9)]
        state = loader.save_state_rank()
        rest = [plain(next(loop)["noted"]) for _ in range(8)]
        again = energon.get_savable_loader(make())
        again.restore_state_rank(state)
        loop = iter(again)
        resumed = [plain(next(loop)["noted"]) for _ in range(8)]
        assert kind == "pack" or resumed == rest
        noted = [plain(batch["noted"]) for batch in batches]
        if kind != "pack":  # Energon does not restore packs of samples that were encoded late
            keys = [batch["__restore_key__"] for batch in batches]
            assert [plain(loader.restore_sample(key)["noted"]) for key in keys] == noted
        return [noted, rest]

    assert noted(ours) == noted(theirs)


def test_functions_called_by_hand(data: pathlib.Path) -> None:
    def drawn(energon: Any) -> Any:
        import numpy
        import torch

        class Draws(energon.DefaultTaskEncoder):  # type: ignore[misc]
            @energon.stateless(restore_seeds=True)
            def encode_sample(self, sample: Any) -> Any:
                return random.random(), float(numpy.random.random()), float(torch.rand(1))

            @energon.stateless(restore_seeds=True)
            def encode_batch(self, batch: Any) -> Any:
                for _ in range(3):
                    yield random.random(), float(torch.rand(1))

        config = config_of(energon, 0, rank=1, world_size=2, seed_offset=5)
        encoder = Draws()
        config.worker_activate(4)
        try:
            random.seed(1)
            config.worker_push_sample_index(9)
            found = [encoder.encode_sample(0), list(encoder.encode_batch(0)), random.random()]
            found.append((encoder.current_sample_index, encoder.current_batch_index))
            config.worker_pop_sample_index()
            found.append(encoder.encode_sample(0))
        finally:
            config.worker_deactivate()
        workers = config_of(energon, 3, rank=1, world_size=2, seed_offset=5)
        return found + [config.worker_seed()] + [workers.worker_seed(i) for i in range(3)]

    assert drawn(ours) == drawn(theirs)


def test_other_files_of_a_dataset(data: pathlib.Path) -> None:
    def read(energon: Any) -> Any:
        @energon.stateless
        def cook(sample: Any) -> Any:
            keys = energon.basic_sample_keys(sample)
            return energon.TextSample(**{**keys, "text": bytes(sample["txt"]).decode()})

        class Cooks(energon.DefaultTaskEncoder):  # type: ignore[misc]
            decoder = None
            cookers = [energon.Cooker(cook, has_subflavors={"kind": "raw"})]

        made = []
        for options in (
            {"split_config": "half.yaml", "sample_type": energon.TextSample},
            {"dataset_config": "raw.yaml", "subflavors": {"kind": "raw", "n": 1}, "task_encoder": Cooks()},
        ):
            dataset, _ = val(energon, data / "a", 0, batch_size=None, **options)
            made.append([(s.__key__, s.text, s.__subflavors__) for s in energon.get_loader(dataset)])
        return made

    assert read(ours) == read(theirs)


def test_old_options_warn(data: pathlib.Path) -> None:
    for energon in BOTH:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            val(energon, data / "a", 0, handler=print, image_decode="torchrgb", auto_decode=True,
                task_encoder=energon.DefaultTaskEncoder())  # fmt: skip
        assert {one.category for one in caught} == {FutureWarning} and len(caught) == 2


def test_traversing(data: pathlib.Path) -> None:
    def listed(energon: Any) -> Any:
        from importlib import import_module

        traverse = import_module(f"{energon.__name__}.metadataset").traverse_metadataset
        found = traverse(str(data / "missing.yaml"), split_part="train")
        found += traverse(str(data / "blend.yaml"), split_part="val")
        return [
            (str(one.path), one.split_part, one.subflavors, {k: str(v) for k, v in one.aux.items()})
            for one in found
        ]

    assert listed(ours) == listed(theirs)


def test_classes_of_states() -> None:
    """Fields, equality and hash."""
    from importlib import import_module

    def facts(energon: Any) -> Any:
        module = import_module(f"{energon.__name__}.savable_loader")
        flex = import_module(f"{energon.__name__}.state").FlexState
        inner = module.SavableDatasetState(rng=None, dataset_state=flex(a=1), sample_index=2)
        made = [
            module.SavableDataLoaderState(
                worker_states=[module.SavableDatasetCheckpoint(state=inner, offset=i)],
                next_worker_id=0,
                micro_batch_size=4,
            )
            for i in (0, 0, 1)
        ]
        source = [
            energon.source_info.SourceInfo(dataset_path="p", index=i, shard_name="s", file_names=("f",))
            for i in (0, 0, 1)
        ]
        return [
            [one == made[0] for one in made],
            [one == source[0] for one in source],
            pickle.loads(pickle.dumps(made[2])) == made[2],
            [type(one).__hash__ is None for one in (made[0], inner, flex())],
            len(set(source)),
        ]

    import megatron.energon.source_info  # noqa: F401

    assert facts(ours) == facts(theirs)
