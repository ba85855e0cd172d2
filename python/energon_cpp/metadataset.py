"""What a metadataset refers to: load_dataset, traverse_metadataset."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any

from . import _core
from ._file_stores import FileStore, open_store
from ._shard_paths import path_text

__all__ = [
    "DatasetLoader",
    "DatasetSource",
    "TraversedDatasetReference",
    "load_dataset",
    "traverse_metadataset",
]


@dataclasses.dataclass
class TraversedDatasetReference:
    """One dataset of a metadataset. aux: paths of its auxiliary datasets by name."""

    path: pathlib.Path
    split_part: str
    aux: dict[str, pathlib.Path]
    subflavors: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class DatasetSource:
    """One dataset that a pipeline reads. weight: its share in a blend by weight; repetitions: in an
    epochized blend; else None. length: samples in the split; None: not opened."""

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
        """Its files by name. Needs a prepared dataset or a JSONL file."""
        if self.kind == "join":
            raise NotImplementedError(f"the join in {self.path} has no files by name")
        return open_store(self.kind, self.path)

    def aux_store(self, name: str) -> FileStore[Any]:
        """The auxiliary dataset `name`."""
        return open_store(*self.aux[name])


class DatasetLoader:
    """A dataset or metadataset that is not opened. Made by load_dataset()."""

    def __init__(self, path: str | os.PathLike[str], split_part: str | None = None) -> None:
        self.path = path_text(path)
        self.split_part = split_part

    def get_datasets(self, split_part: str | None = None) -> list[DatasetSource]:
        """The datasets that the split has, with weights and subflavors resolved."""
        return sources_of(self.path, split_part or self.split_part or "train")

    def traverse(self, split_part: str | None = None) -> list[TraversedDatasetReference]:
        """The same as traverse_metadataset()."""
        return [_reference(source) for source in self.get_datasets(split_part)]


def load_dataset(
    path: str | os.PathLike[str], *, split_part: str | None = None
) -> DatasetLoader:
    """A dataset or metadataset, to look at. Pipelines are made by get_train_dataset()."""
    if isinstance(path, dict):
        raise TypeError("a metadataset cannot be a dict: write it to a YAML file, pass its path")
    return DatasetLoader(path, split_part)


def traverse_metadataset(
    path: str | os.PathLike[str], *, split_part: str
) -> list[TraversedDatasetReference]:
    """The datasets of a split of a metadataset, through all levels. Nothing is opened."""
    return load_dataset(path).traverse(split_part)


def sources_of(path: str, split_part: str) -> list[DatasetSource]:
    sources = []
    for leaf in _core.read_recipe(path, split_part):
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
