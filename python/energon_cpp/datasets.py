"""Datasets for loaders: get_train_dataset, get_val_dataset."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from . import _core
from .task_encoder import DefaultTaskEncoder, TaskEncoder, stages_of
from .worker_config import WorkerConfig

AnyEncoder = TaskEncoder[Any, Any, Any, Any]


class Dataset:
    """What a loader runs: data, options and functions. Made by get_train_dataset() and
    get_val_dataset(). May be used by several loaders."""

    def __init__(
        self,
        path: str,
        *,
        training: bool,
        worker_config: WorkerConfig,
        task_encoder: AnyEncoder,
        options: dict[str, Any],
    ) -> None:
        self.path = path
        self.worker_config = worker_config
        self.task_encoder = task_encoder
        if task_encoder.decoder is not None:
            options = {**options, **task_encoder.decoder._options(), "typed": True}
        if options.get("tensors") is None:
            options["tensors"] = "torch" if "torch" in sys.modules else "energon"
        # The native part borrows the functions.
        self._stages = stages_of(
            task_encoder,
            packs=options.get("packing_buffer_size") is not None,
            batched=options.get("batch_size") is not None,
        )
        self._pipeline = _core.open_pipeline(path, training, options, self._stages)
        for warning in self._pipeline.warnings:
            warnings.warn(warning, stacklevel=4)

    @property
    def calls_python(self) -> bool:
        """Whether there are functions that are not native."""
        return bool(self._stages)

    def __repr__(self) -> str:
        return f"Dataset({self.path!r}, functions: {', '.join(self._stages) or 'none'})"


def get_train_dataset(
    path: str | os.PathLike[str],
    *,
    worker_config: WorkerConfig,
    batch_size: int | None,
    split_part: str = "train",
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    shuffle_buffer_size: int | None = 0,
    max_samples_per_sequence: int | None = None,
    shuffle_over_epochs_multiplier: int | None = 1,
    parallel_shard_iters: int | None = None,
    virtual_epoch_length: int = 0,
    repeat: bool = True,
    task_encoder: AnyEncoder | None = None,
    on_error: str = "raise",
    failure_tolerance: int = 100,
    tensors: str | None = None,
    exclude_files: list[str] | None = None,
    cache_dir: str | None = None,
    verify_checksums: bool = True,
) -> Dataset:
    """Data for training: shuffled, repeated, blended.

    path: a dataset, a folder or pattern of tars, a JSONL file or a metadataset. batch_size: samples
    in a batch; None: single samples. on_error: "raise", or "skip" to leave out samples that fail
    (at most failure_tolerance in a row). tensors: what tensors of native stages become: "torch",
    "numpy" or "energon" (the class Tensor); None: "torch" if torch is imported, else "energon".
    """
    options = _common_options(
        batch_size, batch_drop_last, packing_buffer_size, on_error, failure_tolerance, tensors
    )
    options |= _data_options(split_part, exclude_files, cache_dir, verify_checksums)
    options |= {
        "shuffle_buffer_size": shuffle_buffer_size or 0,
        "max_samples_per_sequence": max_samples_per_sequence,
        "shuffle_over_epochs": shuffle_over_epochs_multiplier,
        "virtual_epoch_length": virtual_epoch_length,
        "repeat": repeat,
    }
    if parallel_shard_iters is not None:
        options["parallel_slices"] = parallel_shard_iters
    return Dataset(
        os.fspath(path),
        training=True,
        worker_config=worker_config,
        task_encoder=task_encoder or DefaultTaskEncoder(),
        options=options,
    )


def get_val_dataset(
    path: str | os.PathLike[str],
    *,
    worker_config: WorkerConfig,
    batch_size: int | None,
    split_part: str = "val",
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    limit: int | None = None,
    task_encoder: AnyEncoder | None = None,
    on_error: str = "raise",
    failure_tolerance: int = 100,
    tensors: str | None = None,
    exclude_files: list[str] | None = None,
    cache_dir: str | None = None,
    verify_checksums: bool = True,
) -> Dataset:
    """Data for validation: each sample once, in order. limit: batches of a rank in an epoch."""
    options = _common_options(
        batch_size, batch_drop_last, packing_buffer_size, on_error, failure_tolerance, tensors
    )
    options |= _data_options(split_part, exclude_files, cache_dir, verify_checksums)
    options["limit"] = limit
    return Dataset(
        os.fspath(path),
        training=False,
        worker_config=worker_config,
        task_encoder=task_encoder or DefaultTaskEncoder(),
        options=options,
    )


def _common_options(
    batch_size: int | None,
    drop_last: bool,
    packing_buffer_size: int | None,
    on_error: str,
    failure_tolerance: int,
    tensors: str | None,
) -> dict[str, Any]:
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error must be 'raise' or 'skip', not {on_error!r}")
    return {
        "batch_size": batch_size,
        "drop_last": drop_last,
        "packing_buffer_size": packing_buffer_size,
        "skip_failures": on_error == "skip",
        "failure_tolerance": failure_tolerance,
        "tensors": tensors,
    }


def _data_options(
    split: str, exclude_files: list[str] | None, cache_dir: str | None, verify_checksums: bool
) -> dict[str, Any]:
    return {
        "split": split,
        "exclude_files": exclude_files or [],
        "cache_dir": cache_dir,
        "verify_checksums": verify_checksums,
    }
