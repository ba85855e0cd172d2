"""Runs the program energon, which is part of the package."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any, NoReturn, Sequence

_FILE = pathlib.Path(__file__).parent / "bin" / "energon"


def main() -> NoReturn:
    """Replaces this process by the program, with the same arguments: `energon …` in a shell."""
    try:
        os.execv(_FILE, ["energon", *sys.argv[1:]])
    except OSError as error:
        sys.exit(_cannot_run(error))


class Command:
    """A command of the program as an object. Like Energon's commands, it is called with the
    arguments of a command line, and click's CliRunner can run it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **options: Any
    ) -> NoReturn:
        """Runs the command and raises SystemExit with its exit code. Its output goes to sys.stdout
        and sys.stderr. `prog_name` and `options`, which click passes, have no effect."""
        words = [self.name, *(sys.argv[1:] if args is None else args)]
        try:
            ran = subprocess.run([_FILE, *words], stdin=subprocess.DEVNULL, capture_output=True)
        except OSError as error:
            sys.exit(_cannot_run(error))
        sys.stdout.write(ran.stdout.decode(errors="replace"))
        sys.stderr.write(ran.stderr.decode(errors="replace"))
        sys.exit(ran.returncode)

    __call__ = main


def _cannot_run(error: OSError) -> str:
    return (
        f"energon: {_FILE} cannot be run ({error.strerror}): the package was built without the "
        "program or was not installed by pip; reinstall it"
    )


analyze_debug_command = Command("analyze")
info_command = Command("info")
lint_command = Command("lint")
prepare_command = Command("prepare")
prepare_media_command = Command("prepare-media")
preview_command = Command("preview")
