"""The loaders and the form of Energon's states, under the names of Energon's module.

Loaders save a LoaderState, and restore_state_rank() takes both forms. The classes below are for
scripts that read, compare or convert states of Energon.
"""

from __future__ import annotations

from ._sample import edataclass
from .loaders import BasicDataLoader, SavableDataLoader
from .rng import SystemRngState
from .state import FlexState

__all__ = [
    "BasicDataLoader",
    "SavableCheckpoint",
    "SavableDataLoader",
    "SavableDataLoaderState",
    "SavableDatasetCheckpoint",
    "SavableDatasetState",
]


@edataclass
class SavableDatasetState:
    """A worker after `sample_index` batches."""

    rng: SystemRngState | None
    dataset_state: FlexState | None
    sample_index: int


@edataclass
class SavableCheckpoint:
    """A state that a worker keeps, and when it was saved."""

    state: SavableDatasetState | None
    checkpoint_time: float
    sample_index: int


@edataclass
class SavableDatasetCheckpoint:
    """A worker `offset` batches after `state`."""

    state: SavableDatasetState | None
    offset: int


@edataclass
class SavableDataLoaderState:
    """A rank: its workers, or its dataset if it has none; the worker whose turn is next; and the
    batch size."""

    worker_states: list[SavableDatasetCheckpoint | FlexState]
    next_worker_id: int
    micro_batch_size: int | None
