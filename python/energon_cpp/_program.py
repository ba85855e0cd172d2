"""Runs the program energon, which is part of the package."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn

_FILE = pathlib.Path(__file__).parent / "bin" / "energon"


def main() -> NoReturn:
    """Replaces this process by the program, with the same arguments: `energon …` in a shell."""
    try:
        os.execv(_FILE, ["energon", *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"energon: {_FILE} cannot be run ({error.strerror}): the package was built without the "
            "program or was not installed by pip; reinstall it"
        )
