"""Trains a small model, stops in the middle, resumes in a new loader, and gets the same losses.

    python python/examples/train.py [FOLDER]

FOLDER has tars with parts `image.npy` (uint8, 3 x 16 x 16) and `cls`; without it, some are made.
"""

from __future__ import annotations

import dataclasses
import io
import pathlib
import sys
import tarfile
import tempfile

import numpy
import torch

import energon_cpp as energon


@dataclasses.dataclass(kw_only=True)
class Images(energon.Batch):
    image: torch.Tensor  # float32 (samples, 3, 16, 16)
    label: torch.Tensor  # int64 (samples)


class Encoder(energon.DefaultTaskEncoder):
    """Runs in the workers. Its random numbers belong to the sample, so a resumed run repeats them."""

    def encode_sample(self, sample):
        image = torch.as_tensor(sample["image.npy"]).to(torch.float32) / 255
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        return {"image": image, "label": sample["cls"]}

    def encode_batch(self, batch):
        return Images(image=batch["image"], label=torch.as_tensor(batch["label"]))


def make_data(folder: pathlib.Path) -> None:
    random = numpy.random.default_rng(0)
    for shard in range(4):
        with tarfile.open(folder / f"shard_{shard}.tar", "w") as tar:
            for i in range(250):
                label = int(random.integers(10))
                image = random.integers(0, 200, (3, 16, 16), numpy.uint8)
                image[label % 3, label :] += 50
                array = io.BytesIO()
                numpy.save(array, image)
                for name, data in (("image.npy", array.getvalue()), ("cls", str(label).encode())):
                    member = tarfile.TarInfo(f"{shard:02}{i:04}.{name}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


class Training:
    def __init__(self, folder: pathlib.Path) -> None:
        torch.manual_seed(0)
        dataset = energon.get_train_dataset(
            folder,
            worker_config=energon.WorkerConfig.default_worker_config(num_workers=2),
            batch_size=32,
            shuffle_buffer_size=100,
            task_encoder=Encoder(),
        )
        self.loader = energon.get_savable_loader(dataset)
        self.model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def run(self, steps: int) -> list[float]:
        losses = []
        for batch in self.loader:
            loss = torch.nn.functional.cross_entropy(self.model(batch.image), batch.label)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
        return losses

    def save(self, path: pathlib.Path) -> None:
        states = {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "loader")}
        torch.save(states, path)

    def load(self, path: pathlib.Path) -> None:
        for name, state in torch.load(path, weights_only=True).items():
            getattr(self, name).load_state_dict(state)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        if len(sys.argv) == 1:
            make_data(folder)
        checkpoint = pathlib.Path(temporary) / "checkpoint.pt"

        first = Training(folder)
        before = first.run(60)
        first.save(checkpoint)
        after = first.run(60)
        first.loader.close()

        second = Training(folder)
        second.load(checkpoint)
        resumed = second.run(60)
        second.loader.close()

        print(f"loss: {before[0]:.3f} at first, {after[-1]:.3f} at the end")
        print("the resumed run has the same losses:", resumed == after)
        sys.exit(resumed != after)


if __name__ == "__main__":
    main()
