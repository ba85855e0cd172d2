"""The ranks and workers of a job: WorkerConfig."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from . import _core, _process
from ._explained_options import checks_fields
from .errors import ErrorHandler


NOT_ACTIVE = (
    "batches and samples have an index only in functions of a task encoder that a loader calls; by "
    "hand, call worker_activate() of the WorkerConfig first"
)


class _Active:
    """What WorkerConfig.worker_activate() and tests set by hand, where no pipeline runs."""

    config: Any = None
    indices: list[int] | None = None
    global_worker_id: int | None = None


class _WorkerConfigType(type):
    @property
    def active_worker_config(cls) -> Any:
        """In a function of a task encoder, the configuration of its worker; elsewhere None. Objects
        have it, too."""
        active = _core.active_call()
        return _Active.config if active is None else active[0]

    @active_worker_config.setter
    def active_worker_config(cls, config: Any) -> None:
        _Active.config = config

    @active_worker_config.deleter
    def active_worker_config(cls) -> None:
        _Active.config = None


class _OfObjects:
    """A base class, so that WorkerConfig itself can be patched by tests."""

    if TYPE_CHECKING:
        active_worker_config: ClassVar[Any]
    else:

        @property
        def active_worker_config(self):
            return WorkerConfig.active_worker_config


@checks_fields
@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerConfig(_OfObjects, metaclass=_WorkerConfigType):
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
        if _Active.global_worker_id is not None:
            return _Active.global_worker_id % max(self.num_workers, 1)
        return _process.worker_id or 0

    def global_worker_id(self, override_local_worker_id: int | None = None) -> int:
        """The index of the worker among the workers of all ranks."""
        local = override_local_worker_id
        if local is None and _Active.global_worker_id is not None:
            return _Active.global_worker_id
        return self.rank * self.num_workers + (self.rank_worker_id() if local is None else local)

    def worker_seed(self, override_local_worker_id: int | None = None) -> int:
        """The seed of Energon's worker: a number of 32 bits that depends on global_worker_id() and
        seed_offset. The library seeds random numbers for each call of a function instead."""
        worker = self.rank
        if self.num_workers > 0:
            worker = self.global_worker_id(override_local_worker_id)
        import hashlib  # takes long

        digest = hashlib.sha1(f"{worker},{self.seed_offset}".encode()).digest()
        return int.from_bytes(digest, "big") & 0xFFFFFFFF

    @property
    def active_worker_sample_index(self) -> int:
        """In a function, the number of its call in this rank (TaskEncoder.current_sample_index)."""
        return self._index(1, -1)

    @property
    def active_worker_batch_index(self) -> int:
        """In a function, the number of the batch in this rank (TaskEncoder.current_batch_index)."""
        return self._index(2, 0)

    def _index(self, of_call: int, by_hand: int) -> int:
        active = _core.active_call()
        if active is not None:
            return int(active[of_call])
        if _Active.indices is None:
            raise RuntimeError(NOT_ACTIVE)
        return _Active.indices[by_hand] * max(self.num_workers, 1) + self.rank_worker_id()

    def worker_activate(
        self, sample_index: int, override_global_rank: int | None = None, cache_pool: Any = None
    ) -> None:
        """Makes this the active_worker_config of the process, until worker_deactivate(). For tests
        that call functions of a task encoder by hand; in a loader, functions have one anyway.

        Args:
            sample_index: The number of the batch, and of the call, in this worker.
            override_global_rank: The result of global_worker_id().
            cache_pool: Accepted without effect.
        """
        if _Active.config is not None:
            raise RuntimeError("a worker configuration is active: call worker_deactivate() first")
        _Active.config = self
        _Active.indices = [sample_index]
        _Active.global_worker_id = override_global_rank

    def worker_push_sample_index(self, sample_index: int) -> None:
        """Sets the number of the call, until worker_pop_sample_index()."""
        assert _Active.indices is not None, "call worker_activate() first"
        _Active.indices.append(sample_index)

    def worker_pop_sample_index(self) -> int:
        assert _Active.indices is not None, "call worker_activate() first"
        return _Active.indices.pop()

    def worker_deactivate(self) -> None:
        """Ends worker_activate()."""
        _Active.config = _Active.indices = _Active.global_worker_id = None

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
