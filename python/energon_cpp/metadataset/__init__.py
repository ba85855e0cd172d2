"""The datasets of a metadataset: load_dataset, traverse_metadataset."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import pathlib
from typing import Any

from .. import _core
from .._explained_options import checks_options
from .._file_stores import FileStore, open_store
from .._shard_paths import path_text

__all__ = [
    "DatasetBlendMode",
    "DatasetLoader",
    "DatasetSource",
    "LoadedDataset",
    "LoadedDatasetList",
    "TraversedDatasetReference",
    "load_dataset",
    "traverse_metadataset",
]


class DatasetBlendMode(enum.Enum):
    """How the datasets of a metadataset are mixed: not at all, by weight, or each a number of times
    in an epoch."""

    NONE = "none"
    DATASET_WEIGHT = "dataset_weight"
    SAMPLE_REPETITIONS = "sample_repetitions"


@dataclasses.dataclass
class TraversedDatasetReference:
    """One dataset of a metadataset.

    Attributes:
        path: The dataset.
        split_part: Its split.
        aux: Paths of its auxiliary datasets, by name.
        subflavors: Its subflavors.
    """

    path: pathlib.Path
    split_part: str
    aux: dict[str, pathlib.Path]
    subflavors: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class DatasetSource:
    """One dataset that a pipeline reads.

    Attributes:
        path: The dataset.
        kind: "webdataset", "jsonl" or "join".
        split_part: Its split.
        subflavors: Its subflavors.
        aux: Kind and path of its auxiliary datasets, by name.
        weight: Its share in a blend by weight, else None.
        repetitions: Its repetitions in an epochized blend, else None.
        length: Number of samples in the split, or None if the dataset is not opened.
    """

    path: str
    kind: str
    split_part: str
    subflavors: dict[str, Any]
    aux: dict[str, tuple[str, str]]
    weight: float | None = None
    repetitions: float | None = None
    length: int | None = None

    @property
    def paths(self) -> list[pathlib.Path]:
        return [pathlib.Path(self.path)]

    def __len__(self) -> int:
        if self.length is None:
            raise TypeError(f"the length of {self.path} is not known before it is opened")
        return self.length

    def as_file_store(self) -> FileStore[Any]:
        """Opens its files by name. Needs a prepared dataset or a JSONL file."""
        if self.kind == "join":
            raise NotImplementedError(f"the files of the join in {self.path} have no names")
        return open_store(self.kind, self.path)

    def aux_store(self, name: str) -> FileStore[Any]:
        """Opens the auxiliary dataset `name`."""
        return open_store(*self.aux[name])


@dataclasses.dataclass
class LoadedDataset:
    """A dataset of a metadataset, with its weight or its repetitions."""

    weight: float | None
    repetitions: float | None
    dataset: Any  # a DatasetSource, or a factory with build()


class LoadedDatasetList(list[DatasetSource]):
    """The datasets of a split, and how they are mixed. Also a list of the sources."""

    @property
    def datasets(self) -> list[LoadedDataset]:
        return [LoadedDataset(one.weight, one.repetitions, one) for one in self]

    @property
    def blend_mode(self) -> DatasetBlendMode:
        if any(one.repetitions is not None for one in self):
            return DatasetBlendMode.SAMPLE_REPETITIONS
        if any(one.weight is not None for one in self):
            return DatasetBlendMode.DATASET_WEIGHT
        return DatasetBlendMode.NONE


class DatasetLoader:
    """A dataset or metadataset that is not opened. Returned by load_dataset()."""

    def __init__(self, path: str | os.PathLike[str], split_part: str | None = None) -> None:
        self.path = path_text(path)
        self.split_part = split_part

    def get_datasets(
        self,
        split_part: str | None = None,
        *,
        training: bool = False,
        worker_config: Any = None,
        subflavors: dict[str, Any] | None = None,
    ) -> LoadedDatasetList:
        """Returns the datasets of the split, with weights and subflavors resolved.

        Args:
            split_part: The split; None means that of load_dataset(), or "train".
            training: Accepted without effect: the datasets are not opened.
            worker_config: Accepted without effect.
            subflavors: Merged into the subflavors of all datasets; these take precedence.
        """
        sources = sources_of(self.path, split_part or self.split_part or "train")
        return LoadedDatasetList(
            dataclasses.replace(one, subflavors={**one.subflavors, **(subflavors or {})})
            for one in sources
        )

    def traverse(self, split_part: str | None = None) -> list[TraversedDatasetReference]:
        """Like traverse_metadataset()."""
        split_part = split_part or self.split_part or "train"
        return [_reference(one) for one in sources_of(self.path, split_part, lists_only=True)]


@checks_options
def load_dataset(
    path: str | os.PathLike[str], *, split_part: str | None = None
) -> DatasetLoader:
    """Returns a dataset or metadataset for inspection. For a pipeline, use get_train_dataset()."""
    if isinstance(path, dict):
        raise TypeError("a metadataset cannot be a dict: write it to a YAML file and pass its path")
    return DatasetLoader(path, split_part)


@checks_options
def traverse_metadataset(
    path: str | os.PathLike[str], *, split_part: str
) -> list[TraversedDatasetReference]:
    """Returns the datasets of a split of a metadataset, at all levels, with the subflavors of the
    metadatasets. Does not look at the datasets, which may be missing."""
    return load_dataset(path).traverse(split_part)


def sources_of(
    path: str, split_part: str, dataset_config: str | None = None, *, lists_only: bool = False
) -> list[DatasetSource]:
    sources = []
    for leaf in _core.read_recipe(path, split_part, dataset_config, lists_only):
        leaf["subflavors"] = json.loads(leaf["subflavors"])
        sources.append(DatasetSource(**leaf))
    return sources


def _reference(source: DatasetSource) -> TraversedDatasetReference:
    return TraversedDatasetReference(
        path=pathlib.Path(source.path),
        split_part=source.split_part,
        aux={name: pathlib.Path(path) for name, (_, path) in source.aux.items()},
        subflavors=source.subflavors,
    )
