"""Cookers with file stores and the cache, file stores alone, metadatasets."""

from __future__ import annotations

import io
import os
import pathlib
import pickle
import shutil
import struct
import subprocess
import zlib
from typing import Any

import numpy
import pytest
from conftest import LARGE, config, loader_of, take, write_tar

import energon_cpp as energon
from energon_cpp.media import ImageMetadata, deserialize_media_metadata, serialize_media_metadata

PROGRAM = os.environ.get("ENERGON_PROGRAM", "")
pytestmark = pytest.mark.skipif(not os.path.exists(PROGRAM), reason="no program energon")


def prepare(folder: pathlib.Path) -> None:
    command = [PROGRAM, "prepare", str(folder), "--split-parts", "train:.*", "--no-progress"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def npy(number: int) -> bytes:
    file = io.BytesIO()
    numpy.save(file, numpy.full((2, 3), number, numpy.float32))
    return file.getvalue()


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\0" + bytes(3 * width)) * height)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.fixture(scope="module")
def recipe(texts: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A metadataset over the texts, with an auxiliary dataset "arrays" (key.npy) and an auxiliary
    folder "files" (note_KEY.txt)."""
    folder = tmp_path_factory.mktemp("recipe")
    shutil.copytree(texts, folder / "data")
    (folder / "arrays").mkdir()
    write_tar(folder / "arrays" / "a.tar", [(f"{i:04}", {"npy": npy(i)}) for i in range(60)])
    for name in ("data", "arrays"):
        prepare(folder / name)
    (folder / "files").mkdir()
    for i in range(60):
        (folder / "files" / f"note_{i:04}.txt").write_text(f"note {i}")
    (folder / "recipe.yaml").write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n"
        "    path: data\n    subflavors: {kind: cooked}\n    aux:\n"
        "      arrays: arrays\n      files: filesystem://files\n"
        "  val:\n    blend:\n      - {path: data, split_part: train, subflavors: {set: 1}}\n"
        "      - {path: arrays, split_part: train, subflavors: {set: 2}}\n"
    )
    return str(folder / "recipe.yaml")


@energon.stateless
@energon.cooker(need_primary=True)
def cook_all(sample: Any, primary: Any, arrays: Any, files: Any) -> Any:
    number = sample["json"]["number"]
    array, source = arrays[f"{sample['__key__']}.npy"]
    assert source.dataset_path.endswith("arrays") and source.shard_name == "a.tar"
    own = primary.get(".bin", sample)
    return energon.CrudeSample(
        **energon.basic_sample_keys(sample),
        number=number,
        array=numpy.asarray(array),
        note=files.get(f"note_{sample['__key__']}.txt", sample),
        own=(len(own), bytes(own[:1])),
        paths=[pathlib.Path(store.get_path()).name for store in (primary, arrays, files)],
    )


class Cooks(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
    cookers = [energon.Cooker(cook_all, has_subflavors={"kind": "cooked"})]


def test_cookers_read_files(recipe: str, num_workers: int) -> None:
    options: dict[str, Any] = {"num_workers": num_workers, "split_part": "train"}
    with loader_of(recipe, Cooks(), batch_size=None, **options) as loader:
        samples = list(loader)
    assert sorted(sample["number"] for sample in samples) == list(range(60))
    for sample in samples:
        number = sample["number"]
        assert numpy.array_equal(sample["array"], numpy.full((2, 3), number))
        assert sample["note"] == f"note {number}"
        assert sample["own"] == (LARGE if number % 2 else 100, bytes([number]))
        assert sample["paths"] == ["data", "arrays", "files"]
        assert sample["__subflavors__"] == {"kind": "cooked"}
        names = [pathlib.Path(source.dataset_path).name for source in sample["__sources__"]]
        assert names == ["data", "arrays", "data", "files"]  # lists each file that was read


def test_stores_end_with_their_call_and_missing_files_are_key_errors(recipe: str) -> None:
    kept: list[Any] = []

    def cook(sample: Any, arrays: Any) -> Any:
        kept.append(arrays)
        with pytest.raises(KeyError, match="nobody"):
            arrays["nobody.npy"]
        return sample

    class Keeps(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = [energon.Cooker(cook)]

    with loader_of(recipe, Keeps(), split_part="train") as loader:
        take(loader, 1)
    with pytest.raises(energon.InvalidArgumentError, match="after its call"):
        kept[0]["0000.npy"]


def test_lazy_files_come_from_the_cache(
    recipe: str, num_workers: int, tmp_path: pathlib.Path
) -> None:
    @energon.cooker(need_cache=True)
    def cook(sample: Any, cache: Any, arrays: Any) -> Any:
        lazy = cache.get_lazy(arrays, f"{sample['__key__']}.npy")
        assert isinstance(lazy, energon.FileCacheLazy) and lazy.fname.endswith(".npy")
        with pytest.raises(TypeError, match="cannot leave the worker"):
            pickle.dumps(lazy)
        return {"number": sample["json"]["number"], "lazy": lazy}

    class Lazily(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = [energon.Cooker(cook)]

        def encode_sample(self, sample: Any) -> Any:
            found = os.listdir(tmp_path)
            array = numpy.asarray(sample["lazy"].get(sample))
            return {"number": sample["number"], "array": array, "folders": len(found)}

    dataset = energon.get_val_dataset(
        recipe, split_part="train", worker_config=config(num_workers), batch_size=4,
        task_encoder=Lazily())  # fmt: skip
    pool = energon.FileStoreCachePool(parent_cache_dir=tmp_path, num_workers=1)
    with energon.get_savable_loader(dataset, cache_pool=pool) as loader:
        batches = list(loader)
    numbers = [int(number) for batch in batches for number in batch["number"]]
    assert sorted(numbers) == list(range(60))
    for batch in batches:
        assert list(numpy.asarray(batch["array"])[:, 0, 0]) == list(batch["number"])
        assert min(batch["folders"]) >= 1  # the cache is in the folder of the pool


def test_cook_crude_sample_may_be_overridden(recipe: str) -> None:
    class Wraps(Cooks):
        def cook_crude_sample(self, sample: Any, cooker: Any, aux: Any) -> Any:
            assert sorted(aux) == ["arrays", "files", "primary"] and cooker.need_primary
            cooked: Any = super().cook_crude_sample(sample, cooker, aux)
            return cooked | {"note": "wrapped"}

    with loader_of(recipe, Wraps(), split_part="train") as loader:
        assert take(loader, 1)[0]["note"] == ["wrapped"] * 4


def test_cookers_match_by_subflavors() -> None:
    one = energon.Cooker(cook_all, has_subflavors={"kind": "cooked"})
    assert one.need_primary and not one.need_cache
    assert one.is_match({"kind": "cooked", "more": 1}) and not one.is_match({"kind": "raw"})
    assert energon.Cooker(lambda sample: sample).is_match({})


def test_stores_alone(recipe: str) -> None:
    folder = pathlib.Path(recipe).parent
    store = energon.WebdatasetFileStore(folder / "arrays")
    data, source = store["0007.npy"]
    assert data == npy(7) and source.index == 7
    decoded = energon.DecodeFileStore(store, decoder=energon.SampleDecoder())
    assert decoded.get("0007.npy").numpy()[0, 0] == 7
    own = energon.PrimaryFileStore(store, "0009")
    assert own.get(".npy") == npy(9) == own.get("0009.npy")
    files = energon.SystemFileStore(folder / "files")
    sample = {"__sources__": ()}
    assert files.get("note_0003.txt", sample) == b"note 3"
    assert len(sample["__sources__"]) == 1
    assert energon.SystemFileStore().get(str(folder / "files" / "note_0003.txt")) == b"note 3"
    with pytest.raises(KeyError):
        files["nothing.txt"]
    with pytest.raises(NotImplementedError):
        files.get_media_metadata("note_0003.txt")
    pool = energon.NoCachePool()
    assert pool.get_lazy(files, "note_0004.txt").get() == b"note 4"
    assert pool.get(files, "note_0004.txt") == b"note 4"
    assert pool.to_cache([1], "list").get() == [1]
    with pytest.raises(ValueError, match="'raw' or 'pickle'"):
        energon.FileStoreCachePool(method="json")
    dataset = energon.get_val_dataset(
        recipe, split_part="train", worker_config=config(), batch_size=4
    )
    with pytest.raises(ValueError, match="method='pickle'.*use 'raw'"):
        energon.get_loader(dataset, cache_pool=energon.FileStoreCachePool(method="pickle"))


def test_media_metadata(tmp_path: pathlib.Path) -> None:
    write_tar(tmp_path / "a.tar", [("one", {"png": png(3, 2), "txt": b"no image"})])
    command = [PROGRAM, "prepare", str(tmp_path), "--split-parts", "train:.*", "--no-progress"]
    command += ["--media-metadata-by-extension"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    store = energon.WebdatasetFileStore(tmp_path)
    media = store.get_media_metadata("one.png")
    assert media == ImageMetadata(width=3, height=2, format="PNG", mode="RGB")
    kind, text = serialize_media_metadata(media)
    assert kind == "image" and deserialize_media_metadata(kind, text) == media
    with pytest.raises(KeyError):
        store.get_media_metadata("one.txt")


def test_get_val_datasets(recipe: str) -> None:
    made = energon.get_val_datasets(recipe, worker_config=config(), batch_size=4)
    assert [len(source) for _, source in made] == [60, 60]
    assert [source.subflavors for _, source in made] == [{"set": 1}, {"set": 2}]
    for (dataset, source), part in zip(made, ("txt", "npy")):
        with energon.get_loader(dataset) as loader:
            batches = list(loader)
        assert sum(len(batch.__key__) for batch in batches) == 60
        assert batches[0].__subflavors__ == [source.subflavors] * 4
        assert part in batches[0].keys()
    assert made[1][1].as_file_store()["0001.npy"][0] == npy(1)
    with pytest.raises(TypeError, match="'limits'"):
        energon.get_val_datasets(recipe, worker_config=config(), batch_size=4, limits=3)


def test_metadatasets_can_be_inspected(recipe: str) -> None:
    folder = pathlib.Path(recipe).parent
    (one,) = energon.traverse_metadataset(recipe, split_part="train")
    assert one.path == folder / "data" and one.split_part == "train"
    assert one.aux == {"arrays": folder / "arrays", "files": folder / "files"}
    assert one.subflavors == {"kind": "cooked"}
    sources = energon.load_dataset(recipe).get_datasets("val")
    assert [source.weight for source in sources] == [0.5, 0.5]
    assert sources[0].repetitions is None
    with pytest.raises(TypeError, match="not known"):
        len(sources[0])
    with pytest.raises(TypeError, match="YAML file"):
        energon.load_dataset({"splits": {}})  # type: ignore[arg-type]


def test_tags_are_another_name_of_subflavors(texts: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "__module__: megatron.energon\n__class__: Recipe\nsplits:\n  val:\n"
        f"    path: {texts}\n    tags: {{kind: text}}\n"
    )

    def cook(sample: Any) -> energon.TextSample:
        assert sample["__tags__"] == sample["__subflavors__"] == {"kind": "text"}
        return energon.TextSample(**energon.basic_sample_keys(sample), text=sample["txt"])

    class Encoder(energon.DefaultTaskEncoder):
        decoder = None
        cookers = [energon.Cooker(cook, has_tags={"kind": "text"})]

        def encode_sample(self, sample: Any) -> Any:
            assert sample.__tags__ == sample["__tags__"] == {"kind": "text"}
            sample.__tags__ = {"kind": "encoded"}
            assert sample.__subflavors__ == {"kind": "encoded"}
            return sample

    with loader_of(str(path), Encoder()) as loader:
        (batch,) = take(loader, 1)
    assert len(batch.__tags__) == 4 and batch.__tags__ == batch.__subflavors__
    with pytest.raises(AttributeError):
        energon.DictBatch(a=1).__tags__
    cookers = [energon.Cooker(cook, {"a": 1}), energon.Cooker(cook, has_tags={"a": 1})]
    assert cookers[0] == cookers[1] and cookers[0].has_tags == cookers[1].has_subflavors == {"a": 1}
    assert energon.Cooker(cook).has_tags is None
    with pytest.raises(ValueError, match="has_tags is another name of has_subflavors"):
        energon.Cooker(cook, {"a": 1}, has_tags={"a": 1})


class Words(energon.FileStore[Any]):
    """A store of a program."""

    def __init__(self, **files: Any) -> None:
        self.files = files
        self.reads = 0

    def __getitem__(self, key: str) -> tuple[Any, energon.SourceInfo]:
        self.reads += 1
        return self.files[key], energon.SourceInfo(dataset_path="words", index=key, shard_name="")

    def get_path(self) -> str:
        return "words"


@pytest.mark.parametrize("method", ["raw", "pickle"])
def test_a_pool_reads_stores_of_programs(tmp_path: pathlib.Path, method: str) -> None:
    words = Words(**{"a.txt": b"one", "b": [1, 2]})
    store = energon.DecodeFileStore(words, decoder=energon.SampleDecoder())
    pool = energon.FileStoreCachePool(parent_cache_dir=tmp_path, num_workers=1, method=method)
    first, second = (pool.get_lazy(store, "a.txt") for _ in range(2))
    entry = first.entry
    assert entry is second.entry and entry.refcount == 2
    assert entry.send_to_cache_future.result(timeout=20) and words.reads == 1
    assert len(list(pool.cache_dir.iterdir())) == pool.current_cache_count == 1
    sample = {"__sources__": ()}
    assert first.get(sample) == "one" == first.get() and entry.refcount == 1
    assert [source.index for source in sample["__sources__"]] == ["a.txt"]
    assert second.get() == "one" and words.reads == 1
    assert pool.current_cache_size == 0 and not list(pool.cache_dir.iterdir())
    other = pool.get_lazy(words, "b")
    assert other.entry.send_to_cache_future.result(timeout=20) and other.get() == [1, 2]
    missing = pool.get_lazy(words, "c")
    with pytest.raises(KeyError):
        missing.entry.send_to_cache_future.result(timeout=20)
    with pytest.raises(KeyError):
        missing.get()
    folder = pool.cache_dir
    pool.close()
    assert not folder.exists()


def test_a_full_cache_waits(tmp_path: pathlib.Path) -> None:
    words = Words(a=bytes(60), b=bytes(60), c=bytes(60), d=bytes(200))
    pool = energon.FileStoreCachePool(parent_cache_dir=tmp_path, num_workers=1)
    pool.max_cache_size = 100
    a, b, b_again, c, d = (pool.get_lazy(words, name) for name in "abbcd")
    assert a.entry.send_to_cache_future.result(timeout=20)
    assert not b.entry.send_to_cache_future.done()
    assert b.get() == bytes(60)  # read directly, and again later for the other reference
    a.get()
    assert c.entry.send_to_cache_future.result(timeout=20) and pool.current_cache_size == 60
    c.get()
    assert b_again.entry.send_to_cache_future.result(timeout=20)
    del b_again
    assert pool.current_cache_count == 0
    assert d.entry.send_to_cache_future.result(timeout=20) is False and len(d.get()) == 200
    pool.close()


def test_data_in_the_cache(tmp_path: pathlib.Path) -> None:
    pool = energon.FileStoreCachePool(parent_cache_dir=tmp_path)
    lazy = pool.to_cache({"a": 1}, "name")
    path = lazy.cache_path
    assert path.parent == pool.cache_dir and path.is_file()
    assert lazy.get() == {"a": 1} == lazy.get() and lazy.cache_path is None and not path.exists()
    unused = pool.to_cache([1], "name")
    path = unused.cache_path
    del unused
    assert not path.exists()
    pool.close()


def test_a_pool_after_a_fork_is_empty(tmp_path: pathlib.Path) -> None:
    words = Words(a=b"one")
    pool = energon.FileStoreCachePool(parent_cache_dir=tmp_path, num_workers=1)
    lazy = pool.get_lazy(words, "a")
    assert lazy.entry.send_to_cache_future.result(timeout=20)
    child = os.fork()
    if child == 0:
        own = pool.get_lazy(words, "a")
        os._exit(0 if own.get() == b"one" and pool.cache_dir.exists() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lazy.get() == b"one" and words.reads == 1
    pool.close()
