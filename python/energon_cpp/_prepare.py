"""Prepares data in this process, with the functions and classes of Energon."""

from __future__ import annotations

import os
import random
import re
from typing import Any, Callable, Iterator, Sequence

from . import _core
from ._epath import AnyPath
from ._errors import UnsupportedError
from ._shard_paths import path_text
from ._warnings import warn
from .media import MediaFilterConfig

# Names of files in a prepared dataset.
MAIN_FOLDER_NAME = ".nv-meta"
INDEX_SQLITE_FILENAME = "index.sqlite"
INDEX_UUID_FILENAME = "index.uuid"
INFO_JSON_FILENAME = ".info.json"
INFO_YAML_FILENAME = ".info.yaml"
SPLIT_YAML_FILENAME = "split.yaml"

# At most this many threads, as in `energon prepare`.
_MOST_THREADS = 16

Progress = Callable[[Iterator[Any], int], Iterator[Any]]


class WebdatasetPreparator:
    """Prepares folders of shards."""

    @classmethod
    def prepare_dataset(
        cls,
        parent_path: AnyPath,
        paths: Sequence[str],
        *,
        split_parts_ratio: Sequence[tuple[str, float]] | None = None,
        split_parts_patterns: Sequence[tuple[str, str]] | None = None,
        split_config: str = "split.yaml",
        shuffle_seed: int | None = 42,
        progress_fn: Progress = lambda shards, count: shards,
        workers: int = 32,
        tar_index_only: bool = False,
        media_filter: MediaFilterConfig | None = None,
        fix_duplicates: bool = False,
        index_sqlite_tmp_path: AnyPath | None = None,
    ) -> set[str]:
        """Indexes shards and divides them into split parts. Prepares again what is prepared. Writes
        no dataset.yaml.

        Args:
            parent_path: The folder of the dataset.
            paths: Shards below the folder, or brace patterns of shards.
            split_parts_ratio: Names of parts and their shares of the shards.
            split_parts_patterns: Names of parts and regular expressions, matched from the start of
                a shard's name.
            split_config: Name of the file that lists the shards of each part: .yaml or .json.
            shuffle_seed: Seed with which the shards are shuffled before they are divided by ratio;
                None keeps their order.
            progress_fn: Called with an iterator and the number of shards; the iterator that it
                returns is advanced for each shard, and to its end after the last one.
            workers: Number of threads, at most 16.
            tar_index_only: Not supported.
            media_filter: Parts whose media metadata is stored.
            fix_duplicates: Not supported.
            index_sqlite_tmp_path: Accepted without effect.

        Returns:
            The names of the parts, at most 50.

        Raises:
            CorruptDataError: Shards are damaged, or keys occur twice.
            UnsupportedError: tar_index_only or fix_duplicates is set.
        """
        if tar_index_only or fix_duplicates:
            name = "tar_index_only" if tar_index_only else "fix_duplicates"
            raise UnsupportedError(f"{name}=True is not supported: all files are written at once, "
                                   "and shards are never changed")  # fmt: skip
        if isinstance(paths, (str, bytes, os.PathLike)):
            listed = [os.fsdecode(paths)]
            raise TypeError(f"paths must be a list of shards or brace patterns: {listed}")
        _check_names(split_parts_patterns if split_parts_ratio is None else split_parts_ratio)
        shards = [shard for path in paths for shard in _core.expand_braces(path, False)]
        if split_parts_ratio is not None:
            split = _split_by_ratio(shards, split_parts_ratio, shuffle_seed)
        elif split_parts_patterns is not None:
            split = [(part, _matching(shards, part, text)) for part, text in split_parts_patterns]
        else:
            raise ValueError("set split_parts_ratio or split_parts_patterns")
        progress = iter(progress_fn(iter(range(len(shards))), len(shards)))
        folder = path_text(parent_path)
        threads = max(1, min(workers, _MOST_THREADS))
        found, problems = _core.prepare_shards(
            folder, shards, split, split_config, threads, lambda _: next(progress, None)
        )
        for _ in progress:  # to its end: what follows a generator's loop runs, too
            pass
        _warn(problems)
        if media_filter is not None:
            _add_media(folder, media_filter, workers)
        return set(found)

    @classmethod
    def add_media_metadata(
        cls,
        parent_path: AnyPath,
        *,
        media_filter: MediaFilterConfig,
        workers: int = 32,
        progress_fn: Progress = lambda shards, count: shards,
        index_sqlite_tmp_path: AnyPath | None = None,
    ) -> int:
        """Stores the metadata of images, sound and video of a prepared dataset. Returns their
        number. `progress_fn` is not called, and `index_sqlite_tmp_path` has no effect."""
        return _add_media(path_text(parent_path), media_filter, workers)


class JsonlPreparator:
    """Prepares JSONL files."""

    @classmethod
    def prepare_dataset(cls, path: AnyPath) -> int:
        """Writes the index of a JSONL file. Returns the number of samples."""
        samples, problems = _core.prepare_jsonl(path_text(path))
        _warn(problems)
        return samples


def prepare_metadataset(path: AnyPath) -> None:
    """Makes the indices of all joins of a metadataset. Otherwise they are made when it is
    opened for the first time."""
    _core.prepare_metadataset(path_text(path))


def prepare_filesystem_dataset(
    root_path: AnyPath,
    media_filter: MediaFilterConfig,
    *,
    progress: bool = False,
    workers: int = 16,
    index_sqlite_tmp_path: AnyPath | None = None,
) -> int:
    """Stores the metadata of images, sound and video in a folder of files. Returns their number.
    `progress` and `index_sqlite_tmp_path` have no effect."""
    return _add_media(path_text(root_path), media_filter, workers)


def _check_names(parts: Sequence[tuple[str, Any]] | None) -> None:
    names = [name for name, _ in parts or ()]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"part '{name}' is named twice: name each part once")


def _split_by_ratio(
    shards: list[str], ratios: Sequence[tuple[str, float]], seed: int | None
) -> list[tuple[str, list[str]]]:
    """The last part with a share takes the rest, so that rounding loses no shard."""
    names = list(shards)
    if seed is not None:
        random.Random(seed).shuffle(names)
    total = sum(ratio for _, ratio in ratios)
    if not total > 0 or any(ratio < 0 for _, ratio in ratios):
        raise ValueError(f"ratios must not be negative, and their sum must be above 0: {ratios}")
    last = max(i for i, (_, ratio) in enumerate(ratios) if ratio > 0)
    split = []
    share = 0.0
    begin = 0
    for i, (part, ratio) in enumerate(ratios):
        share += ratio / total
        end = len(names) if i >= last else int(len(names) * share)
        split.append((part, names[begin:end]))
        begin = end
    return split


def _matching(shards: list[str], part: str, pattern: str) -> list[str]:
    try:
        patterns = [re.compile(text) for text in _core.expand_braces(pattern, True)]
    except re.error as error:
        raise ValueError(
            f"split pattern '{pattern}' of part '{part}' is not valid: {error}; it is a regular "
            "expression, not a glob"
        ) from error
    names = [name for name in shards if any(one.match(name) for one in patterns)]
    if not names:
        warn(f"split pattern '{pattern}' of part '{part}' matches none of the {len(shards)} "
             "shards; it is a regular expression, not a glob")  # fmt: skip
    return names


def _add_media(path: str, media_filter: MediaFilterConfig, workers: int) -> int:
    threads = max(1, min(workers, _MOST_THREADS))
    strategy = media_filter.strategy.value
    return _core.add_media_metadata(path, strategy, list(media_filter.patterns), threads)


def _warn(problems: Sequence[str]) -> None:
    for problem in problems:
        warn(problem)
