"""The time of `import energon_cpp`, and its imports other than Python's own modules."""

from __future__ import annotations

import os
import subprocess
import sys

# Also modules that are requested but missing, such as torch if it is not installed.
CODE = """
import sys, time
asked = []
class Listener:
    def find_spec(name, path=None, target=None):
        asked.append(name.partition(".")[0])
sys.meta_path.insert(0, Listener)
begin = time.process_time()  # not of the clock: machines are busy
import energon_cpp
print(time.process_time() - begin)
own = {"energon_cpp", "org"}  # org: pickle asks for it, for Jython
print(*sorted(set(asked) - sys.stdlib_module_names - own))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)


def import_cost(*options: str, runs: int = 10, enough: float = 0.2) -> tuple[float, list[str]]:
    """CPU seconds of the fastest run, and the names of other modules that it requested.

    Runs on a busy machine are sometimes slow, and the first may have to compile, so this stops after
    the first run below `enough`. `options` are options of the interpreter.
    """
    best = float("inf")
    for _ in range(runs):
        seconds, foreign = run(*options, "-c", CODE).stdout.splitlines()
        best = min(best, float(seconds))
        if best < enough:
            break
    return best, foreign.split()


def slowest_imports(*options: str) -> str:
    """The lines of -X importtime with the largest totals, for the message of a failed test."""
    lines = run(*options, "-X", "importtime", "-c", "import energon_cpp").stderr.splitlines()[1:]
    return "\n".join(sorted(lines, key=lambda line: int(line.split("|")[1]))[-15:])
