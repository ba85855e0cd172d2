"""Functions of Energon that prepare data."""

from __future__ import annotations

import json
import pathlib
import random
from typing import Any, Iterator

import pytest
from conftest import config, write_tar

import energon_cpp as energon
from energon_cpp import BaseWebdatasetFactory, CrudeJsonlDatasetFactory
from energon_cpp.epathlib import EPath
from energon_cpp.flavors.webdataset.config import (
    INFO_JSON_FILENAME,
    MAIN_FOLDER_NAME,
    SPLIT_YAML_FILENAME,
)
from energon_cpp.flavors.webdataset.prepare import WebdatasetPreparator
from energon_cpp.media.extractor import MediaFilterConfig, MediaFilterStrategy
from energon_cpp.media.filesystem_prepare import prepare_filesystem_dataset


@pytest.fixture
def shards(tmp_path: pathlib.Path) -> pathlib.Path:
    """Ten tars with two samples each, in the folder parts."""
    (tmp_path / "parts").mkdir()
    for shard in range(10):
        samples = [(f"{shard}-{i}", {"txt": b"x", "json": b"{}"}) for i in range(2)]
        write_tar(tmp_path / "parts" / f"data-{shard}.tar", samples)
    return tmp_path


def keys_of(path: Any, split_part: str) -> list[str]:
    dataset = energon.get_val_dataset(
        path, split_part=split_part, worker_config=config(), batch_size=100
    )
    return [key for batch in energon.get_loader(dataset) for key in batch.__key__]


def test_ratios_and_order(shards: pathlib.Path) -> None:
    paths = ["parts/data-9.tar", "parts/data-{0..8}.tar"]
    found = BaseWebdatasetFactory.prepare_dataset(
        shards,
        paths,
        split_parts_ratio=[("train", 0.6), ("val", 0.2), ("test", 0.2)],
        shuffle_seed=None,
    )
    assert found == {"txt", "json"}
    meta = shards / MAIN_FOLDER_NAME
    names = [f"parts/data-{i}.tar" for i in (9, 0, 1, 2, 3, 4, 5, 6, 7, 8)]
    counts = json.loads((meta / INFO_JSON_FILENAME).read_text())["shard_counts"]
    assert counts == {name: 2 for name in names} and list(counts) == names
    split = (meta / SPLIT_YAML_FILENAME).read_text()
    assert "- parts/data-9.tar\n  - parts/data-{0..4}.tar" in split
    assert not (meta / "dataset.yaml").exists()
    assert keys_of(shards, "val") == ["5-0", "5-1", "6-0", "6-1"]
    assert keys_of(shards, "test") == ["7-0", "7-1", "8-0", "8-1"]


def test_shards_are_shuffled_before_they_are_divided(shards: pathlib.Path) -> None:
    paths = [f"parts/data-{i}.tar" for i in range(10)]
    for seed in (42, 7):
        options: dict[str, Any] = {} if seed == 42 else {"shuffle_seed": seed}
        BaseWebdatasetFactory.prepare_dataset(
            EPath(shards), paths, split_parts_ratio=[("train", 9), ("val", 1)], **options
        )
        shuffled = list(range(10))
        random.Random(seed).shuffle(shuffled)
        assert keys_of(shards, "val") == [f"{shuffled[9]}-0", f"{shuffled[9]}-1"]


def test_rounding_loses_no_shard(shards: pathlib.Path) -> None:
    ratios = [("a", 0.7), ("b", 0.2), ("c", 0.1), ("none", 0)]
    BaseWebdatasetFactory.prepare_dataset(
        shards, ["parts/data-{0..9}.tar"], split_parts_ratio=ratios, shuffle_seed=None
    )
    assert [len(keys_of(shards, part)) for part in "abc"] == [14, 4, 2]
    for bad in ([("a", -1), ("b", 2)], [("a", 0)], []):
        with pytest.raises(ValueError, match="ratios must not be negative"):
            BaseWebdatasetFactory.prepare_dataset(shards, [], split_parts_ratio=bad)


def test_patterns(shards: pathlib.Path) -> None:
    with pytest.warns(UserWarning, match="pattern 'x' of part 'none' matches none of the 10") as caught:
        WebdatasetPreparator.prepare_dataset(
            shards,
            ["parts/data-{0..9}.tar"],
            split_parts_patterns=[
                ("train", r"parts/data-[0-6]\.tar"),
                ("val", "parts/data-{7,8}"),
                ("none", "x"),
            ],
            split_config="mine.json",
        )
    assert caught[0].filename == __file__  # the line of the script
    split = json.loads((shards / MAIN_FOLDER_NAME / "mine.json").read_text())
    assert split["split_parts"] == {
        "train": ["parts/data-{0..6}.tar"],
        "val": ["parts/data-{7..8}.tar"],
        "none": [],
    }


def test_parts_and_paths_that_are_refused(shards: pathlib.Path) -> None:
    prepare: Any = WebdatasetPreparator.prepare_dataset
    with pytest.raises(ValueError, match="part 'train' is named twice"):
        prepare(shards, ["parts/data-0.tar"], split_parts_ratio=[("train", 1), ("train", 1)])
    with pytest.raises(ValueError, match="part 'val' is named twice"):
        prepare(shards, ["parts/data-0.tar"], split_parts_patterns=[("val", "a"), ("val", "b")])
    with pytest.raises(ValueError, match=r"pattern '\*' of part 'val' .* not a glob"):
        prepare(shards, ["parts/data-0.tar"], split_parts_patterns=[("val", "*")])
    with pytest.raises(TypeError, match=r"paths must be a list.* \['parts/data-0.tar'\]"):
        prepare(shards, "parts/data-0.tar", split_parts_ratio=[("train", 1)])
    assert not (shards / MAIN_FOLDER_NAME).exists()


def test_progress(shards: pathlib.Path) -> None:
    seen: list[Any] = []

    def progress(done: Iterator[Any], count: int) -> Iterator[Any]:
        seen.append(count)
        for one in done:
            yield one
            seen.append(one)
        seen.append("finished")

    BaseWebdatasetFactory.prepare_dataset(
        shards, ["parts/data-{0..2}.tar"], split_parts_ratio=[("train", 1)], progress_fn=progress
    )
    assert seen == [3, 0, 1, 2, "finished"]


def test_interrupts_and_failures_leave_the_folder_unchanged(shards: pathlib.Path) -> None:
    def progress(done: Iterator[Any], count: int) -> Iterator[Any]:
        next(done)
        raise KeyboardInterrupt
        yield

    split: Any = {"split_parts_ratio": [("train", 1)]}
    with pytest.raises(KeyboardInterrupt):
        BaseWebdatasetFactory.prepare_dataset(
            shards, ["parts/data-{0..9}.tar"], progress_fn=progress, **split
        )
    write_tar(shards / "parts" / "again.tar", [("0-0", {"txt": b"x"})])
    with pytest.raises(energon.CorruptDataError, match="duplicate key '0-0'"):
        BaseWebdatasetFactory.prepare_dataset(
            shards, ["parts/data-0.tar", "parts/again.tar"], **split
        )
    with pytest.raises(FileNotFoundError, match="parts/none.tar"):
        BaseWebdatasetFactory.prepare_dataset(shards, ["parts/none.tar"], **split)
    assert not (shards / MAIN_FOLDER_NAME).exists()


def test_what_is_not_supported(shards: pathlib.Path) -> None:
    for name in ("tar_index_only", "fix_duplicates"):
        with pytest.raises(energon.UnsupportedError, match=f"{name}=True is not supported"):
            BaseWebdatasetFactory.prepare_dataset(shards, [], **{name: True})
    with pytest.raises(ValueError, match="split_parts_ratio or split_parts_patterns"):
        BaseWebdatasetFactory.prepare_dataset(shards, ["parts/data-0.tar"])
    with pytest.raises(energon.UnsupportedError, match="is an address"):
        BaseWebdatasetFactory.prepare_dataset(EPath("msc://a/b"), [])


def test_jsonl(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    assert CrudeJsonlDatasetFactory.prepare_dataset(EPath(path)) == 2
    assert (tmp_path / "lines.jsonl.idx").exists()
    assert keys_of(path, "train") == ["0", "1"]


def test_metadataset(tmp_path: pathlib.Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_tar(tmp_path / name / "0.tar", [("k", {"txt": name.encode()})])
        BaseWebdatasetFactory.prepare_dataset(
            tmp_path / name, ["0.tar"], split_parts_ratio=[("train", 1)]
        )
    path = tmp_path / "join.yaml"
    path.write_text(
        "__module__: megatron.energon\n__class__: Recipe\nsplits:\n  train:\n    join:\n"
        "      a: {path: a}\n      b: {path: b}\n"
        "    joiner: {__module__: megatron.energon, __class__: TextSample}\n"
    )
    before = set(tmp_path.iterdir())
    assert energon.prepare_metadataset(EPath(path)) is None  # type: ignore[func-returns-value]
    assert set(tmp_path.iterdir()) - before


def png() -> bytes:
    image = pytest.importorskip("PIL.Image")
    import io

    file = io.BytesIO()
    image.new("RGB", (3, 2)).save(file, "png")
    return file.getvalue()


def test_media_metadata(tmp_path: pathlib.Path) -> None:
    write_tar(tmp_path / "0.tar", [("k", {"png": png(), "txt": b"x"})])
    by_name = MediaFilterConfig.parse(None, False, True)
    BaseWebdatasetFactory.prepare_dataset(
        tmp_path, ["0.tar"], split_parts_ratio=[("train", 1)], media_filter=by_name
    )
    store = energon.WebdatasetFileStore(tmp_path)
    metadata: Any = store.get_media_metadata("k.png")
    assert (metadata.width, metadata.height) == (3, 2)
    globs = MediaFilterConfig(MediaFilterStrategy.GLOB, ["*.png"])
    assert BaseWebdatasetFactory.add_media_metadata(tmp_path, media_filter=globs) == 1


def test_media_of_a_folder(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "b.txt").write_text("x")
    filters = MediaFilterConfig.parse("*.png,*.jpg", False, False)
    assert filters.patterns == ["*.png", "*.jpg"] and not filters.should_consider_all()
    assert prepare_filesystem_dataset(EPath(tmp_path), filters, progress=False) == 1
    metadata: Any = energon.SystemFileStore(tmp_path).get_media_metadata("a.png")
    assert metadata.width == 3
    assert MediaFilterConfig.parse(None, True, False).should_consider_all()
    with pytest.raises(ValueError, match="exactly one"):
        MediaFilterConfig.parse("*", True, False)
