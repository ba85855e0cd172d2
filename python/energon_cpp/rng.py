"""Energon's interface to the global random number generators."""

from __future__ import annotations

import random
import sys
from typing import Any

from . import _random
from ._sample import edataclass

__all__ = ["SystemRng", "SystemRngState"]


@edataclass
class SystemRngState:
    """The states of the generators of torch, NumPy and random. The state of a library that is not
    imported is None."""

    torch: Any
    numpy: Any
    random: Any


class SystemRng:
    """The generators of random, numpy and torch: those of the libraries that are imported, and for
    torch that of the CPU."""

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
        of_random, of_numpy, of_torch = _random.save()
        return SystemRngState(torch=of_torch, numpy=of_numpy, random=of_random)

    @staticmethod
    def restore_state(state: SystemRngState) -> None:
        _random.restore((state.random, state.numpy, state.torch))

    @staticmethod
    def get_seed_from_args(*args: Any) -> int:
        """Returns a seed that depends only on the strings of the arguments, as in Energon."""
        import hashlib  # takes long

        digest = hashlib.sha1("|".join(map(str, args)).encode()).digest()
        return int.from_bytes(digest[:4], "big")

    @staticmethod
    def seed_args(*args: Any) -> None:
        SystemRng.seed(SystemRng.get_seed_from_args(*args))
