"""Functions that create loaders: get_savable_loader, get_loader."""

from __future__ import annotations

import math
import os
from typing import Any, Callable

from ._caches import CachePool, FileStoreCachePool
from ._shard_paths import path_text
from ._torch_options import check_in_order, explains_torch_options, wait_limit
from .datasets import Dataset
from ._several_loaders import SeveralLoader
from .loaders import BasicDataLoader, SavableDataLoader
from .task_encoder import T_batch
from .worker_config import WorkerConfig
from .wrappers import _SeveralDatasets

__all__ = ["get_loader", "get_savable_loader"]


@explains_torch_options
def get_savable_loader(
    dataset: Dataset[T_batch],
    *,
    worker_config: WorkerConfig | None = None,
    checkpoint_every_sec: float | None = None,
    checkpoint_every_min_n_samples: int | None = None,
    n_checkpoints: int | None = None,
    gc_collect_every_n_steps: int | None = None,
    prefetch_factor: int | None = None,
    prefetch_bytes: int | None = None,
    cache_pool: CachePool | None = None,
    watchdog_timeout_seconds: float | None = 60.0,
    watchdog_initial_timeout_seconds: float | None = None,
    fail_on_timeout: bool = True,
    checkpoint_every_batches: int | None = None,
    checkpoint_history: int | None = None,
    checkpoint_history_bytes: int | None = None,
    timeout: float | None = 60.0,
    pin_memory: bool = False,
    persistent_workers: bool = True,
    in_order: bool = True,
    arena_limit_bytes: int | None = None,
    debug_log_path: str | os.PathLike[str] | None = None,
    quarantine_file: str | os.PathLike[str] | None = None,
) -> SavableDataLoader[T_batch]:
    """Creates a loader of `dataset`. Workers are forked immediately: call this before the process
    has threads, large arrays or a GPU.

    Other options of torch's DataLoader raise a TypeError that names the place of the setting. For
    scripts of Energon, checkpoint_every_sec, checkpoint_every_min_n_samples,
    gc_collect_every_n_steps and fail_on_timeout are accepted without effect: states are always
    exact, the collector runs by itself, and a timeout is always an error.

    Args:
        dataset: From get_train_dataset() or get_val_dataset().
        worker_config: For scripts of Energon; must equal the worker_config of the dataset.
        n_checkpoints: States that each worker keeps per logical shard, at least 2 and at least
            prefetch_factor + 1.
        prefetch_factor: Batches that a worker may be ahead; unset means as many as prefetch_bytes
            allows.
        prefetch_bytes: Bytes of batches that a worker may be ahead without prefetch_factor.
        cache_pool: Options of the file cache of workers: a FileStoreCachePool.
        watchdog_timeout_seconds: The timeout under Energon's name; the longest one applies.
        watchdog_initial_timeout_seconds: Another timeout of Energon; the longest one applies.
        checkpoint_every_batches: A worker stores its state every N batches; 0 means at the start of
            each epoch only, unset means by the size of the state.
        checkpoint_history: Delivered batches that the loader can go back.
        checkpoint_history_bytes: Memory for the states that checkpoint_history keeps.
        timeout: A worker that makes no progress for this many seconds ends the wait with a
            WaitTimeoutError; 0 and None mean no limit.
        pin_memory: Copy torch tensors of batches into page-locked memory. Without CUDA, this warns
            and has no effect.
        persistent_workers: False ends the workers after each epoch and starts them again; the
            batches are the same.
        in_order: Must be True.
        arena_limit_bytes: Shared memory that the batches of a worker may take.
        debug_log_path: Log the delivered batches, in one file for the parent and one for each
            worker, such as 'log-{worker_id}.jsonl'.
        quarantine_file: File to which skipped samples and shards are appended, one JSON object per
            line.
    """
    given = dict(locals())
    check_in_order(in_order)
    _check_config(dataset, worker_config)
    if isinstance(dataset, _SeveralDatasets):
        return _loader_of_several(get_savable_loader, **given)  # type: ignore[no-any-return]
    return SavableDataLoader(
        _with_cache(dataset, cache_pool),
        pin_memory=pin_memory,
        persistent_workers=persistent_workers,
        prefetch_factor=prefetch_factor,
        n_checkpoints=n_checkpoints,
        checkpoint_every_batches=checkpoint_every_batches,
        timeout=_timeout(timeout, watchdog_timeout_seconds, watchdog_initial_timeout_seconds),
        **_given(
            prefetch_bytes=prefetch_bytes,
            checkpoint_history=checkpoint_history,
            checkpoint_history_bytes=checkpoint_history_bytes,
            arena_limit_bytes=arena_limit_bytes,
            debug_log_path=debug_log_path,
            quarantine_file=quarantine_file,
        ),
    )


@explains_torch_options
def get_loader(
    dataset: Dataset[T_batch],
    *,
    worker_config: WorkerConfig | None = None,
    prefetch_factor: int | None = None,
    cache_pool: CachePool | None = None,
    watchdog_timeout_seconds: float | None = 60.0,
    watchdog_initial_timeout_seconds: float | None = None,
    fail_on_timeout: bool = True,
    timeout: float | None = 60.0,
    pin_memory: bool = False,
    persistent_workers: bool = True,
    in_order: bool = True,
    arena_limit_bytes: int | None = None,
) -> BasicDataLoader[T_batch]:
    """Creates a loader without save and restore. Otherwise it equals get_savable_loader(): loops
    deliver the same batches, and a loop continues where the previous one ended."""
    given = dict(locals())
    check_in_order(in_order)
    _check_config(dataset, worker_config)
    if isinstance(dataset, _SeveralDatasets):
        return _loader_of_several(get_loader, **given)  # type: ignore[no-any-return]
    return BasicDataLoader(
        _with_cache(dataset, cache_pool),
        pin_memory=pin_memory,
        persistent_workers=persistent_workers,
        prefetch_factor=prefetch_factor,
        timeout=_timeout(timeout, watchdog_timeout_seconds, watchdog_initial_timeout_seconds),
        checkpoint_history=0,  # no method uses it
        **_given(arena_limit_bytes=arena_limit_bytes),
    )


def _loader_of_several(make: Callable[..., Any], *, dataset: Any, **options: Any) -> Any:
    """The loader of several datasets, with a loader of each of them."""
    for name in ("debug_log_path", "quarantine_file"):
        if options.get(name) is not None:
            raise ValueError(f"{name} must be None for a {type(dataset).__name__}, whose loaders "
                             "would write one file")  # fmt: skip
    return SeveralLoader(dataset, [make(one, **options) for one in dataset.datasets])


def _given(**options: Any) -> dict[str, Any]:
    """The options that are not None, with paths as strings."""
    return {
        name: path_text(value) if isinstance(value, (str, bytes, os.PathLike)) else value
        for name, value in options.items()
        if value is not None
    }


def _check_config(dataset: Dataset, worker_config: WorkerConfig | None) -> None:
    if worker_config is not None and worker_config != dataset.worker_config:
        raise ValueError(
            f"worker_config must equal that of the dataset, {dataset.worker_config}, not "
            f"{worker_config}: pass it to get_train_dataset() only"
        )


def _timeout(timeout: float | None, watchdog: float | None, initial: float | None) -> float | None:
    """The longest of the timeouts that differ from the default; None means no limit."""
    timeout, watchdog = wait_limit(timeout), wait_limit(watchdog)
    if timeout is None or watchdog is None or initial == math.inf:
        return None
    chosen = [seconds for seconds in (timeout, watchdog) if seconds != 60.0]
    return max([*(chosen or [60.0]), *([] if initial is None else [initial])])


def _with_cache(dataset: Dataset[T_batch], cache_pool: CachePool | None) -> Dataset[T_batch]:
    if not isinstance(cache_pool, FileStoreCachePool):
        return dataset
    return dataset._with(cache_pool._options())
