"""torch's DataLoader with torchvision over the JPEGs of tars: random crops of 224 x 224, normalized, in batches of 64.

Reads the same tars as bench_media_crops, at the offsets of their members. With --loader energon_cpp, the Python package over the same tars,
with the same transforms. Prints a line of JSON: images/s, versions.
"""

import argparse
import json
import os
import pathlib
import tarfile
import time

import torch
import torchvision
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2

SIDE = 224
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PREFETCH = 2


class TarImages(torch.utils.data.Dataset):
    """The JPEGs of all tars in a folder. Each worker opens the tars itself."""

    def __init__(self, folder, flips):
        self.paths = [str(path) for path in sorted(pathlib.Path(folder).glob("*.tar"))]
        self.places = []
        for number, path in enumerate(self.paths):
            with tarfile.open(path) as tar:
                self.places += [(number, member.offset_data, member.size) for member in tar if member.name.endswith(".jpg")]
        self.files = {}
        flip = [v2.RandomHorizontalFlip()] if flips else []
        self.transform = v2.Compose([v2.RandomResizedCrop(SIDE, antialias=True), *flip, v2.ToDtype(torch.float32, scale=True),
                                     v2.Normalize(MEAN, STD)])

    def __len__(self):
        return len(self.places)

    def __getitem__(self, index):
        number, offset, size = self.places[index]
        if number not in self.files:
            self.files[number] = os.open(self.paths[number], os.O_RDONLY)
        encoded = bytearray(os.pread(self.files[number], size, offset))
        return self.transform(decode_jpeg(torch.frombuffer(encoded, dtype=torch.uint8), ImageReadMode.RGB))


class Endless(torch.utils.data.Sampler):
    """One random order after another."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        while True:
            yield from torch.randperm(self.count).tolist()


def torch_batches(arguments):
    """(endless batches, images in the tars)."""
    images = TarImages(arguments.folder, arguments.flips)
    loader = torch.utils.data.DataLoader(images, batch_size=arguments.batch_size, sampler=Endless(len(images)),
                                         num_workers=arguments.workers, prefetch_factor=PREFETCH)
    return iter(loader), len(images)


def energon_batches(arguments):
    import energon_cpp as energon
    from energon_cpp import transforms

    flip = [transforms.RandomHorizontalFlip()] if arguments.flips else []
    steps = [transforms.RandomResizedCrop(SIDE), *flip, transforms.Normalize(MEAN, STD)]

    class Encoder(energon.DefaultTaskEncoder):
        decoder = energon.SampleDecoder(image_decode="torchrgb", transform=steps)

    dataset = energon.get_train_dataset(arguments.folder, worker_config=energon.WorkerConfig(rank=0, world_size=1, num_workers=arguments.workers),
                                        batch_size=arguments.batch_size, task_encoder=Encoder())
    loader = energon.get_savable_loader(dataset)
    return (batch["jpg"] for batch in loader), len(dataset) * arguments.batch_size


LOADERS = {"torch": torch_batches, "energon_cpp": energon_batches}


def images_per_second(batches, count):
    taken = 0
    begin = time.monotonic()
    while taken < count:
        taken += len(next(batches))
    return taken / (time.monotonic() - begin)


def check(batch, size):
    if batch.shape != (size, 3, SIDE, SIDE) or batch.dtype != torch.float32 or not bool(batch.isfinite().all()):
        raise SystemExit(f"a batch is {batch.dtype} {tuple(batch.shape)}, expected float32 {(size, 3, SIDE, SIDE)} and finite")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--loader", choices=LOADERS, default="torch")
    parser.add_argument("--flips", action="store_true", help="also flip left and right at random")
    parser.add_argument("--images", type=int, help="in each repetition; all by default")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()
    batches, count = LOADERS[arguments.loader](arguments)
    check(next(batches), arguments.batch_size)
    images_per_second(batches, max(count, arguments.workers * (PREFETCH + 1) * arguments.batch_size))  # warm up
    rates = [images_per_second(batches, arguments.images or count) for _ in range(arguments.repetitions)]
    print(json.dumps({"images_per_second": rates, "torch": torch.__version__, "torchvision": torchvision.__version__}))


if __name__ == "__main__":
    main()
