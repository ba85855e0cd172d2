"""A dataset as a factory, for wrappers: get_dataset_from_config."""

from __future__ import annotations

import functools
import json
import os
from typing import Any, Callable

from ._errors import UnsupportedError
from ._explained_options import checks_options
from ._factories import BaseCoreDatasetFactory
from ._recipe import DatasetRecipe
from ._shard_paths import path_text
from .datasets import Dataset, get_train_dataset, get_val_dataset
from .metadataset import DatasetSource, LoadedDataset, LoadedDatasetList, sources_of
from .task_encoder import TaskEncoder
from .worker_config import WorkerConfig


_OF_TRAINING = (
    "max_samples_per_sequence",
    "parallel_slices",
    "repeat",
    "shuffle_buffer_size",
    "shuffle_over_epochs",
    "virtual_epoch_length",
)


class ConfiguredDataset(BaseCoreDatasetFactory[Any]):
    """A dataset that is not opened. Returned by get_dataset_from_config()."""

    def __init__(
        self, source: DatasetSource, subflavors: dict[str, Any], opened: Callable[[], Dataset]
    ) -> None:
        self.path = source.path
        self.paths = source.paths
        self.subflavors = {**source.subflavors, **subflavors}
        self._source = source
        self._opened = opened

    def build(self, worker_rotation_offset: int = 0) -> Dataset:
        """Opens its samples, each once in an epoch: for training in random order, else in order.
        `worker_rotation_offset` has no effect."""
        return self._opened()

    def as_file_store(self) -> Any:
        return self._source.as_file_store()


class BuiltDatasets(list[LoadedDataset]):
    """The datasets that TaskEncoder.build_train_datasets() gets.

    Args:
        dataset: The dataset that the task encoder does not change.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        recipe = dataset._recipe
        given = json.loads(recipe.options["subflavors"])
        split, config = recipe.options["split"], recipe.options["dataset_config"]
        self.sources = LoadedDatasetList(sources_of(recipe.path, split, config))
        if recipe.leaf is not None:  # of get_val_datasets()
            self.sources[:] = [self.sources[recipe.leaf]]
        super().__init__(
            LoadedDataset(
                one.weight,
                one.repetitions,
                ConfiguredDataset(one, given, functools.partial(self._open, place)),
            )
            for place, one in enumerate(self.sources)
        )

    def _open(self, place: int) -> Dataset:
        """One of the datasets, with decoded samples."""
        recipe = self._dataset._recipe
        encoder: TaskEncoder[Any, Any, Any, Any] = TaskEncoder()
        encoder.decoder = recipe.task_encoder.decoder
        options: dict[str, Any] = {**recipe.options, "batch_size": None}
        options |= {"packing_buffer_size": None, "sort_pool_size": None}
        in_order = {name: value for name, value in options.items() if name not in _OF_TRAINING}
        whole = DatasetRecipe(
            recipe.path,
            False,
            recipe.worker_config,
            encoder,
            {**in_order, "limit": None},
            permissions=recipe.permissions,
            leaf=place if recipe.leaf is None else recipe.leaf,
        )
        if not recipe.training:
            return Dataset(whole)
        source = self.sources[place]
        options |= {"virtual_epoch_length": 0, "shuffle_buffer_size": 0, "repeat": False}
        subflavors = json.dumps(self[place].dataset.subflavors)
        options |= {"split": source.split_part, "subflavors": subflavors}
        found = Dataset(recipe.changed(options=options, task_encoder=encoder, path=source.path))
        if source.kind == "join" or len(found) != len(Dataset(whole)):
            raise UnsupportedError(
                f"{source.path} cannot be built alone: it is joined, or only a subset is used; "
                "pass `datasets` to the method of the base class"
            )
        return found

    def whole(self, **options: Any) -> Dataset:
        """All datasets in one pipeline, as without an override."""
        recipe = self._dataset._recipe
        if all(recipe.options.get(name) == value for name, value in options.items()):
            return self._dataset
        return Dataset(recipe.changed(options=options, task_encoder=recipe.task_encoder))


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
    sources = sources_of(path_text(path), split_part, dataset_config)
    if len(sources) != 1:
        raise ValueError(
            f"{os.fspath(path)} is a metadataset of {len(sources)} datasets: use "
            "get_train_dataset() or get_val_dataset()"
        )
    options |= {
        "dataset_config": dataset_config,
        "split_config": split_config,
        "split_part": split_part,
        "subflavors": subflavors,
        "worker_config": worker_config,
        "sample_type": sample_type,
        "batch_size": None,
    }
    given: Callable[..., Dataset] = get_val_dataset
    if training:
        given = functools.partial(get_train_dataset, repeat=False)
    opened = functools.partial(given, path, **options)
    return ConfiguredDataset(sources[0], subflavors or {}, opened)
