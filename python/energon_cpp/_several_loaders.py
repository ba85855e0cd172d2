"""The loader of a BlendDataset, MixBatchDataset or ConcatDataset."""

from __future__ import annotations

import inspect
import random
import threading
from typing import Any, Callable, Iterator, Mapping, Sequence

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
        self._lock = threading.RLock()  # a draw, or a save
        self._draws = 0  # over all epochs
        self._ended = [False] * len(self.loaders)  # in this epoch
        self._epoch: list[Iterator[Any]] | None = None
        self._drawn: list[Any] = []  # of the batch that is next, which an exception may interrupt
        self._position: dict[str, Any] | None = None  # before the first of them

    # --- Loops ---

    def __iter__(self) -> Iterator[Any]:
        """An epoch; after a break, the rest of it."""
        while True:
            batch = self._next_batch()
            if batch is not None:
                yield batch[0]
            if all(self._ended) and not self._drawn:
                break
        self._ended = [False] * len(self.loaders)
        self._epoch = None

    def _next_batch(self) -> tuple[Any] | None:
        """The next batch, or None at the end of the epoch. After an exception, the next call
        continues with what was drawn."""
        with self._lock:
            mixed = self.dataset.batch_size
            is_savable = isinstance(self.loaders[0], SavableDataLoader)
            while len(self._drawn) < (mixed or 1) and not all(self._ended):
                if is_savable and mixed is not None and not self._drawn:
                    self._position = self._current_position()
                self._draw()
            if not self._drawn:
                return None
            batch = self._drawn[0] if mixed is None else self._mixed(self._drawn)
            self._drawn, self._position = [], None
            return (batch,)

    def _draw(self) -> None:
        """Adds the next batch, or notes that the epoch of the loader that is drawn ends there."""
        if self._epoch is None:
            self._epoch = [
                iter(()) if ended else iter(loader)
                for loader, ended in zip(self.loaders, self._ended)
            ]
        chosen = self._choose()
        try:
            for batch in self._epoch[chosen]:
                self._drawn.append(batch)
                self._draws += 1
                return
        except BaseException:
            self._epoch = None  # the next loop continues, as that of one loader does
            raise
        self._ended[chosen] = True

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
        batch = mix(list(batches))
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
        """Returns the position as a dict of plain types. May be called by any thread; waits for a
        batch that is being drawn."""
        with self._lock:
            return self._position if self._position is not None else self._current_position()

    def _current_position(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "config": self._config(),
            "draws": self._draws,
            "ended": list(self._ended),
            "loaders": [loader.state_dict() for loader in self.loaders],
        }

    def _config(self) -> dict[str, Any]:
        """What decides which loader is next."""
        weights = self.dataset.weights
        return {
            "class": type(self.dataset).__name__,
            "weights": None if weights is None else list(weights),
            "batch_size": self.dataset.batch_size,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continues from `state_dict`.

        Raises:
            StateMismatchError: It is the state of another dataset. Nothing was restored.
        """
        self._check(state_dict)
        with self._lock:
            earlier = [loader.state_dict() for loader in self.loaders]
            try:
                for loader, state in zip(self.loaders, state_dict["loaders"]):
                    loader.load_state_dict(state)
            except BaseException:
                for loader, state in zip(self.loaders, earlier):
                    loader.load_state_dict(state)
                raise
            self._draws = state_dict["draws"]
            self._ended = list(state_dict["ended"])
            self._epoch = None
            self._drawn, self._position = [], None

    def _check(self, state: Any) -> None:
        names = ("version", "config", "draws", "ended", "loaders")
        if not isinstance(state, Mapping) or any(name not in state for name in names):
            raise StateMismatchError("not a state of the loader of several datasets")
        if state["version"] != _VERSION:
            raise StateMismatchError(f"version: found {state['version']}, expected {_VERSION}")
        for name, expected in self._config().items():
            found = state["config"].get(name)
            if found != expected:
                raise StateMismatchError(f"{name}: found {found!r}, expected {expected!r}")
        count = len(self.loaders)
        for name in ("loaders", "ended"):
            if len(state[name]) != count:
                raise StateMismatchError(
                    f"{name}: found {len(state[name])} datasets, expected {count}"
                )
        if type(state["draws"]) is not int or state["draws"] < 0:
            raise StateMismatchError(f"draws: found {state['draws']!r}, expected a whole number")

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
