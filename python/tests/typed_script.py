"""A training script with types, which `mypy --strict` checks in the test "python: types". Not run."""

from __future__ import annotations

import json
from typing import Any

from typing_extensions import assert_type

import energon_cpp as energon


@energon.edataclass
class Images(energon.Batch):
    image: Any
    label: list[int]


class Encoder(energon.DefaultTaskEncoder[dict[str, Any], dict[str, Any], energon.DictBatch, Images]):
    def encode_sample(self, sample: dict[str, Any]) -> dict[str, Any]:
        return {"image": sample["jpg"], "label": sample["cls"]}

    def encode_batch(self, batch: energon.DictBatch) -> Images:
        return Images(image=batch["image"], label=batch["label"])


def train(path: str, config: energon.WorkerConfig) -> None:
    dataset = energon.get_train_dataset(
        path, worker_config=config, batch_size=4, task_encoder=Encoder()
    )
    assert_type(dataset, energon.Dataset[Images])
    with energon.get_savable_loader(dataset) as loader:
        assert_type(loader, energon.SavableDataLoader[Images])
        for batch in loader:
            assert_type(batch.label, list[int])


def evaluate(path: str, config: energon.WorkerConfig) -> list[str]:
    dataset = energon.get_val_dataset(path, worker_config=config, batch_size=None)
    limited = energon.LimitDataset(dataset, 10)
    return [sample["txt"] for sample in energon.get_loader(limited)]


def parts(part: energon.Buffer) -> tuple[Any, bytes, str]:
    return json.loads(part), part[:4], part.decode()


def any_dataset(dataset: energon.Dataset) -> energon.SavableDataLoader:
    return energon.get_savable_loader(dataset)


energon.get_val_dataset("x", worker_config=energon.WorkerConfig(0, 1, 0), batchsize=1)  # type: ignore[call-arg]
