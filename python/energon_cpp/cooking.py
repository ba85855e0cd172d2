"""Cookers, and decorators of functions: Cooker, @cooker, @stateless."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any, Callable, TypeVar

from . import _core, _random
from ._explained_options import checks_fields, checks_options
from .worker_config import WorkerConfig

F = TypeVar("F", bound=Callable[..., Any])


@checks_fields
@dataclasses.dataclass(frozen=True)
class Cooker:
    """Makes a sample from a crude sample. A dataset uses the first cooker that matches it.

    `cook` receives the crude sample and, by keyword, the stores that it has parameters for:

    * the file store of each auxiliary dataset that the metadataset names;
    * `primary`, with @cooker(need_primary=True): the store of the sample's own dataset, where a
      name that begins with a dot is a part of this sample;
    * `cache`, with @cooker(need_cache=True), for `cache.get_lazy(store, name)`.

    Args:
        cook: The function.
        has_subflavors: Entries that the subflavors of a dataset must contain; None matches all
            datasets.
        has_tags: Another name of has_subflavors.
    """

    cook: Callable[..., Any]
    has_subflavors: dict[str, Any] | None = None
    has_tags: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.has_subflavors is None:
            object.__setattr__(self, "has_subflavors", self.has_tags)
        elif self.has_tags is not None:
            raise ValueError("has_tags is another name of has_subflavors: set only one of them")
        object.__setattr__(self, "has_tags", self.has_subflavors)

    @property
    def need_primary(self) -> bool:
        return bool(getattr(self.cook, "__cooker_need_primary__", False))

    @property
    def need_cache(self) -> bool:
        return bool(getattr(self.cook, "__cooker_need_cache__", False))

    def is_match(self, subflavors: dict[str, Any]) -> bool:
        """Whether the cooker matches a dataset with these subflavors."""
        needed = self.has_subflavors or {}
        return all(name in subflavors and subflavors[name] == needed[name] for name in needed)


@checks_options
def cooker(fn: F | None = None, *, need_cache: bool = False, need_primary: bool = False) -> Any:
    """Marks a cook function that needs the cache or the files of its own dataset."""

    def mark(marked: F) -> F:
        marked.__cooker_need_cache__ = need_cache  # type: ignore[attr-defined]
        marked.__cooker_need_primary__ = need_primary  # type: ignore[attr-defined]
        return marked

    return mark if fn is None else mark(fn)


@checks_options
def stateless(
    fn: F | None = None, *, restore_seeds: bool = False, failure_tolerance: int | None = None
) -> Any:
    """Marks a function that depends only on its argument and on random numbers, which all functions
    must do.

    Args:
        fn: The function.
        restore_seeds: In a loader without effect, because random numbers are seeded before each
            call. A function that is called by hand draws the same random numbers as in Energon if
            WorkerConfig.active_worker_config is set, as in tests.
        failure_tolerance: This many failures of the function in a row end the stream; 0 means no
            limit.
    """

    def mark(marked: F) -> F:
        if restore_seeds:
            marked = _seeded_by_hand(marked)
        marked.__stateless__ = True  # type: ignore[attr-defined]
        if failure_tolerance is not None:
            marked.__failure_tolerance__ = failure_tolerance  # type: ignore[attr-defined]
        return marked

    return mark if fn is None else mark(fn)


def _seeded_by_hand(function: F) -> F:
    """Seeds the calls that no loader makes, as Energon seeds all."""
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generate(*arguments: Any, **options: Any) -> Any:
            seed = _seed_by_hand()
            outputs = function(*arguments, **options)
            if seed is None:
                yield from outputs
                return
            own: Any = None
            while True:
                with _random.preserved():
                    _random.seed(seed) if own is None else _random.restore(own)
                    try:
                        output = next(outputs)
                    except StopIteration:
                        return
                    own = _random.save()
                yield output

        return generate  # type: ignore[return-value]

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        seed = _seed_by_hand()
        if seed is None:
            return function(*arguments, **options)
        with _random.preserved():
            _random.seed(seed)
            return function(*arguments, **options)

    return call  # type: ignore[return-value]


def _seed_by_hand() -> int | None:
    """Energon's seed of the call, or None in a loader, which seeds it, and where there is none."""
    config = None if _core.active_call() is not None else WorkerConfig.active_worker_config
    if config is None:
        return None
    from .rng import SystemRng  # rarely needed

    return SystemRng.get_seed_from_args(config.worker_seed(), config.active_worker_sample_index)


def get_stateless(fn: Callable[..., Any]) -> bool:
    """Whether the function is marked with @stateless."""
    return bool(getattr(fn, "__stateless__", False))


def get_failure_tolerance(
    fn: Callable[..., Any], default_failure_tolerance: int | None = None
) -> int | None:
    """The failure tolerance set by @stateless, else the default."""
    tolerance: int | None = getattr(fn, "__failure_tolerance__", default_failure_tolerance)
    return tolerance
