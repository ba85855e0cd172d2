"""Positions of loaders as values: LoaderState for one rank, JobState for a job."""

from __future__ import annotations

import collections
import os
from typing import Any, Iterable, Mapping, Sequence, Union

from ._core import JobState, LoaderState
from ._explained_options import checks_options
from .worker_config import WorkerConfig

_STATE = "energon_cpp.state"
STATES = "energon_cpp.ranks"  # the entry of AllRanks: a list

AnyState = Union[LoaderState, bytes, bytearray, Mapping[str, Any]]


@checks_options
def rescale_states(states: Iterable[AnyState], worker_config: WorkerConfig) -> LoaderState:
    """Returns the state with which the rank of `worker_config` continues a job of any number of
    ranks. Each rank calls this with all states. No sample of the epoch is lost or repeated.

    Set logical_shards in the worker configurations of both jobs. The new number of ranks can then
    be any divisor of logical_shards, with any number of workers. Without logical_shards, ranks
    times workers must stay the same.

    Args:
        states: The states that all ranks of the job saved at the same step, in any order: from
            save_state_rank() or state_dict().
        worker_config: The rank and the job that continue.

    Raises:
        StateMismatchError: The states do not belong together, or some are missing.
        InvalidArgumentError: The states cannot continue on this number of ranks or workers.
    """
    job = JobState.merge([as_loader_state(state) for state in states])
    rescaled = job.rescale(
        world_size=worker_config.world_size,
        num_workers=worker_config.num_workers,
        allow_uneven=worker_config.allow_uneven,
    )
    return rescaled.state_of_rank(worker_config.rank)


def redistribute_files(
    files: Sequence[str | os.PathLike[str]], folder: str | os.PathLike[str], world_size: int
) -> None:
    """Converts the states of a job that torch.save() wrote, one file for each rank, to another
    number of ranks with as many workers in total. Writes state_rank0.pt and so on to the folder.

    Raises:
        StateMismatchError: The states do not belong together, or some are missing.
        ValueError: The number of workers is not divisible by that of ranks.
    """
    import torch

    states = [as_loader_state(torch.load(file, weights_only=True)) for file in files]
    job = JobState.merge(states)
    workers = sum(len(rank["checkpoints"]) for rank in job.describe()["ranks"])
    if world_size < 1 or workers % world_size != 0:
        raise ValueError(f"{workers} workers cannot be divided among {world_size} ranks")
    rescaled = job.rescale(world_size, workers // world_size)
    os.makedirs(folder, exist_ok=True)
    for rank in range(world_size):
        torch.save(rescaled.state_of_rank(rank), os.path.join(folder, f"state_rank{rank}.pt"))


def as_state_dict(state: LoaderState) -> dict[str, Any]:
    """Returns the state as a dict of plain types, which torch.load(weights_only=True) reads."""
    return {_STATE: bytes(state)}


def reduced(state: LoaderState) -> Any:
    """The pickle of a LoaderState: its dict, made of a class that torch.load(weights_only=True) and
    other restricted unpicklers know."""
    return collections.OrderedDict, (list(as_state_dict(state).items()),)


def bytes_in(state: Mapping[str, Any]) -> Any:
    """The bytes of a state that was converted to a dict, or None."""
    return state.get(_STATE)


def as_loader_state(state: AnyState) -> LoaderState:
    """Converts a state, its bytes or its dict. A pickled state is read as a dict.

    Raises:
        ValueError: The dict is not the state of a loader.
        CorruptDataError: The bytes are damaged.
    """
    if isinstance(state, LoaderState):
        return state
    if isinstance(state, Mapping):
        if _STATE not in state:
            hint = "; load it with energon_cpp.torch.AllRanks(loader)" if STATES in state else ""
            raise ValueError(
                f"not the state of a loader: expected entry '{_STATE}', found {list(state)}{hint}"
            )
        return LoaderState(bytes(state[_STATE]))
    return LoaderState(bytes(state))
