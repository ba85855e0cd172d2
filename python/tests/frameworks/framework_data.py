"""Data and loaders for the tests with other packages."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

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
