"""The functions of a TaskEncoder as stages."""

from __future__ import annotations

import dataclasses
import random
import sys
from typing import Any, Iterator

import numpy
import pytest
from conftest import LARGE, config, loader_of, take

import energon_cpp as energon


@dataclasses.dataclass(kw_only=True)
class Encoded(energon.Sample):
    number: int
    text: str


class Numbers(energon.DefaultTaskEncoder):
    def encode_sample(self, sample: Any) -> Encoded:
        return Encoded.derive_from(sample, number=sample["json"]["number"], text=sample["txt"])


def numbers_of(batches: list[Any]) -> list[int]:
    return [int(number) for batch in batches for number in batch.number]


def test_only_overridden_functions_are_stages(texts: str) -> None:
    dataset = loader_of(texts, energon.DefaultTaskEncoder()).dataset
    assert not dataset.calls_python
    dataset = loader_of(texts, Numbers()).dataset
    assert list(dataset._recipe.stages) == ["encode_sample"]
    made = energon.DefaultTaskEncoder(batch_type=dict)
    assert list(loader_of(texts, made).dataset._recipe.stages) == ["encode_batch"]


def test_the_standard_batch_keeps_the_type(texts: str, num_workers: int) -> None:
    with loader_of(texts, Numbers(), num_workers=num_workers) as loader:
        batches = list(loader)
    assert all(type(batch) is Encoded for batch in batches)
    assert sorted(numbers_of(batches)) == list(range(60))
    assert batches[0].text == [f"text {number}" for number in numbers_of(batches[:1])]
    assert batches[0].__key__ == [f"{number:04}" for number in numbers_of(batches[:1])]


def test_objects_pass_from_function_to_function(texts: str, num_workers: int) -> None:
    class Keeps(Numbers):
        def encode_sample(self, sample: Any) -> Any:
            encoded = super().encode_sample(sample)
            encoded.function = lambda: encoded.number  # what no process boundary would let pass
            return encoded

        def batch(self, samples: list[Any]) -> Any:
            assert all(type(sample) is Encoded for sample in samples)
            return {"number": numpy.array([sample.function() for sample in samples]), "set": {1}}

        def encode_batch(self, batch: Any) -> Any:
            assert batch["set"] == {1}
            return energon.Batch.derive_from(energon.Batch(), number=None) if False else batch

    with loader_of(texts, Keeps(), num_workers=num_workers) as loader:
        batches = list(loader)
    assert type(batches[0]) is dict
    assert sorted(sum((batch["number"].tolist() for batch in batches), [])) == list(range(60))


def test_generators(texts: str, num_workers: int) -> None:
    class Halves(Numbers):
        def encode_sample(self, sample: Any) -> Iterator[Any]:
            for half in range(2):
                yield {"number": 2 * sample["json"]["number"] + half}

        def batch(self, samples: list[Any]) -> Iterator[Any]:
            yield {"number": [sample["number"] for sample in samples[:1]]}
            yield {"number": [sample["number"] for sample in samples[1:]]}

    with loader_of(texts, Halves(), num_workers=num_workers) as loader:
        first = take(loader, 5)
        state = loader.save_state_rank()
        rest = list(loader)
    numbers = sum((batch["number"] for batch in first + rest), [])
    assert sorted(numbers) == list(range(120))
    with loader_of(texts, Halves(), num_workers=num_workers) as loader:
        loader.restore_state_rank(state)
        assert [batch["number"] for batch in loader] == [batch["number"] for batch in rest]


class Packs(Numbers):
    def preencode_sample(self, sample: Any) -> Any:
        return Numbers.encode_sample(self, sample)

    encode_sample = energon.TaskEncoder.encode_sample

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        samples = sorted(samples, key=lambda sample: sample.number % 7)
        return [samples[i : i + 3] for i in range(0, len(samples), 3)]

    def postencode_sample(self, sample: Any) -> Any:
        return {"number": sample.number, "double": 2 * sample.number}

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {"numbers": [s["number"] for s in samples], "sum": sum(s["double"] for s in samples)}


def test_packing(texts: str, num_workers: int) -> None:
    def made() -> Any:
        return loader_of(
            texts, Packs(), num_workers=num_workers, packing_buffer_size=10, batch_size=2
        )

    with made() as loader:
        batches = take(loader, 3)
        state = loader.save_state_rank()
        rest = list(loader)
        numbers = [pack for batch in batches + rest for pack in batch["numbers"]]
        assert sorted(sum(numbers, [])) == list(range(60))
        assert list(batches[0]["sum"]) == [2 * sum(pack) for pack in batches[0]["numbers"]]
    with made() as loader:
        loader.restore_state_rank(state)
        assert [batch["numbers"] for batch in loader] == [batch["numbers"] for batch in rest]


def test_groups(texts: str, num_workers: int) -> None:
    class Groups(Numbers):
        def batch_group_criterion(self, sample: Any) -> Any:
            return ("odd", 3) if sample.number % 2 else ("even", None)

    with loader_of(texts, Groups(), num_workers=num_workers) as loader:
        batches = list(loader)
    for batch in batches:
        assert len({int(number) % 2 for number in batch.number}) == 1
        assert len(batch.number) <= (3 if int(batch.number[0]) % 2 else 4)
    assert sorted(numbers_of(batches)) == list(range(60))


def test_cookers(texts: str, num_workers: int) -> None:
    @energon.stateless
    def cook(sample: dict[str, Any]) -> Encoded:
        assert sample["__key__"] == f"{sample['json']['number']:04}"
        assert sample["__subflavors__"] == {}
        return Encoded(
            **energon.basic_sample_keys(sample), number=sample["json"]["number"], text="cooked"
        )

    class Cooks(energon.DefaultTaskEncoder):
        cookers = [energon.Cooker(cook, has_subflavors={"kind": "x"}), energon.Cooker(cook)]

    with loader_of(texts, Cooks(), num_workers=num_workers) as loader:
        batches = list(loader)
    assert sorted(numbers_of(batches)) == list(range(60))
    assert batches[0].text == ["cooked"] * 4

    class Misses(energon.DefaultTaskEncoder):
        cookers = [energon.Cooker(cook, has_subflavors={"kind": "x"})]

    with pytest.raises(energon.InvalidArgumentError, match="cooker"):
        loader_of(texts, Misses())


def test_default_task_encoder_converts_types(texts: str, num_workers: int) -> None:
    @dataclasses.dataclass(kw_only=True)
    class Text(energon.Sample):
        txt: str

    @dataclasses.dataclass(kw_only=True)
    class Texts(energon.Batch):
        txt: list[str]

    encoder = energon.DefaultTaskEncoder(encoded_sample_type=Text, batch_type=Texts)
    with loader_of(texts, encoder, num_workers=num_workers) as loader:
        batch = take(loader, 1)[0]
    assert type(batch) is Texts and batch.txt == ["text 0", "text 1", "text 2", "text 3"]
    assert batch.keys() == ["txt"] and batch.__key__ == ["0000", "0001", "0002", "0003"]


def test_samples_without_batch(texts: str, num_workers: int) -> None:
    with loader_of(texts, Numbers(), num_workers=num_workers, batch_size=None) as loader:
        samples = list(loader)
    assert type(samples[0]) is Encoded and samples[0].__key__ == "0000"
    assert samples[0].__subflavors__ == {}
    assert sorted(sample.number for sample in samples) == list(range(60))


def test_skipped_and_failed_samples(texts: str, num_workers: int) -> None:
    class Picky(Numbers):
        def encode_sample(self, sample: Any) -> Any:
            number = sample["json"]["number"]
            if number % 5 == 0:
                raise energon.SkipSample
            if number % 7 == 0:
                raise ValueError(f"bad number {number}")
            return super().encode_sample(sample)

    wanted = [number for number in range(60) if number % 5 and number % 7]
    with loader_of(texts, Picky(), num_workers=num_workers, on_error="skip") as loader:
        assert sorted(numbers_of(list(loader))) == wanted
        stats = loader.stats()
    stages = [stage for worker in stats["workers"] for stage in worker["stages"]]
    encode = [stage for stage in stages if stage["name"] == "encode_sample"]
    assert sum(stage["skipped"] for stage in encode) == 12
    assert sum(stage["failed"] for stage in encode) == 60 - 12 - len(wanted)
    assert "ValueError: bad number" in stats["newest_reports"][0]["cause"]


class Broken(Exception):
    """Can be pickled, but not made again."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raising(error: Any) -> Any:
    class Raises(Numbers):
        def encode_sample(self, sample: Any) -> Any:
            if sample["json"]["number"] == 9:
                raise error
            return super().encode_sample(sample)

    return Raises()


def test_exceptions_have_type_place_and_traceback(texts: str, num_workers: int) -> None:
    with loader_of(texts, raising(KeyError("gone")), num_workers=num_workers) as loader:
        with pytest.raises(KeyError, match="gone") as raised:
            list(loader)
    cause = raised.value.__cause__
    assert type(cause) is energon.UserFunctionError
    assert cause.sample_key == "0009" and cause.path.endswith("shard_0.tar")
    assert cause.worker == (0 if num_workers else None)
    assert "in encode_sample" in str(cause) and "test_task_encoder.py" in str(cause)
    with loader_of(texts, raising(StopIteration()), num_workers=num_workers) as loader:
        with pytest.raises(energon.UserFunctionError, match="StopIteration"):
            list(loader)
    with loader_of(texts, raising(Broken(1, 2)), num_workers=num_workers) as loader:
        with pytest.raises(energon.UserFunctionError, match="Broken: 1 and 2"):
            list(loader)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), MemoryError(), ImportError("no"),
              energon.FatalSampleError("end"), RecursionError()], ids=repr)  # fmt: skip
def test_some_exceptions_are_never_skipped(texts: str, num_workers: int, error: Any) -> None:
    with loader_of(texts, raising(error), num_workers=num_workers, on_error="skip") as loader:
        with pytest.raises(type(error)):
            list(loader)


class Draws(Numbers):
    def encode_sample(self, sample: Any) -> Any:
        drawn = [random.random(), random.gauss(0, 1), float(numpy.random.rand())]
        return {"number": sample["json"]["number"], "drawn": numpy.array(drawn)}


def test_random_numbers_are_the_samples_own(texts: str) -> None:
    def run(num_workers: int, seed: int = 0) -> dict[int, list[float]]:
        dataset = energon.get_val_dataset(
            texts, worker_config=config(num_workers, seed_offset=seed, logical_shards=2),
            batch_size=4, task_encoder=Draws(), tensors="numpy")  # fmt: skip
        with energon.get_savable_loader(dataset) as loader:
            return {
                int(number): list(drawn)
                for batch in loader
                for number, drawn in zip(batch["number"], batch["drawn"])
            }

    once = run(2)
    assert once == run(2) == run(0) == run(1)
    assert len({tuple(drawn) for drawn in once.values()}) == 60
    assert all(once[number] != drawn for number, drawn in run(2, seed=1).items())


def test_functions_in_this_process_leave_its_random_numbers_alone(texts: str) -> None:
    random.seed(5)
    numpy.random.seed(5)
    expected = [random.random(), numpy.random.rand()]
    random.seed(5)
    numpy.random.seed(5)
    with loader_of(texts, Draws(), num_workers=0) as loader:
        batch = take(loader, 2)[0]
    assert [random.random(), numpy.random.rand()] == expected
    with loader_of(texts, Draws(), num_workers=0) as loader:
        again = loader.restore_sample(take(loader, 1)[0].get("__restore_key__", "")) if False else None
    assert again is None and len(batch["number"]) == 4


def test_restored_batches_have_the_same_random_numbers(texts: str, num_workers: int) -> None:
    class Keyed(Draws):
        def batch(self, samples: list[Any]) -> Any:
            return energon.Batch(drawn=[s["drawn"] for s in samples]) if False else {
                "__restore_key__": None, "drawn": numpy.stack([s["drawn"] for s in samples])}

    with loader_of(texts, Keyed(), num_workers=num_workers, training=True) as loader:
        batches = take(loader, 4)
        for batch in batches:
            again = loader.restore_sample(batch["__restore_key__"])
            assert numpy.array_equal(again["drawn"], batch["drawn"])


def test_parts_in_functions(texts: str, num_workers: int) -> None:
    class Looks(energon.DefaultTaskEncoder):
        decoder = None

        def encode_sample(self, sample: Any) -> Any:
            assert type(sample) is energon.CrudeSample
            assert type(sample["txt"]) is bytes
            return {"size": len(sample["bin"]), "kind": type(sample["bin"]).__name__,
                    "same": sample["bin"]}  # fmt: skip

    with loader_of(texts, Looks(), num_workers=num_workers, tensors="numpy") as loader:
        batch = take(loader, 1)[0]
    assert batch["size"] == [100, LARGE, 100, LARGE]
    assert batch["kind"] == ["bytes", "Buffer", "bytes", "Buffer"]
    assert batch["same"][1] == bytes([1]) * LARGE


def test_torch_is_not_needed() -> None:
    assert "torch" not in sys.modules
