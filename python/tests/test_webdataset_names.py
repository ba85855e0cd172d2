"""Names that users of the package webdataset look for: more methods, __url__, decoding of used parts,
and errors that name an alternative."""

from __future__ import annotations

import copy
import pathlib
import random
import re
from typing import Any

import numpy
import pytest
from conftest import config, loader_of, write_tar

import energon_cpp as energon
from energon_cpp import _random
from energon_cpp import _webdataset_names as names
from energon_cpp._webdataset_stages import (
    Associate, ExtractKeys, Map, MapDict, MapTuple, Rename, Select, ToTuple, needed_parts,
)  # fmt: skip


def plain(path: Any, **options: Any) -> energon.WebDataset:
    return energon.WebDataset(path, **options)


@pytest.fixture
def damaged(tmp_path: pathlib.Path) -> energon.WebDataset:
    """One sample with parts of which only txt and cls can be decoded."""
    parts = {"txt": b"fine", "cls": b"7", "json": b"{", "jpg": b"no picture"}
    write_tar(tmp_path / "a.tar", [("0", parts)])
    return plain(tmp_path / "a.tar")


def test_only_used_parts_are_decoded(damaged: energon.WebDataset) -> None:
    decoded = damaged.decode("rgb8")
    pairs: list[tuple[energon.WebDataset, Any]] = [
        (decoded.to_tuple("txt", "png;cls", "__key__"), ("fine", 7, "0")),
        (decoded.rename(False, a="txt"), "fine"),
        (decoded.rename(a="txt").to_tuple("a", "cls"), ("fine", 7)),
        (decoded.map_dict(txt=len, cls=float).to_tuple("txt").map_tuple(str), ("4",)),
        (decoded.associate({"0": {"more": 3}}).to_tuple("txt", "more"), ("fine", 3)),
        (damaged.decode("rgb8", only=["txt", "cls"]).to_tuple("txt", "json"), ("fine", b"{")),
        (damaged.decode("rgb8", only="txt cls").map(lambda s: (s["cls"], s["jpg"])),
         (7, b"no picture")),
        (damaged.decode("rgb8", only="txt"), "fine"),
    ]  # fmt: skip
    for dataset, wanted in pairs:
        (sample,) = dataset
        got = sample if isinstance(sample, tuple) else sample.get("a", sample.get("txt"))
        assert got == wanted, dataset
    everything = [
        decoded,
        decoded.batched(1),
        decoded.to_tuple("json"),
        decoded.rename(a="txt"),
        decoded.map_dict(json=len).to_tuple("txt"),
        decoded.map(lambda sample: sample).to_tuple("txt"),
        decoded.select(lambda sample: True).to_tuple("txt"),
        decoded.extract_keys("*.txt"),
        damaged.decode("rgb8", only=["json"]),
    ]
    for dataset in everything:
        with pytest.raises(energon.CorruptDataError, match="part '(json|jpg)'"):
            list(dataset)


def test_a_decoder_of_some_parts(texts: str, num_workers: int) -> None:
    some = energon.SampleDecoder(parts=("txt",))
    decoded = some({"txt": b"a", "json": b"{", "__key__": b"k"})
    assert decoded == {"txt": "a", "json": b"{", "__key__": b"k"}

    class Encoder(energon.DefaultTaskEncoder):
        decoder = some

    with loader_of(texts, Encoder(), num_workers=num_workers, batch_size=None) as loader:
        for sample in loader:
            number = int(sample["__key__"])
            assert sample["txt"] == f"text {number}" and sample["json"].startswith(b"{")
    with pytest.raises(TypeError, match="option 'decode_parts' cannot be"):
        bad = energon.SampleDecoder(parts=3)  # type: ignore[arg-type]
        bad.decode("a.txt", b"")


def test_which_parts_are_used() -> None:
    def nothing(value: Any) -> Any:
        return value

    def used(*stages: Any) -> set[str] | None:
        parts = needed_parts(stages)
        return None if parts is None else set(parts)

    assert used() is used(Map(nothing)) is used(MapDict({"a": nothing})) is None
    assert used(ToTuple(("a;b", "c")), Map(nothing)) == {"a", "b", "c"}
    assert used(Select(nothing), ToTuple(("a",))) is used(Map(nothing), ToTuple(("a",))) is None
    assert used(ExtractKeys(("a",), True, True)) is used(Rename({"a": "b"}, True)) is None
    assert used(MapDict({"d": nothing}), ToTuple(("a",)), MapTuple((nothing,))) == {"a", "d"}
    assert used(Rename({"x": "a;b"}, True), ToTuple(("x", "c"))) == {"a", "b", "c"}
    assert used(Rename({"x": "a;b"}, False), Map(nothing)) == {"a", "b"}
    assert used(Rename({"a": "b"}, True), ToTuple(("b",))) == {"b"}
    twice = used(Rename({"x": "a"}, True), Rename({"y": "x"}, False))
    assert twice == {"a"}
    assert used(Associate({}), ToTuple(("a",))) == {"a"} and used(Associate({})) is None


def test_urls(texts: str, num_workers: int) -> None:
    def last(sample: Any) -> Any:
        return sample["__url__"], sample["json"]["number"]

    wanted = {(f"{texts}/shard_{i // 20}.tar", i) for i in range(60)}
    base = plain(texts, num_workers=num_workers).decode()
    chains = [
        base.map(last),
        base.to_tuple("__url__", "json").map(lambda pair: (pair[0], pair[1]["number"])),
        base.rename(url="__url__").map(lambda sample: (sample["url"], sample["json"]["number"])),
    ]
    for chain in chains:
        with chain:
            assert set(chain) == wanted
    sample = next(iter(base))
    assert sample["__url__"] == f"{texts}/shard_0.tar" and "__url__" not in sample
    with pytest.raises(KeyError, match="absent"):
        sample["absent"]
    bare = energon.CrudeSample(txt="a")
    with pytest.raises(KeyError, match="__url__"):
        bare["__url__"]


def test_slices(texts: str, num_workers: int) -> None:
    pairs = plain(texts, num_workers=num_workers).decode().to_tuple("json", "txt")
    with pairs.batched(4).slice(3) as dataset:
        first = [batch[1] for batch in dataset]
        assert len(dataset) == len(first) == 3
        assert [batch[1] for batch in dataset] == first, "each epoch has the same batches"
    with pairs.batched(4) as whole:
        assert [batch[1] for batch in whole][:3] == first
    with pairs.slice(5) as dataset:
        assert len(list(dataset)) == 5
    for moving in (plain(texts).shuffle(9), plain(texts).repeat(), plain(texts).with_epoch(9)):
        with pytest.raises(ValueError, match=r"slice\(7\).*with_epoch\(7\)"):
            moving.slice(7).dataset()
    with pytest.raises(ValueError, match=r"batched\(\) must be called before slice"):
        pairs.slice(3).batched(2)


def test_counts(texts: str) -> None:
    dataset = energon.WebDataset(texts)
    for method, count in [
        ("shuffle", -1), ("slice", 0), ("with_epoch", 0), ("with_epoch", -1), ("batched", 0),
        ("with_length", -1),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=rf"{method}\({count}\): the number must be at least"):
            getattr(dataset, method)(count)
    with pytest.raises(TypeError, match="slice\\(\\) needs an integer, not 1.5"):
        dataset.slice(1.5)  # type: ignore[arg-type]
    assert len(list(dataset.slice(numpy.int64(3)))) == 3  # type: ignore[arg-type]


def test_extract_keys(texts: str) -> None:
    base = plain(texts).decode()
    assert next(iter(base.extract_keys("*.txt", "*.jpg;.json")))[0] == "text 0"
    assert next(iter(base.extract_keys("t*", "jp*", ignore_missing=True))) == ("text 0",)
    assert next(iter(base.extract_keys("?[xs]*", duplicate_is_error=False))) == ("text 0",)
    with pytest.raises(KeyError, match=r"no part of the sample matches '\*.jpg'; it has: .*txt"):
        next(iter(base.extract_keys("*.jpg")))
    with pytest.raises(KeyError, match=r"several parts .* match '\?\[xs\]\*': txt, json"):
        next(iter(base.extract_keys("?[xs]*")))


def test_parts_are_added_by_key(texts: str) -> None:
    more = {"0001": {"weight": 3}}
    chain = plain(texts).decode().associate(more)
    both = list(chain.to_tuple("txt", "weight", "bin;x", missing_is_error=False))
    assert [pair[1] for pair in both[:3]] == [None, 3, None] and both[1][0] == "text 1"
    with pytest.raises(KeyError, match="none of the parts 'weight'"):
        list(chain.to_tuple("weight"))
    called = plain(texts).associate(lambda key: {"txt": key}).to_tuple("txt")
    assert next(iter(called)) == ("0000",)
    with pytest.raises(ValueError, match="before batched"):
        plain(texts).batched(2).associate(more)


@pytest.mark.parametrize("name", list(names._METHODS))
def test_unknown_methods(texts: str, name: str) -> None:
    wanted = f"no attribute '{name}': {names._METHODS[name]}"
    with pytest.raises(AttributeError, match=re.escape(wanted)):
        getattr(plain(texts), name)(3)
    assert not hasattr(energon.WebDataset, name)


def test_unknown_options(texts: str) -> None:
    base: Any = plain(texts)
    make: Any = energon.WebDataset
    calls: list[tuple[Any, str]] = [
        (lambda: make(texts, handler=print), r"WebDataset\(\) has no option 'handler'.*on_error"),
        (lambda: make(texts, nodesplitter=None), "its own share"),
        (lambda: make(texts, cache_size=1), "nothing to cache"),
        (lambda: base.shuffle(3, initial=2), r"shuffle\(\) has no option 'initial'.*references"),
        (lambda: base.decode("rgb", post=[]), "after decode"),
        (lambda: base.decode("rgb", partial=True), "decode.. leaves unknown parts"),
        (lambda: base.map(len, handler=print), "on_error"),
        (lambda: base.batched(batchsize=3), "first argument"),
        (lambda: base.repeat(nepochs=3), "with_epoch"),
        (lambda: base.shuffle(3, unheard_of=2), "unexpected keyword argument 'unheard_of'"),
        (lambda: base.decode("rgb", len), r"one image mode, not \['rgb'.*map_dict"),
        (lambda: base.decode(len), r"one image mode.*map_dict"),
    ]
    for call, text in calls:
        with pytest.raises(TypeError, match=text):
            call()
    assert len(base.batched(2, partial=False)) == 30, "what a method has, it takes"


def test_only_functions_that_may_draw_are_seeded(
    texts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    really = _random._seed_random
    monkeypatch.setattr(_random, "_seed_random", lambda seed: (seeds.append(seed), really(seed)))

    def seeded(dataset: energon.WebDataset) -> int:
        seeds.clear()
        assert list(dataset)
        return len(seeds)

    base = plain(texts).decode()
    pairs = base.rename(a="txt").to_tuple("a", "json")
    assert seeded(pairs.batched(4)) == seeded(pairs.batched(4, None)) == 0
    assert seeded(base.extract_keys("*txt")) == 0
    assert seeded(pairs.batched(4, lambda samples: samples)) == 15
    assert seeded(pairs.batched(4).map(lambda batch: batch)) == 15
    for drawing in (
        base.map_dict(txt=len).to_tuple("txt"),
        pairs.map_tuple(str),
        base.select(len),
        base.associate({}),
        pairs.map(lambda pair: random.random()),
    ):
        assert seeded(drawing) == 60
    heard = config(global_error_handler=energon.log_exception)
    handled = plain(texts, worker_config=heard).decode().to_tuple("txt")
    assert seeded(handled) == 60, "the handler may draw"


def test_draws_after_functions_that_are_not_seeded(texts: str, num_workers: int) -> None:
    def draws(samples: list[Any]) -> Any:
        return [random.random(), samples[0][0]]

    chain = plain(texts, num_workers=num_workers).decode().to_tuple("txt").batched(4, draws)
    with chain:
        first = list(chain)
        assert len({draw for draw, _ in first}) == len(first) >= 15
    with plain(texts, num_workers=num_workers).decode().to_tuple("txt").batched(4, draws) as again:
        assert list(again) == first


def test_a_dataset_can_be_copied(texts: str) -> None:
    made = copy.copy(plain(texts).decode().to_tuple("txt"))
    assert next(iter(made)) == ("text 0",)
    with pytest.raises(AttributeError, match="no attribute 'unheard_of'$"):
        made.unheard_of  # type: ignore[attr-defined]  # noqa: B018
