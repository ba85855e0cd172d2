"""Data and loaders for the tests with other packages."""

from __future__ import annotations

import json
import multiprocessing
import os
import pathlib
import signal
import socket
import sys
import traceback
from typing import Any, Callable

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))  # for scripts in separate processes

from conftest import write_tar  # noqa: E402

import energon_cpp as energon  # noqa: E402


def write_points(folder: pathlib.Path) -> str:
    """Four tars with 24 samples each: json {"number", "x": [3 floats], "y": float}."""
    for shard in range(4):
        samples = []
        for number in range(24 * shard, 24 * shard + 24):
            x = [number % 7 / 7, number % 5 / 5, number / 96]
            data = json.dumps({"number": number, "x": x, "y": sum(x)}).encode()
            samples.append((f"{number:03}", {"json": data}))
        write_tar(folder / f"points_{shard}.tar", samples)
    return str(folder)


@pytest.fixture(scope="session")
def points(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_points(tmp_path_factory.mktemp("points"))


class Encoder(energon.DefaultTaskEncoder):
    """Batches are dicts of tensors: number, x (8 x 3), labels."""

    def encode_sample(self, sample: Any) -> Any:
        import torch

        point = sample["json"]
        fields = {"number": point["number"], "x": point["x"], "labels": point["y"]}
        return {name: torch.tensor(value) for name, value in fields.items()}

    def batch(self, samples: Any) -> Any:
        import torch

        return {name: torch.stack([one[name] for one in samples]) for name in samples[0]}


def make_loader(path: str, num_workers: int = 1, **options: Any) -> energon.SavableDataLoader:
    """Without options, epochs have 12 batches of 8 points."""
    config = options.pop("worker_config", None)
    dataset = energon.get_train_dataset(
        path,
        worker_config=config or energon.WorkerConfig(rank=0, world_size=1, num_workers=num_workers),
        batch_size=8,
        shuffle_buffer_size=20,
        task_encoder=Encoder(),
        **{"repeat": False, **options},
    )
    return energon.get_savable_loader(dataset)


def numbers(batch: Any) -> list[int]:
    return [int(number) for number in batch["number"]]


class Rank:
    """One rank of a job, in its own process with the variables of torchrun. Writes what it sees into
    a file, and is killed at step `kill_at`."""

    def __init__(self, rank: int, world_size: int, folder: pathlib.Path, kill_at: int) -> None:
        self.rank, self.world_size, self.kill_at = rank, world_size, kill_at
        self.file = open(folder / f"seen_{rank}.jsonl", "w", buffering=1)
        self.steps = 0

    def see(self, numbers: list[int]) -> None:
        print(numbers, file=self.file)
        self.steps += 1
        if self.steps == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def run_ranks(
    world_size: int,
    train: Callable[..., None],
    folder: pathlib.Path,
    *arguments: Any,
    kill_at: int = 0,
) -> list[list[list[int]]]:
    """Calls train(rank, *arguments) in a process for each rank. With `kill_at`, the last rank is
    killed after it saw this many batches, and then the others. Returns the batches that the ranks
    saw. The processes are forks, which need not import packages again."""
    folder.mkdir(exist_ok=True)
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port = any_port.getsockname()[1]

    def main(number: int) -> None:
        size = str(world_size)
        os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": size}
        os.environ |= {"LOCAL_WORLD_SIZE": size, "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "run"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        killed = kill_at if number == world_size - 1 else 0
        try:
            train(Rank(number, world_size, folder, killed), *arguments)
        except BaseException:
            if not kill_at:
                traceback.print_exc()
            os._exit(1)
        os._exit(0)

    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=main, args=(number,)) for number in range(world_size)]
    for process in processes:
        process.start()
    for process in reversed(processes):
        if kill_at and process is not processes[-1]:
            process.kill()
        process.join(120)
    for process in processes:
        process.kill()  # if it did not end
        process.join()
    codes = [process.exitcode for process in processes]
    assert codes[-1] == -signal.SIGKILL if kill_at else codes == [0] * world_size, codes
    files = [folder / f"seen_{number}.jsonl" for number in range(world_size)]
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
