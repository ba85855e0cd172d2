"""Positions of loaders as values: LoaderState for one rank, JobState for a job."""

from __future__ import annotations

import collections
from typing import Any, Iterable, Mapping, Union

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
