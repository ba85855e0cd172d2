"""Loaders: SavableDataLoader, BasicDataLoader."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from types import TracebackType
from typing import Any, Iterator

from . import _core, _random
from ._core import LoaderState, RestoreKey
from ._errors import EnergonError
from ._global_state import GlobalState
from ._single_samples import restore_one
from .datasets import Dataset
from .worker_config import WorkerConfig

_STATE = "energon_cpp.state"


class _Loader:
    """What both loaders have."""

    def __init__(self, dataset: Dataset, options: dict[str, Any]) -> None:
        self.dataset = dataset
        self.worker_config: WorkerConfig = dataset.worker_config
        self._options = dataset.worker_config._options() | options
        _open_loaders.add(self)

    def can_restore_sample(self) -> bool:
        return True

    def restore_sample(self, restore_key: RestoreKey | str, *, index: int | None = None) -> Any:
        """The batch that any rank of the job delivered with this `__restore_key__`. Made in this
        process; the position does not change. index: only this sample of the batch, as the batch
        function gets it. If a function fails, WorkerConfig.restore_error_handler is called, and the
        result is None if it returns."""
        key = RestoreKey(restore_key) if isinstance(restore_key, str) else restore_key
        try:
            if index is not None:
                return restore_one(self.dataset, self._options, key, index)
            with _random.preserved() if self.dataset.calls_python else contextlib.nullcontext():
                return self._restore(key)
        except Exception as error:
            handler = self.worker_config.restore_error_handler
            if handler is None:
                raise
            handler(error, key, None)
            return None

    def _restore(self, key: RestoreKey) -> Any:
        raise NotImplementedError

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


class SavableDataLoader(_Loader, GlobalState):
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

    def _restore(self, key: RestoreKey) -> Any:
        return self._native.restore_sample(key)

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

    def _restore(self, key: RestoreKey) -> Any:
        return self._native.restore_sample(key)

    def _is_waiting(self) -> bool:
        return any(iteration.waits for iteration in list(self._iterations))

    def __len__(self) -> int:
        size = self._native.size()
        if size is None:
            raise TypeError("the number of batches of an epoch is not known")
        return size

    def stats(self) -> dict[str, Any]:
        """Those of the newest loop; empty before the first."""
        return {} if self._latest is None else self._latest.stats()

    def close(self) -> None:
        """Ends all loops."""
        for iteration in list(self._iterations):
            iteration.close()


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
