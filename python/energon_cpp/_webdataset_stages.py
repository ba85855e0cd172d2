"""What the methods of WebDataset do to a sample or a batch, and the collation of batches."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, Sequence

from ._errors import SkipSample

Function = Callable[[Any], Any]


def first_of(sample: Mapping[str, Any], names: str) -> Any:
    """The first part that the sample has of "jpg;jpeg;png". Throws KeyError."""
    for name in names.split(";"):
        if name in sample:
            return sample[name]
    has = ", ".join(name for name in sample if not name.startswith("__"))
    raise KeyError(f"the sample has none of the parts '{names}'; it has: {has}")


@dataclasses.dataclass(frozen=True)
class ToTuple:
    names: tuple[str, ...]

    def __call__(self, sample: Any) -> tuple[Any, ...]:
        return tuple(first_of(sample, name) for name in self.names)


@dataclasses.dataclass(frozen=True)
class Rename:
    """The other parts stay as they are, if they are kept."""

    new_names: dict[str, str]
    keeps_others: bool

    def __call__(self, sample: Any) -> dict[str, Any]:
        old = {name for names in self.new_names.values() for name in names.split(";")}
        renamed = {
            name: value
            for name, value in sample.items()
            if name.startswith("__") or (self.keeps_others and name not in old)
        }
        for new, names in self.new_names.items():
            renamed[new] = first_of(sample, names)
        return renamed


@dataclasses.dataclass(frozen=True)
class Map:
    function: Function

    def __call__(self, value: Any) -> Any:
        made = self.function(value)
        if made is None:
            raise SkipSample
        if isinstance(made, dict) and isinstance(value, Mapping) and "__key__" in value:
            made.setdefault("__key__", value["__key__"])
        return made


@dataclasses.dataclass(frozen=True)
class MapDict:
    functions: dict[str, Function]

    def __call__(self, value: Any) -> Any:
        for name, function in self.functions.items():
            value[name] = function(value[name])
        return value


@dataclasses.dataclass(frozen=True)
class MapTuple:
    functions: tuple[Function, ...]

    def __call__(self, value: Any) -> tuple[Any, ...]:
        parts = list(value)
        if len(self.functions) > len(parts):
            raise ValueError(
                f"map_tuple() has {len(self.functions)} functions for a tuple of {len(parts)}"
            )
        for i, function in enumerate(self.functions):
            parts[i] = function(parts[i])
        return tuple(parts)


@dataclasses.dataclass(frozen=True)
class Select:
    predicate: Function

    def __call__(self, value: Any) -> Any:
        if not self.predicate(value):
            raise SkipSample
        return value


@dataclasses.dataclass(frozen=True)
class Chain:
    stages: tuple[Function, ...]

    def __call__(self, value: Any) -> Any:
        for stage in self.stages:
            value = stage(value)
        return value


def collate(samples: Sequence[Any]) -> Any:
    """The standard collation of webdataset: of tuples a tuple of columns. Tensors and arrays of
    equal shape are stacked, numbers are a NumPy array, everything else is a list."""
    if isinstance(samples[0], Mapping):
        return {name: _column([sample[name] for sample in samples]) for name in samples[0]}
    if isinstance(samples[0], (tuple, list)):
        return tuple(_column(list(parts)) for parts in zip(*samples, strict=True))
    return _column(list(samples))


def _column(values: list[Any]) -> Any:
    if isinstance(values[0], (int, float)):
        import numpy

        return numpy.array(values)
    if hasattr(values[0], "shape") and hasattr(values[0], "dtype"):
        from .batching import batch_stack

        return batch_stack(values)
    return values
