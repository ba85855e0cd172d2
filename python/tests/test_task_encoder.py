"""The functions of a TaskEncoder as stages."""

from __future__ import annotations

import dataclasses
import enum
import random
import signal
import sys
from typing import Any, Iterator

import numpy
import pytest
from conftest import LARGE, config, loader_of, take

import energon_cpp as energon
from energon_cpp import _values


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
            encoded.function = lambda: encoded.number  # could not cross the boundary of a process
            return encoded

        def batch(self, samples: list[Any]) -> Any:
            assert all(type(sample) is Encoded for sample in samples)
            return {"number": numpy.array([sample.function() for sample in samples]), "set": {1}}

        def encode_batch(self, batch: Any) -> Any:
            assert batch["set"] == {1}
            return batch

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


class Sorted(Numbers):
    def sample_cost(self, sample: Any) -> float:
        assert type(sample) is Encoded
        return sample.number * 7 % 5 - 0.5


def test_sort_pools(texts: str, num_workers: int) -> None:
    def made(**more: Any) -> Any:
        options = {"training": True, "repeat": False, "shuffle_buffer_size": 9, **more}
        return loader_of(texts, num_workers=num_workers, **options)

    def two_epochs(loader: Any) -> list[list[int]]:
        return [numbers_of([batch]) for _ in range(2) for batch in loader]

    with made(encoder=Numbers(), batch_size=None) as loader:
        unsorted = [[sample.number for sample in loader] for _ in range(2)]
    with made(encoder=Sorted(), sort_pool_size=10) as loader:
        batches = two_epochs(loader)
        again = loader.restore_sample(take(loader, 1)[0].__restore_key__)
        assert len(again.number) == 4
    numbers = sum(batches, [])
    assert [sorted(numbers[:60]), sorted(numbers[60:])] == [list(range(60))] * 2
    if num_workers == 0:
        cost = lambda number: number * 7 % 5  # noqa: E731
        pools = [epoch[i : i + 10] for epoch in unsorted for i in range(0, 60, 10)]
        assert numbers == [number for pool in pools for number in sorted(pool, key=cost)]

    for before in (1, 2, 4, len(batches) // 2 + 1):  # most within a pool
        with made(encoder=Sorted(), sort_pool_size=10) as loader:
            first: list[Any] = []
            while len(first) < before:  # over the end of the epoch
                first += take(loader, before - len(first))
            state = loader.save_state_rank()
        assert [numbers_of([batch]) for batch in first] == batches[:before]
        with made(encoder=Sorted(), sort_pool_size=10) as loader:
            loader.restore_state_rank(state)
            rest = two_epochs(loader)
        left = batches[before:]
        assert rest[: len(left)] == left


def test_sort_pools_in_validation(texts: str) -> None:
    for batch_size in (None, 7):
        loader = loader_of(texts, Sorted(), batch_size=batch_size, sort_pool_size=60)
        items = list(loader)
        numbers = numbers_of(items) if batch_size else [item.number for item in items]
        assert numbers == sorted(range(60), key=lambda number: number * 7 % 5)
    datasets = energon.get_val_datasets(
        texts, worker_config=config(), batch_size=7, split_part="val", sort_pool_size=60,
        task_encoder=Sorted(),
    )  # fmt: skip
    assert [numbers_of(list(energon.get_savable_loader(one))) for one, _ in datasets] == [numbers]


def test_sort_pools_of_augmented_encoders(texts: str) -> None:
    encoder: Any = energon.AugmentTaskEncoder(Sorted())
    loader = loader_of(texts, encoder, batch_size=None, sort_pool_size=60)
    assert [sample.number for sample in loader][:2] == [0, 5]


def test_a_cost_and_a_pool_need_each_other(texts: str) -> None:
    with pytest.raises(ValueError, match="sort_pool_size needs .*override sample_cost"):
        loader_of(texts, Numbers(), sort_pool_size=10)
    with pytest.raises(ValueError, match="sample_cost.* set sort_pool_size"):
        loader_of(texts, Sorted())


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        ("7", "must return a number, not .*'7'"),
        (None, "must return a number, not .*None"),
        ([1], "must return a number, not"),
        (float("nan"), "NaN"),
    ],
)
def test_costs_that_are_not_numbers_are_named(texts: str, cost: Any, text: str) -> None:
    class Wrong(Numbers):
        def sample_cost(self, sample: Any) -> Any:
            return cost if sample.number == 3 else numpy.float32(sample.number)

    loader = loader_of(texts, Wrong(), sort_pool_size=10)
    with pytest.raises((TypeError, ValueError), match=text):
        next(iter(loader))
    loader = loader_of(texts, Wrong(), sort_pool_size=10, on_error="skip")
    assert numbers_of(list(loader)) == [number for number in range(60) if number != 3]


def test_costs_draw_the_same_random_numbers_again(texts: str, num_workers: int) -> None:
    class Noise(Numbers):
        def sample_cost(self, sample: Any) -> float:
            return random.random()

    def made() -> Any:
        return loader_of(texts, Noise(), num_workers=num_workers, sort_pool_size=10)

    with made() as loader:
        batches = [numbers_of([batch]) for batch in loader]
    assert batches != sorted(batches)
    with made() as loader:
        assert [numbers_of([batch]) for batch in loader] == batches


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
    """Can be pickled, but not unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raising(error: Any) -> Any:
    class Raises(Numbers):
        def encode_sample(self, sample: Any) -> Any:
            if sample["json"]["number"] == 9:
                raise error
            return super().encode_sample(sample)

    return Raises()


@pytest.mark.parametrize("name", ["encode_sample", "encode_samples", "batch", "encode_batch"])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_functions_that_return_none_are_named(
    texts: str, num_workers: int, name: str, batch_size: int | None
) -> None:
    if batch_size is None and "batch" in name:
        return
    encoder = energon.DefaultTaskEncoder()
    returned = None if name != "encode_samples" else [None]
    setattr(encoder, name, lambda samples: returned)
    options: dict[str, Any] = {"num_workers": num_workers, "batch_size": batch_size}
    with loader_of(texts, encoder, samples_per_call=1, **options) as loader:
        with pytest.raises(TypeError, match=r"<lambda>\(\) returned None; return the sample, or"):
            take(loader, 1)


def test_exceptions_have_type_location_and_traceback(texts: str, num_workers: int) -> None:
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
    "error", [KeyboardInterrupt(), MemoryError(), ImportError("no"),
              energon.FatalSampleError("end"), RecursionError()], ids=repr)  # fmt: skip
def test_some_exceptions_are_never_skipped(texts: str, num_workers: int, error: Any) -> None:
    with loader_of(texts, raising(error), num_workers=num_workers, on_error="skip") as loader:
        with pytest.raises(type(error)):
            list(loader)


class Exiting(Exception):
    """Ends the process that pickles it."""

    def __reduce__(self) -> Any:
        sys.exit(0)


class Remade(Exception):
    """Unpickling it gives an object that cannot be raised."""

    def __reduce__(self) -> Any:
        return int, (3,)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("code", [None, 0, 3])
def test_exits_of_functions_are_errors(
    texts: str, num_workers: int, on_error: str, code: Any
) -> None:
    encoder = raising(SystemExit(code))
    with loader_of(texts, encoder, num_workers=num_workers, on_error=on_error) as loader:
        with pytest.raises(energon.UserFunctionError, match="must not end the process") as raised:
            list(loader)
    assert isinstance(raised.value, RuntimeError) and raised.value.sample_key == "0009"
    assert type(raised.value.__cause__) is SystemExit and raised.value.__cause__.code == code


def test_exits_of_signal_handlers_end_the_process(texts: str) -> None:
    def end(number: int, frame: Any) -> None:
        sys.exit(5)

    class Signals(Numbers):
        def encode_sample(self, sample: Any) -> Any:
            if sample["json"]["number"] == 9:
                signal.raise_signal(signal.SIGUSR1)
            return super().encode_sample(sample)

    before = signal.signal(signal.SIGUSR1, end)
    try:
        with loader_of(texts, Signals(), num_workers=0) as loader:
            with pytest.raises(SystemExit) as raised:
                list(loader)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert raised.value.code == 5


@pytest.mark.parametrize("error", [Exiting("bad luck"), Remade("bad luck")], ids=["exits", "int"])
def test_exceptions_that_cannot_be_unpickled(texts: str, num_workers: int, error: Any) -> None:
    with loader_of(texts, raising(error), num_workers=num_workers) as loader:
        with pytest.raises(energon.UserFunctionError, match=f"{type(error).__name__}: bad luck"):
            list(loader)


class Draws(Numbers):
    def encode_sample(self, sample: Any) -> Any:
        drawn = [random.random(), random.gauss(0, 1), float(numpy.random.rand())]
        return {"number": sample["json"]["number"], "drawn": numpy.array(drawn)}


def test_random_numbers_depend_on_the_sample(texts: str) -> None:
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
    again = loader.restore_sample(batch.__restore_key__)
    assert [random.random(), numpy.random.rand()] != expected  # the next numbers
    assert numpy.array_equal(again["drawn"], batch["drawn"])
    random.seed(5)
    numpy.random.seed(5)
    loader.restore_sample(batch.__restore_key__)
    assert [random.random(), numpy.random.rand()] == expected


def test_restored_batches_have_the_same_random_numbers(texts: str, num_workers: int) -> None:
    class Keyed(Draws):
        def batch(self, samples: list[Any]) -> Any:
            drawn = numpy.stack([sample["drawn"] for sample in samples])
            return {"__restore_key__": None, "drawn": drawn}

    with loader_of(texts, Keyed(), num_workers=num_workers, training=True) as loader:
        batches = take(loader, 4)
        for batch in batches:
            again = loader.restore_sample(batch["__restore_key__"])
            assert numpy.array_equal(again["drawn"], batch["drawn"])


class DrawsGroups(energon.DefaultTaskEncoder):
    """No earlier function is seeded."""

    def batch_group_criterion(self, sample: Any) -> Any:
        return random.randrange(3), None


class DrawsPacks(energon.DefaultTaskEncoder):
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        numpy.random.shuffle(samples)
        return [samples[i : i + 3] for i in range(0, len(samples), 3)]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {"txt": [sample["txt"] for sample in samples]}


@pytest.mark.parametrize("encoder, packing", [(DrawsGroups(), None), (DrawsPacks(), 10)])
def test_groups_and_packs_draw_the_same_numbers_again(
    texts: str, num_workers: int, encoder: Any, packing: Any
) -> None:
    def made() -> Any:
        random.seed()
        numpy.random.seed()
        return loader_of(
            texts, encoder, num_workers=num_workers, training=True, batch_size=3,
            packing_buffer_size=packing, repeat=False)  # fmt: skip

    def numbers(batches: list[Any]) -> list[Any]:
        return [batch["txt"] for batch in batches]

    with made() as loader:
        whole = numbers(list(loader)) + numbers(list(loader))
        half = len(whole) // 2
        assert whole[:half] != whole[half:]
    with made() as loader:
        first = numbers(take(loader, 4))
        state = loader.save_state_rank()
        rest = numbers(list(loader)) + numbers(list(loader))
    assert first + rest == whole
    with made() as loader:
        loader.restore_state_rank(state)
        assert numbers(list(loader)) + numbers(list(loader)) == rest


def groups_of(texts: str, criterion: Any, num_workers: int = 0) -> list[list[int]]:
    class Groups(Numbers):
        def batch_group_criterion(self, sample: Any) -> Any:
            return criterion(sample.number)

    with loader_of(texts, Groups(), num_workers=num_workers, batch_size=60) as loader:
        return sorted(sorted(numbers_of([batch])) for batch in loader)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass(frozen=True)
class Shape:
    size: int


GROUPS: list[Any] = [
    None, "None", 1, "1", "'1'", 2.5, "2.5", (1, "a"), "(1, 'a')", (1,), b"1", "b'1'", Color.RED,
    Color.BLUE, Shape(1), Shape(2), "object", frozenset({1}), "", float("inf"), "inf", (None,),
]  # fmt: skip
EQUAL_GROUPS: list[Any] = [
    True, 1, 1.0, numpy.int64(1), numpy.float32(1), numpy.bool_(True),
]  # fmt: skip


def test_groups_are_equal_as_in_a_dict() -> None:
    texts = [_values.group_text(group) for group in GROUPS]
    assert len(set(texts)) == len(set(GROUPS)) == len(GROUPS)
    assert len({_values.group_text(group) for group in EQUAL_GROUPS}) == 1
    assert _values.group_text((True, "a")) == _values.group_text((1, numpy.str_("a")))
    # The strings in states.
    assert [_values.group_text(group) for group in ("odd", 1, None, (1, "a"))] == [
        "odd", "1", "None", "(1, 'a')"]  # fmt: skip


def test_groups_by_keys_of_any_type(texts: str, num_workers: int) -> None:
    by_type = groups_of(texts, lambda n: (1 if n % 2 else "1", numpy.int64(60)))
    assert by_type == [list(range(0, 60, 2)), list(range(1, 60, 2))]
    assert len(groups_of(texts, lambda n: (EQUAL_GROUPS[n % 6], None))) == 1


@pytest.mark.parametrize(
    "returned, text",
    [
        ((object(), None), "is identified only by its address: <object object"),
        ((lambda: 1, None), "is identified only by its address"),
        (([1], None), r"cannot be hashed: list \[1\]; return a str"),
        (((1, [2]), None), "cannot be hashed: list"),
        ((float("nan"), None), "nan as a group"),
        (("a", 1.5), r"must return \(group, batch size or None\), not tuple \('a', 1.5\)"),
        ("ab", r"must return \(group, batch size or None\), not str 'ab'"),
        (None, r"must return \(group, batch size or None\), not NoneType None"),
    ],
)
def test_groups_without_a_value_are_refused(
    texts: str, num_workers: int, returned: Any, text: str
) -> None:
    with pytest.raises(TypeError, match="batch_group_criterion .*" + text):
        groups_of(texts, lambda number: returned, num_workers)


def packs_of(texts: str, encode: Any, select: Any, num_workers: int = 0) -> list[Any]:
    class Selects(energon.TaskEncoder):
        def preencode_sample(self, sample: Any) -> Any:
            return encode(sample["json"]["number"])

        def select_samples_to_pack(self, samples: list[Any]) -> Any:
            return select(samples)

        def pack_selected_samples(self, samples: list[Any]) -> Any:
            return {"pack": samples}

    with loader_of(
        texts, Selects(), num_workers=num_workers, packing_buffer_size=20, batch_size=1
    ) as loader:
        return [batch["pack"][0] for batch in loader]


def test_packs_of_samples_that_are_integers(texts: str, num_workers: int) -> None:
    packs = packs_of(texts, lambda n: (7 * n) % 60, lambda samples: [sorted(samples)], num_workers)
    assert all(pack == sorted(pack) for pack in packs)
    assert sorted(sum(packs, [])) == sorted((7 * n) % 60 for n in range(60))
    packs = packs_of(texts, lambda n: 5, lambda samples: [samples[:3], samples[3:]], num_workers)
    assert packs[0] == [5] * 3 and sum(packs, []) == [5] * 60
    with pytest.raises(ValueError, match="samples that it received.*not new samples: int 100000"):
        packs_of(texts, lambda n: n, lambda samples: [[samples[0] + 10**5]], num_workers)


def test_a_selection_may_sort_its_list(texts: str, num_workers: int) -> None:
    def select(samples: list[Any]) -> Any:
        samples.sort(key=lambda sample: -sample["n"])
        return [samples[i : i + 4] for i in range(0, len(samples), 4)]

    packs = packs_of(texts, lambda n: {"n": n}, select, num_workers)
    assert [sample["n"] for sample in packs[0]] == [19, 18, 17, 16]
    for pack in packs:
        assert [sample["n"] for sample in pack] == sorted((s["n"] for s in pack), reverse=True)


def test_packs_by_positions(texts: str, num_workers: int) -> None:
    def evens(samples: list[Any]) -> Any:
        return [list(numpy.arange(0, len(samples), 2)), [1]]

    packs = packs_of(texts, lambda n: {"n": n}, evens, num_workers)
    numbers = [[sample["n"] for sample in pack] for pack in packs]
    assert list(range(0, 20, 2)) in numbers and [1] in numbers


@pytest.mark.parametrize(
    "selected, error, text",
    [
        ([[-1]], ValueError, "returned the position -1, but it received 20 samples, so positions are 0 to 19"),
        ([[20]], ValueError, "returned the position 20"),
        ([["x"]], ValueError, "must return samples that it received, or their positions, not new samples: str 'x'"),
        ([1, 2], TypeError, r"must return a list of packs, each a list of samples, not list \[1, 2\]"),
        (None, TypeError, "must return a list of packs, .*not NoneType None"),
    ],
)
def test_wrong_selections_are_named(
    texts: str, num_workers: int, selected: Any, error: Any, text: str
) -> None:
    with pytest.raises(error, match="select_samples_to_pack .*" + text):
        packs_of(texts, lambda n: {"n": n}, lambda samples: selected, num_workers)


@dataclasses.dataclass(kw_only=True)
class Packed(energon.Sample):
    numbers: list[int]


@dataclasses.dataclass(kw_only=True)
class PackedBatch(energon.Batch):
    numbers: list[list[int]]


class KeepsKeys(Packs):
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        key = "+".join(sample["key"] for sample in samples)
        return Packed(__key__=key, numbers=[sample["number"] for sample in samples])

    def postencode_sample(self, sample: Any) -> Any:
        return {"number": sample.number, "key": sample.__key__}


class KeepsKeysOfBatches(KeepsKeys):
    def batch(self, samples: list[Any]) -> Any:
        return PackedBatch(
            __key__=[sample.__key__ for sample in samples],
            numbers=[sample.numbers for sample in samples],
        )


class KeepsKeysOfDicts(KeepsKeys):
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        pack = super().pack_selected_samples(samples)
        return {"__key__": pack.__key__, "numbers": pack.numbers}


@pytest.mark.parametrize("encoder", [KeepsKeys(), KeepsKeysOfBatches(), KeepsKeysOfDicts()])
def test_keys_that_functions_set_are_kept(texts: str, num_workers: int, encoder: Any) -> None:
    with loader_of(
        texts, encoder, num_workers=num_workers, packing_buffer_size=9, batch_size=2
    ) as loader:
        batches = list(loader)
        again = loader.restore_sample(batches[0].__restore_key__)
    for batch in [*batches, again]:
        rows = batch["numbers"]
        assert batch.__key__ == ["+".join(f"{n:04}" for n in numbers) for numbers in rows]
        assert batch["__key__"] == batch.__key__
        assert len(batch.__sources__) == sum(len(numbers) for numbers in rows)


def test_keys_that_only_some_samples_set(texts: str, num_workers: int) -> None:
    class Some(Numbers):
        def encode_sample(self, sample: Any) -> Any:
            encoded = super().encode_sample(sample)
            if encoded.number % 2:
                encoded.__key__ = f"odd {encoded.number}"
            return encoded

    with loader_of(texts, Some(), num_workers=num_workers) as loader:
        batch = take(loader, 1)[0]
        assert batch.__key__ == ["0000", "odd 1", "0002", "odd 3"]
    with loader_of(texts, Some(), num_workers=num_workers, batch_size=None) as loader:
        assert [sample.__key__ for sample in take(loader, 2)] == (
            ["0000", "odd 1"] if num_workers == 0 else ["0000", "0030"]
        )


def test_parts_in_functions(texts: str, num_workers: int) -> None:
    class Looks(energon.DefaultTaskEncoder):
        decoder = None

        def encode_sample(self, sample: Any) -> Any:
            assert type(sample) is energon.CrudeSample
            assert type(sample["txt"]) is energon.Buffer and sample["txt"].startswith(b"text ")
            return {"size": len(sample["bin"]), "kind": type(sample["bin"]).__name__,
                    "same": sample["bin"]}  # fmt: skip

    with loader_of(texts, Looks(), num_workers=num_workers, tensors="numpy") as loader:
        batch = take(loader, 1)[0]
    assert batch["size"] == [100, LARGE, 100, LARGE]
    assert batch["kind"] == 4 * ["Buffer"]
    assert batch["same"][1] == bytes([1]) * LARGE
