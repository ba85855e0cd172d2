"""Datasets for loaders: get_train_dataset, get_val_dataset, get_val_datasets."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Generic, Iterable, Mapping

from . import _core
from . import sample_types as native_types
from ._imports import Allowed, permissions_of
from ._old_options import takes_old_options
from ._recipe import DatasetRecipe, explains_dataset_options, make_recipe
from ._sample import CrudeSample
from ._stages import Encoder
from ._warnings import warn
from .metadataset import DatasetSource, sources_of
from .task_encoder import T_batch, TaskEncoder, overrides
from .worker_config import WorkerConfig

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

_MOST_SAMPLES_PER_CALL = 65536

_BUILD_VAL_ARGUMENTS = ("batch_size", "batch_drop_last", "packing_buffer_size", "limit")


class Dataset(Generic[T_co]):
    """Data, options and functions for a loader. Returned by get_train_dataset(), get_val_dataset()
    and get_val_datasets(). Several loaders may use it. For type checkers, Dataset[MyBatch] has
    batches of this class, that of the task encoder."""

    def __init__(self, recipe: DatasetRecipe, pipeline: _core.Pipeline | None = None) -> None:
        self._recipe = recipe
        self._pipeline = recipe.open() if pipeline is None else pipeline
        self._length: tuple[int | None, int] | None = None
        for warning in self._pipeline.warnings:
            warn(warning)

    @property
    def path(self) -> str:
        return self._recipe.path

    @property
    def worker_config(self) -> WorkerConfig:
        return self._recipe.worker_config

    @property
    def task_encoder(self) -> Encoder:
        return self._recipe.task_encoder

    @property
    def batch_size(self) -> int | None:
        """Samples in a batch of a rank; None means single samples."""
        return self._recipe.options.get("batch_size")

    @property
    def batch_drop_last(self) -> bool:
        return self._recipe.options.get("remainder") == "drop"

    @property
    def calls_python(self) -> bool:
        """Whether the pipeline calls Python functions."""
        return self._pipeline.calls_python

    def __len__(self) -> int:
        """Batches of the rank in one epoch. If the epoch never ends, or functions decide how many
        there are: those of one pass over the data, as in Energon, where packs and groups count as
        if each had one sample."""
        exact, estimated = self._lengths()
        return estimated if exact is None else exact

    def __bool__(self) -> bool:
        return True

    def _lengths(self) -> tuple[int | None, int]:
        """The number of batches in an epoch, if it is known, and Energon's estimate."""
        if self._length is None:
            self._length = _core.epoch_length(self._pipeline, self.worker_config._options())
        return self._length

    def _skips_failures(self) -> bool:
        options = self._recipe.options
        return options["on_error"] == "skip" and "failure_handler" not in options

    def __repr__(self) -> str:
        functions = ", ".join([*self._recipe.natives, *self._recipe.stages])
        return f"Dataset({self.path!r}, functions: {functions or 'none'})"

    def _with(self, options: dict[str, Any]) -> "Dataset[T_co]":
        """Returns the same dataset with other options."""
        return Dataset(self._recipe.changed(options=options))


@takes_old_options
@explains_dataset_options
def get_train_dataset(
    path: str | os.PathLike[str],
    *,
    worker_config: WorkerConfig,
    batch_size: int | None,
    split_part: str = "train",
    batch_drop_last: bool = False,
    samples_per_call: int = 64,
    sort_pool_size: int | None = None,
    packing_buffer_size: int | None = None,
    shuffle_buffer_size: int | None = 0,
    max_samples_per_sequence: int | None = None,
    shuffle_over_epochs_multiplier: int | None = 1,
    parallel_shard_iters: int | None = None,
    virtual_epoch_length: int = 0,
    repeat: bool = True,
    task_encoder: TaskEncoder[Any, Any, Any, T_batch] | None = None,
    on_error: str = "raise",
    failure_tolerance: int = 100,
    tensors: str | None = None,
    exclude_files: list[str] | None = None,
    cache_dir: str | None = None,
    verify_checksums: bool = True,
    subflavors: dict[str, Any] | None = None,
    dataset_config: str | None = None,
    split_config: str | None = None,
    sample_type: type | None = None,
    sample_types: Mapping[str, Any] | None = None,
    allow_imports: Iterable[Allowed] | None = None,
) -> Dataset[T_batch]:
    """Data for training: shuffled, repeated, blended.

    Args:
        path: A dataset, a folder or pattern of tars, a JSONL file or a metadataset.
        worker_config: Ranks, workers and seed.
        batch_size: Samples, or packs, in a batch; without it, single samples are delivered.
        split_part: Part of a prepared dataset, or split of a metadataset.
        batch_drop_last: Drop the samples at the end of an epoch that do not fill a batch.
        samples_per_call: Number of samples in a call of encode_samples.
        sort_pool_size: Number of samples that are sorted by cost together; unset means no sorting.
        packing_buffer_size: Number of samples from which packs are selected; unset means no
            packing.
        shuffle_buffer_size: Size of the buffer from which samples are drawn at random; 0 and 1 mean
            no buffer.
        max_samples_per_sequence: Longest run of consecutive samples from one shard; unset means no
            limit.
        shuffle_over_epochs_multiplier: Reshuffle every N epochs (None = never, -1 = sample with
            replacement).
        parallel_shard_iters: Slices that are read in turn, 16 by default; 1 without shuffling.
        virtual_epoch_length: Batches of this rank after which an epoch ends; 0 means the end of the
            data.
        repeat: Start the data again at its end, within the epoch.
        task_encoder: Functions and decoders; unset means a DefaultTaskEncoder.
        on_error: 'raise', or 'skip' to leave out samples and shards that cannot be used.
        failure_tolerance: With on_error skip, this many failures in a row end the run; 0 means no
            limit.
        tensors: Class of tensors from native stages: 'torch', 'numpy' or 'energon' (the class
            Tensor); unset means 'torch' if torch is installed, else 'numpy' if NumPy is, else
            'energon'.
        exclude_files: Quarantine files that list the samples and shards to leave out. All other
            samples keep their places, so a job may go on with other files; see exclude().
        cache_dir: Folder for indices and expanded shards that cannot be kept next to the data.
        verify_checksums: Compare samples with their stored checksums.
        subflavors: Merged into the subflavors of all samples; these take precedence.
        dataset_config: File in .nv-meta that describes the samples of the dataset, instead of
            dataset.yaml; in a metadataset, set it there.
        split_config: File in .nv-meta that lists the shards of each part of the dataset, instead of
            split.yaml; in a metadataset, set it there.
        sample_type: Raise a TypeError if samples belong to another class.
        sample_types: Classes and functions of yours for names in metadata files of the data, such
            as {"MyWebdataset": MyWebdataset} for a dataset.yaml with this `__class__`. A name may
            have its module: "my.module.MyWebdataset".
        allow_imports: What metadata files may import: names of modules, which include their
            submodules, and folders, whose Python files may run; "*" allows everything.
    """
    options = _common_options(
        batch_size,
        batch_drop_last,
        samples_per_call,
        sort_pool_size,
        packing_buffer_size,
        on_error,
        failure_tolerance,
        tensors,
    )
    options |= _data_options(split_part, exclude_files, cache_dir, verify_checksums)
    options |= _config_options(subflavors, dataset_config, split_config)
    options |= {
        "shuffle_buffer_size": shuffle_buffer_size or 0,
        "max_samples_per_sequence": max_samples_per_sequence,
        "shuffle_over_epochs": shuffle_over_epochs_multiplier,
        "virtual_epoch_length": virtual_epoch_length,
        "repeat": repeat,
    }
    if parallel_shard_iters is not None:
        options["parallel_slices"] = parallel_shard_iters
    permissions = permissions_of(sample_types, allow_imports)
    recipe = make_recipe(path, True, worker_config, task_encoder, options, permissions)
    arguments = {
        "batch_size": batch_size,
        "batch_drop_last": batch_drop_last,
        "packing_buffer_size": packing_buffer_size,
        "virtual_epoch_length": virtual_epoch_length,
        "shuffle_buffer_size": shuffle_buffer_size,
        "repeat": repeat,
    }
    return _built(recipe, arguments, sample_type)


@takes_old_options
@explains_dataset_options
def get_val_dataset(
    path: str | os.PathLike[str],
    *,
    worker_config: WorkerConfig,
    batch_size: int | None,
    split_part: str = "val",
    batch_drop_last: bool = False,
    samples_per_call: int = 64,
    sort_pool_size: int | None = None,
    packing_buffer_size: int | None = None,
    limit: int | None = None,
    task_encoder: TaskEncoder[Any, Any, Any, T_batch] | None = None,
    on_error: str = "raise",
    failure_tolerance: int = 100,
    tensors: str | None = None,
    exclude_files: list[str] | None = None,
    cache_dir: str | None = None,
    verify_checksums: bool = True,
    subflavors: dict[str, Any] | None = None,
    dataset_config: str | None = None,
    split_config: str | None = None,
    sample_type: type | None = None,
    sample_types: Mapping[str, Any] | None = None,
    allow_imports: Iterable[Allowed] | None = None,
) -> Dataset[T_batch]:
    """Data for validation: each sample once, in order.

    Args:
        path: A dataset, a folder or pattern of tars, a JSONL file or a metadataset.
        worker_config: Ranks, workers and seed.
        batch_size: Samples, or packs, in a batch; without it, single samples are delivered.
        split_part: Part of a prepared dataset, or split of a metadataset.
        batch_drop_last: Drop the samples at the end of an epoch that do not fill a batch.
        samples_per_call: Number of samples in a call of encode_samples.
        sort_pool_size: Number of samples that are sorted by cost together; unset means no sorting.
        packing_buffer_size: Number of samples from which packs are selected; unset means no
            packing.
        limit: Batches of this rank in one epoch of validation; unset and 0 mean all.
        task_encoder: Functions and decoders; unset means a DefaultTaskEncoder.
        on_error: 'raise', or 'skip' to leave out samples and shards that cannot be used.
        failure_tolerance: With on_error skip, this many failures in a row end the run; 0 means no
            limit.
        tensors: Class of tensors from native stages: 'torch', 'numpy' or 'energon' (the class
            Tensor); unset means 'torch' if torch is installed, else 'numpy' if NumPy is, else
            'energon'.
        exclude_files: Quarantine files that list the samples and shards to leave out. All other
            samples keep their places, so a job may go on with other files; see exclude().
        cache_dir: Folder for indices and expanded shards that cannot be kept next to the data.
        verify_checksums: Compare samples with their stored checksums.
        subflavors: Merged into the subflavors of all samples; these take precedence.
        dataset_config: File in .nv-meta that describes the samples of the dataset, instead of
            dataset.yaml; in a metadataset, set it there.
        split_config: File in .nv-meta that lists the shards of each part of the dataset, instead of
            split.yaml; in a metadataset, set it there.
        sample_type: Raise a TypeError if samples belong to another class.
        sample_types: Classes and functions of yours for names in metadata files of the data, such
            as {"MyWebdataset": MyWebdataset} for a dataset.yaml with this `__class__`. A name may
            have its module: "my.module.MyWebdataset".
        allow_imports: What metadata files may import: names of modules, which include their
            submodules, and folders, whose Python files may run; "*" allows everything.
    """
    given = dict(locals())
    del given["sample_type"]
    arguments = {name: given[name] for name in _BUILD_VAL_ARGUMENTS}
    return _built(_val_recipe(**given), arguments, sample_type)


def _val_recipe(
    path: str | os.PathLike[str],
    *,
    worker_config: WorkerConfig,
    batch_size: int | None,
    split_part: str,
    batch_drop_last: bool,
    samples_per_call: int,
    sort_pool_size: int | None,
    packing_buffer_size: int | None,
    limit: int | None,
    task_encoder: Encoder | None,
    on_error: str,
    failure_tolerance: int,
    tensors: str | None,
    exclude_files: list[str] | None,
    cache_dir: str | None,
    verify_checksums: bool,
    subflavors: dict[str, Any] | None,
    dataset_config: str | None,
    split_config: str | None,
    sample_types: Mapping[str, Any] | None,
    allow_imports: Iterable[Allowed] | None,
) -> DatasetRecipe:
    options = _common_options(
        batch_size,
        batch_drop_last,
        samples_per_call,
        sort_pool_size,
        packing_buffer_size,
        on_error,
        failure_tolerance,
        tensors,
    )
    options |= _data_options(split_part, exclude_files, cache_dir, verify_checksums)
    options |= _config_options(subflavors, dataset_config, split_config)
    options["limit"] = limit
    permissions = permissions_of(sample_types, allow_imports)
    return make_recipe(path, False, worker_config, task_encoder, options, permissions)


@takes_old_options
@explains_dataset_options
def get_val_datasets(
    path: str | os.PathLike[str],
    *,
    worker_config: WorkerConfig,
    batch_size: int | None,
    split_part: str = "val",
    batch_drop_last: bool = False,
    samples_per_call: int = 64,
    sort_pool_size: int | None = None,
    packing_buffer_size: int | None = None,
    limit: int | None = None,
    task_encoder: TaskEncoder[Any, Any, Any, T_batch] | None = None,
    on_error: str = "raise",
    failure_tolerance: int = 100,
    tensors: str | None = None,
    exclude_files: list[str] | None = None,
    cache_dir: str | None = None,
    verify_checksums: bool = True,
    subflavors: dict[str, Any] | None = None,
    dataset_config: str | None = None,
    split_config: str | None = None,
    sample_type: type | None = None,
    sample_types: Mapping[str, Any] | None = None,
    allow_imports: Iterable[Allowed] | None = None,
) -> list[tuple[Dataset[T_batch], DatasetSource]]:
    """Opens each dataset of a metadataset separately, to evaluate it by itself.

    Takes the arguments of get_val_dataset().

    Returns:
        A dataset and its source for each dataset of the metadataset.
    """
    given = dict(locals())
    del given["sample_type"]
    arguments = {name: given[name] for name in _BUILD_VAL_ARGUMENTS}
    recipe = _val_recipe(**given)
    sources = sources_of(recipe.path, split_part, dataset_config)
    datasets = []
    for leaf, (pipeline, source) in enumerate(zip(recipe.open_leaves(), sources)):
        dataset = _built(recipe.changed(leaf=leaf), arguments, sample_type, pipeline)
        merged = {**source.subflavors, **(subflavors or {})}
        length = pipeline.lengths[0]
        datasets.append((dataset, dataclasses.replace(source, length=length, subflavors=merged)))
    return datasets


def _built(
    recipe: DatasetRecipe,
    arguments: dict[str, Any],
    sample_type: type | None,
    pipeline: _core.Pipeline | None = None,
) -> Dataset[Any]:
    """Opens the dataset, by the method of the task encoder if it overrides the one that builds
    datasets. `pipeline` is that of the recipe, if it was made before."""
    dataset = _checked(Dataset(recipe, pipeline), sample_type)
    method = "build_train_datasets" if recipe.training else "build_val_datasets"
    if not overrides(recipe.task_encoder, method):
        return dataset
    from .dataset_config import BuiltDatasets

    datasets = BuiltDatasets(dataset)
    if recipe.training:
        arguments["blend_mode"] = datasets.sources.blend_mode
    build = getattr(recipe.task_encoder, method)
    built = build(datasets=datasets, worker_config=recipe.worker_config, **arguments)
    if not isinstance(built, Dataset):
        raise TypeError(
            f"{type(recipe.task_encoder).__name__}.{method}() must return a dataset, not a "
            f"{type(built).__name__}"
        )
    return built


def _checked(dataset: Dataset[T_batch], sample_type: type | None) -> Dataset[T_batch]:
    """Returns the dataset. Raises TypeError if some of its samples are not of this class."""
    if sample_type is None:
        return dataset
    if not isinstance(sample_type, type):
        raise TypeError(f"sample_type must be a class, not {sample_type!r}")
    recipe = dataset._recipe
    for leaf, name in enumerate(dataset._pipeline.sample_types, start=recipe.leaf or 0):
        found = getattr(native_types, name) if name else CrudeSample
        found = recipe.foreign.sample_types.get(leaf, found)
        if not isinstance(found, type):
            continue  # whatever a class of the program returns
        if not issubclass(found, sample_type):
            raise TypeError(
                f"the samples of {dataset.path} must belong to the class {sample_type.__name__}, "
                f"but belong to {found.__name__}"
            )
    return dataset


def _common_options(
    batch_size: int | None,
    drop_last: bool,
    samples_per_call: int,
    sort_pool_size: int | None,
    packing_buffer_size: int | None,
    on_error: str,
    failure_tolerance: int,
    tensors: str | None,
) -> dict[str, Any]:
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error must be 'raise' or 'skip', not {on_error!r}")
    if isinstance(samples_per_call, int) and not 1 <= samples_per_call <= _MOST_SAMPLES_PER_CALL:
        raise ValueError(
            f"samples_per_call is {samples_per_call}, expected 1 to {_MOST_SAMPLES_PER_CALL}"
        )
    return {
        "batch_size": batch_size,
        "remainder": "drop" if drop_last else "smaller-batch",
        "samples_per_call": samples_per_call,
        "sort_pool_size": sort_pool_size,
        "packing_buffer_size": packing_buffer_size,
        "on_error": "skip" if on_error == "skip" else "fail",
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
        "verify_checksums": "always" if verify_checksums else "off",
    }


def _config_options(
    subflavors: dict[str, Any] | None, dataset_config: str | None, split_config: str | None
) -> dict[str, Any]:
    return {
        "subflavors": {} if subflavors is None else subflavors,
        "dataset_config": dataset_config,
        "split_config": split_config,
    }
