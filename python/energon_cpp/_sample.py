"""Samples and batches: Sample, Batch, CrudeSample, and user dataclasses derived from them."""

from __future__ import annotations

import copy
import copyreg
import dataclasses
import math
import os
import sys
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Sequence, TypeVar

from ._core import Origin, RestoreKey, Sources, Tensor
from .source_info import SourceInfo

_OWN = ("__key__", "__restore_key__", "__subflavors__", "__sources__")

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform as _dataclass_transform
else:

    def _dataclass_transform(**_):
        return lambda function: function


C = TypeVar("C")
T = TypeVar("T", bound="Item")


class Item:
    """Fields by attribute (`batch.image`) or by name (`batch["image"]`).

    Keys, restore key, subflavors and sources stay in the library until they are accessed. The
    mapping methods (keys, values, items, len, **) return only the fields.
    """

    __slots__ = ("_origin",)
    _origin: Origin

    def _field_names(self) -> list[str]:
        names = [name for name in field_names(self) if name not in _OWN]
        return [name for name in names if _is_set(self, name)]

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that the object does not have.
        if name in _OWN:
            try:
                origin = object.__getattribute__(self, "_origin")
            except AttributeError:
                raise AttributeError(f"'{name}' was not set") from None
            value = _own_value(name, origin)
            object.__setattr__(self, name, value)
            return value
        if name.startswith("__") or name == "_origin":
            raise AttributeError(name)
        text = f"there is no field '{name}'; fields: {', '.join(self.keys())}"
        raise AttributeError(text, name=name, obj=self)

    @property
    def __tags__(self) -> Any:
        """Another name of `__subflavors__`."""
        return self.__subflavors__

    @__tags__.setter
    def __tags__(self, tags: Any) -> None:
        object.__setattr__(self, "__subflavors__", tags)

    def __getitem__(self, name: str) -> Any:
        if name == "__tags__":
            return self.__tags__
        if name not in _OWN and name not in field_names(self):
            raise KeyError(f"there is no field '{name}'; fields: {', '.join(self.keys())}")
        if name not in _OWN and not _is_set(self, name):
            raise KeyError(f"field '{name}' was not set")
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __contains__(self, name: object) -> bool:
        return name in _OWN or name in self._field_names()

    def __iter__(self) -> Iterator[str]:
        names = self._field_names()
        _refuse_unpacking(self, names)
        return iter(names)

    def __len__(self) -> int:
        return len(self._field_names())

    def keys(self) -> list[str]:
        return self._field_names()

    def values(self) -> list[Any]:
        return [getattr(self, name) for name in self._field_names()]

    def items(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self._field_names()]

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name) if name in self else default

    def __eq__(self, other: object) -> bool:
        """Whether the classes and all fields are equal, including those of arrays and tensors. It
        never raises; values that cannot be compared are different."""
        return have_equal_fields(self, other)  # type: ignore[no-any-return]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={shortened(value)}" for name, value in self.items())
        return f"{type(self).__name__}({fields})"

    def _repr_html_(self) -> str:
        """A table of the fields for notebooks, with pictures."""
        from ._html import table_of

        return table_of(self)

    def __getstate__(self) -> dict[str, Any]:
        names = [*_OWN, *self._field_names()]
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    @classmethod
    def derive_from(cls: type[T], base: Any, **fields: Any) -> T:
        """Returns an object of this class with these fields, and with the key, restore key,
        subflavors and sources of `base`."""
        return cls(**{**_own_values(base), **fields})

    @classmethod
    def extend(cls: type[T], src: Any, **fields: Any) -> T:
        """Returns an object of this class with these fields and all fields of `src`, from whose
        class this class derives."""
        return cls(**{**_own_values(src), **dict(src.items()), **fields})

    def pin_memory(self: T) -> T:
        """Returns a copy with torch tensors in pinned memory, including those in lists and dicts.
        Needs a GPU, as in torch."""
        return self._after("pin_memory")

    def _after(self: T, method: str, *args: Any, **kwargs: Any) -> T:
        result = type(self).__new__(type(self))
        result.__setstate__(_called(self.__getstate__(), method, args, kwargs))
        return result


def _refuse_unpacking(batch: Any, names: Iterable[str]) -> None:
    """Raises TypeError if the caller of __iter__() assigns the names to several variables, as in
    `for image, label in loader`."""
    import opcode

    frame = sys._getframe(2)
    unpacks = (opcode.opmap["UNPACK_SEQUENCE"], opcode.opmap["UNPACK_EX"])
    if frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in unpacks:
        named = ", ".join(f"batch.{name}" for name in list(names)[:2]) or "batch.image"
        raise TypeError(
            f"cannot unpack a {type(batch).__name__}, whose fields have names: take them by name, "
            f"such as {named}; fields: {', '.join(names)}"
        )


_MOST_SHOWN = 8  # elements
_MOST_CHARACTERS = 200


def shortened(value: Any) -> str:
    """A short repr(): large arrays by shape, the first elements of lists, the start of strings."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if math.prod(value.shape) > _MOST_SHOWN:
            return f"{type(value).__name__}({value.dtype}, shape {tuple(value.shape)})"
    elif type(value) in (list, tuple) and len(value) > _MOST_SHOWN:
        start = ", ".join(shortened(one) for one in value[: _MOST_SHOWN // 2])
        return f"[{start}, ... {len(value)} values]"
    elif type(value) in (list, tuple):
        return f"[{', '.join(map(shortened, value))}]" if type(value) is list else repr(value)
    elif type(value) in (str, bytes) and len(value) > _MOST_CHARACTERS:
        return f"{value[: _MOST_CHARACTERS // 2]!r}... ({len(value)})"
    return repr(value)


def _own_values(base: Any) -> dict[str, Any]:
    own = {}
    for name in _OWN:
        try:
            own[name] = base[name] if isinstance(base, dict) else getattr(base, name)
        except (KeyError, AttributeError):
            pass
    return own


def _own_value(name: str, origin: Origin) -> Any:
    """The value of the field `name`. For a batch, keys and subflavors are lists."""
    if name == "__key__":
        return origin.keys() if origin.is_batch else origin.key()
    if name == "__restore_key__":
        return origin.restore_key()
    if name == "__sources__":
        return origin.sources()
    subflavors = origin.subflavors()
    if origin.is_batch:
        return subflavors
    return subflavors[0] if subflavors else {}


def _is_set(item: Item, name: str) -> bool:
    try:
        object.__getattribute__(item, name)
    except AttributeError:
        return False
    return True


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Sample(Item):
    """One sample. Base class of the sample types and of user dataclasses."""

    __key__: str = dataclasses.field(default_factory=str)
    __restore_key__: RestoreKey | None = dataclasses.field(default_factory=lambda: None)
    __subflavors__: dict[str, Any] | None = dataclasses.field(default_factory=lambda: None)
    __sources__: Sources | tuple[SourceInfo, ...] | None = dataclasses.field(
        default_factory=lambda: None
    )

    @classmethod
    def from_joined(cls: type[T], *args: Any, **kwargs: Any) -> T:
        """Makes a sample of the samples of a join, whose `joiner` is this class: it has the fields
        of all of them, and of fields of the same name the last. Override this to join otherwise.

        Args:
            *args: The sample of each dataset, or None; the first is never None.
            **kwargs: The same by the names of the datasets in the join, which this method does not
                take.
        """
        if kwargs or not args:
            raise TypeError(
                f"{cls.__name__}.from_joined() takes samples without names: write `join` as a "
                "list, or override from_joined()"
            )
        own = _own_values(args[0])
        fields: dict[str, Any] = {}
        sources: list[SourceInfo] = []
        for sample in (one for one in args if one is not None):
            values: Any = sample
            if not isinstance(sample, dict):
                names = field_names(sample)
                values = {name: getattr(sample, name) for name in names if hasattr(sample, name)}
            fields |= {name: value for name, value in values.items() if name not in _OWN}
            sources.extend(getattr(sample, "__sources__", None) or ())
        return cls(**{**own, "__sources__": tuple(sources), **fields})


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Batch(Item):
    """A batch. Its keys and subflavors are lists with one entry per sample."""

    __key__: list[str] = dataclasses.field(default_factory=list)
    __restore_key__: RestoreKey | None = dataclasses.field(default_factory=lambda: None)
    __subflavors__: list[dict[str, Any]] | None = dataclasses.field(default_factory=lambda: None)
    __sources__: Sources | tuple[SourceInfo, ...] | None = dataclasses.field(
        default_factory=lambda: None
    )

    def to(self, *args: Any, **kwargs: Any) -> "Batch":
        """Returns a batch with `tensor.to(*args, **kwargs)` for each tensor, including those in
        lists and dicts."""
        return self._after("to", *args, **kwargs)

    @classmethod
    def from_samples(cls: type[T], samples: Sequence[Any], **fields: Any) -> T:
        """Makes a batch of samples. For each field of this class, pads and stacks arrays and
        tensors; other values become a list.

        Args:
            samples: Objects with the fields of this class.
            **fields: Values of fields that are not taken from the samples.
        """
        from .batching import batch_field

        names = [name for name in field_names_of(cls) if name not in _OWN and name not in fields]
        batched = {name: batch_field([getattr(one, name) for one in samples]) for name in names}
        own: dict[str, Any] = {"__key__": [one.__key__ for one in samples]}
        own["__subflavors__"] = [getattr(one, "__subflavors__", None) for one in samples]
        sources = [getattr(one, "__sources__", None) or () for one in samples]
        own["__sources__"] = tuple(source for some in sources for source in some)
        return cls(**{**own, **batched, **fields})


class _FieldsOfBatch:
    """The dataclass fields of a Batch. An object also has those that the library added, for
    dataclasses.fields() and asdict()."""

    def __init__(self, declared: dict[str, Any]) -> None:
        self._declared = declared

    def __get__(self, batch: Batch | None, cls: type) -> dict[str, Any]:
        if batch is None or type(batch) is not Batch:
            return self._declared
        fields = dict(self._declared)
        for name in batch._field_names():
            if name not in fields:
                field = copy.copy(self._declared["__key__"])
                field.name, field.type = name, Any
                fields[name] = field
        return fields


setattr(Batch, "__dataclass_fields__", _FieldsOfBatch(Batch.__dataclass_fields__))


def _called(value: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns `value` with each object that has the method replaced by the result of the method."""
    if isinstance(value, dict):
        return {name: _called(part, method, args, kwargs) for name, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_called(part, method, args, kwargs) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_called(part, method, args, kwargs) for part in value)
    return getattr(value, method)(*args, **kwargs) if hasattr(value, method) else value


def url_of(sources: Sequence[SourceInfo]) -> str:
    """The path of the file of the first source."""
    return os.path.join(sources[0].dataset_path, sources[0].shard_name)


class CrudeSample(dict[str, Any]):
    """The parts of a sample by name, as they are stored: a dict. It also has the entries `__key__`,
    `__restore_key__`, `__subflavors__` and `__sources__`. `sample["__url__"]`, the path of its
    shard, is computed on access; `sample["__tags__"]` is `__subflavors__`."""

    __slots__ = ()

    def __missing__(self, name: str) -> Any:
        if name == "__url__" and "__sources__" in self:
            return url_of(self["__sources__"])
        if name == "__tags__" and "__subflavors__" in self:
            return self["__subflavors__"]
        raise KeyError(name)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            names = ", ".join(key for key in self if key not in _OWN)
            raise AttributeError(f"there is no part '{name}'; parts: {names}") from None


class DictBatch(dict[str, Any]):
    """The standard batch of samples that are dicts: a dict of the fields, which are also attributes
    (`batch.image`). Like a Batch, it has `batch.__key__`, `__restore_key__`, `__subflavors__` and
    `__sources__`. These four are not among its entries, unless the dicts had them."""

    __slots__ = ("_origin", "_own")
    _origin: Origin
    _own: dict[str, Any]

    def __missing__(self, name: str) -> Any:
        if name in _OWN or name == "__tags__":
            try:
                return self._own_value(name)
            except AttributeError:
                pass
        raise KeyError(f"there is no field '{name}'; fields: {', '.join(self)}")

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that the object does not have.
        if name in self:
            return self[name]
        if name in _OWN or name == "__tags__":
            return self._own_value(name)
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"there is no field '{name}'; fields: {', '.join(self)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in DictBatch.__slots__:
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def _own_value(self, name: str) -> Any:
        name = "__subflavors__" if name == "__tags__" else name
        try:
            own = object.__getattribute__(self, "_own")
        except AttributeError:
            own = {}
            object.__setattr__(self, "_own", own)
        if name not in own:
            try:
                origin = object.__getattribute__(self, "_origin")
            except AttributeError:
                raise AttributeError(f"'{name}' was not set") from None
            own[name] = _own_value(name, origin)
        return own[name]

    def __reduce__(self) -> Any:
        own = {name: getattr(self, name) for name in _OWN if hasattr(self, name)}
        return _made_dict_batch, (dict(self), own)

    def __iter__(self) -> Iterator[str]:
        _refuse_unpacking(self, self.keys())
        return dict.__iter__(self)

    def _repr_html_(self) -> str:
        from ._html import table_of

        return table_of(self)

    def to(self, *args: Any, **kwargs: Any) -> "DictBatch":
        """Like Batch.to()."""
        return self._with(_called(dict(self), "to", args, kwargs))

    def copy(self) -> "DictBatch":
        return self._with(dict(self))

    def _with(self, fields: dict[str, Any]) -> "DictBatch":
        batch = DictBatch(fields)
        for slot in DictBatch.__slots__:
            try:
                object.__setattr__(batch, slot, object.__getattribute__(self, slot))
            except AttributeError:
                pass
        return batch


def _made_dict_batch(fields: dict[str, Any], own: dict[str, Any]) -> DictBatch:
    batch = DictBatch(fields)
    batch._own = own
    return batch


ORIGIN_KEEPERS = (Item, DictBatch)


def basic_sample_keys(
    crude_sample: Any, additional_source_info: tuple[SourceInfo, ...] = ()
) -> dict[str, Any]:
    """Returns the key, restore key, subflavors and sources of a crude sample as arguments for the
    constructor of another sample.

    Args:
        crude_sample: The sample that a cook function received.
        additional_source_info: More sources, of files that the cook function read elsewhere.
    """
    own = {name: crude_sample[name] for name in _OWN if name in crude_sample}
    if additional_source_info:
        own["__sources__"] = (*(own.get("__sources__") or ()), *additional_source_info)
    return own


_declared: dict[Any, tuple[str, ...]] = {}


def field_names_of(kind: Any) -> tuple[str, ...]:
    """The names of the fields that the class declares."""
    if kind not in _declared:
        is_dataclass = hasattr(kind, "__dataclass_fields__")
        fields = (field.name for field in dataclasses.fields(kind)) if is_dataclass else kind._fields
        _declared[kind] = tuple(fields)
    return _declared[kind]


def field_names(value: Any) -> tuple[str, ...]:
    """The names of the fields of a dataclass or named tuple, including fields that were added to a
    Sample or Batch."""
    names = field_names_of(type(value))
    if isinstance(value, Item):
        more = [name for name in getattr(value, "__dict__", ()) if name not in names]
        return (*names, *more) if more else names
    return names


def have_equal_fields(one: Any, other: object) -> Any:
    """__eq__ of dataclasses: compares the classes and the fields."""
    if type(one) is not type(other):
        return NotImplemented
    names = field_names(one)
    if isinstance(one, Item) and set(names) != set(field_names(other)):
        return False
    return all(_are_equal(getattr(one, n, None), getattr(other, n, None)) for n in names)


def _are_equal(one: Any, other: Any) -> bool:
    """Whether the values are equal. Arrays and tensors are if their types, shapes and elements
    are."""
    if one is other:
        return True
    if isinstance(one, Sources) or isinstance(other, Sources):
        one, other = tuple(one or ()), tuple(other or ())
    is_same_type = type(one) is type(other)
    if is_same_type and isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    if is_same_type and isinstance(one, dict):
        return one.keys() == other.keys() and all(_are_equal(one[k], other[k]) for k in one)
    try:
        if is_same_type and hasattr(one, "shape") and hasattr(one, "dtype"):
            if one.shape != other.shape or one.dtype != other.dtype:
                return False
            if isinstance(one, Tensor):
                return bytes(_buffer(one)) == bytes(_buffer(other))
            return bool((one == other).all())
        return bool(one == other)
    except Exception:  # of a class of the user, or tensors on different devices
        return False


def _buffer(tensor: Any) -> Any:
    return tensor  # its type has no method for the buffer protocol


_is_made: dict[type, bool] = {}
_PICKLING = [
    *("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
    *("__getnewargs__", "__getnewargs_ex__"),
]


def _is_class_made_of_fields(kind: Any) -> bool:
    """Whether an object of the class consists of its fields and attributes, and can be made of
    them."""
    if hasattr(kind, "__dataclass_fields__"):
        is_plain = kind.__new__ is object.__new__
    elif issubclass(kind, dict):
        is_plain = kind.__new__ is dict.__new__
    else:
        is_plain = True  # a named tuple
    is_plain = is_plain and kind not in copyreg.dispatch_table
    is_plain = is_plain and all(_is_usual(kind, name) for name in _PICKLING)
    fields = () if issubclass(kind, dict) else field_names_of(kind)
    return is_plain and _slots_of(kind) <= {*fields, "__dict__", "__weakref__", "_origin"}


def _is_usual(kind: type, name: str) -> bool:
    """Whether the method, which pickle calls, belongs to object or Item, or was generated by
    dataclasses or collections."""
    method = getattr(kind, name, None)
    if method is getattr(object, name, None) or method is getattr(Item, name, None):
        return True
    return getattr(method, "__module__", None) in ("dataclasses", "collections")


def _slots_of(kind: type) -> set[str]:
    slots: set[str] = set()
    for base in kind.__mro__:
        declared = vars(base).get("__slots__", ())
        slots.update((declared,) if isinstance(declared, str) else declared)
    return slots


def is_made_of_fields(value: Any) -> bool:
    """Whether an object of a dataclass, a named tuple or a dict can be rebuilt from the values that
    can be read from it: it has neither its own pickling nor hidden attributes."""
    kind = type(value)
    if kind not in _is_made:
        _is_made[kind] = _is_class_made_of_fields(kind)
    has_hidden = isinstance(value, (dict, tuple)) and bool(getattr(value, "__dict__", None))
    return _is_made[kind] and not has_hidden


def parts_of(value: Any) -> tuple[tuple[str, ...], bool] | None:
    """The names of the fields and other attributes of a dataclass or named tuple, and whether its
    class leaves some of them undeclared. None if the object cannot be rebuilt from them."""
    if not is_made_of_fields(value):
        return None
    names = field_names(value)
    more = [name for name in getattr(value, "__dict__", ()) if name not in names]
    return (*names, *more), bool(more)


@_dataclass_transform(kw_only_default=True)
def edataclass(cls: type[C]) -> type[C]:
    """The decorator @dataclass(kw_only=True, slots=True), as in Energon. Objects are equal if their
    fields are, also with arrays and tensors, and have no hash."""
    made: Any = dataclasses.dataclass(kw_only=True, slots=True, eq=False)(cls)
    if made.__eq__ is object.__eq__:
        made.__eq__ = have_equal_fields
        made.__hash__ = None
    return made  # type: ignore[no-any-return]
