"""Accelerate: prepare, use_stateful_dataloader, save_state and load_state, dispatch."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import pytest
from framework_data import make_loader, numbers, points  # noqa: F401

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")
pytest.importorskip("torchdata")
pytestmark = pytest.mark.timeout(600)  # importing them takes long

import energon_cpp.torch  # noqa: E402


@pytest.fixture(autouse=True)
def one_accelerator_at_a_time() -> Any:
    yield
    accelerate.state.AcceleratorState._reset_state(True)


def prepared(loader: Any, stateful: bool = True, **options: Any) -> tuple[Any, Any]:
    config = accelerate.DataLoaderConfiguration(use_stateful_dataloader=stateful, **options)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=config)
    return accelerator, accelerator.prepare(energon_cpp.torch.data_loader(loader))


def epoch(batches: Any, count: int | None = None) -> list[list[int]]:
    seen = []
    for batch in batches:
        seen.append(numbers(batch))
        if len(seen) == count:
            break
    return seen


def test_prepare_changes_no_batch(points: str, num_workers: int) -> None:  # noqa: F811
    with make_loader(points, num_workers) as loader:
        whole = [epoch(loader), epoch(loader)]
    with make_loader(points, num_workers) as loader:
        _, batches = prepared(loader, stateful=False)
        assert len(batches) == 12
        batches.set_epoch(0)
        assert epoch(batches) == whole[0]
        batches.set_epoch(1)
        assert epoch(batches) == whole[1]


@pytest.mark.parametrize("at", [1, 7, 12])
def test_save_state_in_an_epoch(
    points: str, tmp_path: pathlib.Path, num_workers: int, at: int  # noqa: F811
) -> None:
    with make_loader(points, num_workers) as loader:
        whole = [epoch(loader), epoch(loader)]
    with make_loader(points, num_workers) as loader:
        accelerator, batches = prepared(loader)
        assert epoch(batches, at) == whole[0][:at]
        accelerator.save_state(str(tmp_path))
    accelerate.state.AcceleratorState._reset_state(True)
    with make_loader(points, num_workers) as loader:
        accelerator, batches = prepared(loader)
        accelerator.load_state(str(tmp_path))
        # Accelerate requests a batch before it needs it, so at the last batch it has reached the end.
        for expected in [whole[0][at:], whole[1]] if at < 12 else [whole[1]]:
            assert epoch(batches) == expected


def test_register_for_checkpointing(
    points: str, tmp_path: pathlib.Path, num_workers: int  # noqa: F811
) -> None:
    """The loader itself, without prepare()."""
    with make_loader(points, num_workers) as loader:
        whole = epoch(loader)
    with make_loader(points, num_workers) as loader:
        accelerator = accelerate.Accelerator(cpu=True)
        accelerator.register_for_checkpointing(loader)
        assert epoch(loader, 5) == whole[:5]
        accelerator.save_state(str(tmp_path))
    accelerate.state.AcceleratorState._reset_state(True)
    with make_loader(points, num_workers) as loader:
        accelerator = accelerate.Accelerator(cpu=True)
        accelerator.register_for_checkpointing(loader)
        accelerator.load_state(str(tmp_path))
        assert epoch(loader) == whole[5:]


DISPATCH = """
import sys
sys.path.insert(0, sys.argv[1])
import accelerate
import energon_cpp as energon
import energon_cpp.torch
from framework_data import make_loader, numbers

def main():
    config = accelerate.DataLoaderConfiguration(dispatch_batches=True)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=config)
    one = energon.WorkerConfig(rank=0, world_size=1, num_workers=1)
    with make_loader(sys.argv[2], worker_config=one) as loader:
        batches = accelerator.prepare(energon_cpp.torch.data_loader(loader))
        for batch in batches:
            line = " ".join(map(str, [accelerator.process_index, *numbers(batch)]))
            sys.stdout.write(line + "\\n")  # at once: the other process writes there, too
            sys.stdout.flush()
    accelerator.end_training()
main()
"""


def test_dispatch_to_two_processes(points: str, tmp_path: pathlib.Path) -> None:  # noqa: F811
    script = tmp_path / "dispatch.py"
    script.write_text(DISPATCH)
    here = str(pathlib.Path(__file__).parent)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2"]
    ran = subprocess.run(
        [*command, str(script), here, points], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    lines = [[int(word) for word in line.split()] for line in ran.stdout.splitlines()]
    seen = {rank: [line[1:] for line in lines if line[0] == rank] for rank in (0, 1)}
    assert len(seen[0]) == len(seen[1]) == 6
    assert sorted(sum(seen[0] + seen[1], [])) == list(range(96))
