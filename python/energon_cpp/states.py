"""Positions of loaders as values: of one rank (LoaderState) and of a job (JobState)."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Union

from ._core import JobState, LoaderState
from .worker_config import WorkerConfig

_STATE = "energon_cpp.state"

AnyState = Union[LoaderState, bytes, Mapping[str, Any]]


def rescale_states(states: Iterable[AnyState], worker_config: WorkerConfig) -> LoaderState:
    """The state with which the rank of `worker_config` continues a job of any number of ranks.

    states: those that all ranks of the job saved at the same step, in any order: from
    save_state_rank() or state_dict(). No sample of the epoch is lost or comes twice. Set
    logical_shards in the worker configurations of both jobs: with it, the number of ranks may
    become any that divides it, and the number of workers may change; without it, ranks times
    workers must stay the same. Each rank calls this with all states. Throws StateMismatchError,
    InvalidArgumentError.
    """
    job = JobState.merge([as_loader_state(state) for state in states])
    rescaled = job.rescale(
        world_size=worker_config.world_size,
        num_workers=worker_config.num_workers,
        allow_uneven=worker_config.allow_uneven,
    )
    return rescaled.state_of_rank(worker_config.rank)


def as_state_dict(state: LoaderState) -> dict[str, Any]:
    """Of plain types, which torch.load(weights_only=True) reads."""
    return {_STATE: bytes(state)}


def as_loader_state(state: AnyState) -> LoaderState:
    """Of a state, its bytes or its dict. Throws ValueError for another dict, CorruptDataError."""
    if isinstance(state, LoaderState):
        return state
    if isinstance(state, Mapping):
        if _STATE not in state:
            raise ValueError(f"no state of a loader: entries {list(state)}, needs '{_STATE}'")
        return LoaderState(bytes(state[_STATE]))
    return LoaderState(bytes(state))
