"""The program energon, which comes with the package."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn

_FILE = pathlib.Path(__file__).parent / "bin" / "energon"


def main() -> NoReturn:
    """Becomes the program, with the arguments of this process: `energon …` of a shell."""
    try:
        os.execv(_FILE, ["energon", *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"energon: {_FILE} cannot be run ({error.strerror}): the package was built without the "
            "program or not installed by pip; install it again"
        )
