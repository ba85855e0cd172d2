"""encode_samples: many samples in one call, with the items of encode_sample."""

from __future__ import annotations

from typing import Any, Iterator

import pytest
from conftest import config, loader_of, take

import energon_cpp as energon


def encoded(sample: Any) -> Any:
    number = sample["json"]["number"]
    return {**energon.basic_sample_keys(sample), "number": number, "text": sample["txt"].upper()}


class One(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: Any) -> Any:
        return encoded(sample)


class Many(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    def encode_samples(self, samples: list[Any]) -> list[Any]:
        assert type(samples) is list
        self.calls.append(len(samples))
        return [encoded(sample) for sample in samples]


def described(item: Any) -> Any:
    number = item["number"]
    numbers = number if isinstance(number, int) else [int(one) for one in number]
    return str(item["__restore_key__"]), item["__key__"], numbers, item["text"]


def made(path: str, encoder: Any, num_workers: int, **more: Any) -> energon.SavableDataLoader:
    options = {"training": True, "repeat": False, "shuffle_buffer_size": 9, **more}
    return loader_of(path, encoder, num_workers=num_workers, **options)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_the_items_are_those_of_encode_sample(
    texts: str, num_workers: int, batch_size: int | None
) -> None:
    with made(texts, One(), num_workers, batch_size=batch_size) as loader:
        expected = [described(item) for _ in range(2) for item in loader]
    for samples_per_call in (1, 7, 64):
        options: Any = {"batch_size": batch_size, "samples_per_call": samples_per_call}
        with made(texts, Many(), num_workers, **options) as loader:
            assert [described(item) for _ in range(2) for item in loader] == expected


def test_calls_are_full_until_the_end_of_the_data(texts: str) -> None:
    encoder = Many()
    loader = loader_of(texts, encoder, samples_per_call=25)
    assert len(take(loader, 3)) == 3
    assert encoder.calls == [25]
    assert len(list(loader)) == 12
    assert encoder.calls == [25, 25, 10]
    encoder = Many()
    list(loader_of(texts, encoder))
    assert encoder.calls == [60]
    ((dataset, _),) = energon.get_val_datasets(
        texts, worker_config=config(), batch_size=4, samples_per_call=30, task_encoder=encoder
    )
    list(energon.get_savable_loader(dataset))
    assert encoder.calls == [60, 30, 30]


def test_a_state_in_the_middle_of_a_call(texts: str, num_workers: int) -> None:
    for before in (1, 2, 7, 17):
        with made(texts, Many(), num_workers, samples_per_call=25) as loader:
            batches = [described(batch) for _ in range(2) for batch in loader]
        with made(texts, Many(), num_workers, samples_per_call=25) as loader:
            first: list[Any] = []
            while len(first) < before:  # over the end of the epoch
                first += take(loader, before - len(first))
            state = loader.save_state_rank()
        assert [described(batch) for batch in first] == batches[:before]
        for samples_per_call in (25, 4):
            encoder = Many()
            with made(texts, encoder, num_workers, samples_per_call=samples_per_call) as loader:
                loader.restore_state_rank(state)
                rest = [described(batch) for _ in range(2) for batch in loader]
            left = batches[before:]
            assert rest[: len(left)] == left
            assert max(encoder.calls, default=0) <= samples_per_call


def test_restore_sample(texts: str, num_workers: int) -> None:
    with made(texts, Many(), num_workers) as loader:
        batches = take(loader, 5)
        key = batches[3]["__restore_key__"]
        assert described(loader.restore_sample(key)) == described(batches[3])
        assert loader.restore_sample(key, index=1)["number"] == int(batches[3]["number"][1])
    with made(texts, One(), num_workers) as loader:  # the keys are the same
        assert described(loader.restore_sample(key)) == described(batches[3])


def test_deliveries_are_found(texts: str, num_workers: int) -> None:
    with made(texts, Many(), num_workers, samples_per_call=10) as loader:
        batches = take(loader, 6)
        state = loader.save_state_rank()
        later = take(loader, 2)[-1]
    for step, batch in enumerate(batches):
        (told,) = energon.which_keys(loader.dataset, state, step)
        assert (told.keys, told.restore_key) == (batch["__key__"], batch["__restore_key__"])
    assert energon.which_keys(loader.dataset, state, 7)[0].keys == later["__key__"]


def picky(number: int) -> None:
    if number % 5 == 0:
        raise energon.SkipSample
    if number % 7 == 0:
        raise ValueError(f"bad number {number}")


class Picky(Many):
    def encode_samples(self, samples: list[Any]) -> list[Any]:
        self.calls.append(len(samples))
        for sample in samples:
            picky(sample["json"]["number"])
        return [encoded(sample) for sample in samples]


class PickyOne(One):
    def encode_sample(self, sample: Any) -> Any:
        picky(sample["json"]["number"])
        return encoded(sample)


WANTED = [number for number in range(60) if number % 5 and number % 7]


@pytest.mark.parametrize("samples_per_call", [1, 7, 64])
def test_skipped_and_failed_samples(texts: str, num_workers: int, samples_per_call: int) -> None:
    with made(texts, PickyOne(), num_workers, on_error="skip") as loader:
        expected = [described(batch) for batch in loader]
    options: Any = {"on_error": "skip", "samples_per_call": samples_per_call}
    with made(texts, Picky(), num_workers, **options) as loader:
        assert [described(batch) for batch in loader] == expected
        stats = loader.stats()
    assert sorted(number for batch in expected for number in batch[2]) == WANTED
    stages = [stage for worker in stats["workers"] for stage in worker["stages"]]
    encode = [stage for stage in stages if stage["name"] == "encode_samples"]
    assert sum(stage["skipped"] for stage in encode) == 12
    assert sum(stage["failed"] for stage in encode) == 60 - 12 - len(WANTED)
    assert "ValueError: bad number" in stats["newest_reports"][0]["cause"]

    for before in (1, 3):
        with made(texts, Picky(), num_workers, **options) as loader:
            take(loader, before)
            state = loader.save_state_rank()
        with made(texts, Picky(), num_workers, **options) as loader:
            loader.restore_state_rank(state)
            assert [described(batch) for batch in loader] == expected[before:]


def test_after_a_failure_samples_are_encoded_alone(texts: str) -> None:
    class FailsOnce(Many):
        def encode_samples(self, samples: list[Any]) -> list[Any]:
            results = super().encode_samples(samples)
            if any(sample["json"]["number"] == 30 for sample in samples):
                raise ValueError("30")
            return results

    encoder = FailsOnce()
    list(loader_of(texts, encoder, samples_per_call=20, on_error="skip"))
    assert encoder.calls == [20, 20, *[1] * 20, 20]


def raising(error: BaseException) -> Many:
    class Raises(Many):
        def encode_samples(self, samples: list[Any]) -> list[Any]:
            results = super().encode_samples(samples)
            if any(sample["json"]["number"] == 9 for sample in samples):
                raise error
            return results

    return Raises()


def test_exceptions_have_type_and_location(texts: str, num_workers: int) -> None:
    with loader_of(texts, raising(KeyError("gone")), num_workers=num_workers) as loader:
        with pytest.raises(KeyError, match="gone") as raised:
            list(loader)
    cause = raised.value.__cause__
    assert type(cause) is energon.UserFunctionError
    assert cause.sample_key == "0009" and cause.path.endswith("shard_0.tar")
    assert "in encode_samples" in str(cause)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), MemoryError(), ImportError("no"),
              energon.FatalSampleError("end")], ids=repr)  # fmt: skip
def test_some_exceptions_are_never_skipped(texts: str, error: BaseException) -> None:
    encoder = raising(error)
    with loader_of(texts, encoder, on_error="skip") as loader:
        with pytest.raises(type(error)):
            list(loader)
    assert encoder.calls == [60]  # not tried one by one


def test_a_handler_gets_each_failed_sample_once(texts: str) -> None:
    seen: list[Any] = []

    def handler(error: Exception, sample: Any, sources: Any) -> None:
        seen.append((str(error), sample["__key__"], sources[0].shard_name))

    dataset = energon.get_val_dataset(
        texts,
        worker_config=config(global_error_handler=handler),
        batch_size=4,
        task_encoder=Picky(),
    )
    numbers = [int(one) for batch in energon.get_savable_loader(dataset) for one in batch["number"]]
    assert numbers == WANTED
    failed = [number for number in range(60) if number % 7 == 0 and number % 5]
    assert seen == [(f"bad number {i}", f"{i:04}", f"shard_{i // 20}.tar") for i in failed]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_another_number_of_results_is_an_error(
    texts: str, num_workers: int, on_error: str
) -> None:
    class Drops(Many):
        def encode_samples(self, samples: list[Any]) -> list[Any]:
            return super().encode_samples(samples)[1:]

    options: Any = {"num_workers": num_workers, "on_error": on_error, "samples_per_call": 9}
    with loader_of(texts, Drops(), **options) as loader:
        with pytest.raises(ValueError, match="'encode_samples' returned 8 results for 9 samples"):
            list(loader)


@pytest.mark.parametrize("result", [None, {"number": [1]}, 7])
def test_results_that_are_not_a_list_are_named(texts: str, result: Any) -> None:
    class Wrong(Many):
        def encode_samples(self, samples: list[Any]) -> Any:
            return result

    with pytest.raises(TypeError, match="encode_samples must return a list with one result"):
        list(loader_of(texts, Wrong()))


def test_generators_and_other_functions_are_refused(texts: str) -> None:
    class Yields(Many):
        def encode_samples(self, samples: list[Any]) -> Iterator[Any]:  # type: ignore[override]
            yield from samples

    with pytest.raises(TypeError, match="encode_samples must return a list"):
        loader_of(texts, Yields())

    class Both(Many):
        def encode_sample(self, sample: Any) -> Any:
            return sample

    with pytest.raises(ValueError, match="encode_samples excludes encode_sample"):
        loader_of(texts, Both())
    with pytest.raises(ValueError, match="samples_per_call is 0, expected 1 to 65536"):
        list(loader_of(texts, Many(), samples_per_call=0))


def test_objects_pass_to_the_next_function(texts: str, num_workers: int) -> None:
    class Keeps(Many):
        def encode_samples(self, samples: list[Any]) -> Any:
            numbers = [sample["json"]["number"] for sample in samples]
            return tuple((lambda number=number: number) for number in numbers)

        def sample_cost(self, sample: Any) -> float:
            return float(sample() % 5)

        def batch(self, samples: list[Any]) -> Any:
            return {"number": [sample() for sample in samples]}

    options: Any = {"num_workers": num_workers, "sort_pool_size": 60}
    with loader_of(texts, Keeps(), **options) as loader:
        numbers = [number for batch in loader for number in batch["number"]]
    assert sorted(numbers) == list(range(60))
    if num_workers == 0:
        assert numbers == sorted(range(60), key=lambda number: number % 5)


def test_augmented_encoders(texts: str) -> None:
    encoder = Many()
    augmented: Any = energon.AugmentTaskEncoder(encoder)
    dataset = loader_of(texts, augmented).dataset
    assert list(dataset._recipe.stages) == ["encode_samples"]
    assert len(list(energon.get_savable_loader(dataset))) == 15
    assert encoder.calls == [60]
