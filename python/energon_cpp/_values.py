"""What the native part needs of Python to convert values. Imports torch and numpy only for values of theirs."""

from __future__ import annotations

import dataclasses
import gc
import pickle
import sys
from typing import Any, Callable, Iterable, Sequence


def dump(value: Any) -> tuple[bytes, list[memoryview]]:
    """Pickles `value`, its large buffers beside the bytes."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return data, [buffer.raw() for buffer in buffers]


def load(data: bytes, buffers: Iterable[Any]) -> Any:
    return pickle.loads(data, buffers=buffers)


def torch_to_dlpack(tensor: Any) -> Any:
    """A capsule of DLPack; None for what it cannot carry."""
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
    """An object of the class at `path` ("module:Name") with these fields, made without its
    __init__; a Batch if the class is not known here."""
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
    made: Any = kind.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def _find_class(path: str) -> type | None:
    path, _, address = path.partition("@")
    module_name, _, names = path.partition(":")
    found: Any = sys.modules.get(module_name)
    for name in names.split("."):
        found = getattr(found, name, None)
    if isinstance(found, type):
        return found
    # A class of a function. It is in this process too, if it was made before the workers, and then
    # has the same address.
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
    """The positions in `samples` of what select_samples_to_pack returned."""
    place = {id(sample): position for position, sample in enumerate(samples)}
    result = []
    for pack in packs:
        positions = []
        for chosen in pack:
            position = chosen if isinstance(chosen, int) else place.get(id(chosen))
            if position is None:
                raise ValueError(
                    "select_samples_to_pack must return samples that it was given, not new ones"
                )
            positions.append(position)
        result.append(positions)
    return result


def group_of(returned: Any) -> tuple[str, int | None]:
    """(group, batch size) of what batch_group_criterion returned: (key, batch size or None)."""
    key, batch_size = returned
    return (key if isinstance(key, str) else repr(key)), batch_size


def is_dataclass_object(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
