"""One state file for both languages: saved by the C++ program and continued in Python, and vice versa."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

import pytest
from conftest import config, take

import energon_cpp as energon

PROGRAM = os.environ.get("ENERGON_PROGRAM", "")
pytestmark = pytest.mark.skipif(not os.path.exists(PROGRAM), reason="no program energon")


class Raw(energon.DefaultTaskEncoder):
    decoder = None


def run(path: str, *options: str) -> list[list[str]]:
    """The keys of the batches that the C++ loader delivers."""
    command = [PROGRAM, "run", path, "--batch-size", "4", "--shuffle-buffer-size", "10", *options]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return [json.loads(line)["keys"] for line in lines.splitlines()]


def loader_of_python(path: str, num_workers: int, encoder: Any) -> energon.SavableDataLoader:
    dataset = energon.get_train_dataset(
        path,
        worker_config=config(num_workers),
        batch_size=4,
        shuffle_buffer_size=10,
        task_encoder=encoder,
    )
    return energon.get_savable_loader(dataset)


@pytest.mark.parametrize("decodes", [False, True], ids=["raw", "decoded"])
def test_both_ways(texts: str, tmp_path: pathlib.Path, num_workers: int, decodes: bool) -> None:
    layout = ["--num-workers", str(num_workers)] + (["--decode", "torchrgb"] if decodes else [])
    encoder = energon.DefaultTaskEncoder() if decodes else Raw()
    of_cpp, of_python = str(tmp_path / "cpp.state"), str(tmp_path / "python.state")
    whole = run(texts, *layout, "--limit", "20")

    assert run(texts, *layout, "--limit", "7", "--save-to", of_cpp) == whole[:7]
    with loader_of_python(texts, num_workers, encoder) as loader:
        loader.restore_state_rank(energon.LoaderState.read(of_cpp))
        batches = take(loader, 5)
        assert [batch.__key__ for batch in batches] == whole[7:12]
        loader.save_state_rank().write(of_python)

    assert run(texts, *layout, "--limit", "8", "--restore-from", of_python) == whole[12:]
