"""States that megatron-energon's loaders saved, made into states of ours."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Sequence, Union

from . import _core
from ._core import LoaderState
from ._errors import CorruptDataError, NotFoundError, WaitTimeoutError
from .datasets import Dataset
from .lookup import _keeping_random_numbers

_READER = pathlib.Path(__file__).parent / "_energon_pickle.py"

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def import_energon_state(
    dataset: Dataset, files: Paths, *, functions_skip: bool = True, timeout: float = 600
) -> list[LoaderState]:
    """The states, by rank, with which loaders of `dataset` continue a job of megatron-energon at
    the batch that comes next there.

    dataset: made as in that job, with its task encoder, number of workers and world size. files:
    what torch.save() or pickle.dump() wrote of save_state_rank() of all ranks, by rank; one file of
    save_state_global(); or the file of the rank in the dataset's worker configuration alone.
    functions_skip: whether functions may leave out samples (SkipSample, errors that are handled).
    timeout: seconds to read the pickles.

    The pickles are read in another process, which loads no foreign class. Energon's workers keep
    their state once a minute; with functions_skip the batches that they delivered since are made
    again, in this process. Where functions decide which samples are in a batch (packing, groups,
    generators), all batches before are. Otherwise no data is read and no function is called. Throws
    StateMismatchError, with the place, if the job had other data, options or functions;
    CorruptDataError for other files; UnsupportedError; WaitTimeoutError; what functions throw.
    """
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    json = _read_pickles([os.fspath(path) for path in paths], timeout)
    with _keeping_random_numbers(dataset):
        options = dataset.worker_config._options()
        return _core.import_energon_states(dataset._pipeline, options, json, functions_skip)


def _read_pickles(paths: list[str], timeout: float) -> str:
    """What _energon_pickle.py writes about the files."""
    if not sys.executable:
        raise NotFoundError("sys.executable is empty: there is no interpreter to read the pickles")
    command = [sys.executable, "-I", "-S", str(_READER), *paths]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise WaitTimeoutError(f"the pickles were not read within {timeout} s: {paths}") from None
    if done.returncode != 0:
        problem = done.stderr.strip() or f"the reader of {paths} ended with {done.returncode}"
        raise CorruptDataError(f"no state of a loader of Energon was read: {problem}")
    return done.stdout
