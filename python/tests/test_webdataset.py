"""WebDataset: its methods, orders, epochs, states, shards."""

from __future__ import annotations

import io
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from conftest import config, processes_named, take, write_tar

import energon_cpp as energon


def numbers(dataset: Any) -> list[int]:
    return [sample["json"]["number"] for sample in dataset]


def plain(path: str, **options: Any) -> energon.WebDataset:
    return energon.WebDataset(path, **options)


def test_a_dataset_without_stages_delivers_parts_in_order(texts: str, num_workers: int) -> None:
    with plain(texts, num_workers=num_workers) as dataset:
        samples = list(dataset)
        assert len(dataset) == 60
    assert sorted(sample["__key__"] for sample in samples) == [f"{i:04}" for i in range(60)]
    assert samples[0]["txt"] == b"text 0" and isinstance(samples[0], dict)
    if num_workers == 0:
        assert [sample["__key__"] for sample in samples] == [f"{i:04}" for i in range(60)]


def test_the_methods(texts: str, num_workers: int) -> None:
    numpy = pytest.importorskip("numpy")
    dataset = (
        plain(texts, num_workers=num_workers)
        .decode()
        .rename(info="meta;json", text="txt")
        .map_dict(text=str.upper)
        .select(lambda sample: sample["info"]["number"] % 3 == 0)
        .map(lambda sample: {**sample, "number": sample["info"]["number"]})
        .map(lambda sample: None if sample["number"] == 30 else sample)
        .to_tuple("number", "text", "__key__", "absent;info", "bin")
        .map_tuple(lambda number: number + 1000)
        .batched(4)
        .map(lambda batch: (*batch, "of batch"))
        .select(lambda batch: 1003 not in batch[0])
        .map_tuple(lambda column: column * 2)
    )
    with dataset:
        batches = list(dataset)
    got = []
    for column, text, key, info, data, mark in batches:
        assert isinstance(column, numpy.ndarray) and mark == "of batch" and isinstance(text, list)
        for i, number in enumerate((column // 2 - 1000).tolist()):
            assert (text[i], key[i]) == (f"TEXT {number}", f"{number:04}")
            assert info[i]["number"] == number and bytes(data[i])[:1] == bytes([number])
            got.append(number)
    assert 3 not in got and 30 not in got and all(number % 3 == 0 for number in got)
    assert 12 <= len(got) <= 16 and len(set(got)) == len(got)


def test_batches(texts: str) -> None:
    pairs = plain(texts).decode().to_tuple("json", "txt")
    assert [len(batch[1]) for batch in pairs.batched(25)] == [25, 25, 10]
    assert [len(batch[1]) for batch in pairs.batched(25, partial=False)] == [25, 25]
    as_list = next(iter(pairs.batched(2, collation_fn=None)))
    assert as_list[1] == ({"number": 1, "words": ["a", None, True, 1.5]}, "text 1")
    assert type(as_list) is list and type(as_list[0]) is tuple
    assert next(iter(pairs.batched(3, len))) == 3
    native = plain(texts).decode().batched(3)
    assert not native.dataset().calls_python
    batch = next(iter(native))
    assert isinstance(batch, energon.Batch) and batch.txt == ["text 0", "text 1", "text 2"]
    renamed = next(iter(plain(texts).decode().rename(False, text="txt").batched(2)))
    assert renamed["text"] == ["text 0", "text 1"] and "json" not in renamed


def image_tar(folder: pathlib.Path) -> str:
    image = pytest.importorskip("PIL.Image")
    samples = []
    for i in range(10):
        data = io.BytesIO()
        image.new("RGB", (8, 6), (i, 2 * i, 250)).save(data, "PNG")
        samples.append((f"{i}", {"png": data.getvalue(), "json": b'{"label": %d}' % i}))
    write_tar(folder / "images-000.tar", samples)
    return str(folder / "images-{000..000}.tar")


def test_the_first_line_of_the_documentation(tmp_path: pathlib.Path, num_workers: int) -> None:
    torch = pytest.importorskip("torch")
    dataset = (
        energon.WebDataset(image_tar(tmp_path), num_workers=num_workers)
        .shuffle(1000)
        .decode("torchrgb")
        .to_tuple("jpg;png", "json")
        .batched(4)
    )
    with dataset:
        batches = list(dataset)
    assert sorted(info["label"] for _, infos in batches for info in infos) == list(range(10))
    for images, infos in batches:
        assert images.dtype is torch.float32 and images.shape == (len(infos), 3, 6, 8)
        assert images[0, 0, 0, 0].item() * 255 == pytest.approx(infos[0]["label"])


def test_images_of_numpy(tmp_path: pathlib.Path) -> None:
    numpy = pytest.importorskip("numpy")
    pairs = plain(image_tar(tmp_path)).decode("rgb8").to_tuple("png", "json")
    images, _ = next(iter(pairs.batched(3)))
    assert isinstance(images, numpy.ndarray) and images.shape == (3, 6, 8, 3)
    assert images[:, 0, 0].tolist() == [[i, 2 * i, 250] for i in range(3)]


def test_shuffles(texts: str) -> None:
    def order(dataset: energon.WebDataset) -> list[int]:
        return numbers(dataset.decode())

    in_order = list(range(60))
    assert order(plain(texts)) == in_order == order(plain(texts).shuffle(0))
    buffer = order(plain(texts).shuffle(10))
    assert sorted(buffer) == in_order != buffer
    assert buffer == order(plain(texts).shuffle(10)), "the seed determines the order"
    of_seed = config(seed_offset=5)
    assert order(plain(texts, worker_config=of_seed).shuffle(10)) != buffer
    fixed = order(plain(texts, shardshuffle=False).shuffle(3))
    assert fixed != in_order == sorted(fixed)
    assert all(abs(number - place) < 30 for place, number in enumerate(fixed))
    only_shards = order(plain(texts, shardshuffle=True))
    assert sorted(only_shards) == in_order != only_shards
    with plain(texts).shuffle(10).decode() as dataset:
        assert numbers(dataset) == buffer != numbers(dataset), "each epoch has its own order"


def test_epochs_and_lengths(texts: str) -> None:
    assert len(plain(texts).batched(7)) == 9
    with plain(texts).decode().batched(6).with_epoch(4) as dataset:
        epochs = [list(dataset) for _ in range(5)]
        assert [len(epoch) for epoch in epochs] == [4] * 5 and len(dataset) == 4
        got = [int(n) for epoch in epochs for batch in epoch for n in batch.json["number"]]
        assert got == 2 * list(range(60))
    with plain(texts).shuffle(5).decode().batched(6).with_epoch(4) as dataset:
        assert [len(list(dataset)) for _ in range(3)] == [4] * 3
    assert numbers(plain(texts).decode().with_epoch(130)) == (3 * list(range(60)))[:130]
    endless = plain(texts).decode().repeat()
    with pytest.raises(TypeError, match="not known"):
        len(endless)
    assert numbers(take(endless, 61)) == [*range(60), 0]
    assert len(endless.with_length(7)) == 7
    drawn = numbers(take(plain(texts, resampled=True).decode(), 200))
    assert len(set(drawn)) < 60 or drawn[:60] != sorted(drawn[:60])


def test_states(texts: str, num_workers: int) -> None:
    def make() -> energon.WebDataset:
        base = plain(texts, num_workers=num_workers).shuffle(20).decode()
        return base.to_tuple("json", "txt").batched(4)

    with make() as dataset:
        before = dataset.state_dict()
        whole = [batch[1] for batch in dataset]
        second = [batch[1] for batch in dataset]
    with make() as again:
        assert [batch[1] for batch in take(again, 5)] == whole[:5]
        state = again.state_dict()
    with make() as third:
        third.load_state_dict(state)
        assert [batch[1] for batch in third] == whole[5:]
        assert [batch[1] for batch in third] == second
        third.load_state_dict(before)
        assert [batch[1] for batch in take(third, 3)] == whole[:3]
        assert [batch[1] for batch in third] == whole[3:], "a loop goes on after a break"


def test_a_chain_is_immutable(texts: str) -> None:
    base = plain(texts).decode()
    tuples = base.to_tuple("txt")
    assert next(iter(tuples)) == ("text 0",)
    assert next(iter(base))["txt"] == "text 0"
    assert next(iter(base.to_tuple("json txt")))[1] == "text 0"
    assert next(iter(tuples)) == ("text 1",), "each object has a loader of its own"


def test_loaders(texts: str) -> None:
    dataset = plain(texts, worker_config=config(1, rank=1, world_size=2)).decode()
    loader = dataset.loader(prefetch_factor=2)
    assert (loader.num_workers, loader.worker_config.rank) == (1, 1)
    with loader, dataset.loader(num_workers=0) as other:
        assert numbers(loader) == numbers(other) and len(numbers(other)) == 30
    pids = loader.worker_pids
    assert processes_named(pids) == []
    with pytest.raises(TypeError, match="batch_size"):
        dataset.loader(batch_size=3)


def test_close_ends_the_workers(texts: str) -> None:
    dataset = plain(texts, num_workers=2).decode()
    take(dataset, 1)
    pids = dataset._loader().worker_pids
    assert len(pids) == 2
    dataset.close()
    assert processes_named(pids) == []
    assert len(numbers(dataset)) == 60
    dataset.close()


def test_shards(texts: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = f"{texts}/shard_1.tar", pathlib.Path(texts, "shard_0.tar")
    assert numbers(plain(f"{texts}/shard_{{0..1}}.tar").decode()) == list(range(40))
    both = [*range(20, 40), *range(20)]
    assert numbers(energon.WebDataset([one, two]).decode()) == both
    assert numbers(plain(f"{one}::{two}").decode()) == both
    assert numbers(plain(f"file:{one}").decode()) == numbers(plain(f"file://{one}").decode())
    nested = energon.WebDataset([f"{texts}/shard_{{2..2}}.tar", f"{texts}/shard_{{0,1}}.tar"])
    assert numbers(nested.decode()) == [*range(40, 60), *range(40)]
    monkeypatch.setenv("TEXTS", texts)
    assert len(numbers(plain("$TEXTS/shard_2.tar").decode())) == 20
    for url in ("pipe:curl -s x", "https://x/{0..9}.tar", "s3://bucket/a.tar", ["a.tar", "gs://b"]):
        with pytest.raises(energon.UnsupportedError, match="a command|an address"):
            energon.WebDataset(url)
    with pytest.raises(ValueError, match="the list is empty"):
        energon.WebDataset([])
    with pytest.raises(ValueError, match="commas"):
        energon.WebDataset(["a,b.tar", "c.tar"])
    with pytest.raises(energon.NotFoundError, match="absent"):
        plain(f"{tmp_path}/absent-{{0..3}}.tar").dataset()


def test_order_of_calls(texts: str) -> None:
    base = plain(texts)
    wrong: list[Any] = [
        lambda: base.batched(2).shuffle(3),
        lambda: base.batched(2).decode(),
        lambda: base.map(id).decode(),
        lambda: base.batched(2).to_tuple("txt"),
        lambda: base.batched(2).rename(a="txt"),
        lambda: base.batched(2).batched(3),
        lambda: base.with_epoch(3).batched(2),
    ]
    for call in wrong:
        with pytest.raises(ValueError, match=r"\w+\(\) must be called (before|once).*WebDataset\("):
            call()


def test_failures(texts: str, num_workers: int) -> None:
    with plain(texts, num_workers=num_workers).decode().to_tuple("absent;other") as dataset:
        with pytest.raises(KeyError, match="none of the parts 'absent;other'.*txt"):
            list(dataset)

    def odd(sample: Any) -> Any:
        return sample["json"]["number"] if sample["json"]["number"] % 2 else 1 / 0

    with plain(texts, num_workers=num_workers, on_error="skip").decode().map(odd) as dataset:
        assert sorted(dataset) == list(range(1, 60, 2))


def test_the_example() -> None:
    for name in ("torch", "PIL"):
        pytest.importorskip(name)
    example = pathlib.Path(__file__).parents[1] / "examples" / "webdataset_style.py"
    ran = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=100)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    assert "images (8, 3, 32, 32) torch.float32" in ran.stdout
    assert "16 batches, saved after 4" in ran.stdout
