"""Warnings about what a script does."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warns about the line of the script that called the package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level + 1)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE
