"""Functions of the library in task encoders: tokenizers, image buckets, ragged batches."""

from __future__ import annotations

import json
import pathlib
import pickle
from typing import Any

import pytest
from conftest import config, loader_of, take, write_tar

import energon_cpp as energon
from energon_cpp import transforms

numpy = pytest.importorskip("numpy")

DATA = pathlib.Path(__file__).parents[2] / "tests" / "media"
IMAGES = [(DATA / "image" / "data" / name).read_bytes() for name in ("420.jpg", "exif6.jpg")]
MODEL = DATA / "tokens" / "data" / "unigram.model"


def tokenizer(**options: Any) -> energon.SentencePieceTokenizer:
    made = energon.SentencePieceTokenizer(MODEL, **options)
    try:
        made.vocab_size()
    except energon.UnsupportedError:
        pytest.skip("this build has no SentencePiece")
    return made


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six pictures, of 45 x 37 and 20 x 12 pixels in turn, with texts."""
    folder = tmp_path_factory.mktemp("pairs")
    write_tar(
        folder / "data-0.tar",
        [
            (f"{i}", {"jpg": IMAGES[i % 2], "txt": f"a dog runs in the park {i}".encode()})
            for i in range(6)
        ],
    )
    return str(folder)


BUCKETS = energon.ImageBuckets(
    [24, (20, 32), (32, 20)],
    crop="random",
    image_decode="torchrgb8",
    transform=transforms.RandomHorizontalFlip(),
)


class Encoder(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
    encode_sample = BUCKETS.fit("jpg")  # type: ignore[assignment]
    batch_group_criterion = BUCKETS.group_by("jpg")  # type: ignore[assignment]
    batch = energon.RaggedBatch(["tokens"])  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        drawing = tokenizer(add_eos=True, max_length=12, nbest_size=8, alpha=0.2)
        self.decoder = energon.SampleDecoder(image_decode=None, tokenizer=drawing)


def weighted_sum(array: Any) -> int:
    values = numpy.frombuffer(numpy.asarray(array).tobytes(), numpy.uint8).astype(numpy.uint64)
    return int((values * numpy.arange(1, values.size + 1, dtype=numpy.uint64)).sum())


def sums_of(batch: Any) -> list[int]:
    ragged = batch["tokens"]
    return [weighted_sum(one) for one in (batch["jpg"], ragged["values"], ragged["offsets"])]


def test_a_pipeline_is_that_of_cpp(pairs: str) -> None:
    """The test "tokens, image buckets and ragged batches of a pipeline" has the same numbers."""
    with loader_of(pairs, Encoder(), batch_size=2) as loader:
        assert not loader.dataset.calls_python
        batches = list(loader)
    assert [key for batch in batches for key in batch["__key__"]] == list("021345")
    assert [number for batch in batches for number in sums_of(batch)] == [
        *[669579877, 31591, 516, 826015944, 35683, 516],
        *[164468862, 10411, 108, 195561252, 7146, 108],
    ]


def test_every_layout_and_restore_is_the_same(pairs: str, num_workers: int) -> None:
    def sums(workers: int) -> list[Any]:
        dataset = energon.get_val_dataset(
            pairs, worker_config=config(workers, logical_shards=2), batch_size=2, task_encoder=Encoder()
        )
        with energon.get_savable_loader(dataset) as loader:
            found = [(batch["__restore_key__"], sums_of(batch)) for batch in take(loader, 2)]
            state = loader.save_state_rank()
            found += [(batch["__restore_key__"], sums_of(batch)) for batch in loader]
            for key, expected in found:
                assert sums_of(loader.restore_sample(key)) == expected
            one = loader.restore_sample(found[0][0], index=1)
            assert numpy.asarray(one["tokens"]).dtype == numpy.int32 and "jpg" in one
        with energon.get_savable_loader(dataset) as loader:
            loader.restore_state_rank(state)
            assert [sums_of(batch) for batch in loader] == [one for _, one in found[2:]]
        return [one for _, one in found]

    assert sums(0) == sums(num_workers)


def test_tokens_are_those_of_sentencepiece() -> None:
    found = tokenizer()
    expected = json.loads((MODEL.parent / "expected.json").read_text())["unigram"]["texts"]
    for one in expected:
        assert found.encode(one["text"]) == one["ids"]
    ids = found.encode("a dog runs in the park.")
    assert found.decode(numpy.array(ids)) == "a dog runs in the park."
    ends = tokenizer(add_bos=True, add_eos=True)
    assert ends.encode("a dog") == [ends.bos_id(), *found.encode("a dog"), ends.eos_id()]
    assert (found.vocab_size(), found.unk_id(), found.pad_id()) == (160, 0, 3)
    again = pickle.loads(pickle.dumps(ends))
    assert again == ends and hash(again) == hash(ends) and ends != found


def test_tokens_come_after_cookers_and_before_encode_sample(pairs: str) -> None:
    class Cooking(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = energon.SampleDecoder(
            image_decode=None, tokenizer=tokenizer(fields={"texts": "ids", "txt": "txt"})
        )
        cookers = [energon.Cooker(lambda sample: {**sample, "texts": ["a dog", sample["txt"]]})]

        def encode_sample(self, sample: Any) -> Any:
            return {**sample, "count": len(sample["ids"][1])}

    with loader_of(pairs, Cooking(), batch_size=None) as loader:
        sample = take(loader, 1)[0]
    expected = tokenizer().encode("a dog runs in the park 0")
    assert numpy.asarray(sample["txt"]).tolist() == expected
    assert sample["count"] == len(expected)
    assert numpy.asarray(sample["ids"][0]).tolist() == tokenizer().encode("a dog")


def test_functions_can_be_called(pairs: str) -> None:
    """In functions of Python, and where the pipeline cannot run them natively."""
    buckets = energon.ImageBuckets([24, (20, 32)], image_decode="rgb8")
    native = energon.DefaultTaskEncoder[Any, Any, Any, Any]()
    native.decoder = energon.SampleDecoder(image_decode=None)
    native.encode_sample = buckets.fit("jpg")  # type: ignore[method-assign, assignment]
    native.batch_group_criterion = buckets.group_by("jpg")  # type: ignore[method-assign, assignment]
    native.batch = energon.RaggedBatch(["jpg"])  # type: ignore[method-assign, assignment]

    class Calling(energon.TaskEncoder[Any, Any, Any, Any]):
        decoder = energon.SampleDecoder(image_decode=None)
        batch_group_criterion = buckets.group_by("jpg")  # type: ignore[assignment]

        def encode_sample(self, sample: Any) -> Any:
            sample = buckets.fit("jpg")(sample)
            again, text = buckets.decode([IMAGES[int(sample["__key__"]) % 2], "text"])
            assert numpy.array_equal(again, sample["jpg"]) and text == "text"
            return {"__key__": sample["__key__"], "jpg": sample["jpg"], "txt": sample["txt"]}

        def batch(self, samples: list[Any]) -> Any:
            return energon.RaggedBatch(["jpg"])(samples)

    found = []
    for encoder in (native, Calling()):
        with loader_of(pairs, encoder, batch_size=2) as loader:
            found.append(list(loader))
    assert len(found[0]) == len(found[1]) == 4
    for one, other in zip(*found):
        assert list(one["__key__"]) == list(other["__key__"]) and one["txt"] == other["txt"]
        for name in ("values", "offsets"):
            first, second = numpy.asarray(one["jpg"][name]), numpy.asarray(other["jpg"][name])
            assert first.dtype == second.dtype and numpy.array_equal(first, second)
    assert numpy.asarray(found[0][0]["jpg"]["values"]).shape == (48, 24, 3)


def test_wrong_options(pairs: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match="must be a SentencePieceTokenizer, not a str; call other"):
        energon.SampleDecoder(tokenizer="model")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a list of names, not 'tokens'"):
        energon.RaggedBatch("tokens")
    with pytest.raises(energon.InvalidArgumentError, match="at least one sample"):
        energon.RaggedBatch(["tokens"])([])
    for wrong in ({"max_length": 0}, {"nbest_size": 1}, {"alpha": float("nan")}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            energon.SentencePieceTokenizer("model", **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="fields must map"):
        energon.SentencePieceTokenizer("model", ["txt"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="integer"):
        energon.ImageBuckets([(8.5, 8)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="crop must be 'center' or 'random'"):
        energon.ImageBuckets([24], crop="middle")
    with pytest.raises(energon.InvalidArgumentError, match="bucket 24x24 comes twice"):
        energon.ImageBuckets([24, (24, 24)])
    with pytest.raises(energon.InvalidArgumentError, match="unknown image mode 'jpg'"):
        energon.ImageBuckets([24], image_decode="jpg")
    missing = energon.SentencePieceTokenizer(tmp_path / "no.model")
    with pytest.raises((energon.NotFoundError, energon.UnsupportedError)):
        missing.encode("text")
    encoder = Encoder()
    encoder.decoder = energon.SampleDecoder(tokenizer=tokenizer())
    with loader_of(pairs, encoder, batch_size=2) as loader:
        with pytest.raises(energon.InvalidArgumentError, match="only encoded images can be fitted"):
            next(iter(loader))
