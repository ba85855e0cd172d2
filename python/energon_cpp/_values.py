"""Python's part of the conversion of values. Imports torch and numpy only for their values."""

from __future__ import annotations

import ast
import ctypes
import gc
import io
import numbers
import operator
import pickle
import sys
from typing import Any, Callable, Iterable, Sequence

from ._core import Buffer


def dump(value: Any) -> tuple[bytes, list[memoryview], Any]:
    """Pickles `value` with its large buffers out of band. The last item keeps the buffers alive."""
    buffers: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    pickler = _Pickler(file, protocol=5, buffer_callback=buffers.append)
    pickler.dump(value)
    data = file.getvalue()
    if type(value) not in _rebuilt:
        # Some objects can be pickled, but not unpickled. Fail here, where the sample is known.
        pickle.loads(data, buffers=[bytearray(buffer.raw()) for buffer in buffers])
        _rebuilt.add(type(value))
    return data, [buffer.raw() for buffer in buffers], pickler.kept


_rebuilt: set[type] = set()


class _Pickler(pickle.Pickler):
    """Pickles torch tensors as their bytes, which is faster and works for all dtypes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kept: list[Any] = []

    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or type(value) is not getattr(torch, "Tensor", None):
            return NotImplemented
        if value.device.type != "cpu" or value.layout is not torch.strided or value.is_quantized:
            return NotImplemented
        dense = value.detach().resolve_conj().resolve_neg().contiguous()
        self.kept.append(dense)
        size = dense.numel() * dense.element_size()
        data = (ctypes.c_ubyte * size).from_address(dense.data_ptr()) if size else b""
        return _tensor, (pickle.PickleBuffer(data), str(dense.dtype), tuple(dense.shape))


def _tensor(data: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    import torch

    kind = getattr(torch, dtype.removeprefix("torch."))
    if 0 in shape:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(data, dtype=torch.uint8).view(kind).reshape(shape)


def load(data: bytes, buffers: Iterable[Any]) -> Any:
    try:
        return pickle.loads(data, buffers=buffers)
    except Exception as error:
        raise TypeError(
            f"an object that a function returned cannot be unpickled in the trainer: {error!r}"
        ) from error


def torch_to_dlpack(tensor: Any) -> Any:
    """A DLPack capsule, or None for tensors that DLPack cannot carry."""
    torch = sys.modules["torch"]
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.is_neg():
        return None
    if tensor.is_complex() or tensor.is_quantized:
        return None
    return torch.utils.dlpack.to_dlpack(tensor.detach())


_from_dlpack: Callable[[Any], Any] | None = None


def torch_from_dlpack(capsule: Any) -> Any:
    global _from_dlpack
    if _from_dlpack is None:
        import torch  # type: ignore[import-not-found,unused-ignore]

        from ._process import limit_threads

        limit_threads()
        _from_dlpack = torch._C._from_dlpack
    return _from_dlpack(capsule)


_asarray: Callable[[Any], Any] | None = None


def as_numpy(tensor: Any) -> Any:
    global _asarray
    if _asarray is None:
        import numpy

        _asarray = numpy.asarray
    return _asarray(tensor)


_classes: dict[str, type | None] = {}


def make_instance(path: str, values: dict[str, Any]) -> Any:
    """Makes an object of the class at `path` ("module:Name") with these fields, without calling
    __init__. Makes a Batch if this process does not have the class."""
    if path not in _classes:
        _classes[path] = _find_class(path)
    kind = _classes[path]
    if kind is None:
        from ._sample import Batch

        kind = Batch
    if issubclass(kind, tuple):
        return tuple.__new__(kind, values.values())
    if issubclass(kind, dict):
        entries: dict[str, Any] = kind.__new__(kind)
        dict.update(entries, values)
        return entries
    instance: Any = kind.__new__(kind)
    for name, value in values.items():
        object.__setattr__(instance, name, value)
    return instance


def _find_class(path: str) -> type | None:
    path, _, address = path.partition("@")
    module_name, _, names = path.partition(":")
    found: Any = sys.modules.get(module_name)
    for name in names.split("."):
        found = getattr(found, name, None)
    if isinstance(found, type):
        return found
    # A class defined in a function. If it was created before the workers, this process has it, too,
    # at the same address.
    same = [
        kind
        for kind in gc.get_objects()
        if isinstance(kind, type)
        and kind.__module__ == module_name
        and kind.__qualname__ == names
    ]
    here = [kind for kind in same if address and id(kind) == int(address, 16)]
    return here[0] if here else same[-1] if len(same) == 1 else None


def positions_of(samples: Sequence[Any], packs: Iterable[Iterable[Any]]) -> list[list[int]]:
    """Returns the positions in `samples` of the samples that select_samples_to_pack chose. It
    returns either the samples that it received or their positions. Samples that are integers are
    never taken for positions."""
    places: dict[int, list[int]] = {}
    for position, sample in enumerate(samples):
        places.setdefault(id(sample), []).append(position)
    takes_positions = not any(isinstance(sample, numbers.Integral) for sample in samples)

    def position_of(chosen: Any) -> int:
        if id(chosen) in places:
            same = places[id(chosen)]  # a function may have returned one object several times
            return same.pop(0) if len(same) > 1 else same[0]
        if not takes_positions or not isinstance(chosen, numbers.Integral):
            raise ValueError(
                "select_samples_to_pack must return samples that it received, or their "
                f"positions, not new samples: {_shown(chosen)}"
            )
        position = operator.index(chosen)
        if not 0 <= position < len(samples):
            raise ValueError(
                f"select_samples_to_pack returned the position {position}, but it received "
                f"{len(samples)} samples, so positions are 0 to {len(samples) - 1}"
            )
        return position

    try:
        lists = [list(pack) for pack in packs]
    except TypeError:
        raise TypeError(
            "select_samples_to_pack must return a list of packs, each a list of samples, not "
            f"{_shown(packs)}"
        ) from None
    return [[position_of(chosen) for chosen in pack] for pack in lists]


def results_of(returned: Any) -> list[Any]:
    """What encode_samples returned, as a list."""
    if isinstance(returned, (list, tuple)):
        return list(returned)
    raise TypeError(
        f"encode_samples must return a list with one result for each sample, not {_shown(returned)}"
    )


def refuse_none(function: Any) -> None:
    """Raises TypeError for a function whose result is to be batched or delivered."""
    name = getattr(function, "__qualname__", type(function).__name__)
    raise TypeError(
        f"{name}() returned None; return the sample, or raise SkipSample to leave it out"
    )


def cost_of(returned: Any) -> float:
    """What sample_cost returned, as a float."""
    if not isinstance(returned, (str, bytes, bytearray)):
        try:
            return float(returned)
        except (TypeError, ValueError):
            pass
    raise TypeError(f"sample_cost must return a number, not {_shown(returned)}")


def group_of(returned: Any) -> tuple[str, int | None]:
    """Returns (text, batch size) for a result of batch_group_criterion: (key, batch size or
    None)."""
    wrong = f"batch_group_criterion must return (group, batch size or None), not {_shown(returned)}"
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise TypeError(wrong)
    key, batch_size = returned
    if batch_size is not None and not isinstance(batch_size, numbers.Integral):
        raise TypeError(wrong)
    return group_text(key), None if batch_size is None else operator.index(batch_size)


_texts_of_str: dict[str, str] = {}


def group_text(key: Any) -> str:
    """Returns a string that identifies the group in states. It is equal for keys that are equal as
    keys of a dict, in every run. A str identifies itself, unless it could identify another key.

    Raises:
        TypeError: Another process could not tell the key from others.
    """
    if isinstance(key, str) and _compares_as(key, str):
        text = str.__str__(key)
        if text not in _texts_of_str:
            if len(_texts_of_str) > 1 << 16:
                _texts_of_str.clear()
            _texts_of_str[text] = repr(text) if _is_ambiguous(text) else text
        return _texts_of_str[text]
    return _literal(key)


def _compares_as(key: Any, base: Any) -> bool:
    """Whether the class of `key`, which derives from `base`, inherits its equality."""
    return bool(type(key).__eq__ is base.__eq__)


def _is_ambiguous(text: str) -> bool:
    if text.startswith(_OBJECT):
        return True
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


_OBJECT = "object "


def _literal(key: Any) -> str:
    """The key as a Python literal, or for other objects, their class and repr()."""
    if key is None:
        return "None"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(key, numpy.generic):
        key = key.item()
    if isinstance(key, str) and _compares_as(key, str):
        return repr(str.__str__(key))
    if isinstance(key, int) and _compares_as(key, int):
        return int.__repr__(int(key))
    if isinstance(key, float) and _compares_as(key, float):
        if key != key:
            raise TypeError("batch_group_criterion returned nan as a group, which equals no group")
        text = int.__repr__(int(key)) if key.is_integer() else float.__repr__(key)
        return text.replace("inf", "1e999")  # the literal
    if type(key) is Buffer:
        key = bytes(key)
    if isinstance(key, bytes) and _compares_as(key, bytes):
        return bytes.__repr__(key)
    if isinstance(key, tuple) and _compares_as(key, tuple):
        inner = [_literal(part) for part in key]
        return f"({inner[0]},)" if len(inner) == 1 else f"({', '.join(inner)})"
    if isinstance(key, frozenset) and _compares_as(key, frozenset):
        return f"{_OBJECT}frozenset({{{', '.join(sorted(map(_literal, key)))}}})"
    return _text_of_object(key)


def _text_of_object(key: Any) -> str:
    kind: Any = type(key)
    try:
        hash(key)
    except TypeError:
        raise TypeError(
            f"batch_group_criterion returned a group that cannot be hashed: {_shown(key)}; return a "
            "str, a number or a tuple of these"
        ) from None
    text = repr(key)
    if kind.__repr__ is object.__repr__ or " at 0x" in text:
        raise TypeError(
            "batch_group_criterion returned a group that is identified only by its address: "
            f"{text}; return a str, a number, a tuple of these, or an object with __eq__, __hash__ "
            "and __repr__"
        )
    return f"{_OBJECT}{kind.__module__}.{kind.__qualname__} {text}"


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 200 else text[:200] + '...'}"

