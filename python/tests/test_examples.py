"""The scripts of python/examples, if torch is installed."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["train", "train_from_energon"])
def test_examples_resume_exactly(name: str) -> None:
    command = [sys.executable, "-B", str(EXAMPLES / f"{name}.py")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0 and "the same" in ran.stdout, ran.stdout + ran.stderr
    assert ran.stderr == ""
