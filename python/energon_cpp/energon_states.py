"""Converts states that megatron-energon's loaders saved into states of this library."""

from __future__ import annotations

import os
from typing import Sequence, Union

from . import _core
from ._core import LoaderState
from ._shard_paths import path_text
from .datasets import Dataset
from .lookup import _keeping_random_numbers

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def import_energon_state(
    dataset: Dataset, files: Paths, *, functions_skip: bool = True
) -> list[LoaderState]:
    """Converts the states of a megatron-energon job, so that loaders of `dataset` continue it at
    its next batch.

    Pickles are read as data: their code is not run, and no class is imported.

    Energon's workers keep their state once a minute. With functions_skip, the batches that they
    delivered since then are made again, in this process. If functions decide which samples are in a
    batch (packing, groups, generators), all earlier batches are made again. Otherwise, no data is
    read and no function is called.

    Args:
        dataset: Made as in that job, with its task encoder, number of workers and world size.
        files: Files that torch.save() or pickle.dump() wrote: the states from save_state_rank() of
            all ranks, by rank; the states from save_state_global() in one file; or only the state
            of the rank in the dataset's worker configuration.
        functions_skip: Whether functions may leave out samples (SkipSample, handled errors).

    Returns:
        The states by rank.

    Raises:
        StateMismatchError: The job had other data, options or functions. The message names the
            place of the difference.
        CorruptDataError: A file is not such a state, or is damaged.
        NotFoundError: A file does not exist.
        UnsupportedError: The state uses a feature that cannot be converted.

    Exceptions of functions are raised, too.
    """
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    with _keeping_random_numbers(dataset):
        options = dataset.worker_config._options()
        texts = [path_text(path) for path in paths]
        return _core.import_energon_states(dataset._pipeline, options, texts, functions_skip)
