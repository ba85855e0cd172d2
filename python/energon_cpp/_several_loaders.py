"""The loader of a BlendDataset, MixBatchDataset or ConcatDataset."""

from __future__ import annotations

import inspect
import random
from typing import Any, Callable, Iterator, Sequence

from ._errors import StateMismatchError
from .loaders import SavableDataLoader

_VERSION = 1


class SeveralLoader:
    """Delivers the batches of several loaders, each with its own workers.

    Which loader is next depends on the seed, the rank and the number of the draw, so that a state
    is the states of the loaders and this number.

    Args:
        dataset: The dataset.
        loaders: A loader for each of its datasets.
    """

    def __init__(self, dataset: Any, loaders: Sequence[SavableDataLoader]) -> None:
        self.dataset = dataset
        self.worker_config = dataset.worker_config
        self.loaders = list(loaders)
        self._draws = 0  # over all epochs
        self._ended = [False] * len(self.loaders)  # in this epoch
        self._epoch: list[Iterator[Any]] | None = None

    # --- Loops ---

    def __iter__(self) -> Iterator[Any]:
        """An epoch; after a break, the rest of it."""
        mixed = self.dataset.batch_size
        while True:
            batches: list[Any] = []
            while len(batches) < (mixed or 1) and not all(self._ended):
                batches += self._next()
            if batches:
                yield batches[0] if mixed is None else self._mixed(batches)
            if all(self._ended):
                break
        self._ended = [False] * len(self.loaders)
        self._epoch = None

    def _next(self) -> list[Any]:
        """The next batch, or none if the epoch of the loader that is drawn ends there."""
        if self._epoch is None:
            self._epoch = [
                iter(()) if ended else iter(loader)
                for loader, ended in zip(self.loaders, self._ended)
            ]
        chosen = self._choose()
        try:
            for batch in self._epoch[chosen]:
                self._draws += 1
                return [batch]
        except BaseException:
            self._epoch = None  # the next loop continues, as that of one loader does
            raise
        self._ended[chosen] = True
        return []

    def _choose(self) -> int:
        left = [i for i, ended in enumerate(self._ended) if not ended]
        if self.dataset.weights is None:
            return left[0]
        config = self.worker_config
        seed = (config.seed_offset * config.world_size + config.rank) << 64 | self._draws
        weights = [self.dataset.weights[i] for i in left]
        return random.Random(seed).choices(left, weights)[0]

    def _mixed(self, batches: list[Any]) -> Any:
        mix: Callable[[list[Any]], Any] | None = self.dataset.batch_mix_fn
        if mix is None:
            return batches
        batch = mix(batches)
        if inspect.isgenerator(batch):
            raise TypeError("batch_mix_fn must return one batch, not a generator")
        return batch

    def __len__(self) -> int:
        """Batches of this rank in one epoch; if that is not known, those of one pass over the
        data."""
        return len(self.dataset)

    def __bool__(self) -> bool:
        return True

    @property
    def size(self) -> int | None:
        """Batches of this rank in one epoch, or None if that is not known."""
        exact: int | None = self.dataset._lengths()[0]
        return exact

    @property
    def num_workers(self) -> int:
        """The workers of all loaders."""
        return sum(loader.num_workers for loader in self.loaders)

    # --- States ---

    def state_dict(self) -> dict[str, Any]:
        """Returns the position as a dict of plain types."""
        return {
            "version": _VERSION,
            "draws": self._draws,
            "ended": list(self._ended),
            "loaders": [loader.state_dict() for loader in self.loaders],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from `state_dict`."""
        loaders = state_dict.get("loaders", ()) if isinstance(state_dict, dict) else ()
        if len(loaders) != len(self.loaders) or state_dict.get("version") != _VERSION:
            raise StateMismatchError(
                f"the state has {len(loaders)} datasets, expected a state of this version with "
                f"{len(self.loaders)}"
            )
        for loader, state in zip(self.loaders, loaders):
            loader.load_state_dict(state)
        self._draws = state_dict["draws"]
        self._ended = list(state_dict["ended"])
        self._epoch = None

    def save_state_rank(self) -> dict[str, Any]:
        return self.state_dict()

    def restore_state_rank(self, state: dict[str, Any] | None) -> None:
        if state is not None:
            self.load_state_dict(state)

    def can_restore_sample(self) -> bool:
        """False: a restore key does not tell which of the loaders made the batch."""
        return False

    # --- The end ---

    def stop(self) -> None:
        """Ends the workers and keeps the position."""
        self._epoch = None
        for loader in self.loaders:
            loader.stop()

    def close(self) -> None:
        """Ends the workers permanently."""
        for loader in self.loaders:
            loader.close()

    def __enter__(self) -> SeveralLoader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
