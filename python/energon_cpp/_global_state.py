"""Saves and restores the states of all ranks at once, through the script's torch.distributed."""

from __future__ import annotations

import sys
from typing import Any, Mapping, Sequence

from ._core import LoaderState
from .states import AnyState, as_loader_state
from .worker_config import WorkerConfig

States = Sequence["AnyState | None"]


class GlobalState:
    """The methods of a loader for the states of all ranks."""

    worker_config: WorkerConfig

    def save_state_rank(self) -> LoaderState:
        raise NotImplementedError

    def restore_state_rank(self, state: AnyState | Any | None) -> None:
        raise NotImplementedError

    def save_state_global(self, global_dst_rank: int) -> list[LoaderState] | None:
        """Gathers the states of all ranks. Call it on all ranks of the data-parallel group.

        Args:
            global_dst_rank: The process that receives the states, by its rank among all processes.

        Returns:
            The states by rank on that process, None on the others.
        """
        config = self.worker_config
        state = self.save_state_rank()
        if config.world_size == 1:
            return [state]
        distributed = _distributed("save_state_global")
        _check_member(distributed, config, global_dst_rank)
        is_target = config.global_rank() == global_dst_rank
        states: Any = [None] * config.world_size if is_target else None
        distributed.gather_object(state, states, global_dst_rank, group=config.data_parallel_group)
        return [as_loader_state(one) for one in states] if is_target else None

    def restore_state_global(self, state: States | None, *, src_rank: int | None = None) -> None:
        """Continues from the states that save_state_global() returned.

        Args:
            state: The list of states; None on ranks that receive their state from `src_rank`.
            src_rank: The rank of the data-parallel group that has the list; None means that each
                rank passes it.
        """
        config = self.worker_config
        if src_rank is None or config.world_size == 1:
            states = _checked(state, config)
            self.restore_state_rank(states[config.rank])
            return
        distributed = _distributed("restore_state_global(src_rank=...)")
        group = config.data_parallel_group
        source = src_rank if group is None else distributed.get_global_rank(group, src_rank)
        is_source = config.rank == src_rank
        states = _checked(state, config) if is_source else [None] * config.world_size
        received: list[Any] = [None]
        distributed.scatter_object_list(received, list(states), src=source, group=group)
        self.restore_state_rank(received[0])

    def save_state(self, dst_rank: int = 0) -> list[LoaderState] | None:
        """An older name of save_state_global()."""
        return self.save_state_global(dst_rank)

    def restore_state(self, state: States | None) -> None:
        """An older name of restore_state_global()."""
        self.restore_state_global(state)


def all_states(loader: Any) -> list[LoaderState]:
    """The states of all ranks, by rank, on each rank. All ranks of the data-parallel group call it.
    """
    config, state = loader.worker_config, loader.save_state_rank()
    distributed = sys.modules.get("torch.distributed")
    if config.world_size == 1 and not _is_initialized(distributed):
        return [state]
    distributed = _distributed("AllRanks")
    group = config.data_parallel_group
    found = (distributed.get_rank(group), distributed.get_world_size(group))
    if found != (config.rank, config.world_size):
        raise ValueError(
            f"the loader is of rank {config.rank} of {config.world_size}, but this is rank "
            f"{found[0]} of {found[1]} in {'torch.distributed' if group is None else 'its group'}: "
            "make the loader with WorkerConfig.default_worker_config() after torch.distributed is "
            "initialized, and with data_parallel_group if not all processes read different data"
        )
    if config.world_size == 1:
        return [state]
    states: list[Any] = [None] * config.world_size
    distributed.all_gather_object(states, state, group=group)
    return [as_loader_state(one) for one in states]


def _is_initialized(distributed: Any) -> bool:
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def _distributed(function: str) -> Any:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        raise RuntimeError(
            f"{function} with several ranks needs torch.distributed to be initialized; "
            "save_state_rank() and restore_state_rank() do not"
        )
    return distributed


def _check_member(distributed: Any, config: WorkerConfig, global_rank: int) -> None:
    group = config.data_parallel_group
    size = distributed.get_world_size()
    members = range(size) if group is None else distributed.get_process_group_ranks(group)
    if global_rank not in members:
        raise ValueError(f"rank {global_rank} is not one of the ranks {list(members)}")


def _checked(states: States | None, config: WorkerConfig) -> States:
    if states is None or isinstance(states, (bytes, LoaderState, Mapping)):
        raise TypeError(
            "the state must be the list that save_state_global() returned, not a "
            f"{type(states).__name__}"
        )
    if len(states) != config.world_size:
        raise ValueError(
            f"the state has {len(states)} ranks, but the job has {config.world_size}: convert it "
            "with `energon checkpoint rescale`"
        )
    return states
