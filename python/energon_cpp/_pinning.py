"""Batches in page-locked memory: the option pin_memory.

Note [Why batches are copied]
The tensors are copied into memory of torch's allocator, instead of registering the arenas of the
workers with CUDA. An asynchronous copy to a device reads its source after the statement that
started it, on a stream that only torch knows. Torch's allocator keeps its own memory until that
copy is done, but does not track other memory: the slot of a dropped batch would go back to its
worker, which would overwrite bytes that are still to be read. docs/processes.md gives more reasons.
"""

from __future__ import annotations

import dataclasses
from collections.abc import MutableMapping
from typing import Any, Callable

from ._sample import Item, field_names
from ._warnings import warn


class Cuda:
    """The functions of torch that pinning uses."""

    def __init__(self) -> None:
        import torch

        self._torch = torch

    def is_available(self) -> bool:
        return bool(self._torch.cuda.is_available())

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor)

    def pinned(self, tensor: Any) -> Any:
        """Returns a copy in page-locked memory, which is not reused before the copies to devices
        that read it are done. Returns a tensor that is pinned, on a device or not dense as is."""
        is_dense = tensor.layout is self._torch.strided
        return tensor.pin_memory() if is_dense and tensor.device.type == "cpu" else tensor


class Pinning:
    """Called with each batch in the trainer: applies `finish`, then pins the tensors of the result.
    A second call with the same batch, after an interrupt, has no further effect."""

    def __init__(self, finish: Callable[[Any], Any] | None) -> None:
        self._finish = finish
        self._has_begun = False
        self._cuda: Cuda | None = None  # None without CUDA

    def begin(self) -> None:
        """Initializes CUDA, or warns once without CUDA. Call it before the first batch, but after
        the workers were forked."""
        if self._has_begun:
            return
        self._has_begun = True
        cuda = Cuda()
        if cuda.is_available():
            self._cuda = cuda
            return
        text = "pin_memory=True has no effect: torch finds no CUDA device"
        warn(text)

    def __call__(self, batch: Any) -> Any:
        if self._finish is not None:
            batch = self._finish(batch)
        return batch if self._cuda is None else pinned(batch, self._cuda)


def pinned(value: Any, cuda: Cuda) -> Any:
    """Returns `value` with all torch tensors in page-locked memory. Changes batches, dataclasses,
    mappings and lists in place. Replaces an object with its own method pin_memory() by the result
    of that method, as torch does."""
    if cuda.is_tensor(value):
        return cuda.pinned(value)
    method = getattr(type(value), "pin_memory", None)
    if method is not None and method is not Item.pin_memory:
        return value.pin_memory()
    if isinstance(value, tuple):
        parts = [pinned(part, cuda) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, MutableMapping):
        for name in list(value):
            value[name] = pinned(value[name], cuda)
    elif isinstance(value, list):
        value[:] = [pinned(part, cuda) for part in value]
    elif isinstance(value, Item):
        for name in value.keys():
            object.__setattr__(value, name, pinned(getattr(value, name), cuda))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for name in {*field_names(value), *getattr(value, "__dict__", ())}:
            object.__setattr__(value, name, pinned(getattr(value, name), cuda))
    return value
