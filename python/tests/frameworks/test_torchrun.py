"""torchrun: saved on 2 ranks, resumed on 3, without losing or repeating a sample."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from framework_data import points  # noqa: F401

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(600)  # importing them takes long

SCRIPT = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import torch
import torch.distributed as dist
import energon_cpp as energon
from framework_data import make_loader, numbers

def main(path, folder, steps, workers):
    dist.init_process_group("gloo")
    config = energon.WorkerConfig.default_worker_config(workers, logical_shards=6)
    loader = make_loader(path, worker_config=config)
    saved = [torch.load(file, weights_only=True) for file in sorted(folder.glob("rank*.pt"))]
    if saved:
        loader.restore_state_rank(energon.rescale_states(saved, config))
    seen = []
    for batch in loader:
        seen += numbers(batch)
        count = torch.ones(1)
        dist.all_reduce(count)
        assert count.item() == dist.get_world_size()
        if steps and loader.save_state_rank().batch_index == steps:
            break
    line = " ".join(str(number) for number in [dist.get_rank(), *seen])
    sys.stdout.write(line + "\\n")  # in one piece: ranks share the output
    sys.stdout.flush()
    if not saved:
        torch.save(loader.state_dict(), folder / f"rank{config.rank}.pt")
    loader.close()
    dist.destroy_process_group()

main(sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
"""


def run(folder: pathlib.Path, path: str, ranks: int, steps: int, workers: int) -> list[int]:
    """The numbers that all ranks saw."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), str(script), str(pathlib.Path(__file__).parent)]
    ran = subprocess.run(
        [*command, path, str(folder), str(steps), str(workers)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    lines = [[int(word) for word in line.split()] for line in ran.stdout.splitlines()]
    assert sorted(line[0] for line in lines) == list(range(ranks))
    return [number for line in lines for number in line[1:]]


def test_save_on_two_ranks_resume_on_three(points: str, tmp_path: pathlib.Path) -> None:
    seen = run(tmp_path, points, 2, 3, 1)
    assert len(seen) == 48 == len(set(seen))
    rest = run(tmp_path, points, 3, 0, 2)
    assert sorted(seen + rest) == list(range(96))
