"""Reads tars in the style of webdataset, stops in an epoch, and goes on in a new loader.

    python python/examples/webdataset_style.py ["shards/{000..099}.tar"]

The tars have parts `jpg` (or `png`) and `json`; without an argument, some are made (with Pillow).
Nothing has to be prepared.
"""

from __future__ import annotations

import io
import json
import pathlib
import sys
import tarfile
import tempfile

import torch

import energon_cpp as energon


def make_data(folder: pathlib.Path) -> str:
    from PIL import Image

    for shard in range(3):
        with tarfile.open(folder / f"shards-{shard:03}.tar", "w") as tar:
            for i in range(40):
                image = io.BytesIO()
                Image.new("RGB", (32, 32), (6 * i, 80 * shard, 255)).save(image, "JPEG")
                info = json.dumps({"label": (40 * shard + i) % 10}).encode()
                for name, data in (("jpg", image.getvalue()), ("json", info)):
                    member = tarfile.TarInfo(f"{shard:03}{i:03}.{name}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return str(folder / "shards-{000..002}.tar")


def open_data(shards: str) -> energon.WebDataset:
    return (
        energon.WebDataset(shards, num_workers=2)
        .shuffle(1000)
        .decode("torchrgb")
        .to_tuple("jpg;png", "json")
        .map_tuple(lambda image: image - 0.5, lambda info: info["label"])
        .batched(8)
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        shards = sys.argv[1] if len(sys.argv) > 1 else make_data(pathlib.Path(temporary))
        checkpoint = pathlib.Path(temporary) / "loader.pt"

        rest = []
        with open_data(shards) as dataset:
            for step, (images, labels) in enumerate(dataset, 1):
                if step == 1:
                    print(f"images {tuple(images.shape)} {images.dtype}, labels {labels.tolist()}")
                if step == 4:
                    torch.save(dataset.state_dict(), checkpoint)
                elif step > 4:
                    rest.append((images, labels))
            print(f"{len(dataset)} batches, saved after 4")

        with open_data(shards) as dataset:
            dataset.load_state_dict(torch.load(checkpoint, weights_only=True))
            again = list(dataset)

        same = len(again) == len(rest) and all(
            torch.equal(one[0], two[0]) and (one[1] == two[1]).all()
            for one, two in zip(rest, again)
        )
        print("a new loader goes on with the same batches:", same)
        sys.exit(not same)


if __name__ == "__main__":
    main()
