"""Where a loader runs: WorkerConfig."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerConfig:
    """Rank, number of ranks and workers. All of them change the order of samples.

    rank: data-parallel rank of this process, from 0. world_size: number of ranks. num_workers:
    forked processes of this rank; 0: the pipeline runs in this process. seed_offset: changes every
    seed, so the same data in another order. logical_shards: a number that stays the same when ranks
    and workers change, so that a state can continue on another layout.
    """

    rank: int
    world_size: int
    num_workers: int = 4
    data_parallel_group: Any = dataclasses.field(default=None, compare=False)
    seed_offset: int = 0
    logical_shards: int | None = None
    allow_uneven: bool = False

    @staticmethod
    def default_worker_config(
        num_workers: int = 4, data_parallel_group: Any = None, **more: Any
    ) -> "WorkerConfig":
        """Rank and world size of torch.distributed if it is imported and initialised, else of the
        environment variables that torchrun sets (RANK, WORLD_SIZE), else one rank."""
        rank, world_size = _rank_and_world_size(data_parallel_group)
        return WorkerConfig(
            rank=rank,
            world_size=world_size,
            num_workers=num_workers,
            data_parallel_group=data_parallel_group,
            **more,
        )

    def _options(self) -> dict[str, Any]:
        options = {
            "rank": self.rank,
            "world_size": self.world_size,
            "num_workers": self.num_workers,
            "seed_offset": self.seed_offset,
            "allow_uneven": self.allow_uneven,
        }
        if self.logical_shards is not None:
            options["logical_shards"] = self.logical_shards
        return options


def _rank_and_world_size(group: Any) -> tuple[int, int]:
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(group), distributed.get_world_size(group)
    if group is not None:
        raise ValueError("data_parallel_group needs torch.distributed to be initialised")
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


default_worker_config = WorkerConfig.default_worker_config
