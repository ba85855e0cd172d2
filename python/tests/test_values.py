"""Values, from a function in a worker to the trainer."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import gc
import pickle
import threading
import weakref
from typing import Any

import numpy
import pytest
from conftest import LARGE, loader_of, take

import energon_cpp as energon

Point = collections.namedtuple("Point", ["x", "y"])


@dataclasses.dataclass
class Note:
    text: str
    size: int


@energon.edataclass
class Encoded(energon.Batch):
    value: Any


class Returns(energon.TaskEncoder):
    """Batches are `value`."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def batch(self, samples: list[Any]) -> Any:
        return self.value() if callable(self.value) else self.value


def returned(texts: str, value: Any, num_workers: int) -> Any:
    with loader_of(texts, Returns(value), num_workers=num_workers) as loader:
        return take(loader, 1)[0]


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


PLAIN = [
    None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**70, -(2**200), 0.0, 1.5, float("inf"),
    "", "text", "ü€😀", "\ud800 alone", "\0", b"", b"bytes", (), (1,), (1, ("a", None)),
    [], [1, [2, [3]]], {}, {"a": {"b": None}}, {1: "one", None: 2, (1, 2): 3}, {"": 1},
    {1, 2}, frozenset({"a"}), 1 + 2j, datetime.date(2024, 2, 29), bytearray(b"ab"), range(3),
    Point(1, "two"), Note("n", 3), [Note("n", 3), {"k": (Point(0, 0),)}], deep(50),
    numpy.float32(1.5), numpy.int64(7), {"__class__": "pickle", "items": b"x"},
    {"__class__": "os:system"},
]  # fmt: skip


def test_values_arrive_as_they_were(texts: str, num_workers: int) -> None:
    arrived = returned(texts, {"values": PLAIN}, num_workers)
    assert type(arrived) is dict
    for value, got in zip(PLAIN, arrived["values"], strict=True):
        assert got == value
        assert type(got) is type(value)


ARRAYS = [
    numpy.arange(12).astype(dtype).reshape(3, 4)
    for dtype in ("u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "?", "u2", "u4", "u8", "c8")
]
ARRAYS += [
    numpy.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
    numpy.arange(10)[::-2],
    numpy.array(3.5),
    numpy.zeros((0, 3)),
    numpy.zeros(5, ">f4"),
    numpy.array(["ab", "c"]),
    numpy.array([b"ab", b"c"]),
    numpy.array([None, "x"], object),
    numpy.zeros(3, [("a", "i4"), ("b", "f8")]),
    numpy.array(["2024-01-01"], "M8[D]"),
    numpy.broadcast_to(numpy.float32(2), (3, 5)),
]


def test_arrays_arrive_as_they_were(texts: str, num_workers: int) -> None:
    arrived = returned(texts, {"arrays": ARRAYS}, num_workers)["arrays"]
    for array, got in zip(ARRAYS, arrived, strict=True):
        assert type(got) is numpy.ndarray
        assert got.dtype == array.dtype
        assert got.shape == array.shape
        assert numpy.array_equal(got, array)


def test_arrays_of_a_batch_may_be_written(texts: str, num_workers: int) -> None:
    with loader_of(texts, Returns({"a": numpy.zeros(100_000)}), num_workers=num_workers) as loader:
        first, second = take(loader, 2)
        first["a"] += 1
        assert first["a"].sum() == 100_000
        assert second["a"].sum() == 0


def test_a_scratch_array_may_be_used_again(texts: str, num_workers: int) -> None:
    class Scratch(energon.TaskEncoder):
        def __init__(self) -> None:
            self.scratch = numpy.zeros(1000, numpy.int64)

        def encode_sample(self, sample: Any) -> Any:
            self.scratch[:] = sample["json"]["number"]
            return {"__key__": sample["__key__"], "row": self.scratch}

    with loader_of(texts, Scratch(), num_workers=num_workers, tensors="numpy") as loader:
        for batch in loader:
            assert sorted({int(row[0]) for row in batch["row"]}) == [
                    int(key) for key in sorted(batch["__key__"])
                ]


def test_classes_of_yours_arrive(texts: str, num_workers: int) -> None:
    @dataclasses.dataclass(frozen=True)
    class Local:
        number: int
        items: list[Any]

    arrived = returned(texts, lambda: Local(3, [Local(4, [])]), num_workers)
    assert arrived == Local(3, [Local(4, [])])
    batch = returned(texts, lambda: Encoded(value=(1, 2)), num_workers)
    assert type(batch) is Encoded
    assert batch.value == (1, 2)
    assert batch.__key__ == ["0000", "0001", "0002", "0003"]
    assert returned(texts, lambda: (1, numpy.arange(3)), num_workers)[1].tolist() == [0, 1, 2]
    assert returned(texts, lambda: Point(1, [2]), num_workers) == Point(1, [2])


def test_what_cannot_be_held_is_refused_with_its_field(texts: str, num_workers: int) -> None:
    with pytest.raises(TypeError, match=r"field 'a\[1\]\.lock' cannot be held.*pickle"):
        returned(texts, lambda: {"a": [1, {"lock": threading.Lock()}]}, num_workers)
    with pytest.raises(TypeError, match=r"'deep\[0\].*nested more than 60 levels"):
        returned(texts, lambda: {"deep": deep(65)}, num_workers)
    with pytest.raises(TypeError, match="field '7' cannot be held: the name of a field must be a text"):
        returned(texts, lambda: {7: 1}, num_workers)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TypeError, match="nested more than 60 levels"):
        returned(texts, {"loop": loop}, num_workers)


def test_large_parts_are_buffers(texts: str, num_workers: int) -> None:
    with loader_of(texts, num_workers=num_workers) as loader:
        batch = take(loader, 1)[0]
    small, large = batch.bin[:2]
    assert type(small) is bytes and small == bytes(100)
    assert type(large) is energon.Buffer
    assert len(large) == LARGE
    assert large == bytes([1]) * LARGE and large != b"x"
    assert bytes(large) == bytes([1]) * LARGE
    assert large[3] == 1 and large[:4] == b"\1\1\1\1"
    assert memoryview(large).readonly
    assert numpy.frombuffer(large, numpy.uint8).sum() == LARGE
    assert pickle.loads(pickle.dumps(large)) == bytes(large)


def test_tensors_of_native_stages(arrays: str, num_workers: int) -> None:
    with loader_of(arrays, num_workers=num_workers, tensors="energon") as loader:
        tensor = take(loader, 3)[2].npy
    first = 8 if num_workers == 0 else 4
    numbers = list(range(first, first + 4))
    assert type(tensor) is energon.Tensor
    assert (tensor.dtype, tensor.shape, tensor.ndim, tensor.nbytes) == ("int64", (4,), 1, 32)
    assert tensor.tolist() == numbers
    array = tensor.numpy()
    array[0] = numbers[0] = 40
    assert numpy.from_dlpack(tensor).tolist() == numbers
    assert numpy.from_dlpack(tensor).flags.writeable
    assert memoryview(tensor).format == "q"
    assert list(tensor) == numbers and tensor[-1] == numbers[-1]
    with pytest.raises(IndexError):
        tensor[4]
    again = pickle.loads(pickle.dumps(tensor))
    assert type(again) is energon.Tensor and again.tolist() == numbers
    with loader_of(arrays, num_workers=num_workers, tensors="numpy") as loader:
        assert type(take(loader, 1)[0].npy) is numpy.ndarray


def test_views_outlive_batch_and_loader_and_die_on_any_thread(
    arrays: str, num_workers: int
) -> None:
    loader = loader_of(arrays, num_workers=num_workers, tensors="energon")
    tensors = [batch.npy for batch in loader]
    views = [numpy.from_dlpack(tensor) for tensor in tensors]
    loader.close()
    del loader, tensors
    gc.collect()
    assert sorted(sum((view.tolist() for view in views), [])) == list(range(60))
    gone = weakref.ref(views[0])
    thread = threading.Thread(target=views.clear)
    thread.start()
    thread.join()
    assert gone() is None


def test_batches_are_objects_and_mappings(texts: str, num_workers: int) -> None:
    with loader_of(texts, num_workers=num_workers) as loader:
        batch = take(loader, 1)[0]
    assert batch.keys() == ["txt", "json", "bin"] and list(batch) == batch.keys()
    assert "txt" in batch and "jpg" not in batch and "__key__" in batch
    assert dict(**batch)["txt"] is batch.txt is batch["txt"]
    assert batch.__key__ == batch["__key__"] == ["0000", "0001", "0002", "0003"]
    assert batch.__subflavors__ == [{}] * 4
    assert [source.index for source in batch.__sources__] == [0, 1, 2, 3]
    assert batch.__sources__[0].shard_name.endswith("shard_0.tar")
    batch.txt = ["new"]
    batch["more"] = 1
    assert batch["txt"] == ["new"] and batch.more == 1 and "more" in batch.keys()
    with pytest.raises(AttributeError, match="no field 'jpg'; fields: txt, json, bin, more"):
        batch.jpg
    with pytest.raises(KeyError, match="no field 'jpg'"):
        batch["jpg"]
    again = pickle.loads(pickle.dumps(batch))
    assert again.txt == ["new"] and again.__key__ == batch.__key__
    assert again.__restore_key__ == batch.__restore_key__
    with loader_of(texts, batch_size=None) as loader:
        sample = take(loader, 1)[0]
    assert type(sample) is energon.CrudeSample
    assert sample["txt"] == sample.txt == "text 0" and sample["__key__"] == "0000"
