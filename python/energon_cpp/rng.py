"""The state of the global generators in Energon's form."""

from __future__ import annotations

from typing import Any

from ._sample import edataclass

__all__ = ["SystemRngState"]


@edataclass
class SystemRngState:
    """The states of the generators of torch, NumPy and random."""

    torch: Any
    numpy: Any
    random: Any
