"""Converts states that megatron-energon's loaders saved into states of this library."""

from __future__ import annotations

import base64
import json
import os
from typing import Any, Sequence, Union

from . import _core
from ._core import LoaderState
from ._explained_options import checks_options
from ._shard_paths import path_text
from .datasets import Dataset
from .lookup import _keeping_random_numbers

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


@checks_options
def import_energon_state(
    dataset: Dataset, files: Paths, *, functions_skip: bool = True
) -> list[LoaderState]:
    """Converts the states of a megatron-energon job, so that loaders of `dataset` continue it at
    its next batch.

    Pickles are read as data: their code is not run, and no class is imported.

    Energon's workers keep their state once a minute. With functions_skip, the batches that they
    delivered since then are made again, in this process. If functions decide which samples are in a
    batch (packing, groups, generators, encode_samples), all earlier batches are made again.
    Otherwise, no data is read and no function is called.

    With encode_samples, which reads ahead, pass functions_skip=False, or a `dataset` that has
    samples_per_call=1; the loader's may have more. Else the import is a StateMismatchError.

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


def import_rank_state(dataset: Dataset, state: Any) -> LoaderState:
    """Converts a SavableDataLoaderState of Energon, or the class of that name of this package. As
    import_energon_state() for the rank in the dataset's worker configuration."""
    if type(state).__name__ != "SavableDataLoaderState":
        raise TypeError(
            "a state must be what save_state_rank() or state_dict() returned, the bytes of a state "
            f"file or a SavableDataLoaderState of Energon, not a {type(state).__name__}"
        )
    if not state.worker_states:
        raise ValueError(
            "worker_states of the state is empty: expected one for each worker, and one for "
            "num_workers=0"
        )
    form = {
        "next_worker_id": state.next_worker_id,
        "micro_batch_size": state.micro_batch_size,
        "has_workers": not isinstance(state.worker_states[0], dict),
        "workers": [_worker_form(worker) for worker in state.worker_states],
    }
    with _keeping_random_numbers(dataset):
        options = dataset.worker_config._options()
        return _core.import_energon_rank(dataset._pipeline, options, json.dumps(form))


def _worker_form(worker: Any) -> dict[str, Any]:
    if isinstance(worker, dict):  # without worker processes
        index = worker.get("_sample_index")
        return {"sample_index": index, "offset": 0, "state": _plain(worker)}
    if worker.state is None:
        # Energon's mark of a worker that had not begun is before its first batch, at -1.
        return {"sample_index": 0, "offset": max(worker.offset, 1) - 1, "state": None}
    tree = _plain(worker.state.dataset_state)
    return {"sample_index": worker.state.sample_index, "offset": worker.offset, "state": tree}


def _plain(value: Any) -> Any:
    """The value as the native part reads it: bytes as base64, objects as their fields."""
    if isinstance(value, (bytes, bytearray)):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if type(value).__name__ == "SliceState":
        return {"index": value.index, "current": value.current}
    return value
