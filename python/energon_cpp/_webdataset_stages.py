"""The functions that the methods of WebDataset apply to samples and batches, and collation.

A stage may have a method needs(later), which returns the parts that the stage and later stages use.
`later` are the names that later stages use of its result. None means all names. A stage that never
draws random numbers has draws_nothing.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from typing import Any, Callable, ClassVar, Mapping, Sequence

from ._errors import SkipSample
from ._sample import url_of

Function = Callable[[Any], Any]
Names = frozenset[str]


def needed_parts(stages: Sequence[Function]) -> Names | None:
    """The parts that the sample stages use; None means possibly all parts."""
    needed: Names | None = None
    for stage in reversed(stages):
        needs = getattr(stage, "needs", None)
        needed = None if needs is None else needs(needed)
    return needed


def _alternatives(names: Sequence[str]) -> Names:
    return frozenset(name for choice in names for name in choice.split(";"))


def has_one_of(sample: Mapping[str, Any], names: str) -> bool:
    return any(name in sample or name == "__url__" for name in names.split(";"))


def first_of(sample: Mapping[str, Any], names: str) -> Any:
    """Returns the first part of "jpg;jpeg;png" that the sample has. Raises KeyError if it has
    none."""
    for name in names.split(";"):
        if name in sample:
            return sample[name]
        if name == "__url__":
            return url_of(sample["__sources__"])
    has = ", ".join(name for name in sample if not name.startswith("__"))
    raise KeyError(f"the sample has none of the parts '{names}'; it has: {has}")


@dataclasses.dataclass(frozen=True)
class ToTuple:
    names: tuple[str, ...]
    missing_is_error: bool = True
    draws_nothing: ClassVar[bool] = True

    def __call__(self, sample: Any) -> tuple[Any, ...]:
        if self.missing_is_error:
            return tuple(first_of(sample, name) for name in self.names)
        return tuple(
            first_of(sample, name) if has_one_of(sample, name) else None for name in self.names
        )

    def needs(self, later: Names | None) -> Names:
        return _alternatives(self.names)


@dataclasses.dataclass(frozen=True)
class ExtractKeys:
    """Compares patterns with the names of parts, without and with a leading dot."""

    patterns: tuple[str, ...]
    duplicate_is_error: bool
    ignore_missing: bool
    draws_nothing: ClassVar[bool] = True

    def __call__(self, sample: Any) -> tuple[Any, ...]:
        names = [name for name in sample if not name.startswith("__")]
        found = (self._matches(pattern, names) for pattern in self.patterns)
        return tuple(sample[matches[0]] for matches in found if matches)

    def _matches(self, choice: str, names: list[str]) -> list[str]:
        patterns = choice.split(";")
        matches = [
            name
            for name in names
            if any(fnmatch.fnmatchcase(text, p) for p in patterns for text in (name, f".{name}"))
        ]
        if not matches and not self.ignore_missing:
            raise KeyError(f"no part of the sample matches '{choice}'; it has: {', '.join(names)}")
        if len(matches) > 1 and self.duplicate_is_error:
            raise KeyError(f"several parts of the sample match '{choice}': {', '.join(matches)}")
        return matches


@dataclasses.dataclass(frozen=True)
class Associate:
    """Adds the parts that a mapping or a function has for the key of the sample."""

    source: Any

    def __call__(self, sample: Any) -> Any:
        key = sample["__key__"]
        more = self.source(key) if callable(self.source) else self.source.get(key, {})
        for name, value in more.items():
            sample[name] = value
        return sample

    def needs(self, later: Names | None) -> Names | None:
        return later


@dataclasses.dataclass(frozen=True)
class Rename:
    """Renames parts. Keeps the other parts unchanged, or removes them."""

    new_names: dict[str, str]
    keeps_others: bool
    draws_nothing: ClassVar[bool] = True

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

    def needs(self, later: Names | None) -> Names | None:
        if self.keeps_others and later is None:
            return None
        named = _alternatives(list(self.new_names.values()))
        return named | ((later or Names()) - set(self.new_names) if self.keeps_others else Names())


@dataclasses.dataclass(frozen=True)
class Map:
    function: Function

    def __call__(self, value: Any) -> Any:
        result = self.function(value)
        if result is None:
            raise SkipSample
        if isinstance(result, dict) and isinstance(value, Mapping) and "__key__" in value:
            result.setdefault("__key__", value["__key__"])
        return result


@dataclasses.dataclass(frozen=True)
class MapDict:
    functions: dict[str, Function]

    def __call__(self, value: Any) -> Any:
        for name, function in self.functions.items():
            value[name] = function(value[name])
        return value

    def needs(self, later: Names | None) -> Names | None:
        return None if later is None else later | set(self.functions)


@dataclasses.dataclass(frozen=True)
class MapTuple:
    functions: tuple[Function, ...]

    def __call__(self, value: Any) -> tuple[Any, ...]:
        parts = list(value)
        if len(self.functions) > len(parts):
            raise ValueError(
                f"map_tuple() has {len(self.functions)} functions for a tuple of {len(parts)} items"
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

    @property
    def draws_nothing(self) -> bool:
        return all(getattr(stage, "draws_nothing", False) for stage in self.stages)

    def __call__(self, value: Any) -> Any:
        for stage in self.stages:
            value = stage(value)
        return value


def collate(samples: Sequence[Any]) -> Any:
    """The standard collation of webdataset. For tuples, a tuple of columns. Tensors and arrays of
    equal shape are stacked, numbers become a NumPy array, everything else a list."""
    if isinstance(samples[0], Mapping):
        return {name: _column([sample[name] for sample in samples]) for name in samples[0]}
    if isinstance(samples[0], (tuple, list)):
        return tuple(_column(list(parts)) for parts in zip(*samples, strict=True))
    return _column(list(samples))


def as_list(samples: list[Any]) -> list[Any]:
    """Returns the samples without collation."""
    return samples


for _function in (collate, as_list):
    setattr(_function, "draws_nothing", True)


def _column(values: list[Any]) -> Any:
    if isinstance(values[0], (int, float)):
        import numpy

        return numpy.array(values)
    if hasattr(values[0], "shape") and hasattr(values[0], "dtype"):
        from .batching import batch_stack

        return batch_stack(values)
    return values
