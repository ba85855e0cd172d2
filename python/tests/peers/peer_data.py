"""The datasets that both packages prepare and read: random samples in tars, JSONL files, a folder
of files, and metadatasets that join."""

from __future__ import annotations

import dataclasses
import io
import json
import pathlib
import random
import tarfile
from typing import Callable

import numpy
from PIL import Image

Parts = dict[str, bytes]
MakeParts = Callable[[random.Random, int], Parts]

# A part that is a Buffer in energon_cpp, and not bytes.
LARGE = 20000


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A folder of tars. flags: flags of `energon prepare`, the same in both programs. shards: number of
    samples in each shard. key: makes the key of a sample from its number."""

    name: str
    shards: tuple[int, ...]
    make_parts: MakeParts
    key: Callable[[int], str]
    flags: tuple[str, ...]


def draw_text(draw: random.Random) -> str:
    words = ["a", "cat", "über", "猫", "the mat", "sat", "42", "\U0001f408"]
    return " ".join(draw.choice(words) for _ in range(draw.randint(1, 9)))


def draw_png(draw: random.Random) -> bytes:
    size = (draw.randint(1, 9), draw.randint(1, 9))
    mode = draw.choice(["RGB", "RGB", "L", "RGBA"])
    pixels = bytes(draw.randrange(256) for _ in range(size[0] * size[1] * len(mode)))
    file = io.BytesIO()
    Image.frombytes(mode, size, pixels).save(file, "png")
    return file.getvalue()


def draw_npy(draw: random.Random) -> bytes:
    dtype = draw.choice(["<f4", "<i8", "u1"])
    array = numpy.array([draw.randrange(200) for _ in range(draw.randint(0, 6))], dtype)
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def as_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def text_parts(draw: random.Random, number: int) -> Parts:
    return {"txt": draw_text(draw).encode()}


def caption_parts(draw: random.Random, number: int) -> Parts:
    return {"png": draw_png(draw), "txt": draw_text(draw).encode()}


def question_parts(draw: random.Random, number: int) -> Parts:
    answers = [draw_text(draw) for _ in range(draw.randint(1, 3))]
    info = {"question": draw_text(draw), "answers": answers, "pair": [number, number + 0.5]}
    return {"json": as_json(info), "seg.png": draw_png(draw)}


def crude_parts(draw: random.Random, number: int) -> Parts:
    size = LARGE if draw.random() < 0.1 else draw.randint(0, 900)
    parts = {
        "txt": draw_text(draw).encode(),
        "json": as_json({"number": number, "nested": {"list": [1, None, True, -2.5, "é"]}}),
        "cls": str(draw.randrange(1000)).encode(),
        "npy": draw_npy(draw),
        "bin": draw.randbytes(size),
    }
    order = list(parts)
    draw.shuffle(order)
    return {name: parts[name] for name in order}


def _typed(kind: str, **fields: str) -> tuple[str, ...]:
    return ("--sample-type", kind, "--field-map", json.dumps(fields))


CRUDE = ("--sample-type", "CrudeWebdataset")


def draw_shards(draw: random.Random, count: int, least: int, most: int) -> tuple[int, ...]:
    return tuple(draw.randint(least, most) for _ in range(count))


def draw_datasets(draw: random.Random) -> list[Dataset]:
    """The datasets of a seed. `captions` shares some keys with `texts`, for joins."""
    vqa = _typed(
        "VQASample", image="seg.png", context="json[question]", answers="json[answers],txt"
    )
    parts = ("train:parts/data-[0-5].*", "val:.*-{6..7}.tar", "all:.*")
    patterns = [flag for part in parts for flag in ("--split-parts", part)]
    return [
        Dataset("texts", draw_shards(draw, 8, 8, 20), text_parts, "{:05}".format,
                (*_typed("TextSample", text="txt"), "--split-ratio", "6,2,0")),
        Dataset("unicode", draw_shards(draw, 5, 9, 15), text_parts, "ключ/ü_{:03}".format,
                (*_typed("TextSample", text="txt"), "--split-ratio", "0.6,0.2,0.2")),
        Dataset("few", draw_shards(draw, 3, 1, 3), text_parts, "few_{}".format,
                (*_typed("TextSample", text="txt"), "--split-ratio", "2,1,0")),
        Dataset("captions", draw_shards(draw, 8, 8, 16), caption_parts, "{:05}".format,
                (*_typed("CaptioningSample", image="png", caption="txt"), *patterns,
                 "--media-metadata-by-extension")),
        Dataset("questions", draw_shards(draw, 6, 8, 14), question_parts, "q{:04}".format,
                (*vqa, "--split-ratio", "4,2,0", "--exclude", "data-5")),
        Dataset("crude", draw_shards(draw, 12, 6, 14), crude_parts, "c/{:06}".format,
                (*CRUDE, "--split-ratio", "8,1,1")),
        Dataset("crude_media", draw_shards(draw, 4, 10, 12), question_parts, "m{:02}".format,
                (*CRUDE, "--split-ratio", "3,1,0", "--media-metadata-by-header")),
    ]  # fmt: skip


def write_tar(path: pathlib.Path, samples: list[tuple[str, Parts]], form: int) -> None:
    with tarfile.open(path, "w", format=form) as tar:
        for key, parts in samples:
            for name, data in parts.items():
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def write_dataset(draw: random.Random, folder: pathlib.Path, dataset: Dataset) -> None:
    (folder / dataset.name / "parts").mkdir(parents=True)
    first = 0
    for i, count in enumerate(dataset.shards):
        numbers = range(first, first + count)
        samples = [(dataset.key(n), dataset.make_parts(draw, n)) for n in numbers]
        form = draw.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
        write_tar(folder / dataset.name / "parts" / f"data-{i}.tar", samples, form)
        first += count


def write_lines(draw: random.Random, path: pathlib.Path, count: int) -> None:
    lines = [as_json({"text": draw_text(draw), "number": i}).decode() for i in range(count)]
    path.write_text("".join(draw.choice(["", "", "\n"]) + line + "\n" for line in lines))


# A metadataset for each split: with two joins of the same datasets in one file, Energon reads the
# index of the first split for both, because its name does not depend on the split.
JOIN = """\
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  SPLIT:
    join:
    - {path: texts, split_part: SPLIT}
    - {path: captions, split_part: all, nonmatch: skip, subflavors: {second: 2}}
    joiner: {__module__: peer_joined, __class__: Joined}
    subflavors: {joined: true}
"""


def write_all(folder: pathlib.Path, seed: int) -> list[Dataset]:
    """Writes everything except the prepared files. Returns the datasets to prepare, in addition to the
    JSONL files and the metadatasets."""
    draw = random.Random(f"data {seed}")
    datasets = draw_datasets(draw)
    for dataset in datasets:
        write_dataset(draw, folder, dataset)
    write_lines(draw, folder / "lines.jsonl", 75)
    write_lines(draw, folder / "few_lines.jsonl", 5)
    for split in ("train", "val"):
        (folder / f"joined_{split}.yaml").write_text(JOIN.replace("SPLIT", split))
    (folder / "files").mkdir()
    for i in range(10):
        (folder / "files" / f"{i}.txt").write_text(draw_text(draw))
    return datasets
