"""A dataset as a factory, for wrappers: get_dataset_from_config."""

from __future__ import annotations

import os
from typing import Any

from ._explained_options import checks_options
from ._factories import BaseCoreDatasetFactory
from .datasets import Dataset, get_train_dataset, get_val_dataset
from .metadataset import DatasetSource, sources_of
from .worker_config import WorkerConfig


class ConfiguredDataset(BaseCoreDatasetFactory[Any]):
    """A dataset that is not opened. Returned by get_dataset_from_config()."""

    def __init__(self, source: DatasetSource, training: bool, options: dict[str, Any]) -> None:
        self.path = source.path
        self.paths = source.paths
        self.subflavors = {**source.subflavors, **(options["subflavors"] or {})}
        self.training = training
        self._source = source
        self._options = options

    def build(self, worker_rotation_offset: int = 0) -> Dataset:
        """Opens it: its samples, each once in an epoch. For training, they are shuffled as options
        of get_dataset_from_config() say; else they are in order. `worker_rotation_offset` has no
        effect."""
        if not self.training:
            return get_val_dataset(self.path, batch_size=None, **self._options)
        return get_train_dataset(self.path, batch_size=None, repeat=False, **self._options)

    def as_file_store(self) -> Any:
        return self._source.as_file_store()


@checks_options
def get_dataset_from_config(
    path: str | os.PathLike[str],
    *,
    dataset_config: str | None = None,
    split_config: str | None = None,
    split_part: str | None = None,
    training: bool = True,
    subflavors: dict[str, Any] | None = None,
    worker_config: WorkerConfig,
    sample_type: type | None = None,
    **options: Any,
) -> ConfiguredDataset:
    """Returns a dataset, not a metadataset, whose build() opens its samples for the wrappers
    MapDataset, BatchDataset and others. get_train_dataset() and get_val_dataset() are whole
    pipelines.

    Args:
        path: A prepared dataset or a JSONL file.
        dataset_config: File in .nv-meta that describes the samples, instead of dataset.yaml.
        split_config: File in .nv-meta that lists the shards of each part, instead of split.yaml.
        split_part: Part of the dataset; None means "train".
        training: Whether samples are shuffled.
        subflavors: Merged into the subflavors of all samples; these take precedence.
        worker_config: Ranks, workers and seed.
        sample_type: Raise a TypeError if samples belong to another class.
        **options: Others of get_train_dataset() or get_val_dataset().
    """
    split_part = split_part or "train"
    sources = sources_of(os.fspath(path), split_part, dataset_config)
    if len(sources) != 1:
        raise ValueError(
            f"{os.fspath(path)} is a metadataset of {len(sources)} datasets: use "
            "get_train_dataset() or get_val_dataset()"
        )
    return ConfiguredDataset(
        sources[0],
        training,
        {
            "dataset_config": dataset_config,
            "split_config": split_config,
            "split_part": split_part,
            "subflavors": subflavors,
            "worker_config": worker_config,
            "sample_type": sample_type,
            **options,
        },
    )
