"""Where samples come from: SourceInfo. Names match those of Energon's module."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from ._explained_options import checks_fields

__all__ = ["SourceInfo", "add_source_info", "get_source_info"]


@checks_fields
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceInfo:
    """The place that data of a sample was read from. Compared by the first four fields.

    Attributes:
        dataset_path: The dataset.
        index: The index of the sample in its shard.
        shard_name: The shard, relative to the dataset; for a folder of files, the file.
        file_names: The files that were read. Empty in sources that the library makes.
        byte_offset: The place in the shard, or None if it is not known.
        byte_size: The number of bytes there, or None if it is not known.
    """

    dataset_path: str
    index: str | int
    shard_name: str
    file_names: tuple[str, ...] = ()
    byte_offset: int | None = dataclasses.field(default=None, compare=False)
    byte_size: int | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dataset_path", os.fspath(self.dataset_path))

    def __repr__(self) -> str:
        return f"SourceInfo({self.dataset_path}/{self.shard_name}, index {self.index})"


def make_source(
    dataset_path: str, index: int, shard_name: str, byte_offset: int, byte_size: int
) -> SourceInfo:
    return SourceInfo(
        dataset_path=dataset_path,
        index=index,
        shard_name=shard_name,
        byte_offset=byte_offset,
        byte_size=byte_size,
    )


def add_source_info(sample: Any, *source_infos: SourceInfo) -> Any:
    """Adds sources to a sample or dict that has sources. Returns it."""
    if isinstance(sample, dict):
        sample["__sources__"] = (*(sample.get("__sources__") or ()), *source_infos)
    elif sample is not None and hasattr(sample, "__sources__"):
        sample.__sources__ = (*(sample.__sources__ or ()), *source_infos)
    return sample


def get_source_info(sample: Any) -> list[SourceInfo] | None:
    """Returns the sources of a sample or of a list of samples, or None."""
    if isinstance(sample, list):
        lists = [get_source_info(one) for one in sample]
        return [source for sources in lists for source in sources or ()] or None
    if isinstance(sample, dict):
        sources = sample.get("__sources__")
    else:
        sources = getattr(sample, "__sources__", None)
    return list(sources) if sources else None
