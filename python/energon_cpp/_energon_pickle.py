"""Reads loader states that megatron-energon saved: pickles in, JSON out, nothing of them is run.

    python -I -S _energon_pickle.py FILE...

A program of its own, for a process of its own, without other packages. It reads what torch.save()
and pickle.dump() write. Classes in a pickle are looked up in a table of this file and stand for
inert containers; any other name is an error. Tensors and the generators of torch, numpy and random
are dropped: they do not decide the order of samples. Standard output has one JSON object:

    {"version": 1, "files": [{"path": ..., "is_list": ..., "ranks": [rank or null, ...]}]}

A rank has next_worker_id, micro_batch_size and workers; a worker sample_index, offset and state, a
tree of objects as Energon's save_state() made it, or null. Bytes are {"base64": text}, tuples are
lists. Errors are lines on standard error, with exit status 1.
"""

from __future__ import annotations

import base64
import io
import json
import math
import os
import pickle
import resource
import stat
import sys
import zipfile
from typing import Any, BinaryIO, Callable

MOST_BYTES = 1 << 30  # of a file, and of the pickle in it
MOST_MEMORY = 8 << 30
MOST_CPU_SECONDS = 300
FREE_VALUES = 1_000_000  # of a file, and one for each of its bytes
BYTES_OF_VALUE = 8  # of a text or of bytes: as many cost as much as one value
MOST_DEPTH = 200
MOST_NAME_DEPTH = 8  # tuples in the name of an entry
MOST_TEXT = 1 << 16  # characters
MOST_BITS = 63  # of an integer


class Unreadable(Exception):
    """A file that is no loader state, or that is refused."""


class Inert:
    """Stands for an object of a foreign class. Takes everything, does nothing."""

    def __new__(cls, *_arguments: Any, **_named: Any) -> Inert:
        return object.__new__(cls)

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        pass

    def __setstate__(self, _state: Any) -> None:
        pass


class Mapping(dict):  # type: ignore[type-arg]
    """A FlexState: its entries. Attributes that a pickle sets are dropped."""

    def __new__(cls, *_arguments: Any, **_named: Any) -> Mapping:
        return dict.__new__(cls)

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        super().__init__()

    def __setstate__(self, _state: Any) -> None:
        pass


class Record:
    """A dataclass of Energon: its fields, by name."""

    names: tuple[str, ...] = ()
    fields: dict[str, Any]

    def __new__(cls, *_arguments: Any, **_named: Any) -> Record:
        record = object.__new__(cls)
        object.__setattr__(record, "fields", {})
        return record

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        pass

    def __setattr__(self, _name: str, _value: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        """`state`: values in the order of the fields, or a dict, as dataclasses with and without
        slots have it; the latter also with None before it."""
        if isinstance(state, tuple) and len(state) == 2 and state[0] is None:
            state = state[1]
        if isinstance(state, (list, tuple)) and len(state) == len(self.names):
            state = dict(zip(self.names, state))
        if type(state) is not dict or set(state) != set(self.names):
            raise Unreadable(f"{self.title()} has other fields than {', '.join(self.names)}")
        self.fields.update(state)

    @classmethod
    def title(cls) -> str:
        return cls.__name__


class SavableDataLoaderState(Record):
    names = ("worker_states", "next_worker_id", "micro_batch_size")


class SavableDatasetCheckpoint(Record):
    names = ("state", "offset")


class SavableDatasetState(Record):
    names = ("rng", "dataset_state", "sample_index")


class SliceState(Record):
    names = ("index", "current")


def decode_latin1(text: Any, encoding: Any = "latin1") -> bytes:
    """Bytes in pickles of protocol 2: _codecs.encode(text, "latin1")."""
    if type(text) is not str or encoding != "latin1":
        raise Unreadable("bytes that are not written as latin1 text")
    return text.encode("latin1")


def empty_bytes(*arguments: Any) -> bytes:
    """No bytes at all in pickles of protocol 2: __builtin__.bytes()."""
    if arguments:
        raise Unreadable("bytes() with arguments")
    return b""


def dropped(*_arguments: Any, **_named: Any) -> Inert:
    return Inert()


LOADER = "megatron.energon.savable_loader"
KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    (LOADER, "SavableDataLoaderState"): SavableDataLoaderState,
    (LOADER, "SavableDatasetCheckpoint"): SavableDatasetCheckpoint,
    (LOADER, "SavableDatasetState"): SavableDatasetState,
    ("megatron.energon.flavors.webdataset.sample_loader", "SliceState"): SliceState,
    ("megatron.energon.state", "FlexState"): Mapping,
    ("megatron.energon.savable", "FlexState"): Mapping,
    ("megatron.energon.flavors.base_dataset", "FlexState"): Mapping,
    ("collections", "OrderedDict"): Mapping,
    ("_codecs", "encode"): decode_latin1,
    ("__builtin__", "bytes"): empty_bytes,
    ("builtins", "bytes"): empty_bytes,
}
# The global generators and what they are made of.
DROPPED_FUNCTIONS = {
    ("torch._utils", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch.storage", "_load_from_bytes"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
}
DROPPED_CLASSES = {
    ("megatron.energon.rng", "SystemRngState"),
    ("torch", "ByteStorage"),
    ("torch", "UntypedStorage"),
    ("torch.storage", "UntypedStorage"),
    ("torch.storage", "TypedStorage"),
    ("torch", "uint8"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


class Unpickler(pickle.Unpickler):
    """Knows the names above and no others: nothing is imported."""

    def find_class(self, module: str, name: str) -> Any:
        found = (module, name)
        if found in KNOWN:
            return KNOWN[found]
        if found in DROPPED_FUNCTIONS:
            return dropped
        if found in DROPPED_CLASSES:
            return Inert
        raise Unreadable(
            f"the pickle refers to {shown(f'{module}.{name}')}, which no state of a loader has: "
            "it was not loaded"
        )

    def persistent_load(self, _identifier: Any) -> Any:
        return Inert()


def shown(text: str) -> str:
    """A text of a file, for a message."""
    return repr(text if len(text) <= 100 else text[:100] + "…")


def printable(path: str) -> str:
    """A path in one line, and in Unicode."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in path)


# --- JSON ---


class Converter:
    """Makes JSON of a tree and counts its values, so that shared values cannot explode. `most`:
    values that it may have."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left = most

    def spend(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise Unreadable(f"it has more than {self.most} values, which its size does not explain")

    def convert(self, value: Any, depth: int = 0) -> Any:
        self.spend(1)
        if depth > MOST_DEPTH:
            raise Unreadable(f"it is nested more than {MOST_DEPTH} deep")
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return self.integer(value)
        if kind is float:
            if not math.isfinite(value):
                raise Unreadable(f"the number {value} is in the state of a dataset")
            return value
        if kind is str:
            return self.text(value)
        if kind is bytes:
            self.spend(1 + len(value) // BYTES_OF_VALUE)
            return {"base64": base64.b64encode(value).decode("ascii")}
        if kind is list or kind is tuple:
            return [self.convert(entry, depth + 1) for entry in value]
        if kind is dict or kind is Mapping:
            return {self.key(key): self.convert(entry, depth + 1) for key, entry in value.items()}
        if kind is SliceState:
            return {name: self.convert(value.fields.get(name), depth + 1) for name in value.names}
        what = value.title() if isinstance(value, Record) else kind.__name__
        raise Unreadable(f"a value of the type {what} is in the state of a dataset")

    def integer(self, value: int) -> int:
        if value.bit_length() > MOST_BITS:
            raise Unreadable(f"an integer has {value.bit_length()} bits, at most 63 are expected")
        return value

    def text(self, value: str) -> str:
        if len(value) > MOST_TEXT:
            raise Unreadable(f"a text has {len(value)} characters, at most {MOST_TEXT} are expected")
        self.spend(len(value) // BYTES_OF_VALUE)
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise Unreadable(f"the text {shown(value)} is not Unicode") from None
        return value

    def key(self, value: Any, depth: int = 0) -> str:
        """The name of an entry. Groups of samples are entries, too, with any criterion as name."""
        self.spend(1)
        if type(value) is tuple and depth < MOST_NAME_DEPTH:
            return self.text(f"({', '.join(self.key(part, depth + 1) for part in value)})")
        if type(value) not in (str, int, float, bool, type(None)):
            raise Unreadable(f"an entry has a name of the type {type(value).__name__}")
        if type(value) is int:
            self.integer(value)
        return self.text(str(value))


def rank_of(state: Any, converter: Converter) -> Any:
    """The JSON of a SavableDataLoaderState, or of None: nothing was delivered."""
    if state is None:
        return None
    if type(state) is not SavableDataLoaderState or not state.fields:
        raise Unreadable(
            f"it has {describe(state)} where the state of a rank is expected: a "
            "SavableDataLoaderState, as save_state_rank() returns it"
        )
    workers = state.fields["worker_states"]
    if type(workers) is not list or not workers:
        raise Unreadable("worker_states is no list of states")
    return {
        "next_worker_id": converter.convert(state.fields["next_worker_id"]),
        "micro_batch_size": converter.convert(state.fields["micro_batch_size"]),
        "has_workers": type(workers[0]) is SavableDatasetCheckpoint,
        "workers": [worker_of(worker, converter) for worker in workers],
    }


def worker_of(worker: Any, converter: Converter) -> Any:
    if type(worker) is Mapping:  # without worker processes
        tree = converter.convert(worker)
        return {"sample_index": tree.get("_sample_index"), "offset": 0, "state": tree}
    if type(worker) is not SavableDatasetCheckpoint or not worker.fields:
        raise Unreadable(f"a worker has {describe(worker)}, not a SavableDatasetCheckpoint")
    offset = converter.convert(worker.fields["offset"])
    state = worker.fields["state"]
    if state is None:
        # Energon's mark of a worker that had not begun stands before its first batch, at -1.
        offset = max(offset - 1, 0) if type(offset) is int else offset
        return {"sample_index": 0, "offset": offset, "state": None}
    if type(state) is not SavableDatasetState or not state.fields:
        raise Unreadable(f"a worker has {describe(state)}, not a SavableDatasetState")
    return {
        "sample_index": converter.convert(state.fields["sample_index"]),
        "offset": offset,
        "state": converter.convert(state.fields["dataset_state"]),
    }


def describe(value: Any) -> str:
    if isinstance(value, dict):
        names = [shown(name) for name in list(value)[:5] if type(name) is str]
        return f"a dict with the entries {', '.join(names) or 'none'}"
    if isinstance(value, Inert):
        return "an object of a class that no state is of"
    if isinstance(value, Record) and not value.fields:
        return f"a {value.title()} without fields"
    return f"a value of the type {type(value).__name__}"


# --- Files ---


def read_file(path: str) -> dict[str, Any]:
    status = os.stat(path)
    size = status.st_size
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable("it is no regular file")
    if size > MOST_BYTES:
        raise Unreadable(f"the file has {size} bytes, at most {MOST_BYTES} are read")
    if size == 0:
        raise Unreadable("the file is empty")
    with open(path, "rb") as file:
        state = unpickle(file)
    converter = Converter(FREE_VALUES + size)
    if type(state) is dict and "dataloader_state_dict" in state:  # as Megatron-LM wraps it
        state = state["dataloader_state_dict"]
    is_list = type(state) is list
    if is_list and not state:
        raise Unreadable("it has the states of no ranks")
    ranks = [rank_of(rank, converter) for rank in (state if is_list else [state])]
    return {"path": printable(path), "is_list": is_list, "ranks": ranks}


def unpickle(file: BinaryIO) -> Any:
    start = file.read(2)
    file.seek(0)
    if start == b"PK":
        return Unpickler(io.BytesIO(pickle_in_zip(file))).load()
    # torch.save() wrote a magic number, a version and a table of sizes before the state, once.
    unpickler = Unpickler(file)
    state = unpickler.load()
    if type(state) is int and state == 0x1950A86A20F9469CFC6C:
        for _ in range(2):
            Unpickler(file).load()
        state = Unpickler(file).load()
    return state


def pickle_in_zip(file: BinaryIO) -> bytes:
    with zipfile.ZipFile(file) as archive:
        found = [entry for entry in archive.infolist() if entry.filename.endswith("/data.pkl")]
        if len(found) != 1:
            raise Unreadable(f"the zip file has {len(found)} entries data.pkl: not of torch.save()")
        if found[0].file_size > MOST_BYTES:
            raise Unreadable(f"its pickle has {found[0].file_size} bytes, at most {MOST_BYTES}")
        with archive.open(found[0]) as entry:
            data = entry.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Unreadable(f"its pickle has more than {MOST_BYTES} bytes")
    return data


def limit_process() -> None:
    """Whatever a pickle makes the interpreter do, it does not write files and it ends."""
    for kind, most in (
        (resource.RLIMIT_AS, MOST_MEMORY),
        (resource.RLIMIT_CPU, MOST_CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (limit, limit))


def main(paths: list[str]) -> int:
    limit_process()
    files = []
    for path in paths:
        try:
            files.append(read_file(path))
        except Unreadable as error:
            problem = str(error)
        except OSError as error:
            problem = f"it cannot be read: {error.strerror or error}"
        except (MemoryError, RecursionError, OverflowError):
            problem = "its pickle needs more memory than any state"
        except Exception as error:  # the unpickler raises nearly everything for damaged input
            problem = f"it is damaged or no pickle ({type(error).__name__}: {shown(str(error))})"
        else:
            continue
        print(f"{printable(path)}: {problem}", file=sys.stderr)
        return 1
    json.dump({"version": 1, "files": files}, sys.stdout, allow_nan=False)
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
