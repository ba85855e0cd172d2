"""Batches in page-locked memory: the option pin_memory."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Callable

from ._sample import Item, field_names


class Pinning:
    """Called with each batch in the trainer: `finish` of it, with pinned tensors."""

    def __init__(self, finish: Callable[[Any], Any] | None) -> None:
        self._finish = finish
        self._has_cuda: bool | None = None

    def begin(self) -> None:
        """Call it before the first batch, but after the workers were forked. Without CUDA, warns
        once."""
        if self._has_cuda is None:
            import torch

            self._has_cuda = torch.cuda.is_available()
            if not self._has_cuda:
                text = "pin_memory=True has no effect: torch finds no CUDA device"
                warnings.warn(text, stacklevel=3)

    def __call__(self, batch: Any) -> Any:
        if self._finish is not None:
            batch = self._finish(batch)
        return pinned(batch) if self._has_cuda else batch


def pinned(value: Any) -> Any:
    """`value` with all torch tensors in page-locked memory. Batches, dataclasses, dicts and lists
    are changed in place."""
    if isinstance(value, dict):
        for name, part in value.items():
            value[name] = pinned(part)
        return value
    if isinstance(value, list):
        value[:] = [pinned(part) for part in value]
        return value
    if isinstance(value, tuple):
        parts = [pinned(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    is_dataclass = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if isinstance(value, Item) or is_dataclass:
        for name in value.keys() if isinstance(value, Item) else field_names(value):
            object.__setattr__(value, name, pinned(getattr(value, name)))
        return value
    return value.pin_memory() if hasattr(value, "pin_memory") else value
