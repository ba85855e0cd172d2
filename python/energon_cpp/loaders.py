"""Loaders of the batches of one rank: SavableDataLoader, BasicDataLoader, AutoSaver."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import weakref
from types import TracebackType
from typing import Any, Callable, Generic, Iterator, Mapping, TypeVar

from . import _core, _random
from ._core import LoaderState, RestoreKey
from ._errors import EnergonError, StateMismatchError
from ._explained_options import checks_options
from ._global_state import GlobalState
from ._pinning import Pinning
from ._shard_paths import path_text
from ._single_samples import restore_one
from ._warnings import warn
from .datasets import Dataset, T_co
from .states import AnyState, as_loader_state, as_state_dict
from .worker_config import WorkerConfig

L = TypeVar("L", bound="_Loader[Any]")

_ALL_RANKS = ": in a framework, use energon_cpp.torch.AllRanks(loader)"


class _Loader(Generic[T_co]):
    """Everything except save and restore: one stream of batches that all loops share, with the
    attributes of torch's DataLoader that frameworks read."""

    in_order = True

    def __init__(
        self,
        dataset: Dataset[T_co],
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
        self._left_out = (0, 0)  # samples and whole shards, up to the last warning
        self._first_batch = 0  # the batch index after the last restore
        _open_loaders.add(self)

    def __repr__(self) -> str:
        config = self.worker_config
        return (
            f"{type(self).__name__}({self.dataset!r}, batch_size={self.batch_size}, "
            f"rank {config.rank} of {config.world_size}, num_workers={config.num_workers})"
        )

    def can_restore_sample(self) -> bool:
        return True

    def restore_sample(self, restore_key: RestoreKey | str, *, index: int | None = None) -> Any:
        """Rebuilds the batch that any rank of the job delivered with this `__restore_key__`. Runs
        in this process and does not change the position.

        Args:
            restore_key: The restore key of the batch.
            index: Return only this sample of the batch, as the batch function receives it.

        Returns:
            The batch or sample. If a function fails and WorkerConfig.restore_error_handler handles
            the error, None.
        """
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
        """Samples in a batch of this rank; None means single samples."""
        return self.dataset.batch_size

    @property
    def drop_last(self) -> bool:
        return self.dataset.batch_drop_last

    @property
    def prefetch_factor(self) -> int | None:
        """Finished batches that a worker may be ahead; None means as many as fit in
        prefetch_bytes."""
        return self._options.get("prefetch_factor")

    @property
    def timeout(self) -> float:
        """Seconds without progress of a worker after which a wait fails; 0 means no limit."""
        return self._options.get("timeout", 60.0) or 0.0

    def _is_waiting(self) -> bool:
        """Whether a thread is waiting for a batch."""
        return self._native.waits

    def stats(self) -> dict[str, Any]:
        """Returns statistics: what limits the loader, and how much was left out."""
        return self._native.stats()

    def config(self) -> dict[str, Any]:
        """Returns the settings of loader and pipeline. Equal settings deliver equal batches."""
        return self._native.config()

    @property
    def worker_pids(self) -> list[int]:
        """The process IDs of the running workers."""
        return self._native.worker_pids()

    def stop(self) -> None:
        """Ends the workers and keeps the position. The next batch starts them again."""
        self._native.stop()

    def close(self) -> None:
        """Ends the workers permanently."""
        self._native.close()
        self._warn_of_failures()

    def _end_epoch(self) -> None:
        """Called by a loop at its end."""
        if not self.persistent_workers:
            self.stop()
        self._warn_of_failures()

    def _warn_of_failures(self) -> None:
        """Warns about the samples that were left out since the last warning."""
        if not self.dataset._skips_failures():
            return
        stats = self._native.stats()
        counts = [one["samples"] for one in stats["failures"] if not one["is_shard_broken"]]
        total = sum(counts), len(stats["failures"]) - len(counts)
        new = tuple(now - before for now, before in zip(total, self._left_out))
        if not any(new):
            return
        self._left_out = total
        newest = stats["newest_reports"][-1]
        shards = f" and {new[1]} whole shards, {total[1]} in all" if total[1] else ""
        warn(
            f"on_error='skip' left out {new[0]} samples, {total[0]} in all{shards}; the last one, "
            f"in '{newest['stage']}': {newest['cause']}; see loader.stats() and quarantine_file"
        )

    def __enter__(self: L) -> L:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[T_co]:
        return self._loop(self._native)

    def _loop(self, batches: _core.Loader | _core.AutoSaver) -> Iterator[T_co]:
        """Iterates over `batches`, which are those of the native loader."""
        if self._pinning is not None:
            self._pinning.begin()
        if self._is_after_last_batch():
            self._native.next()  # the end of the epoch, which the previous loop did not reach
        return _core.Epoch(batches, self)

    def _is_after_last_batch(self) -> bool:
        """Whether this object delivered the last batch of the epoch, but not its end. A state that
        was saved at this point continues with the end: an empty loop."""
        if self._native.batches_left() != 0:
            return False
        return self._native.save().batch_index > self._first_batch

    def __len__(self) -> int:
        """Batches of this rank in one epoch. If the epoch never ends, or functions decide how many
        there are: those of one pass over the data, as in Energon, where packs and groups count as
        if each had one sample. `size` is None then."""
        size = self.size
        return len(self.dataset) if size is None else size

    def __bool__(self) -> bool:
        return True

    @property
    def size(self) -> int | None:
        """Batches of this rank in one epoch, or None if the epoch never ends or the number is not
        known in advance."""
        return self._native.size()

    @property
    def batches_left(self) -> int | None:
        """Batches left in this epoch, or None if unknown."""
        return self._native.batches_left()

    @property
    def epoch(self) -> int:
        """The number of epochs that have ended."""
        return self._native.epoch()

    def set_epoch(self, epoch: int) -> None:
        """Checks that the next loop is epoch `epoch`, counted from 0. The loader counts epochs, and
        each has its own order, so this changes nothing. If the end of the epoch is not known, as for
        endless data, each loop continues the stream, and any number is accepted: trainers then count
        epochs by len().

        Raises:
            ValueError: Another epoch is next. An epoch cannot be left before its end, or repeated.
        """
        next_epoch = self.epoch + (1 if self._is_after_last_batch() else 0)
        left = self.batches_left
        if epoch == next_epoch or left is None:
            return
        raise ValueError(
            f"set_epoch({epoch}): the next loop is epoch {next_epoch}, which has {left} batches "
            "left. A loop after a break continues its epoch; for short epochs, use "
            "virtual_epoch_length of the dataset; to go to another position, use load_state_dict()"
        )


class SavableDataLoader(_Loader[T_co], GlobalState):
    """Delivers the batches of one rank. The position can be saved and restored exactly.

    A `for` loop runs to the end of the epoch. After a break, the next loop continues after the last
    batch delivered, or with the next epoch if that batch was the last of its epoch. To end the
    workers, use the loader as a context manager or call close(). They also end with the loader and
    with the process. After close(), the position can still be saved.
    """

    def save_state_rank(self) -> LoaderState:
        """Returns the position after the delivered batches. May be called at any time and from any
        thread, also while another thread takes a batch. Takes microseconds."""
        return self._native.save()

    def state_at(self, batch_index: int) -> LoaderState:
        """Returns the position after the first `batch_index` batches: the state that
        save_state_rank() returned there, or would have returned. May be called at any time and from
        any thread. If an epoch ended after that batch, the state continues with the end.

        Args:
            batch_index: Number of batches of this rank in all epochs, like `batch_index` of a
                LoaderState and of stats().

        Raises:
            ValueError: The state is out of reach. The message names the earliest batch index that
                is kept, `earliest_state`.
        """
        return self._native.state_at(batch_index)

    @property
    def earliest_state(self) -> int:
        """The lowest batch index that state_at() and rewind() reach. It is `checkpoint_history`
        batches back, or fewer if the kept states would take more than `checkpoint_history_bytes`,
        but not before the state that was restored last. stop(), a dead worker and rewind() do not
        change it."""
        return self._native.earliest_state()

    def rewind(self, batch_index: int) -> None:
        """Returns to state_at(batch_index), also after an error. The next loop delivers the batches
        after it again, from their place in the epoch. Ends the workers. The next batch starts them
        again."""
        self._native.rewind(batch_index)
        self._first_batch = batch_index

    def restore_state_rank(self, state: AnyState | Any | None) -> None:
        """Continues from `state`. Call it before the first batch, or after stop().

        Args:
            state: What save_state_rank() or state_dict() returned, also pickled and read again; the
                bytes of a state file, which the C++ library may have written; or the
                SavableDataLoaderState of a loader of megatron-energon, which is converted as by
                import_energon_state(). None has no effect.
        """
        if state is not None:
            self._native.restore(self._loader_state(state))
            self._first_batch = self._native.save().batch_index

    def _loader_state(self, state: Any) -> LoaderState:
        if isinstance(state, (LoaderState, bytes, bytearray, Mapping)):
            return as_loader_state(state)
        from .energon_states import import_rank_state

        return import_rank_state(self.dataset, state)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position as a dict of plain types, which contains the bytes of a state file.
        Like save_state_rank(), it may be called from any thread.

        With several ranks, this warns if Lightning or Accelerate call it, because they write the
        dict of one rank only."""
        if self.worker_config.world_size > 1:
            caller, _, _ = sys._getframe(1).f_globals.get("__name__", "").partition(".")
            if caller in ("lightning", "pytorch_lightning", "accelerate"):
                warn(f"{caller} saves the state of one rank only, so the job cannot be resumed"
                     f"{_ALL_RANKS}")  # fmt: skip
        return as_state_dict(self.save_state_rank())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from `state_dict`. May be called at any time. Ends the workers first."""
        state = as_loader_state(state_dict)
        try:
            self._native.stop_and_restore(state)
        except StateMismatchError as error:
            if state.describe()["config"].get("rank") in (None, self.worker_config.rank):
                raise
            raise StateMismatchError(f"{error}; the state belongs to another rank{_ALL_RANKS}")
        self._first_batch = self._native.save().batch_index


def check_is_savable(name: str, loader: Any) -> None:
    """Raises TypeError, on behalf of `name`, unless the object is a SavableDataLoader."""
    if not isinstance(loader, SavableDataLoader):
        raise TypeError(
            f"{name} needs a loader of get_savable_loader(), not a {type(loader).__name__}; the "
            "loaders of BlendDataset, MixBatchDataset and ConcatDataset have state_dict() only"
        )


class AutoSaver:
    """Delivers the batches of a loader and writes its position every N batches into a folder. A
    script that is started again with the same folder continues from the newest checkpoint.

        saver = energon.AutoSaver(loader, "run7/loader", every_batches=100, keep=3)
        for batch in saver:
            ...

    All ranks share the folder, and no rank waits for another to save. A checkpoint counts if the
    files of all ranks were written at the same step. On another number of ranks or workers, the
    position is rescaled, as by rescale_states(). The folder has the format of
    `energon run --auto-save` and of AutoSavingLoader in C++, which continue from it, too.

    The position is written before the last batch that it includes is delivered. So a model that is
    saved after training on that batch belongs to the checkpoint of `step`.

    Take all batches from this object: the loader itself would deliver some that are not counted.

    Args:
        loader: A loader that has not delivered a batch yet.
        folder: Folder of checkpoints, shared by all ranks; created if it does not exist.
        every_batches: Number of batches of each rank between two checkpoints.
        keep: Number of complete checkpoints to keep; older ones are removed. None means all.
        load_from: Where to start if `folder` has no finished checkpoint: another folder, a single
            checkpoint, or a state file of this rank or of its job. Steps then count from 0.
        at_step: Start all ranks at the checkpoint of this step, such as that of the newest model.
            Later ones no longer count and are written again. 0 is the same as start_over=True.
        start_over: Ignore the checkpoints in `folder`, and overwrite them when the run reaches
            them.

    Raises:
        NotFoundError: The folder has finished checkpoints, but none can be used, or not the one of
            `at_step`.
        StateMismatchError: A checkpoint belongs to another job, or the ranks differ in data or
            options. The message lists the differences.
        CorruptDataError: The file of this rank is damaged.
    """

    @checks_options
    def __init__(
        self,
        loader: SavableDataLoader[Any],
        folder: str | os.PathLike[str],
        *,
        every_batches: int = 1000,
        keep: int | None = None,
        load_from: str | os.PathLike[str] | None = None,
        at_step: int | None = None,
        start_over: bool = False,
    ) -> None:
        check_is_savable("AutoSaver", loader)
        self.loader = loader
        options = {
            "folder": path_text(folder),
            "every_batches": every_batches,
            "keep": keep,
            "load_from": "" if load_from is None else path_text(load_from),
            "at_step": at_step,
            "start_over": start_over,
        }
        self._native = _core.AutoSaver(loader._native, options)
        loader._first_batch = loader._native.save().batch_index
        for checkpoint in self._native.ignored:
            warn(f"not continued from {checkpoint}", RuntimeWarning)

    def __iter__(self) -> Iterator[Any]:
        return self.loader._loop(self._native)

    def __len__(self) -> int:
        """Batches of this rank in one epoch, as len() of the loader."""
        return len(self.loader)

    def save_now(self) -> None:
        """Saves at this step, unless it is saved already. Call it on all ranks at the same step,
        such as before the process ends."""
        self._native.save_now()

    @property
    def step(self) -> int:
        """Batches of this rank since step 0 of the folder, over all restarts."""
        return self._native.step

    @property
    def restored_from(self) -> str | None:
        """The checkpoint or file that the run continued from. None means the start of the data."""
        return self._native.restored_from


class BasicDataLoader(_Loader[T_co]):
    """Delivers the same batches as a SavableDataLoader, but without save and restore.

    A loop continues where the previous one ended, so loops that run at the same time share the
    batches.
    """


# Loaders in global variables would otherwise end after the interpreter.
_open_loaders: weakref.WeakSet[_Loader] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for loader in list(_open_loaders):
        if loader._is_waiting():
            continue  # a daemon thread, which ends with the process as the workers do
        try:
            loader.close()
        except EnergonError:
            pass  # in a forked child, the workers belong to its parent
