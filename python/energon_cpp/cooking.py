"""Cookers, and the marks of functions: Cooker, @cooker, @stateless."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Cooker:
    """Makes a sample of a crude one. has_subflavors: the cooker is for datasets whose subflavors
    have all of these entries; the first cooker that fits is used.

    `cook` gets the crude sample and, by keyword, what it has parameters for: the file store of each
    auxiliary dataset that the metadataset names; with @cooker(need_primary=True) `primary`, the
    store of its own dataset, where a name that begins with a dot is a part of this sample; with
    @cooker(need_cache=True) `cache`, for `cache.get_lazy(store, name)`.
    """

    cook: Callable[..., Any]
    has_subflavors: dict[str, Any] | None = None

    @property
    def need_primary(self) -> bool:
        return bool(getattr(self.cook, "__cooker_need_primary__", False))

    @property
    def need_cache(self) -> bool:
        return bool(getattr(self.cook, "__cooker_need_cache__", False))

    def is_match(self, subflavors: dict[str, Any]) -> bool:
        """Whether the cooker is for a dataset with these subflavors."""
        wanted = self.has_subflavors or {}
        return all(name in subflavors and subflavors[name] == wanted[name] for name in wanted)


def cooker(fn: F | None = None, *, need_cache: bool = False, need_primary: bool = False) -> Any:
    """Marks a cook function that needs the cache or the files of its own dataset."""

    def mark(marked: F) -> F:
        marked.__cooker_need_cache__ = need_cache  # type: ignore[attr-defined]
        marked.__cooker_need_primary__ = need_primary  # type: ignore[attr-defined]
        return marked

    return mark if fn is None else mark(fn)


def stateless(
    fn: F | None = None, *, restore_seeds: bool = False, failure_tolerance: int | None = None
) -> Any:
    """Marks a function that depends on its argument and random numbers only. All functions must be
    like that, and random numbers are seeded for each call: restore_seeds changes nothing.
    failure_tolerance: this many failures of the function in a row end the stream; 0: no limit."""

    def mark(marked: F) -> F:
        marked.__stateless__ = True  # type: ignore[attr-defined]
        if failure_tolerance is not None:
            marked.__failure_tolerance__ = failure_tolerance  # type: ignore[attr-defined]
        return marked

    return mark if fn is None else mark(fn)


def get_stateless(fn: Callable[..., Any]) -> bool:
    """Whether the function is marked with @stateless."""
    return bool(getattr(fn, "__stateless__", False))


def get_failure_tolerance(
    fn: Callable[..., Any], default_failure_tolerance: int | None = None
) -> int | None:
    """The tolerance that the function is marked with, else the default."""
    tolerance: int | None = getattr(fn, "__failure_tolerance__", default_failure_tolerance)
    return tolerance
