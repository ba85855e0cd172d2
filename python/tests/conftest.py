"""Datasets for the tests, and scripts in separate processes."""

from __future__ import annotations

import dataclasses
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import textwrap
from typing import Any, Iterator

import pytest

import energon_cpp as energon

# A part that becomes a Buffer.
LARGE = 40000


def write_tar(path: pathlib.Path, samples: list[tuple[str, dict[str, bytes]]]) -> None:
    with tarfile.open(path, "w") as tar:
        for key, parts in samples:
            for name, data in parts.items():
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three tars with 20 samples each: txt, json ({"number", "words"}), bin (100 or 40,000 bytes)."""
    folder = tmp_path_factory.mktemp("texts")
    for shard in range(3):
        samples = []
        for i in range(20):
            number = 20 * shard + i
            parts = {
                "txt": f"text {number}".encode(),
                "json": json.dumps({"number": number, "words": ["a", None, True, 1.5]}).encode(),
                "bin": bytes([number]) * (LARGE if i % 2 else 100),
            }
            samples.append((f"{number:04}", parts))
        write_tar(folder / f"shard_{shard}.tar", samples)
    return str(folder)


@pytest.fixture(scope="session")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three tars with 20 samples each: txt, npy (an int64 without dimensions, which a native batch
    turns into a tensor)."""
    numpy = pytest.importorskip("numpy")
    folder = tmp_path_factory.mktemp("arrays")
    for shard in range(3):
        samples = []
        for number in range(20 * shard, 20 * shard + 20):
            file = io.BytesIO()
            numpy.save(file, numpy.array(number))
            parts = {"txt": f"text {number}".encode(), "npy": file.getvalue()}
            samples.append((f"{number:04}", parts))
        write_tar(folder / f"shard_{shard}.tar", samples)
    return str(folder)


def config(num_workers: int = 0, **more: Any) -> energon.WorkerConfig:
    return energon.WorkerConfig(**{"rank": 0, "world_size": 1, "num_workers": num_workers, **more})


def loader_of(
    path: str,
    encoder: Any = None,
    *,
    num_workers: int = 0,
    batch_size: int | None = 4,
    training: bool = False,
    loader: dict[str, Any] | None = None,
    **options: Any,
) -> energon.SavableDataLoader:
    make = energon.get_train_dataset if training else energon.get_val_dataset
    dataset = make(
        path,
        worker_config=config(num_workers),
        batch_size=batch_size,
        task_encoder=encoder,
        **options,
    )
    return energon.get_savable_loader(dataset, **(loader or {}))


def take(loader: Any, count: int) -> list[Any]:
    batches: list[Any] = []
    for batch in loader:
        batches.append(batch)
        if len(batches) == count:
            break
    return batches


@dataclasses.dataclass
class Ran:
    code: int
    out: str
    err: str


def run_script(code: str, *arguments: str, timeout: float = 60, signal_after: Any = None) -> Ran:
    """Runs Python code in a new process. Fails after `timeout` seconds."""
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=pathlib.Path(__file__).parent,
    )
    try:
        if signal_after is not None:
            signal_after(process)
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"not done after {timeout} s\n{out}\n{err}")
    return Ran(process.returncode, out, err)


def processes_named(pids: list[int]) -> list[int]:
    """The processes of `pids` that are still running."""
    return [pid for pid in pids if pathlib.Path(f"/proc/{pid}/status").exists() and not _dead(pid)]


def _dead(pid: int) -> bool:
    try:
        return "State:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


@pytest.fixture(params=[0, 2], ids=["own process", "2 workers"])
def num_workers(request: pytest.FixtureRequest) -> Iterator[int]:
    yield request.param
