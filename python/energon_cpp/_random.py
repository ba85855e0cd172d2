"""Seeds random numbers for functions, so that they are the same in every run and on every layout.

Before each call of a function, the generators of random, numpy and torch get a state that depends
only on the seed of the job and the restore key of the item. Libraries that are not loaded are not
seeded: import them before the loader is made, not in a function.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import random
import sys
from typing import Any, Iterator

_seed_random = super(random.Random, random._inst).seed


def seed(number: int) -> None:
    _seed_random(number)
    random._inst.gauss_next = None  # type: ignore[attr-defined]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number & 0xFFFFFFFF)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(number)


def save() -> tuple[Any, Any, Any]:
    """Returns the state of the generators, for functions that run in the trainer."""
    numpy: Any = sys.modules.get("numpy")
    torch: Any = sys.modules.get("torch")
    return (
        random.getstate(),
        numpy.random.get_state() if numpy is not None else None,
        torch.default_generator.get_state() if torch is not None else None,
    )


def restore(state: tuple[Any, Any, Any]) -> None:
    random.setstate(state[0])
    if state[1] is not None:
        sys.modules["numpy"].random.set_state(state[1])
    if state[2] is not None:
        sys.modules["torch"].default_generator.set_state(state[2])


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Restores the state of the generators at the end of the block."""
    state = save()
    try:
        yield
    finally:
        restore(state)


@dataclasses.dataclass(kw_only=True, slots=True)
class SystemRngState:
    """States of the generators. That of a library that is not imported is None."""

    torch: Any
    numpy: Any
    random: Any


class SystemRng:
    """Energon's interface to the generators of random, numpy and torch: those of the libraries that
    are imported, and for torch that of the CPU."""

    @staticmethod
    def seed(seed: int) -> None:
        numpy: Any = sys.modules.get("numpy")
        torch: Any = sys.modules.get("torch")
        random.seed(seed)
        if numpy is not None:
            numpy.random.seed(seed)
        if torch is not None:
            torch.manual_seed(seed)

    @staticmethod
    def save_state() -> SystemRngState:
        of_random, of_numpy, of_torch = save()
        return SystemRngState(torch=of_torch, numpy=of_numpy, random=of_random)

    @staticmethod
    def restore_state(state: SystemRngState) -> None:
        restore((state.random, state.numpy, state.torch))

    @staticmethod
    def get_seed_from_args(*args: Any) -> int:
        """Returns a seed that depends only on the strings of the arguments, as in Energon."""
        digest = hashlib.sha1("|".join(map(str, args)).encode()).digest()
        return int.from_bytes(digest[:4], "big")

    @staticmethod
    def seed_args(*args: Any) -> None:
        SystemRng.seed(SystemRng.get_seed_from_args(*args))
