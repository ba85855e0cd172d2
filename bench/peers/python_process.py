"""Processes that have imported a loader and run each task in a fork of themselves."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_SECONDS = 900


class Failed(Exception):
    """What a run printed."""


class LoaderProcess:
    """Importing some loaders takes longer than a measurement. Forks start with only the modules
    imported."""

    def __init__(self, python: str, loader: str) -> None:
        self.loader = loader
        self._folder = tempfile.TemporaryDirectory()
        self._output = pathlib.Path(self._folder.name) / "output"
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(
                command_of(python, "--serve", loader),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=environment(),
                start_new_session=True,
            )

    def close(self) -> None:
        """Ends the process and its descendants."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._folder.cleanup()

    def run(self, task: dict[str, Any]) -> dict[str, Any]:
        """The result of a task of python_run.py. Throws Failed."""
        assert self._process.stdin is not None
        line = json.dumps(task | {"output": str(self._output)}) + "\n"
        with contextlib.suppress(BrokenPipeError):  # the process has ended, which is noticed below
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        how = self._end_of_task()
        printed = self._output.read_text(errors="replace")
        if how != "exit status 0":
            raise Failed(f"{json.dumps(task)}: {how}\n{printed[-3000:]}")
        result: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return result

    def _end_of_task(self) -> str:
        """The line that the process writes when a task has ended."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], LIMIT_SECONDS)[0]:
            return f"not done after {LIMIT_SECONDS} s"
        return self._process.stdout.readline().decode().strip() or "the process of the loader ended"


class LoaderProcesses:
    """Runs tasks, those of one loader in a row from one process. A context manager.

    Only one process exists at a time: memory that several share would count in parts.
    """

    def __init__(self, python: str) -> None:
        self._python = python
        self._process: LoaderProcess | None = None

    def __enter__(self) -> LoaderProcesses:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process, if there is one."""
        if self._process:
            self._process.close()
            self._process = None

    def probe(self, loader: str) -> dict[str, Any]:
        """Works and versions of a loader, or why it is not available. Throws Failed."""
        command = command_of(self._python, "--probe", loader)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_SECONDS, env=environment()
        )
        if done.returncode != 0:
            raise Failed(f"{loader}: exit status {done.returncode}\n{done.stderr[-3000:]}")
        about: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return about

    def run(self, loader: str, task: dict[str, Any]) -> dict[str, Any]:
        """The result of a task of python_run.py. Throws Failed."""
        if self._process is None or self._process.loader != loader:
            self.close()
            self._process = LoaderProcess(self._python, loader)
        try:
            return self._process.run(task)
        except Failed:
            self.close()  # it may still be running this task
            raise


def command_of(python: str, *words: str) -> list[str]:
    return [python, "-B", str(HERE / "python_run.py"), *words]


def environment() -> dict[str, str]:
    return os.environ | {"TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}
