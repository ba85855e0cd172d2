"""The names in docs/energon-compat.md exist."""

from __future__ import annotations

import importlib.util
import inspect
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

from energon_cpp._energon_names import NAMES

ROOT = pathlib.Path(__file__).parents[2]
LINE = re.compile(r"\| `([\w.*]+)(?:\((.*?)\))?`(?: \(\d+\))? \| (same|differs|absent) \| (.*) \|")


def rows() -> list[tuple[str, list[str] | None, str]]:
    lines = (ROOT / "docs" / "energon-compat.md").read_text("utf-8").splitlines()
    matches = [LINE.fullmatch(line) for line in lines if line.startswith("| `")]
    assert all(matches)
    found = []
    for match in matches:
        assert match is not None
        names = match[2].split(", ") if match[2] else []
        found.append((match[1], None if match[2] is None else names, match[3]))
    return found


def find(path: str) -> Any:
    """Imports the name as a script does: `from MODULE import NAME`."""
    parts = path.split(".")
    length = max(n for n in range(len(parts)) if not n or ".".join(parts[:n]) in NAMES)
    module = ".".join(["energon_cpp", *parts[:length]])
    names: dict[str, Any] = {}
    exec(f"from {module} import {parts[length]}", names)
    found = names[parts[length]]
    for attribute in parts[length + 1 :]:
        found = getattr(found, attribute)
    return found


def parameters_of(found: Any) -> set[str] | None:
    """The names of the parameters; None means any name."""
    parameters = inspect.signature(found).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters) and not inspect.isclass(found):
        named = {one.name for one in parameters}
        return named
    return {one.name for one in parameters}


EXISTING = [(path, names) for path, names, state in rows() if state != "absent"]


def test_the_table_has_all_kinds_of_lines() -> None:
    states = [state for _, _, state in rows()]
    assert min(states.count(state) for state in ("same", "differs", "absent")) > 30
    assert len({path for path, _, _ in rows()}) == len(states)


@pytest.mark.parametrize(("path", "names"), EXISTING, ids=[path for path, _ in EXISTING])
def test_names_exist_with_their_parameters(path: str, names: list[str] | None) -> None:
    found = find(path)
    if names:
        missing = set(names) - (parameters_of(found) or set())
        assert not missing, f"{path}{inspect.signature(found)}"


def test_absent_names_are_absent() -> None:
    for path, _, state in rows():
        if state == "absent" and "*" not in path:
            with pytest.raises((AttributeError, ImportError)):
                find(path)


def test_the_table_lists_the_names_of_the_package() -> None:
    try:
        found = importlib.util.find_spec("megatron.energon")  # without importing the package
    except ModuleNotFoundError:
        found = None
    if found is None:
        pytest.skip("megatron-energon is not installed")
    script = ROOT / "python" / "tools" / "make_energon_compat.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True, timeout=60)
