"""The reader of Energon's pickles: hostile, damaged and foreign files are errors, and nothing of them is run."""

from __future__ import annotations

import io
import json
import os
import pathlib
import pickle
import random
import struct
import sys
import types
import zipfile
from typing import Any, Callable

import pytest
from energon_cpp import _energon_pickle, energon_states

import energon_cpp as energon

STORED = pathlib.Path(__file__).parent / "energon_states" / "stored"
FILES = ["shuffled.pt", "workers.pickle", "ranks_of_old_torch.pt"]
LOADER = "megatron.energon.savable_loader"


def read(path: pathlib.Path) -> Any:
    """What the process that reads a file writes."""
    return json.loads(energon_states._read_pickles([str(path)], 60))


def refused(path: pathlib.Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(energon.CorruptDataError) as raised:
        read(path)
    assert str(path) in str(raised.value)
    assert "Traceback" not in str(raised.value)
    return str(raised.value)


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "bad.pt"


# --- Pickles as Energon makes them, without it ---


class SliceState:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class SavableDataLoaderState(SliceState):
    pass


class SavableDatasetCheckpoint(SliceState):
    pass


class SavableDatasetState(SliceState):
    pass


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of Energon's names, so that pickles refer to them."""
    module = types.ModuleType(LOADER)
    for kind in (SavableDataLoaderState, SavableDatasetCheckpoint, SavableDatasetState):
        kind.__module__ = LOADER
        setattr(module, kind.__name__, kind)
    for name in ("megatron", "megatron.energon"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, LOADER, module)


def rank(**changes: Any) -> SavableDataLoaderState:
    tree = changes.pop("tree", {"__class__": "X", "datasets": []})
    state = SavableDatasetState(rng=None, dataset_state=tree, sample_index=3)
    worker = SavableDatasetCheckpoint(state=state, offset=1)
    fields = {"worker_states": [worker, worker], "next_worker_id": 1, "micro_batch_size": 4}
    return SavableDataLoaderState(**{**fields, **changes})


def refused_rank(file: pathlib.Path, **changes: Any) -> str:
    return refused(file, pickle.dumps([rank(**changes)]))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_all_protocols_give_the_same(file: pathlib.Path, protocol: int) -> None:
    tree = {"__class__": "X", "key": ("Webdataset", 5), "bytes": b"\x00\xff", "none": None}
    file.write_bytes(pickle.dumps(rank(tree=tree), protocol))
    worker = {
        "sample_index": 3,
        "offset": 1,
        "state": {**tree, "key": ["Webdataset", 5], "bytes": {"base64": "AP8="}},
    }
    assert read(file) == {
        "version": 1,
        "files": [
            {
                "path": str(file),
                "is_list": False,
                "ranks": [
                    {
                        "next_worker_id": 1,
                        "micro_batch_size": 4,
                        "has_workers": True,
                        "workers": [worker, worker],
                    }
                ],
            }
        ],
    }


def test_a_worker_that_had_not_begun_counts_from_its_mark(file: pathlib.Path) -> None:
    """Energon's mark of such a worker stands before the first batch, at -1."""
    workers = [SavableDatasetCheckpoint(state=None, offset=count) for count in (6, 1, 0)]
    file.write_bytes(pickle.dumps(rank(worker_states=workers)))
    found = read(file)["files"][0]["ranks"][0]["workers"]
    assert [worker["offset"] for worker in found] == [5, 0, 0]
    assert [worker["state"] for worker in found] == [None] * 3


def test_a_worker_without_a_process_is_its_dataset(file: pathlib.Path) -> None:
    tree = {"__class__": "SimpleSavableDatasetWrapper", "_sample_index": 7}
    file.write_bytes(
        f"c{LOADER}\nSavableDataLoaderState\n".encode()
        + b")\x81}(S'worker_states'\n](cmegatron.energon.state\nFlexState\n)\x81"
        + b"(S'__class__'\nS'SimpleSavableDatasetWrapper'\nS'_sample_index'\nI7\nue"
        + b"S'next_worker_id'\nI0\nS'micro_batch_size'\nNub."
    )
    (found,) = read(file)["files"][0]["ranks"]
    assert found["has_workers"] is False
    assert found["workers"] == [{"sample_index": 7, "offset": 0, "state": tree}]


def test_groups_may_have_any_simple_criterion(file: pathlib.Path) -> None:
    tree = {"groups": {(1, "a"): 1, 2: 2, True: 3, None: 4, 0.5: 5}}
    file.write_bytes(pickle.dumps(rank(tree=tree)))
    groups = read(file)["files"][0]["ranks"][0]["workers"][0]["state"]["groups"]
    assert groups == {"(1, a)": 1, "2": 2, "True": 3, "None": 4, "0.5": 5}


# --- Code in pickles ---


class Reduced:
    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("place", ["alone", "list", "tree", "worker"])
def test_no_function_is_called(file: pathlib.Path, place: str) -> None:
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
        assert f"the pickle refers to '{name}'" in refused(file, pickle.dumps(whole))
    assert not marker.exists()


@pytest.mark.parametrize(
    "module, name",
    [
        ("os", "system"),
        ("builtins", "getattr"),
        ("torch.storage", "_load_from_bytes.__globals__"),
        ("megatron.energon.state", "FlexState.__init__"),
        ("_energon_pickle", "main"),
        ("__main__", "main"),
        ("copyreg", "_reconstructor"),
        ("torch.serialization", "load"),
    ],
)
def test_names_are_looked_up_in_a_table_only(file: pathlib.Path, module: str, name: str) -> None:
    def short(text: str) -> bytes:
        return b"\x8c" + bytes([len(text)]) + text.encode()

    stack_global = b"\x80\x04" + short(module) + short(name) + b"\x93)R."
    assert "the pickle refers to" in refused(file, stack_global)
    assert "the pickle refers to" in refused(file, f"c{module}\n{name}\n(tR.".encode())


def test_known_names_do_nothing_with_foreign_arguments(file: pathlib.Path) -> None:
    for module, name in [*_energon_pickle.DROPPED_FUNCTIONS, *_energon_pickle.DROPPED_CLASSES]:
        call = f"c{module}\n{name}\n(cmegatron.energon.state\nFlexState\nI1\ntR.".encode()
        assert "where the state of a rank is expected" in refused(file, call)


# --- Exhaustion ---


def test_nesting_and_sharing_do_not_exhaust_the_process(file: pathlib.Path) -> None:
    nested = b"]" * 10_000 + b"a" * 9_999
    assert "list" in refused(file, nested + b".")
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    assert "nested more than 200 deep" in refused_rank(file, tree={"x": deep})
    shared: Any = []
    for _ in range(12):
        shared = [shared] * 10
    assert "which its size does not explain" in refused_rank(file, tree={"x": shared})
    endless: list[Any] = []
    endless.append(endless)
    assert "nested more than 200 deep" in refused_rank(file, tree={"x": endless})


def test_large_values_are_refused(file: pathlib.Path) -> None:
    assert "an integer has 4000 bits" in refused_rank(file, next_worker_id=1 << 3999)
    assert "an integer has 64 bits" in refused_rank(file, tree={"x": 1 << 63})
    assert "characters" in refused_rank(file, tree={"x": "a" * 100_000})
    assert "characters" in refused_rank(file, tree={"a" * 100_000: 1})
    assert "the number nan" in refused_rank(file, tree={"x": float("nan")})
    assert "of the type set" in refused_rank(file, tree={"x": {1}})


def test_a_long_value_that_is_named_often_is_refused(file: pathlib.Path) -> None:
    for value in ("a" * 60_000, b"a" * 1_000_000):
        assert "which its size does not explain" in refused_rank(file, tree={"x": [value] * 500})
    assert "which its size does not explain" in refused_rank(
        file, tree={"x": [{"a" * 60_000: 1}] * 500}
    )


def test_names_of_nested_tuples_are_refused(file: pathlib.Path) -> None:
    name: Any = 1
    for _ in range(8):
        name = (name,)
    file.write_bytes(pickle.dumps(rank(tree={name: 1})))
    assert read(file)["files"][0]["ranks"][0]["workers"][0]["state"] == {"(" * 8 + "1" + ")" * 8: 1}
    assert "a name of the type tuple" in refused_rank(file, tree={(name,): 1})


def test_texts_that_are_not_unicode_are_refused(file: pathlib.Path) -> None:
    surrogate = b"\x8c\x05ab\xed\xb2\x80"
    content = pickle.dumps(rank(tree={"x": "PLACE"}), 4).replace(b"\x8c\x05PLACE", surrogate)
    assert "is not Unicode" in refused(file, content)


@pytest.mark.parametrize(
    "opcode",
    [
        b"\x8d" + struct.pack("<Q", 1 << 60),  # a text of that many bytes
        b"\x8e" + struct.pack("<Q", 1 << 60),  # bytes
        b"\x96" + struct.pack("<Q", 1 << 40),  # a bytearray
        b"\x8b" + struct.pack("<i", (1 << 31) - 1),  # an integer
        b"Nr" + struct.pack("<I", (1 << 32) - 1),  # a place among what was read
        b"\x95" + struct.pack("<Q", 1 << 62),  # a frame
    ],
)
def test_sizes_in_a_pickle_are_not_believed(file: pathlib.Path, opcode: bytes) -> None:
    refused(file, b"\x80\x04" + opcode + b".")


def zip_of(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def test_zip_files_of_other_kinds_are_refused(file: pathlib.Path) -> None:
    assert "0 entries data.pkl" in refused(file, zip_of({"a/b.txt": b""}))
    two = zip_of({"a/data.pkl": b"N.", "b/data.pkl": b"N."})
    assert "2 entries data.pkl" in refused(file, two)
    assert "damaged or no pickle" in refused(file, zip_of({"a/data.pkl": b"hello"}))


def test_a_zip_bomb_is_refused_by_its_size(file: pathlib.Path) -> None:
    content = bytearray(zip_of({"a/data.pkl": bytes(1 << 20)}, zipfile.ZIP_DEFLATED))
    sizes = [i for i in range(len(content)) if content[i : i + 4] == struct.pack("<I", 1 << 20)]
    assert len(sizes) == 2  # in front of the entry, and in the directory
    for at in sizes:
        content[at : at + 4] = struct.pack("<I", (1 << 30) + 4)
    assert f"its pickle has {(1 << 30) + 4} bytes" in refused(file, bytes(content))
    for at in sizes:
        content[at : at + 4] = struct.pack("<I", 10)
    assert "damaged" in refused(file, bytes(content))  # more comes than was said


def test_many_values_in_a_small_file_are_refused(file: pathlib.Path) -> None:
    tree = {"x": [None] * 1_500_000}
    state = SavableDatasetState(rng=None, dataset_state=tree, sample_index=3)
    workers = [SavableDatasetCheckpoint(state=state, offset=0)]
    content = pickle.dumps(rank(worker_states=workers, next_worker_id=0))
    packed = zip_of({"a/data.pkl": content}, zipfile.ZIP_DEFLATED)
    assert len(packed) < 100_000
    assert "which its size does not explain" in refused(file, packed)
    file.write_bytes(content)
    assert len(read(file)["files"][0]["ranks"][0]["workers"][0]["state"]["x"]) == 1_500_000


# --- Foreign and damaged files ---


@pytest.mark.parametrize(
    "content, problem",
    [
        ({"model": 1, "optimizer": 2}, "a dict with the entries 'model', 'optimizer'"),
        ({}, "a dict with the entries none"),
        ([], "the states of no ranks"),
        ([1], "a value of the type int"),
        ("text", "a value of the type str"),
        ([None, "x"], "a value of the type str"),
    ],
)
def test_states_of_other_programs_are_refused(
    file: pathlib.Path, content: Any, problem: str
) -> None:
    assert problem in refused(file, pickle.dumps(content))


def test_states_with_other_fields_are_refused(file: pathlib.Path) -> None:
    fields = "other fields than worker_states, next_worker_id, micro_batch_size"
    assert fields in refused_rank(file, more=1)
    assert "worker_states is no list" in refused_rank(file, worker_states=[])
    assert "a worker has a value of the type int" in refused_rank(file, worker_states=[5])
    without = f"c{LOADER}\nSavableDataLoaderState\n)\x81.".encode("latin1")
    assert "a SavableDataLoaderState without fields" in refused(file, without)
    assert "an object of a class that no state is of" in refused(file, b"ctorch\nuint8\n)\x81.")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_is_refused(file: pathlib.Path, name: str) -> None:
    """Or gives what the whole file does, if only what is not needed was cut off."""
    content = (STORED / name).read_bytes()
    whole = _energon_pickle.read_file(str(STORED / name))["ranks"]
    errors = 0
    for size in range(0, len(content), 61):
        file.write_bytes(content[:size])
        try:
            assert _energon_pickle.read_file(str(file))["ranks"] == whole
        except AssertionError:
            raise
        except Exception:
            errors += 1
    assert errors > len(content) / 61 / 4
    assert "damaged" in refused(file, content[: len(content) // 2])


@pytest.mark.parametrize("name", FILES)
def test_damaged_bytes_are_errors_or_numbers(
    file: pathlib.Path, texts: str, name: str
) -> None:
    """Whatever comes out of a damaged file, the import of it ends with an error of the package."""
    content = bytearray((STORED / name).read_bytes())
    draw = random.Random(7)
    dataset = energon.get_train_dataset(
        texts,
        worker_config=energon.WorkerConfig(rank=0, world_size=1, num_workers=0),
        batch_size=4,
    )
    options = dataset.worker_config._options()
    errors = 0
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(draw.choice([1, 3, 30])):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        file.write_bytes(damaged)
        try:
            made = {"version": 1, "files": [_energon_pickle.read_file(str(file))]}
        except Exception:
            errors += 1
            continue
        with pytest.raises(energon.EnergonError):  # it is a state of other data
            energon._core.import_energon_states(
                dataset._pipeline, options, json.dumps(made), True
            )
    assert errors > 10


def test_files_that_cannot_be_read_are_named(file: pathlib.Path) -> None:
    with pytest.raises(energon.CorruptDataError, match="cannot be read: No such file"):
        read(file)
    with pytest.raises(energon.CorruptDataError, match="it is no regular file"):
        read(file.parent)
    assert "the file is empty" in refused(file, b"")
    assert "damaged or no pickle" in refused(file, b"hello")
    assert "damaged or no pickle" in refused(file, os.urandom(1000).replace(b".", b""))


def test_a_pipe_is_not_waited_for(file: pathlib.Path) -> None:
    os.mkfifo(file)
    with pytest.raises(energon.CorruptDataError, match="it is no regular file"):
        read(file)


@pytest.mark.parametrize("name", ["bad\udcff.pt", "a\nb\x1b[31m.pt"])
def test_names_of_files_are_shown_in_one_line(tmp_path: pathlib.Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(pickle.dumps(rank()))
    shown = _energon_pickle.printable(str(file))
    assert shown.isprintable() and shown.isascii()
    assert read(file)["files"][0]["path"] == shown
    file.write_bytes(b"")
    with pytest.raises(energon.CorruptDataError) as raised:
        read(file)
    assert f"{shown}: the file is empty" in str(raised.value)
