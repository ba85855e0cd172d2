"""The ranks and workers of a job: WorkerConfig."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Any

from . import _process
from .errors import ErrorHandler


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerConfig:
    """The rank, the number of ranks and the number of workers, which affect the order of samples.

    Args:
        rank: Data-parallel rank of this process, less than world_size.
        world_size: Number of data-parallel ranks.
        num_workers: Worker processes of this rank; 0 runs everything in this process.
        data_parallel_group: The group of torch.distributed that `rank` and `world_size` belong to;
            unset means all processes.
        seed_offset: Each value gives a different order of the same data.
        worker_debug_path: File for the log of batches; '{worker_id}' and '{pid}' in it are
            replaced.
        worker_log_level: 1 logs each batch of training to worker_debug_path, 2 also batches of
            validation.
        global_error_handler: Called in the worker for each sample whose function failed (see
            energon_cpp.errors); unset means that on_error of the dataset decides.
        restore_error_handler: The same for restore_sample(), in this process.
        logical_shards: Parts of the data that each have their own order, so that the order does not
            depend on ranks and workers; a multiple of world_size. Unset means one for each worker
            of the job.
        allow_uneven: Allow a number of logical_shards that is not a multiple of world_size.
    """

    rank: int
    world_size: int
    num_workers: int = 4
    data_parallel_group: Any = dataclasses.field(default=None, compare=False)
    seed_offset: int = 0
    worker_debug_path: str | None = dataclasses.field(default=None, compare=False)
    worker_log_level: int = dataclasses.field(default=0, compare=False)
    global_error_handler: ErrorHandler | None = dataclasses.field(default=None, compare=False)
    restore_error_handler: ErrorHandler | None = dataclasses.field(default=None, compare=False)
    logical_shards: int | None = None
    allow_uneven: bool = False

    @staticmethod
    def default_worker_config(
        num_workers: int = 4, data_parallel_group: Any = None, **more: Any
    ) -> "WorkerConfig":
        """Returns a configuration with the rank and world size of torch.distributed if it is
        imported and initialized, else of torchrun's environment variables (RANK, WORLD_SIZE), else
        of one rank."""
        rank, world_size = _rank_and_world_size(data_parallel_group)
        return WorkerConfig(
            rank=rank,
            world_size=world_size,
            num_workers=num_workers,
            data_parallel_group=data_parallel_group,
            **more,
        )

    def global_rank(self) -> int:
        """The rank of this process among all processes, not only in data_parallel_group."""
        if self.data_parallel_group is None:
            return self.rank
        distributed = sys.modules["torch.distributed"]
        rank: int = distributed.get_global_rank(self.data_parallel_group, self.rank)
        return rank

    def rank_worker_id(self) -> int:
        """In a function, the index of the worker that runs it, counted from 0. In the trainer,
        0."""
        return _process.worker_id or 0

    def global_worker_id(self, override_local_worker_id: int | None = None) -> int:
        """The index of the worker among the workers of all ranks."""
        local = override_local_worker_id
        return self.rank * self.num_workers + (self.rank_worker_id() if local is None else local)

    def config(self) -> dict[str, Any]:
        """The settings that must be equal to continue from a state, with the size of the group."""
        group = self.data_parallel_group
        config = {"rank": self.rank, "world_size": self.world_size}
        config |= {"num_workers": self.num_workers}
        return config | {"data_parallel_group": group.size() if group is not None else None}

    def should_log(self, level: int) -> bool:
        return level <= self.worker_log_level

    def _log_path(self, level: int) -> str | None:
        if not self.should_log(level):
            return None
        if self.worker_debug_path is None:
            raise ValueError("worker_log_level needs worker_debug_path, the path of the log file")
        return self.worker_debug_path

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
        raise ValueError("data_parallel_group needs torch.distributed to be initialized")
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


default_worker_config = WorkerConfig.default_worker_config
