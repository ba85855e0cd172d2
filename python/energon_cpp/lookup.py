"""Finds samples by their keys: get, exclude, restore_sample, which_step, which_keys."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Mapping, Sequence, Union

from . import _core, _random
from ._core import DeliveredStep, Delivery, ExcludedSample, LoaderState, RestoreKey
from ._explained_options import checks_options
from ._sample import CrudeSample
from ._shard_paths import path_text
from .datasets import Dataset
from .states import as_loader_state

# A state of a rank, also as a dict, or a state file of a rank or of a job.
State = Union[LoaderState, Mapping[str, Any], str, "os.PathLike[str]"]
States = Union[State, Sequence[State]]


@checks_options
def get(
    path: str | os.PathLike[str] | Dataset,
    key: str,
    *,
    split: str | None = None,
    cache_dir: str | None = None,
) -> CrudeSample:
    """Returns the sample with this key as it is stored: its parts by name. In plain tars, this
    reads headers until it finds the key.

    Args:
        path: Data of any kind that get_train_dataset() takes, or a Dataset.
        key: The key of the sample.
        split: The split to search; None means all splits.
        cache_dir: Folder for indices that cannot be kept next to the data.

    Raises:
        NotFoundError: No sample has this key.
    """
    where = path.path if isinstance(path, Dataset) else path_text(path)
    found: CrudeSample = _core.find_sample(where, key, split, cache_dir)
    return found


@checks_options
def exclude(
    path: str | os.PathLike[str] | Dataset,
    keys: str | Sequence[str],
    *,
    output: str | os.PathLike[str] | None = None,
    split: bool = False,
    remove: bool = False,
    cause: str = "excluded by hand",
    cache_dir: str | None = None,
) -> list[ExcludedSample]:
    """Adds samples to a quarantine file, which get_train_dataset() and get_val_dataset() take as
    `exclude_files`. All other samples keep their places, so a job can go on from its state with a
    longer file. Samples are found, but not read: they may be damaged.

    Args:
        path: Data of any kind that get_train_dataset() takes, or a Dataset.
        keys: Keys of samples, `SHARD/KEY`, or names of shards. A key that several shards have means
            all of these samples.
        output: The quarantine file, which need not exist. None writes nothing; the lines are in the
            result.
        split: Whether to change the list `exclude` of the split file of the dataset instead, as in
            Energon. This changes the order of all samples.
        remove: Whether to remove the samples instead.
        cause: Text for people, in each line.
        cache_dir: Folder for indices that cannot be kept next to the data.

    Raises:
        NotFoundError: A name is not in the data. Nothing was written.
    """
    where = path.path if isinstance(path, Dataset) else path_text(path)
    names = [keys] if isinstance(keys, str) else list(keys)
    file = "" if output is None else path_text(output)
    return _core.exclude(where, names, file, split, remove, cause, cache_dir)


@checks_options
def restore_sample(dataset: Dataset, key: RestoreKey | str) -> Any:
    """Rebuilds the batch that any rank of a job over `dataset` delivered with this
    `__restore_key__`, in this process, with the functions of the task encoder. Needs neither a
    loader nor a state."""
    key = RestoreKey(key) if isinstance(key, str) else key
    with _keeping_random_numbers(dataset):
        loader = _core.BasicLoader(dataset._pipeline, dataset.worker_config._options())
        return loader.restore_sample(key)  # no workers, which would start with an iteration


@checks_options
def which_step(dataset: Dataset, states: States, key: str) -> list[Delivery]:
    """Returns when the job with these states delivered the sample with this key.

    The result is computed from the order, without reading data, if nothing was left out and every
    sample became one sample. Otherwise, the functions and error policies of the dataset make all
    batches before the state again, which takes as long as the job took to load them.

    Args:
        dataset: The dataset of the job, made with the same options.
        states: States of ranks, or state files of ranks or of a job.
        key: The key of the sample.

    Returns:
        The deliveries by rank, then in order. Empty if the job did not deliver the sample before
        these states.

    Raises:
        StateMismatchError: The result differs from what the states record.
    """
    with _keeping_random_numbers(dataset):
        cache_dir = dataset._recipe.options["cache_dir"]
        return _core.which_step(dataset._pipeline, _ranks(states), dataset.path, key, cache_dir)


@checks_options
def which_keys(dataset: Dataset, states: States, step: int) -> list[DeliveredStep]:
    """Returns the keys of the samples that each rank delivered at `step`, computed like
    which_step().

    Args:
        dataset: The dataset of the job, made with the same options.
        states: States of ranks, or state files of ranks or of a job.
        step: Index of the batch, counted from 0 over all epochs: step 321 is the 322nd batch. For a
            step after the state, `is_delivered` is False, and the keys are those that a loader
            restored from the state delivers.
    """
    if step < 0:
        raise ValueError(f"step must be at least 0, not {step}")
    with _keeping_random_numbers(dataset):
        return _core.which_keys(dataset._pipeline, _ranks(states), step)


def _keeping_random_numbers(dataset: Dataset) -> Any:
    return _random.preserved() if dataset.calls_python else contextlib.nullcontext()


def _ranks(states: States) -> list[LoaderState]:
    if isinstance(states, (LoaderState, Mapping)):
        return [as_loader_state(states)]
    if isinstance(states, (str, os.PathLike)):
        return _core.read_states(path_text(states))
    if isinstance(states, Sequence):
        return [rank for state in states for rank in _ranks(state)]
    raise TypeError(
        "states must be LoaderState objects or paths of state files, one or a list of them, "
        f"not {type(states).__name__}"
    )
