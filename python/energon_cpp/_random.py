"""Seeds random numbers for functions, so that they are the same in every run and on every layout.

Before each call of a function, the generators of random, numpy and torch get a state that depends
only on the seed of the job and the restore key of the item. Libraries that are not loaded are not
seeded: import them before the loader is made, not in a function.
"""

from __future__ import annotations

import contextlib
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


def draw_seed() -> int:
    """Returns a seed of 32 bits for a native generator."""
    return random.getrandbits(32)


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
