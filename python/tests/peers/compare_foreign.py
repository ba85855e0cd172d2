#!/usr/bin/env python3
"""Compares energon_cpp with the real Megatron-Energon over data whose dataset.yaml names classes
and functions that are not Energon's: compare_foreign.py PROGRAM

Order, keys, subflavors, sources and the bytes of all fields of the batches, with 0 and 2 workers,
before and after a save and a restore in the middle."""

from __future__ import annotations

import io
import json
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tarfile
import tempfile
from typing import Any

import PIL.Image

HERE = pathlib.Path(__file__).resolve().parent
OURS, THEIRS = "energon_cpp", "megatron.energon"
COUNT = 40

CHAT = """__module__: foreign_classes
__class__: ChatMLWebdataset
field_map: {imgs: jpgs, conversation: conversation.json}
subflavors: {kind: chat}
"""
RGB8 = CHAT.replace("subflavors", "spec: torchrgb8\nsubflavors")
PICTURES = """sample_type: {__module__: foreign_classes, __class__: PictureSample}
field_map: {picture: "png,jpg", words: "info.json[words][1]", place: "missing,info.json[place]"}
"""
LOADED = """sample_type: {__module__: megatron.energon, __class__: CaptioningSample}
sample_loader: loader.py:load
part_filter: loader.py:wants
"""
LOADER = """
def load(raw):
    assert "jpgs" not in raw and raw["__shard__"].endswith(".tar")
    return {"image": raw["jpg"], "caption": "<" + raw["info.json"]["words"][0] + ">"}

def wants(part):
    return part in ("jpg", "info.json")
"""
BLEND = """__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    blend:
    - {weight: 2, path: first, subflavors: {label: a}}
    - {weight: 1, path: second, subflavors: {label: b, kind: other}}
    - {weight: 1, path: second, dataset_config: loaded.yaml, subflavors: {label: c, kind: other}}
"""
JOIN = """__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    join:
      chat: {path: first}
      words: {path: second}
    joiner: {__module__: foreign_classes, __function__: join_both}
"""


def picture(form: str, seed: int) -> bytes:
    size = (8 + seed % 5, 6 + seed % 3)
    data = random.Random(seed).randbytes(3 * size[0] * size[1])
    file = io.BytesIO()
    PIL.Image.frombytes("RGB", size, data).save(file, form)
    return file.getvalue()


def write_dataset(folder: pathlib.Path, base: int) -> None:
    folder.mkdir()
    for shard in range(4):
        with tarfile.open(folder / f"shard_{shard}.tar", "w") as tar:
            for i in range(COUNT // 4):
                number = shard * COUNT // 4 + i
                pictures = [picture("JPEG", base + number + j) for j in range(number % 3)]
                info = {"words": [f"word {base + number}", number], "place": {"x": number}}
                parts = {
                    "jpgs": pickle.dumps(pictures),
                    "conversation.json": json.dumps([{"value": f"said {base + number}"}]).encode(),
                    "jpg": picture("JPEG", base + number),
                    "info.json": json.dumps(info).encode(),
                }
                for name, data in parts.items():
                    member = tarfile.TarInfo(f"{number:04}.{name}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def prepare(program: str, path: pathlib.Path, *more: str) -> None:
    command = [program, "prepare", str(path), "--no-progress", *more]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def make_data(program: str, folder: pathlib.Path) -> None:
    for name, base in (("first", 0), ("second", 1000)):
        write_dataset(folder / name, base)
        prepare(program, folder / name, "--split-parts", "train:.*")
    yaml = {"first/dataset": CHAT, "second/dataset": PICTURES, "second/loaded": LOADED}
    for name, text in yaml.items():
        dataset, _, file = name.partition("/")
        (folder / dataset / ".nv-meta" / f"{file}.yaml").write_text(text)
    (folder / "second" / ".nv-meta" / "loader.py").write_text(LOADER)
    single = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train: "
    (folder / "loaded.yaml").write_text(single + "{path: second, dataset_config: loaded.yaml}\n")
    (folder / "rgb8.yaml").write_text(single + "{path: first, dataset_config: rgb8.yaml}\n")
    (folder / "first" / ".nv-meta" / "rgb8.yaml").write_text(RGB8)
    (folder / "blend.yaml").write_text(BLEND)
    (folder / "join.yaml").write_text(JOIN)
    prepare(program, folder / "join.yaml")


def deliver(folder: pathlib.Path, package: str, recipes: list[str], classes: str) -> Any:
    """What the package delivers, with classes over the package `classes`."""
    results = folder / f"{package}.{classes}.json"
    command = [sys.executable, "-B", str(HERE / "foreign_side.py"), package, str(folder)]
    environment = {**os.environ, "PEER_PACKAGE": classes}
    done = subprocess.run(
        [*command, str(results), *recipes],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    if not results.exists():
        sys.exit(f"{package}: no results\n{done.stdout}\n{done.stderr}")
    return json.loads(results.read_text())


def compare(ours: Any, theirs: Any) -> int:
    """The number of differences, which are printed."""
    failures = 0
    for name in theirs:
        for part, mine, other in zip(("first", "restored"), ours[name], theirs[name]):
            for number, (one, two) in enumerate(zip(mine, other, strict=True)):
                if one != two:
                    failures += 1
                    print(f"{name}: {part} batch {number} differs:\n  {one}\n  {two}")
                    break
        if ours[name][0][5:] != ours[name][1]:
            failures += 1
            print(f"{name}: the batches after the restore differ")
    return failures


def main() -> None:
    program = sys.argv[1]
    recipes = ["first", "second", "rgb8.yaml", "loaded.yaml", "blend.yaml", "join.yaml"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_data(program, folder)
        theirs = deliver(folder, THEIRS, recipes, THEIRS)
        # With an alias for the package, and with both packages in one process.
        failures = sum(
            compare(deliver(folder, OURS, recipes, classes), theirs) for classes in (OURS, THEIRS)
        )
    print(f"2 times {len(theirs)} runs, {failures} differ")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
