"""Loaders of the batches of one rank: SavableDataLoader, BasicDataLoader."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from types import TracebackType
from typing import Any, Callable, Iterator

from . import _core, _random
from ._core import LoaderState, RestoreKey
from ._errors import EnergonError
from ._global_state import GlobalState
from ._pinning import Pinning
from ._single_samples import restore_one
from .datasets import Dataset
from .states import as_loader_state, as_state_dict
from .worker_config import WorkerConfig


class _Loader:
    """Everything but the state: one stream of batches that all loops share, with the attributes of
    torch's DataLoader that frameworks read."""

    in_order = True

    def __init__(
        self,
        dataset: Dataset,
        *,
        pin_memory: bool = False,
        persistent_workers: bool = True,
        finish: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        self.dataset = dataset
        self.worker_config: WorkerConfig = dataset.worker_config
        self.pin_memory = pin_memory
        self.persistent_workers = persistent_workers
        self._options = dataset.worker_config._options() | options
        self._pinning = Pinning(finish) if pin_memory else None
        # Called with each batch in the trainer. The native part borrows it.
        self._finish = self._pinning or finish
        self._native = _core.Loader(dataset._pipeline, self._options, self._finish)
        self._first_batch = 0  # of those since the last restore
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
                return self._native.restore_sample(key)
        except Exception as error:
            handler = self.worker_config.restore_error_handler
            if handler is None:
                raise
            handler(error, key, None)
            return None

    @property
    def num_workers(self) -> int:
        return self.dataset.worker_config.num_workers

    @property
    def batch_size(self) -> int | None:
        """Samples in a batch of this rank; None: single samples."""
        return self.dataset.batch_size

    @property
    def drop_last(self) -> bool:
        return self.dataset.batch_drop_last

    @property
    def prefetch_factor(self) -> int | None:
        """Finished batches that a worker may be ahead; None: as fits 4 MiB."""
        return self._options.get("prefetch_factor")

    @property
    def timeout(self) -> float:
        """Seconds without progress of a worker that end a wait; 0: no limit."""
        return self._options.get("timeout", 60.0) or 0.0

    def _is_waiting(self) -> bool:
        """Whether a thread waits for a batch."""
        return self._native.waits

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
        """Ends the workers for good."""
        self._native.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        if self._pinning is not None:
            self._pinning.begin()
        if self._is_behind_last_batch():
            self._native.next()  # the end, which the loop before did not ask for
        return _core.Epoch(self._native, self, not self.persistent_workers)

    def _is_behind_last_batch(self) -> bool:
        """Whether this object delivered the last batch of the epoch, but not the end. A state that
        was saved there continues with the end: an empty loop."""
        if self._native.batches_left() != 0:
            return False
        return self._native.save().batch_index > self._first_batch

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

    def set_epoch(self, epoch: int) -> None:
        """Says that the next loop is of the epoch with this number, from 0. Every epoch has its own
        order and the loader counts them, so this changes nothing; it checks. ValueError if another
        epoch comes next: an epoch cannot be left before its end, or be repeated."""
        comes = self.epoch + (1 if self._is_behind_last_batch() else 0)
        if epoch == comes:
            return
        left = self.batches_left
        where = "which never ends" if left is None else f"which has {left} batches to come"
        raise ValueError(
            f"set_epoch({epoch}): the next loop is of epoch {comes}, {where}. A loop after a break "
            "goes on in its epoch; for short epochs use virtual_epoch_length of the dataset, to go "
            "elsewhere load_state_dict()"
        )


class SavableDataLoader(_Loader, GlobalState):
    """Delivers the batches of one rank; its position can be saved and restored exactly.

    A `for` loop runs to the end of the epoch. After a break, the next loop continues after the last
    batch; after the last batch of an epoch, the next loop is the next epoch. Use it as a context
    manager or call close() to end the workers; they also end with the loader and with the process.
    After close(), the position can still be saved.
    """

    def save_state_rank(self) -> LoaderState:
        """The position after the batches that were delivered. At any time and from any thread, also
        while another one takes a batch; costs microseconds."""
        return self._native.save()

    def state_at(self, batch_index: int) -> LoaderState:
        """The position after the first `batch_index` batches, at any time and from any thread: what
        save_state_rank() returned there, or would have. `batch_index` counts the batches of this
        rank in all epochs, as `batch_index` of a LoaderState and of stats() does. If an epoch ended
        after that batch, its end is still to come. ValueError names the earliest batch that is
        kept: see `earliest_state`."""
        return self._native.state_at(batch_index)

    @property
    def earliest_state(self) -> int:
        """The lowest batch index that state_at() and rewind() reach. It is `checkpoint_history`
        batches back, or less if the kept states would take more than `checkpoint_history_bytes`,
        but not before the state that was restored last. stop(), a dead worker and rewind() keep
        it."""
        return self._native.earliest_state()

    def rewind(self, batch_index: int) -> None:
        """Goes back to state_at(batch_index), also after an error: the next loop delivers again what
        came after that batch, from its place in the epoch. Ends the workers; the next batch starts
        them again."""
        self._native.rewind(batch_index)
        self._first_batch = batch_index

    def restore_state_rank(self, state: LoaderState | bytes | None) -> None:
        """Continues from `state`, also one that the C++ library wrote. Before the first batch, or
        after stop(). None: nothing to restore."""
        if state is not None:
            self._native.restore(as_loader_state(state))
            self._first_batch = self._native.save().batch_index

    def state_dict(self) -> dict[str, Any]:
        """The position as a dict of plain types; its bytes are those of a state file. As
        save_state_rank(), from any thread."""
        return as_state_dict(self.save_state_rank())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from there, at any time: ends the workers first."""
        self._native.stop_and_restore(as_loader_state(state_dict))
        self._first_batch = self._native.save().batch_index


class BasicDataLoader(_Loader):
    """Delivers the same batches, loop by loop, as a SavableDataLoader, but without save and restore.

    Loops continue one another in the same way, so loops that run at the same time share the batches.
    """


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
