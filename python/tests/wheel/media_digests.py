"""Digests of decoded small images, sounds and videos. media_digests.txt contains those of the normal build.

    python media_digests.py FOLDER... > media_digests.txt

A line has the file, the field, its dtype and shape, and 16 digits of the SHA-256 of its elements. For
lossy sound, whose last bits depend on the processor, the root mean square of each channel replaces
the digest.
"""

from __future__ import annotations

import hashlib
import pathlib
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

LIST = pathlib.Path(__file__).with_suffix(".txt")
IMAGES = {"gif", "jpg", "png", "tiff", "webp"}
SOUND_AND_VIDEO = {"aac", "avi", "flac", "flv", "mkv", "mp3", "mp4", "ogg", "wav", "webm"}
# Refused files: frames of two sizes, and images with samples below 0.
REFUSED = {"two_sizes.mkv", "signed8.tiff", "signed16.tiff"}


def media_files(folders: Iterable[pathlib.Path], kinds: set[str]) -> list[pathlib.Path]:
    """The files of these kinds, by name."""
    files = [path for folder in folders for path in folder.iterdir()]
    chosen = (path for path in files if path.suffix[1:] in kinds and path.name not in REFUSED)
    return sorted(chosen, key=lambda path: path.name)


def decoded(path: pathlib.Path) -> Any:
    """The array of an image, or the dict of a sound or video, from a loader without workers."""
    import energon_cpp as energon

    class Encoder(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = energon.SampleDecoder(image_decode="rgb8", av_decode="torch")

    part = path.suffix[1:]
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(f"{folder}/shard.tar", "w") as tar:
            tar.add(path, f"0.{part}")
        config = energon.WorkerConfig(rank=0, world_size=1, num_workers=0)
        dataset = energon.get_val_dataset(
            folder, worker_config=config, batch_size=None, split_part="train",
            task_encoder=Encoder(), tensors="numpy",
        )  # fmt: skip
        with energon.get_savable_loader(dataset) as loader:
            return next(iter(loader))[part]


def lines_of(path: pathlib.Path) -> Iterator[str]:
    """The lines of one file."""
    import numpy

    value = decoded(path)
    fields = value if isinstance(value, dict) else {"image": value}
    for name in ("image", "video", "audio"):
        if name in fields:
            array = numpy.ascontiguousarray(fields[name])
            if array.dtype.kind == "f":
                levels = numpy.sqrt((array.astype("float64") ** 2).mean(axis=-1))
                summary = " ".join(f"{level:.4f}" for level in levels)
            else:
                summary = hashlib.sha256(array.tobytes()).hexdigest()[:16]
            yield f"{path.name} {name} {array.dtype} {array.shape} {summary}"


def expected_lines(kinds: set[str]) -> list[str]:
    """The lines of media_digests.txt for files of these kinds."""
    lines = LIST.read_text().splitlines()
    return [line for line in lines if line.split()[0].rsplit(".", 1)[1] in kinds]


def main() -> None:
    for path in media_files(map(pathlib.Path, sys.argv[1:]), IMAGES | SOUND_AND_VIDEO):
        print(*lines_of(path), sep="\n")


if __name__ == "__main__":
    main()
