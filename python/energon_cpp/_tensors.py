"""Which library's tensors native stages deliver. Imports none before one is needed."""

from __future__ import annotations

import functools
import sys


@functools.cache
def tensor_library() -> str:
    """The library of tensors for which no option `tensors` names one: torch if it is installed,
    else NumPy if it is installed, else "energon", the class Tensor."""
    return next((name for name in ("torch", "numpy") if _is_installed(name)), "energon")


def _is_installed(name: str) -> bool:
    import importlib.util

    return sys.modules.get(name) is not None or importlib.util.find_spec(name) is not None
