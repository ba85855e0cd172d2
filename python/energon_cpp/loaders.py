"""Loaders: get_savable_loader, get_loader."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from types import TracebackType
from typing import Any, Iterator

from . import _core, _random
from ._core import LoaderState, RestoreKey
from ._errors import EnergonError
from .datasets import Dataset
from .worker_config import WorkerConfig

_STATE = "energon_cpp.state"


class _Loader:
    """What both loaders have."""

    def __init__(self, dataset: Dataset, options: dict[str, Any]) -> None:
        self.dataset = dataset
        self._options = dataset.worker_config._options() | options
        _open_loaders.add(self)

    @property
    def worker_config(self) -> WorkerConfig:
        return self.dataset.worker_config

    def _is_waiting(self) -> bool:
        """Whether a thread waits for a batch."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class SavableDataLoader(_Loader):
    """Delivers the batches of one rank; its position can be saved and restored exactly.

    A `for` loop runs to the end of the epoch. After a break, the next loop goes on behind the last
    batch; after the end, the next loop is the next epoch. Use it as a context manager or call
    close() to end the workers; they also end with the loader and with the process.
    """

    def __init__(self, dataset: Dataset, **options: Any) -> None:
        super().__init__(dataset, options)
        self._native = _core.Loader(dataset._pipeline, self._options)

    def __iter__(self) -> Iterator[Any]:
        return _core.Epoch(self._native, self)

    def _is_waiting(self) -> bool:
        return self._native.waits

    def __len__(self) -> int:
        """Batches of this rank in one epoch. TypeError if the epoch never ends, or the number is not
        known."""
        size = self._native.size()
        if size is None:
            raise TypeError("the number of batches of an epoch is not known")
        return size

    @property
    def batches_left(self) -> int | None:
        """Batches to come in this epoch; None if that is not known."""
        return self._native.batches_left()

    @property
    def epoch(self) -> int:
        """Number of epochs that have ended."""
        return self._native.epoch()

    def save_state_rank(self) -> LoaderState:
        """The position after the batches that were delivered. At any time; costs microseconds."""
        return self._native.save()

    def restore_state_rank(self, state: LoaderState | bytes | None) -> None:
        """Continues from `state`, also one that the C++ library wrote. Before the first batch, or
        after stop(). None: nothing to restore."""
        if state is not None:
            self._native.restore(_as_state(state))

    def state_dict(self) -> dict[str, Any]:
        """The position as a dict of plain types; its bytes are those of a state file."""
        return {_STATE: bytes(self.save_state_rank())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from there, at any time: ends the workers first."""
        if _STATE not in state_dict:
            raise ValueError(f"no state of a loader: entries {list(state_dict)}, needs '{_STATE}'")
        self._native.stop_and_restore(_as_state(state_dict[_STATE]))

    def restore_sample(self, key: RestoreKey | str) -> Any:
        """The batch that any rank of the job delivered with this `__restore_key__`. Made in this
        process; the position does not change."""
        key = RestoreKey(key) if isinstance(key, str) else key
        with _random.preserved() if self.dataset.calls_python else contextlib.nullcontext():
            return self._native.restore_sample(key)

    def stats(self) -> dict[str, Any]:
        """What limits the loader, and what was left out."""
        return self._native.stats()

    def config(self) -> dict[str, Any]:
        """Settings of loader and pipeline: equal configurations deliver equal batches."""
        return self._native.config()

    @property
    def worker_pids(self) -> list[int]:
        """Process ids of the running workers."""
        return self._native.worker_pids()

    def stop(self) -> None:
        """Ends the workers and keeps the position; the next batch starts them again."""
        self._native.stop()

    def close(self) -> None:
        """Ends the workers for good. The position can still be saved."""
        self._native.close()


class BasicDataLoader(_Loader):
    """Delivers the same batches without a saved position: for evaluation. Each `for` loop begins at
    the start of the data; loops may run at the same time, each with workers of its own."""

    def __init__(self, dataset: Dataset, **options: Any) -> None:
        super().__init__(dataset, options)
        self._native = _core.BasicLoader(dataset._pipeline, self._options)
        self._iterations: weakref.WeakSet[_core.Iteration] = weakref.WeakSet()
        self._latest: _core.Iteration | None = None

    def __iter__(self) -> Iterator[Any]:
        iteration = self._native.iterate()
        self._iterations.add(iteration)
        self._latest = iteration
        return _core.Epoch(iteration, self)

    def _is_waiting(self) -> bool:
        return any(iteration.waits for iteration in list(self._iterations))

    def __len__(self) -> int:
        size = self._native.size()
        if size is None:
            raise TypeError("the number of batches of an epoch is not known")
        return size

    def restore_sample(self, key: RestoreKey | str) -> Any:
        """As SavableDataLoader.restore_sample()."""
        key = RestoreKey(key) if isinstance(key, str) else key
        with _random.preserved() if self.dataset.calls_python else contextlib.nullcontext():
            return self._native.restore_sample(key)

    def stats(self) -> dict[str, Any]:
        """Those of the newest loop; empty before the first."""
        return {} if self._latest is None else self._latest.stats()

    def close(self) -> None:
        """Ends all loops."""
        for iteration in list(self._iterations):
            iteration.close()


def get_savable_loader(
    dataset: Dataset,
    *,
    prefetch_factor: int | None = None,
    n_checkpoints: int | None = None,
    checkpoint_every_batches: int | None = None,
    timeout: float | None = 60.0,
    arena_limit_bytes: int | None = None,
    debug_log_path: str | os.PathLike[str] | None = None,
    quarantine_file: str | os.PathLike[str] | None = None,
) -> SavableDataLoader:
    """A loader of `dataset`. With workers, forks now: make it before the process has threads, large
    arrays or a GPU. prefetch_factor: finished batches that a worker may be ahead; None: as fits
    4 MiB. timeout: seconds without progress of a worker that end a wait; None: no limit."""
    return SavableDataLoader(
        dataset,
        **_loader_options(prefetch_factor, n_checkpoints, checkpoint_every_batches, timeout),
        **_more_options(arena_limit_bytes, debug_log_path, quarantine_file),
    )


def get_loader(
    dataset: Dataset,
    *,
    prefetch_factor: int | None = None,
    timeout: float | None = 60.0,
    arena_limit_bytes: int | None = None,
) -> BasicDataLoader:
    """A loader without a saved position."""
    return BasicDataLoader(
        dataset,
        **_loader_options(prefetch_factor, None, None, timeout),
        **_more_options(arena_limit_bytes, None, None),
    )


def _loader_options(
    prefetch_factor: int | None,
    n_checkpoints: int | None,
    checkpoint_every_batches: int | None,
    timeout: float | None,
) -> dict[str, Any]:
    options: dict[str, Any] = {"timeout": timeout, "prefetch_factor": prefetch_factor}
    options |= {"n_checkpoints": n_checkpoints}
    return options | {"checkpoint_every_batches": checkpoint_every_batches}


def _more_options(
    arena_limit_bytes: int | None,
    debug_log_path: str | os.PathLike[str] | None,
    quarantine_file: str | os.PathLike[str] | None,
) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if arena_limit_bytes is not None:
        options["arena_limit_bytes"] = arena_limit_bytes
    if debug_log_path is not None:
        options["debug_log_path"] = os.fspath(debug_log_path)
    if quarantine_file is not None:
        options["quarantine_file"] = os.fspath(quarantine_file)
    return options


def _as_state(state: LoaderState | bytes) -> LoaderState:
    return LoaderState(bytes(state)) if not isinstance(state, LoaderState) else state


# Loaders of globals would otherwise end after the interpreter.
_open_loaders: weakref.WeakSet[_Loader] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for loader in list(_open_loaders):
        if loader._is_waiting():
            continue  # a daemon thread, which ends with the process as the workers do
        try:
            loader.close()
        except EnergonError:
            pass  # in a forked child the workers are not ours
