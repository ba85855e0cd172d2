"""A training script written for megatron-energon: only the first import was changed.

    python python/examples/train_from_energon.py [FOLDER]

FOLDER is a dataset with parts `image.npy` (uint8, 3 x 16 x 16) and `cls`; without it, some tars are
made. Trains, saves as Megatron does, continues in a new loader, and checks that the batches are the
same.
"""

import pathlib
import sys
import tempfile
from dataclasses import dataclass

import energon_cpp as energon  # was: import megatron.energon as energon
import torch

from train import make_data


@energon.edataclass
class EncodedSample(energon.Sample):
    image: torch.Tensor
    label: int


@dataclass
class ImageBatch(energon.Batch):
    image: torch.Tensor
    label: torch.Tensor


@energon.stateless
def cook_image(sample: dict) -> EncodedSample:
    return EncodedSample(
        **energon.basic_sample_keys(sample),
        image=torch.as_tensor(sample["image.npy"]),
        label=sample["cls"],
    )


class ImageTaskEncoder(energon.DefaultTaskEncoder):
    cookers = [energon.Cooker(cook_image)]

    @energon.stateless(restore_seeds=True)
    def encode_sample(self, sample: EncodedSample) -> EncodedSample:
        if sample.label is None:
            raise energon.SkipSample()
        image = sample.image.to(torch.float32) / 255
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        return EncodedSample.derive_from(sample, image=image, label=sample.label)

    def batch(self, samples: list) -> ImageBatch:
        return ImageBatch(
            __key__=[sample.__key__ for sample in samples],
            __restore_key__=[sample.__restore_key__ for sample in samples],
            image=energon.batch_stack([sample.image for sample in samples]),
            label=torch.tensor([sample.label for sample in samples]),
        )


def make_loader(folder: str):
    dataset = energon.get_train_dataset(
        folder,
        split_part="train",
        worker_config=energon.WorkerConfig.default_worker_config(2),
        batch_size=32,
        shuffle_buffer_size=100,
        max_samples_per_sequence=100,
        task_encoder=ImageTaskEncoder(),
    )
    return energon.get_savable_loader(dataset)


def cyclic_iter(loader):
    while True:
        for batch in loader:
            yield batch


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = sys.argv[1] if len(sys.argv) > 1 else temporary
        if len(sys.argv) == 1:
            make_data(pathlib.Path(temporary))
        checkpoint = pathlib.Path(temporary) / "dataloader.pt"

        loader = make_loader(folder)
        batches = cyclic_iter(loader)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(40):
            batch = next(batches)
            loss = torch.nn.functional.cross_entropy(model(batch.image), batch.label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save({"dataloader_state_dict": loader.save_state_rank()}, checkpoint)
        expected = [next(batches) for _ in range(40)]

        resumed = make_loader(folder)
        state = torch.load(checkpoint, weights_only=False)["dataloader_state_dict"]
        resumed.restore_state_rank(state)
        batches = cyclic_iter(resumed)
        same = all(torch.equal(next(batches).image, batch.image) for batch in expected)

        print(f"loss after 40 steps: {loss.item():.3f}")
        print("the resumed loader has the same batches:", same)
        sys.exit(not same)


if __name__ == "__main__":
    main()
