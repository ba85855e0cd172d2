"""States that megatron-energon's loaders saved, made into states of ours."""

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
    """The states, by rank, with which loaders of `dataset` continue a job of megatron-energon at
    the batch that comes next there.

    dataset: made as in that job, with its task encoder, number of workers and world size. files:
    what torch.save() or pickle.dump() wrote of save_state_rank() of all ranks, by rank; one file of
    save_state_global(); or the file of the rank in the dataset's worker configuration alone.
    functions_skip: whether functions may leave out samples (SkipSample, errors that are handled).

    The pickles are read as data: no code of them is run, and no class is imported. Energon's
    workers keep their state once a minute; with functions_skip the batches that they delivered
    since are made again, in this process. Where functions decide which samples are in a batch
    (packing, groups, generators), all batches before are. Otherwise no data is read and no function
    is called. Throws StateMismatchError, with the place, if the job had other data, options or
    functions; CorruptDataError for other files; NotFoundError; UnsupportedError; what functions
    throw.
    """
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    with _keeping_random_numbers(dataset):
        options = dataset.worker_config._options()
        texts = [path_text(path) for path in paths]
        return _core.import_energon_states(dataset._pipeline, options, texts, functions_skip)
