"""Values on their way from a function in a worker to the trainer."""

from __future__ import annotations

import base64
import collections
import copy
import dataclasses
import datetime
import enum
import gc
import hashlib
import io
import json
import pickle
import re
import struct
import threading
import warnings
import weakref
import zlib
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


@dataclasses.dataclass
class Measured:
    """Has an attribute that is not a field."""

    text: str

    def __post_init__(self) -> None:
        self.length = len(self.text)


class Named(Note):
    def __init__(self, text: str) -> None:
        super().__init__(text, len(text))
        self.name = text.upper()


@dataclasses.dataclass
class Output(collections.OrderedDict):  # type: ignore[type-arg]
    """Has an entry and an attribute for each field, like the outputs of transformers' models."""

    logits: Any = None
    loss: Any = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)

    def __reduce__(self) -> Any:
        return Output, tuple(getattr(self, field.name) for field in dataclasses.fields(self))


@dataclasses.dataclass
class Items(list):  # type: ignore[type-arg]
    name: str = ""


@dataclasses.dataclass
class Reduced:
    number: int

    def __reduce__(self) -> Any:
        return Reduced, (self.number + 1,)


@dataclasses.dataclass
class Stateful:
    number: int

    def __getstate__(self) -> Any:
        return {"number": -self.number}


@dataclasses.dataclass
class Made:
    number: int

    def __new__(cls, number: int) -> Any:
        return super().__new__(cls)


class Planet(Note, enum.Enum):
    EARTH = ("earth", 3)


class Counted(dict):  # type: ignore[type-arg]
    pass


def output(**fields: Any) -> Output:
    return Output(**fields)


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


def test_values_arrive_unchanged(texts: str, num_workers: int) -> None:
    arrived = returned(texts, {"values": PLAIN}, num_workers)
    assert type(arrived) is dict
    for value, got in zip(PLAIN, arrived["values"], strict=True):
        assert got == value
        assert type(got) is (energon.Buffer if type(value) is bytes else type(value))


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


def test_arrays_arrive_unchanged(texts: str, num_workers: int) -> None:
    arrived = returned(texts, {"arrays": ARRAYS}, num_workers)["arrays"]
    for array, got in zip(ARRAYS, arrived, strict=True):
        assert type(got) is numpy.ndarray
        assert got.dtype == array.dtype
        assert got.shape == array.shape
        assert numpy.array_equal(got, array)


def test_arrays_of_a_batch_are_writable(texts: str, num_workers: int) -> None:
    with loader_of(texts, Returns({"a": numpy.zeros(100_000)}), num_workers=num_workers) as loader:
        first, second = take(loader, 2)
        first["a"] += 1
        assert first["a"].sum() == 100_000
        assert second["a"].sum() == 0


def test_a_scratch_array_may_be_reused(texts: str, num_workers: int) -> None:
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


def test_user_classes_arrive(texts: str, num_workers: int) -> None:
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


def everything_of(value: Any) -> Any:
    """The content of an object, for comparison."""
    if isinstance(value, enum.Enum):
        return value
    slots = {name: everything_of(part) for name, part in getattr(value, "__dict__", {}).items()}
    inner: Any = value
    if isinstance(value, dict):
        inner = {key: everything_of(part) for key, part in value.items()}
    elif isinstance(value, (list, tuple)):
        inner = [everything_of(part) for part in value]
    elif slots:
        inner = None
    return type(value), slots, inner


def whole_objects() -> list[Any]:
    items = Items("list")
    items.append(5)
    counted = Counted(a=1)
    counted.total = 1  # type: ignore[attr-defined]
    changed = Note("x", 1)
    changed.more = [Measured("inner")]  # type: ignore[attr-defined]
    with_default = collections.defaultdict(list, a=[1])
    return [
        Measured("abc"), Named("abc"), output(logits=5), items, counted, changed, with_default,
        Planet.EARTH, collections.Counter("aab"), collections.OrderedDict(b=1, a=2),
    ]  # fmt: skip


@pytest.mark.parametrize("nested", [False, True])
def test_objects_arrive_with_all_attributes(
    texts: str, num_workers: int, nested: bool
) -> None:
    for value in whole_objects():
        given = {"value": [value]} if nested else value
        arrived = returned(texts, lambda: given, num_workers)
        arrived = arrived["value"][0] if nested else arrived
        assert everything_of(arrived) == everything_of(value), value
    arrived = returned(texts, lambda: output(logits=5), num_workers)
    assert arrived.logits == arrived["logits"] == 5


def test_methods_for_pickling_are_called(texts: str, num_workers: int) -> None:
    for value in (Reduced(3), Stateful(3)):
        for given in (value, {"value": value}):
            arrived = returned(texts, lambda: given, num_workers)
            arrived = arrived if given is value else arrived["value"]
            # Once for each time the object was pickled.
            assert arrived == (Reduced(4) if type(value) is Reduced else Stateful(-3))


def test_the_worker_refuses_values_that_cannot_be_unpickled(texts: str, num_workers: int) -> None:
    with pytest.raises(TypeError, match=r"field 'made\[0\]' cannot be held.*'Made'") as raised:
        returned(texts, lambda: {"made": [Made(1)]}, num_workers)
    cause = raised.value.__cause__
    assert isinstance(cause, energon.UserFunctionError) and cause.sample_key == "0000"


class Encodes(energon.TaskEncoder):
    """Samples are the results of `function` for their number. Batches are native."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def encode_sample(self, sample: Any) -> Any:
        return self.function(sample["json"]["number"])


def batch_of(texts: str, function: Any, num_workers: int) -> Any:
    with loader_of(texts, Encodes(function), num_workers=num_workers, tensors="numpy") as loader:
        return take(loader, 1)[0]


def test_numbers_wider_than_python_numbers(texts: str, num_workers: int) -> None:
    for kind in (numpy.longdouble, numpy.clongdouble):
        batch = batch_of(texts, lambda number: {"x": kind(number), "y": [kind(1)]}, num_workers)
        assert batch["x"] == [kind(0), kind(1), kind(2), kind(3)]
        assert all(type(x) is kind for x in batch["x"])
        assert type(returned(texts, {"x": kind(2)}, num_workers)["x"]) is kind


def test_native_batches_of_objects_with_entries_and_attributes(
    texts: str, num_workers: int
) -> None:
    batch = batch_of(texts, lambda number: output(logits=number), num_workers)
    assert batch.logits == batch["logits"] == [0, 1, 2, 3]
    batch = batch_of(texts, lambda number: Made(number), num_workers)
    assert batch.number == [0, 1, 2, 3]
    batch = batch_of(texts, lambda number: Counted(a=number), num_workers)
    assert type(batch) is Counted and batch == {"a": [0, 1, 2, 3]}
    batch = batch_of(texts, lambda number: {"x": Measured("a" * number)}, num_workers)
    assert [x.length for x in batch["x"]] == [0, 1, 2, 3]


def test_batches_of_several_classes_are_refused(texts: str, num_workers: int) -> None:
    def a_or_b(number: int) -> Any:
        return Note("n", number) if number % 2 else Measured("m")

    text = (
        "the standard batch needs samples of one class: sample '0000' is a test_values:Measured, "
        r"sample '0001' is a test_values:Note; return one class from your function, or override batch"
    )
    with pytest.raises(energon.InvalidArgumentError, match=text):
        batch_of(texts, a_or_b, num_workers)
    with pytest.raises(energon.InvalidArgumentError, match="'0000' is a dict, sample '0001' is a tuple of 1;"):
        batch_of(texts, lambda number: (number,) if number else {"a": 0}, num_workers)
    with pytest.raises(TypeError, match="needs samples of one class, not of test_values.Measured and"):
        energon.generic_batch([a_or_b(0), a_or_b(1)])


def test_fields_of_several_classes_are_listed(texts: str, num_workers: int) -> None:
    values = [Note("n", 1), {1, 2}, {1: 2}, {"a": 1}, Note("n", 1)]
    for first in range(4):
        for second in range(5):
            pair = [values[first], values[second]]
            batch = batch_of(texts, lambda number: {"v": pair[number % 2], "i": number}, num_workers)
            if {first, second} == {3}:
                assert batch["v"] == {"a": [1, 1, 1, 1]}
            elif {first, second} <= {0, 4}:
                assert batch["v"] == Note(["n"] * 4, [1] * 4)  # type: ignore[arg-type]
            else:
                assert batch["v"] == 2 * pair, pair
    inner = [{"v": {"w": Note("n", 1)}}, {"v": {"w": {"text": "t", "size": 2}}}]
    batch = batch_of(texts, lambda number: inner[number % 2], num_workers)
    assert batch["v"]["w"] == 2 * [Note("n", 1), {"text": "t", "size": 2}]
    assert energon.generic_batch(inner) == {"v": {"w": batch["v"]["w"][:2]}}


def test_native_batches_of_dicts_are_dicts_with_attributes(texts: str, num_workers: int) -> None:
    with loader_of(
        texts, Encodes(lambda n: {"n": n, "keys": str(n)}), num_workers=num_workers, training=True
    ) as loader:
        batch = take(loader, 2)[1]
        again = loader.restore_sample(batch.__restore_key__)
    assert isinstance(batch, dict) and type(batch) is energon.DictBatch
    assert batch == {"n": batch.n, "keys": batch["keys"]} == again == dict(**batch)
    assert batch.__key__ == batch["__key__"] == [f"{number:04}" for number in batch.n]
    assert batch.__subflavors__ == [{}] * 4 and len(batch.__sources__) == 4
    assert list(batch) == ["n", "keys"] and "__key__" not in batch
    batch.more = 1
    assert batch["more"] == 1 and batch.copy().__key__ == batch.__key__
    with pytest.raises(AttributeError, match="no field 'jpg'; fields: n, keys, more"):
        batch.jpg
    with pytest.raises(KeyError, match="no field 'jpg'"):
        batch["jpg"]
    pickled = pickle.loads(pickle.dumps(batch))
    assert type(pickled) is energon.DictBatch and pickled == batch
    assert pickled.__key__ == batch.__key__
    assert pickled.__restore_key__ == batch.__restore_key__


def test_the_error_of_a_wrong_value_names_its_field(texts: str, num_workers: int) -> None:
    with pytest.raises(TypeError, match=r"field 'a\[1\]\.lock' cannot be held.*pickle"):
        returned(texts, lambda: {"a": [1, {"lock": threading.Lock()}]}, num_workers)
    with pytest.raises(TypeError, match=r"'deep\[0\].*nested more than 60 levels"):
        returned(texts, lambda: {"deep": deep(65)}, num_workers)
    with pytest.raises(TypeError, match="field '7' cannot be held: the name of a field must be a string"):
        returned(texts, lambda: {7: 1}, num_workers)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TypeError, match="nested more than 60 levels"):
        returned(texts, {"loop": loop}, num_workers)


def test_parts_of_all_sizes_have_one_class(texts: str, num_workers: int) -> None:
    with loader_of(texts, num_workers=num_workers) as loader:
        small, large = take(loader, 1)[0].bin[:2]
    for part, content in ((small, bytes(100)), (large, b"\1" * LARGE)):
        assert type(part) is energon.Buffer and isinstance(part, bytes)
        assert len(part) == len(content) and part == content and content == part
        assert part != b"x" and not part == content[1:] and part < content + b"\0"
        assert hash(part) == hash(content) and {content: 1}[part] == 1
        assert bytes(part) == content and type(bytes(part)) is bytes
        assert part[3] == content[-1] and part[-2:] == content[:2] and list(part) == list(content)
        assert content[:2] in part and part + b"x" == content + b"x" == content + part[:0] + b"x"
        assert memoryview(part).readonly and part.count(b"\0") == content.count(b"\0")
        assert numpy.frombuffer(part, numpy.uint8).sum() == sum(content)
        for protocol in range(6):
            assert pickle.loads(pickle.dumps(part, protocol)) == content
        again = copy.deepcopy(part)
        assert type(again) is energon.Buffer and again == content and copy.copy(part) is part
    with pytest.raises(IndexError):
        small[100]
    with pytest.raises(AttributeError):
        large.encode()
    assert repr(small[:2]) == repr(bytes(2)) and len(repr(large)) < 200


@pytest.mark.parametrize("size", [10, 100_000])
def test_libraries_take_parts_as_bytes(size: int) -> None:
    content = {"text": "ü" * size}
    part = energon.Buffer(json.dumps(content, ensure_ascii=False).encode())
    assert json.loads(part) == content
    assert part.decode() == str(part, "utf-8") == bytes(part).decode()
    assert part.decode("ascii", "ignore") == bytes(part).decode("ascii", "ignore")
    with pytest.raises(UnicodeDecodeError):
        part.decode("ascii")
    assert io.BytesIO(part).read() == b"".join([part]) == bytes(part)
    assert part.startswith(b"{") and part.startswith((b"x", b"{")) and not part.endswith(b"{")
    assert part.endswith(b'"}') and part.split(b":")[0] == b'{"text"' and part.hex()[:2] == "7b"
    assert hashlib.sha256(part).digest() == hashlib.sha256(bytes(part)).digest()
    assert re.match(rb"\{", part) and zlib.decompress(zlib.compress(part)) == part
    assert pickle.loads(energon.Buffer(pickle.dumps(size))) == size
    assert int(energon.Buffer(b"12")) == 12 and float(energon.Buffer(b"1.5")) == 1.5
    assert struct.unpack("<H", energon.Buffer(b"\1\2")) == (513,)
    buffers: list[Any] = []
    data = pickle.dumps(part, 5, buffer_callback=buffers.append)
    assert len(data) < 100 and pickle.loads(data, buffers=buffers) == part
    with pytest.raises(TypeError):
        energon.Buffer("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        part.decode(None)  # type: ignore[arg-type]
    with pytest.raises(LookupError):
        part.decode("nothing")
    with pytest.raises(ValueError, match="null"):
        part.decode("ascii\0")
    with pytest.raises(TypeError, match="immutable"):
        del energon.Buffer.decode  # type: ignore[misc]


def test_pictures_and_tensors_of_parts() -> None:
    torch = pytest.importorskip("torch")
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.new("RGB", (4, 3), (1, 2, 3)).save(file, "png")
    part = energon.Buffer(file.getvalue())
    assert image.open(io.BytesIO(part)).getpixel((0, 0)) == (1, 2, 3)
    assert image.frombytes("L", (2, 1), energon.Buffer(b"ab")).getpixel((1, 0)) == ord("b")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a tensor over bytes that are read-only
        assert torch.frombuffer(part, dtype=torch.uint8).tolist() == list(part)
    assert torch.utils.data.default_collate([part, part]) == [part, part]
    file = io.BytesIO()
    torch.save({"part": part}, file)
    assert torch.load(io.BytesIO(file.getvalue()), weights_only=True) == {"part": bytes(part)}


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


def test_named_fields_are_not_unpacked(texts: str) -> None:
    class Dicts(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            return {"image": sample["bin"], "label": sample["txt"]}

    class Tuples(Dicts):
        def encode_batch(self, batch: Any) -> Any:
            return batch["image"], batch["label"]

    for encoder in (None, Dicts()):
        with loader_of(texts, encoder) as loader:
            batch = take(loader, 1)[0]
            names = list(batch)
            with pytest.raises(TypeError, match=f"such as batch.{names[0]}, batch.{names[1]}; f"):
                for image, label in loader:
                    pass
            with pytest.raises(TypeError, match=f"cannot unpack a {type(batch).__name__}"):
                image, *labels = batch
        assert [name for name in batch] == names == list(batch.keys()) == sorted(batch, key=names.index)
        assert dict(batch) == {**batch} == dict(batch.items())
    with loader_of(texts, Tuples()) as loader:
        for image, label in loader:
            assert len(image) == len(label) == 4


def test_batches_are_shown_briefly(texts: str) -> None:
    with loader_of(texts) as loader:
        batch = take(loader, 1)[0]
    assert "txt=['text 0', 'text 1', 'text 2', 'text 3']" in repr(batch)
    assert len(repr(batch)) < 2500 and "40000 bytes" in repr(batch)
    batch.image = numpy.zeros((4, 3, 20, 20), numpy.float32)
    batch.many = list(range(1000))
    assert "image=ndarray(float32, shape (4, 3, 20, 20))" in repr(batch)
    assert "many=[0, 1, 2, 3, ... 1000 values]" in repr(batch)


def test_notebooks_show_pictures(texts: str) -> None:
    image = pytest.importorskip("PIL.Image")

    def pictures(html: str) -> list[Any]:
        found = re.findall(r"src='data:image/\w+;base64,([^']+)'", html)
        return [image.open(io.BytesIO(base64.b64decode(data))) for data in found]

    pixels = numpy.random.default_rng(0).integers(0, 256, (2, 3, 20, 30), numpy.uint8)
    file = io.BytesIO()
    image.fromarray(pixels[0].transpose(1, 2, 0)).save(file, "png")
    batch = energon.Batch.from_samples([])
    batch.__key__ = ["<a>", "b"]
    batch.text = ["x < y", "&"]
    batch.file = [energon.Buffer(file.getvalue()), energon.Buffer(b"other")]
    batch.image = pixels
    html = batch._repr_html_()
    assert "&lt;a&gt;" in html and "x &lt; y" in html and "uint8, shape (2, 3, 20, 30)" in html
    shown = pictures(html)
    assert len(shown) == 3
    for one, expected in zip(shown, (pixels[0], *pixels)):
        assert (numpy.asarray(one) == expected.transpose(1, 2, 0)).all()
    gray = energon.DictBatch(image=numpy.linspace(-1, 1, 500 * 400).reshape(1, 500, 400, 1))
    (one,) = pictures(gray._repr_html_())
    assert one.size == (100, 125) and one.getextrema()[0] == 0


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
