"""The program energon in the package, and their common version."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import energon_cpp as energon

ROOT = pathlib.Path(__file__).parents[2]


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "energon_cpp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_module_is_the_program(texts: str) -> None:
    done = run_module("get", texts, "0003.txt", "--output", "-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "text 3", "")


def test_its_exit_code_and_messages_are_passed_on() -> None:
    done = run_module("nothing")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "energon: " in done.stderr and "nothing" in done.stderr


def test_the_versions_are_equal() -> None:
    build = (ROOT / "CMakeLists.txt").read_text()
    project = re.search(r"project\(energon VERSION ([0-9.]+)", build)
    assert project is not None
    assert energon.__version__ == project[1]
    assert run_module("--version").stdout.split() == ["energon-cpp", energon.__version__]
    settings = tomllib.loads((ROOT / "python/pyproject.toml").read_text())
    assert settings["project"]["dynamic"] == ["version"]
    rule = settings["tool"]["scikit-build"]["metadata"]["version"]
    found = re.search(rule["regex"], (ROOT / "python" / rule["input"]).read_text(), re.MULTILINE)
    assert found is not None and found["value"] == energon.__version__


def test_the_error_of_a_source_distribution_names_the_alternative() -> None:
    pytest.importorskip("scikit_build_core")
    code = "import backend; print(backend.build_wheel.__name__); backend.build_sdist('nowhere')"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT / "python/wheel",
    )
    assert (done.returncode, done.stdout) == (1, "build_wheel\n")
    assert "pip install ./python" in done.stderr and "Traceback" not in done.stderr


def test_the_error_of_a_package_without_the_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    from energon_cpp import _program

    monkeypatch.setattr(_program, "_FILE", tmp_path / "energon")
    with pytest.raises(SystemExit, match="No such file.*reinstall it"):
        _program.main()
