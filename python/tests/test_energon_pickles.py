"""The reader of Energon's pickles: hostile, damaged and foreign files are errors, and their code is not run."""

from __future__ import annotations

import io
import os
import pathlib
import pickle
import random
import struct
import sys
import types
import unittest.mock
import zipfile
from typing import Any, Callable

import pytest

import energon_cpp as energon

STORED = pathlib.Path(__file__).parent / "energon_states" / "stored"
FILES = ["shuffled.pt", "workers.pickle", "ranks_of_old_torch.pt"]
LOADER = "megatron.energon.savable_loader"


def dataset_of(texts: str, num_workers: int) -> energon.Dataset:
    worker_config = energon.WorkerConfig(rank=0, world_size=1, num_workers=num_workers)
    return energon.get_train_dataset(texts, worker_config=worker_config, batch_size=4)


@pytest.fixture(scope="module")
def dataset(texts: str) -> energon.Dataset:
    return dataset_of(texts, 2)


@pytest.fixture
def refused(dataset: energon.Dataset, file: pathlib.Path) -> Callable[[bytes], str]:
    """Writes the bytes to `file`, and returns the error of its import."""

    def refuse(content: bytes) -> str:
        file.write_bytes(content)
        with pytest.raises(energon.CorruptDataError) as raised:
            energon.import_energon_state(dataset, file)
        assert str(file) in str(raised.value)
        assert "not a state that Energon's loader saved" in str(raised.value)
        return str(raised.value)

    return refuse


@pytest.fixture
def refused_rank(refused: Callable[[bytes], str]) -> Callable[..., str]:
    return lambda **changes: refused(dumps([rank(**changes)]))


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "bad.pt"


# --- Pickles like those of Energon, made without it ---


class Fields:
    __module__ = LOADER

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class SavableDataLoaderState(Fields):
    __module__ = LOADER


class SavableDatasetCheckpoint(Fields):
    __module__ = LOADER


class SavableDatasetState(Fields):
    __module__ = LOADER


def dumps(value: Any, protocol: int = pickle.DEFAULT_PROTOCOL) -> bytes:
    """A pickle that refers to the classes above by their names in Energon."""
    module = types.ModuleType(LOADER)
    for kind in (SavableDataLoaderState, SavableDatasetCheckpoint, SavableDatasetState):
        setattr(module, kind.__name__, kind)
    parents = {name: types.ModuleType(name) for name in ("megatron", "megatron.energon")}
    with unittest.mock.patch.dict(sys.modules, {**parents, LOADER: module}):
        return pickle.dumps(value, protocol)


def rank(**changes: Any) -> SavableDataLoaderState:
    tree = changes.pop("tree", {"__class__": "X", "datasets": []})
    state = SavableDatasetState(rng=None, dataset_state=tree, sample_index=3)
    worker = SavableDatasetCheckpoint(state=state, offset=1)
    fields = {"worker_states": [worker, worker], "next_worker_id": 1, "micro_batch_size": 4}
    return SavableDataLoaderState(**{**fields, **changes})


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_all_protocols_are_read(
    dataset: energon.Dataset, file: pathlib.Path, protocol: int
) -> None:
    """They are read to the end: the tree is then compared with the dataset."""
    tree = {"__class__": "X", "key": ("Webdataset", 5), "bytes": b"\x00\xff", "none": None}
    file.write_bytes(dumps(rank(tree=tree), protocol))
    with pytest.raises(energon.StateMismatchError, match="a X where this one has"):
        energon.import_energon_state(dataset, file)


def test_a_worker_that_had_not_started_counts_from_its_mark(
    dataset: energon.Dataset, file: pathlib.Path
) -> None:
    """Energon's mark of such a worker is before the first batch, at -1."""
    for next_worker, offsets, batches in ((1, (4, 3), 5), (0, (1, 0), 0)):
        workers = [SavableDatasetCheckpoint(state=None, offset=offset) for offset in offsets]
        file.write_bytes(dumps(rank(worker_states=workers, next_worker_id=next_worker)))
        (state,) = energon.import_energon_state(dataset, file)
        assert state.batch_index == batches


# --- Code in pickles ---


class Reduced:
    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("place", ["alone", "list", "tree", "worker"])
def test_no_function_is_called(
    file: pathlib.Path, refused: Callable[[bytes], str], place: str
) -> None:
    marker = file.parent / "marker"
    functions: list[tuple[Callable[..., Any], str]] = [
        (os.system, "posix.system"),
        (eval, "builtins.eval"),
        (exec, "builtins.exec"),
        (open, "_io.open" if sys.version_info >= (3, 14) else "io.open"),
        (__import__, "builtins.__import__"),
        (getattr, "builtins.getattr"),
        (os.mkdir, "posix.mkdir"),
    ]
    for function, name in functions:
        arguments = {
            os.system: (f"touch {marker}",),
            os.mkdir: (str(marker),),
            open: (str(marker), "w"),
        }.get(function, (f"open({str(marker)!r}, 'w')",))
        bad = Reduced(function, *arguments)
        whole: Any = {
            "alone": bad,
            "list": [bad],
            "tree": rank(tree={"x": bad}),
            "worker": rank(worker_states=[bad]),
        }[place]
        assert f"the pickle refers to '{name}'" in refused(dumps(whole))
    assert not marker.exists()


@pytest.mark.parametrize(
    "module, name",
    [
        ("os", "system"),
        ("builtins", "getattr"),
        ("torch.storage", "_load_from_bytes.__globals__"),
        ("megatron.energon.state", "FlexState.__init__"),
        ("energon_cpp", "import_energon_state"),
        ("__main__", "main"),
        ("copyreg", "_reconstructor"),
        ("torch.serialization", "load"),
    ],
)
def test_names_are_looked_up_only_in_a_table(
    refused: Callable[[bytes], str], module: str, name: str
) -> None:
    def short(text: str) -> bytes:
        return b"\x8c" + bytes([len(text)]) + text.encode()

    stack_global = b"\x80\x04" + short(module) + short(name) + b"\x93)R."
    assert "the pickle refers to" in refused(stack_global)
    assert "the pickle refers to" in refused(f"\x80\x02c{module}\n{name}\n(tR.".encode("latin1"))


@pytest.mark.parametrize(
    "module, name",
    [
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch.storage", "_load_from_bytes"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("torch", "uint8"),
        ("megatron.energon.rng", "SystemRngState"),
    ],
)
def test_known_names_do_nothing_with_foreign_arguments(
    refused: Callable[[bytes], str], module: str, name: str
) -> None:
    flex = "cmegatron.energon.state\nFlexState\n"
    call = f"\x80\x02c{module}\n{name}\n({flex}K\x01tR.".encode("latin1")
    assert f"found a {module}.{name}" in refused(call)


# --- Exhaustion ---


def test_nesting_and_sharing_do_not_exhaust_the_process(
    refused: Callable[[bytes], str], refused_rank: Callable[..., str]
) -> None:
    nested = b"\x80\x02" + b"]" * 10_000 + b"a" * 9_999
    assert "found a list" in refused(nested + b".")
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    assert "nested more than 200 deep" in refused_rank(tree={"x": deep})
    shared: Any = []
    for _ in range(12):
        shared = [shared] * 10
    assert "which the size of the file does not explain" in refused_rank(tree={"x": shared})
    endless: list[Any] = []
    endless.append(endless)
    assert "nested more than 200 deep" in refused_rank(tree={"x": endless})


def test_large_values_are_refused(refused_rank: Callable[..., str]) -> None:
    assert "an integer of 500 bytes" in refused_rank(next_worker_id=1 << 3998)
    assert "an integer of 9 bytes" in refused_rank(tree={"x": 1 << 63})
    assert "at most 65536 bytes" in refused_rank(tree={"x": "a" * 100_000})
    assert "at most 65536 bytes" in refused_rank(tree={"a" * 100_000: 1})
    assert "the number nan" in refused_rank(tree={"x": float("nan")})
    assert "opcode 0x8f" in refused_rank(tree={"x": {1}})


def test_a_long_value_that_is_named_often_is_refused(refused_rank: Callable[..., str]) -> None:
    for value in ("a" * 60_000, b"a" * 1_000_000):
        assert "which the size of the file does not explain" in refused_rank(tree={"x": [value] * 500})
    assert "which the size of the file does not explain" in refused_rank(
        tree={"x": [{"a" * 60_000: 1}] * 500}
    )


def test_names_of_nested_tuples_are_refused(refused_rank: Callable[..., str]) -> None:
    name: Any = 1
    for _ in range(9):
        name = (name,)
    assert "the name of an entry is a tuple" in refused_rank(tree={name: 1})


def test_strings_that_are_not_unicode_are_refused(refused: Callable[[bytes], str]) -> None:
    surrogate = b"\x8c\x05ab\xed\xb2\x80"
    content = dumps(rank(tree={"x": "PLACE"}), 4).replace(b"\x8c\x05PLACE", surrogate)
    assert "is not UTF-8" in refused(content)


@pytest.mark.parametrize(
    "opcode",
    [
        b"\x8d" + struct.pack("<Q", 1 << 60),  # a string of this many bytes
        b"\x8e" + struct.pack("<Q", 1 << 60),  # bytes
        b"\x96" + struct.pack("<Q", 1 << 40),  # a bytearray
        b"\x8b" + struct.pack("<i", (1 << 31) - 1),  # an integer
        b"Nr" + struct.pack("<I", (1 << 32) - 1),  # an index in the memo
        b"\x95" + struct.pack("<Q", 1 << 62),  # a frame
    ],
)
def test_sizes_in_a_pickle_are_not_trusted(
    refused: Callable[[bytes], str], opcode: bytes
) -> None:
    refused(b"\x80\x04" + opcode + b".")


def zip_of(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def test_zip_files_of_other_kinds_are_refused(refused: Callable[[bytes], str]) -> None:
    one = "expected one member data.pkl in the zip, as torch.save() writes it, found"
    assert f"{one} 0" in refused(zip_of({"a/b.txt": b""}))
    assert f"{one} 2" in refused(zip_of({"a/data.pkl": b"N.", "b/data.pkl": b"N."}))
    assert "expected a pickle of protocol 2 to 5" in refused(zip_of({"a/data.pkl": b"hello"}))


def test_a_zip_bomb_is_refused_by_its_size(refused: Callable[[bytes], str]) -> None:
    content = bytearray(zip_of({"a/data.pkl": bytes(1 << 20)}, zipfile.ZIP_DEFLATED))
    sizes = [i for i in range(len(content)) if content[i : i + 4] == struct.pack("<I", 1 << 20)]
    assert len(sizes) == 2  # before the entry, and in the directory
    for at in sizes:
        content[at : at + 4] = struct.pack("<I", (1 << 30) + 4)
    assert f"the zip would take {(1 << 30) + 4} bytes" in refused(bytes(content))
    for at in sizes:
        content[at : at + 4] = struct.pack("<I", 10)
    refused(bytes(content))  # more bytes than declared


def test_many_values_in_a_small_file_are_refused(
    dataset: energon.Dataset, file: pathlib.Path, refused: Callable[[bytes], str]
) -> None:
    tree = {"__class__": "X", "x": [None] * 1_500_000}
    content = dumps(rank(tree=tree))
    packed = zip_of({"a/data.pkl": content}, zipfile.ZIP_DEFLATED)
    assert len(packed) < 100_000
    assert "which the size of the file does not explain" in refused(packed)
    single = SavableDatasetState(rng=None, dataset_state=tree, sample_index=3)
    workers = [SavableDatasetCheckpoint(state=single, offset=0)]
    workers += [SavableDatasetCheckpoint(state=None, offset=1)]
    file.write_bytes(dumps(rank(worker_states=workers)))
    with pytest.raises(energon.StateMismatchError, match="a X where this one has"):
        energon.import_energon_state(dataset, file)


# --- Foreign and damaged files ---


@pytest.mark.parametrize(
    "content, problem",
    [
        ({"model": 1, "optimizer": 2}, "a dict with the entries 'model', 'optimizer'"),
        ({}, "found a dict"),
        ([], "found an empty list"),
        ([1], "found an int"),
        ("text", "found a str"),
        ([None, "x"], "found a str"),
    ],
)
def test_states_of_other_programs_are_refused(
    refused: Callable[[bytes], str], content: Any, problem: str
) -> None:
    assert problem in refused(pickle.dumps(content))


def test_states_with_other_fields_are_refused(
    refused: Callable[[bytes], str], refused_rank: Callable[..., str]
) -> None:
    fields = "are not worker_states, next_worker_id, micro_batch_size"
    assert fields in refused_rank(more=1)
    assert "worker_states: expected a list of states" in refused_rank(worker_states=[])
    assert "of a worker, found an int" in refused_rank(worker_states=[5])
    without = f"\x80\x02c{LOADER}\nSavableDataLoaderState\n)\x81.".encode("latin1")
    assert "SavableDataLoaderState without fields" in refused(without)
    assert "found a torch.uint8" in refused(b"\x80\x02ctorch\nuint8\n)\x81.")


def import_of(dataset: energon.Dataset, file: pathlib.Path) -> str:
    """The error of importing a stored state. All stored states belong to other data."""
    with pytest.raises(energon.EnergonError) as raised:
        energon.import_energon_state(dataset, file)
    return str(raised.value)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_refused(texts: str, file: pathlib.Path, name: str) -> None:
    """A file is also read if only unneeded bytes were cut off."""
    dataset = dataset_of(texts, 2 if name == "workers.pickle" else 0)
    content = (STORED / name).read_bytes()
    file.write_bytes(content)
    whole = import_of(dataset, file)
    assert "not a state that Energon's loader saved" not in whole
    errors = 0
    for size in range(0, len(content), 61):
        file.write_bytes(content[:size])
        error = import_of(dataset, file)
        errors += error != whole
        assert error == whole or "not a state that Energon's loader saved" in error
    assert errors > len(content) / 61 / 4


@pytest.mark.parametrize("name", FILES)
def test_damaged_bytes_are_errors(texts: str, file: pathlib.Path, name: str) -> None:
    """The import of a damaged file ends with an error of the package, whatever its content."""
    dataset = dataset_of(texts, 2 if name == "workers.pickle" else 0)
    content = (STORED / name).read_bytes()
    draw = random.Random(7)
    errors = 0
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(draw.choice([1, 3, 30])):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        file.write_bytes(damaged)
        errors += "not a state that Energon's loader saved" in import_of(dataset, file)
    assert errors > 10


def test_files_that_cannot_be_read_are_named(
    dataset: energon.Dataset, file: pathlib.Path, refused: Callable[[bytes], str]
) -> None:
    with pytest.raises(energon.NotFoundError, match="bad.pt"):
        energon.import_energon_state(dataset, file)
    assert "not a regular file" in import_of(dataset, file.parent)
    assert "an opcode at byte 0" in refused(b"")
    assert "expected a pickle of protocol 2 to 5" in refused(b"hello")
    refused(os.urandom(1000).replace(b".", b""))


def test_a_pipe_does_not_block(dataset: energon.Dataset, file: pathlib.Path) -> None:
    os.mkfifo(file)
    assert "not a regular file" in import_of(dataset, file)


def test_names_of_files_are_shown_in_one_line(
    dataset: energon.Dataset, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "a\nb\x1b[31m.pt"
    file.write_bytes(b"")
    assert r"a\x0ab\x1b[31m.pt" in import_of(dataset, file)
