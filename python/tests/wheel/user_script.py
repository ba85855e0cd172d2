"""A script of a user, with types, which mypy --strict accepts."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import energon_cpp as energon


@dataclasses.dataclass(kw_only=True)
class Texts(energon.Batch):
    texts: list[str]


class Encoder(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: energon.CrudeSample) -> dict[str, Any]:
        if not sample["txt"]:
            raise energon.SkipSample
        return {"text": sample["txt"]}

    def encode_batch(self, batch: Any) -> Texts:
        return Texts(texts=batch["text"])


def main(path: str) -> int:
    dataset = energon.get_train_dataset(
        path,
        worker_config=energon.WorkerConfig.default_worker_config(num_workers=2),
        batch_size=4,
        task_encoder=Encoder(),
    )
    with energon.get_savable_loader(dataset) as loader:
        for batch in loader:
            print(batch.texts, batch.__restore_key__)
            break
        state: energon.LoaderState = loader.save_state_rank()
    steps: list[energon.DeliveredStep] = energon.which_keys(dataset, state, 0)
    again = energon.restore_sample(dataset, steps[0].restore_key)
    deliveries = energon.which_step(dataset, [state], steps[0].keys[0])
    print(again, deliveries[0].step, energon.get(dataset, steps[0].keys[0])["txt"])
    return len(energon.__version__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) == 0)
