"""Scripts written for Energon, with our import, and the wrapper of Megatron-Bridge around a
loader."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any, Iterator, Optional

import numpy
import pytest
from conftest import config, loader_of, take

import energon_cpp as energon
from energon_cpp import (
    Batch,
    Cooker,
    DefaultTaskEncoder,
    Sample,
    SkipSample,
    WorkerConfig,
    basic_sample_keys,
    edataclass,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    stateless,
)


def cyclic_iter(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


class EnergonDataloader:
    """Like the class of Megatron-Bridge: iterates forever, and saves the state of its loader."""

    def __init__(self, dataloader: Any) -> None:
        self._dataloader = dataloader
        self._iter = iter(cyclic_iter(dataloader))

    def __next__(self) -> Any:
        return next(self._iter)

    def __iter__(self) -> Any:
        return self

    def save_state(self) -> Any:
        return self._dataloader.save_state_rank()


def train_loader(path: str, num_workers: int, **options: Any) -> Any:
    worker_config = WorkerConfig(
        rank=0, world_size=1, num_workers=num_workers, data_parallel_group=None,
        worker_debug_path=None, worker_log_level=0)  # fmt: skip
    dataset = get_train_dataset(
        path,
        batch_size=4,
        task_encoder=DefaultTaskEncoder(),
        worker_config=worker_config,
        packing_buffer_size=None,
        shuffle_buffer_size=10,
        max_samples_per_sequence=None,
        **options,
    )
    return get_savable_loader(dataset, watchdog_timeout_seconds=60, worker_config=worker_config)


@pytest.mark.parametrize("virtual_epoch_length", [0, 3])
def test_the_wrapper_of_megatron_bridge(
    texts: str, num_workers: int, virtual_epoch_length: int
) -> None:
    options = {"virtual_epoch_length": virtual_epoch_length}
    with train_loader(texts, num_workers, **options) as loader:
        wrapped = EnergonDataloader(loader)
        for _ in range(5):
            next(wrapped)
        saved = pickle.dumps({"dataloader_state_dict": wrapped.save_state()})
        rest = [next(wrapped).__key__ for _ in range(20)]
    with train_loader(texts, num_workers, **options) as loader:
        loader.restore_state_rank(pickle.loads(saved)["dataloader_state_dict"])
        wrapped = EnergonDataloader(loader)
        assert [next(wrapped).__key__ for _ in range(20)] == rest
    assert len({tuple(keys) for keys in rest}) > 10  # more than one epoch, and no batch twice


def test_global_states_of_one_rank(texts: str, num_workers: int) -> None:
    with train_loader(texts, num_workers) as loader:
        take(loader, 3)
        states = loader.save_state_global(global_dst_rank=0)
        assert states == loader.save_state(0) and len(states) == 1
        rest = [batch.__key__ for batch in take(loader, 5)]
    with train_loader(texts, num_workers) as loader:
        loader.restore_state_global(states)
        assert [batch.__key__ for batch in take(loader, 5)] == rest
    with train_loader(texts, num_workers) as loader:
        loader.restore_state([bytes(states[0])])
        assert [batch.__key__ for batch in take(loader, 5)] == rest
        with pytest.raises(TypeError, match="save_state_global"):
            loader.restore_state_global(states[0])
        with pytest.raises(ValueError, match="has 2 ranks, but the job has 1"):
            loader.restore_state_global(states * 2)


def test_several_ranks_need_torch_distributed(texts: str) -> None:
    dataset = get_val_dataset(texts, worker_config=config(0, world_size=2), batch_size=1)
    with get_savable_loader(dataset) as loader:
        with pytest.raises(RuntimeError, match="save_state_rank"):
            loader.save_state_global(0)
        with pytest.raises(RuntimeError, match="initialized"):
            loader.restore_state_global(None, src_rank=0)


def test_the_recipe_of_the_readme(texts: str) -> None:
    simple_worker_config = WorkerConfig(rank=0, world_size=1, num_workers=2)
    train_ds = get_train_dataset(
        texts,
        batch_size=2,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        worker_config=simple_worker_config,
    )
    train_loader = get_loader(train_ds)
    seen = set()
    for number, batch in enumerate(train_loader):
        assert batch.txt == [f"text {int(key)}" for key in batch.__key__]
        seen |= set(batch.__key__)
        if number == 60:  # the epoch never ends
            break
    train_loader.close()
    assert len(seen) == 60


@edataclass
class EncodedSample(Sample):
    number: int
    tokens: Any
    text: Optional[str] = None


@edataclass
class RawBatch(Batch):
    number: list[int]
    tokens: Any


@edataclass
class EncodedBatch(Batch):
    number: list[int]
    mask: Any


class Recipe(DefaultTaskEncoder[Any, EncodedSample, RawBatch, EncodedBatch]):
    """The recipe of the documentation: cook, encode, batch, encode the batch."""

    def __init__(self) -> None:
        super().__init__(
            encoded_sample_type=EncodedSample, raw_batch_type=RawBatch, batch_type=EncodedBatch
        )

    @stateless
    def cook(sample: dict[str, Any]) -> EncodedSample:  # type: ignore[misc]
        number = sample["json"]["number"]
        return EncodedSample(
            **basic_sample_keys(sample),
            number=number,
            tokens=numpy.arange(number % 3 + 1),
            text=sample["txt"],
        )

    cookers = [Cooker(cook)]

    @stateless(restore_seeds=True)
    def encode_sample(self, sample: EncodedSample) -> EncodedSample:
        if sample.number % 10 == 9:
            raise SkipSample()
        assert sample.text == f"text {sample.number}"
        noise = numpy.random.randint(0, 1000)
        return EncodedSample.derive_from(
            sample, number=sample.number, tokens=sample.tokens + noise, text=sample.text
        )

    def batch(self, samples: list[EncodedSample]) -> RawBatch:
        return RawBatch.from_samples(samples)

    def encode_batch(self, batch: RawBatch) -> EncodedBatch:
        return EncodedBatch.derive_from(batch, number=batch.number, mask=batch.tokens > 0)


def test_a_recipe_of_all_stages(texts: str, num_workers: int) -> None:
    with loader_of(texts, Recipe(), num_workers=num_workers) as loader:
        batches = list(loader)
        again = loader.restore_sample(batches[3].__restore_key__)
    numbers = [number for batch in batches for number in batch.number]
    assert sorted(numbers) == [number for number in range(60) if number % 10 != 9]
    assert all(type(batch) is EncodedBatch for batch in batches)
    assert batches[0].mask.shape == (4, 3) and batches[0].__key__[1] == f"{batches[0].number[1]:04}"
    assert numpy.array_equal(again.mask, batches[3].mask) and again.number == batches[3].number
    assert len(batches[0].__sources__) == 4


def test_one_sample_of_a_batch(texts: str, num_workers: int) -> None:
    with loader_of(texts, Recipe(), num_workers=num_workers) as loader:
        batch = take(loader, 3)[2]
        whole = loader.restore_sample(batch.__restore_key__)
        for index in (0, 3, -1):
            one = loader.restore_sample(batch.__restore_key__, index=index)
            assert type(one) is EncodedSample and one.number == batch.number[index]
            assert one.__key__ == batch.__key__[index]
            length = len(one.tokens)
            assert numpy.array_equal(one.tokens > 0, whole.mask[index][:length])
        with pytest.raises(IndexError, match="has 4 samples"):
            loader.restore_sample(batch.__restore_key__, index=4)
    with loader_of(texts, batch_size=None) as loader:
        key = take(loader, 1)[0]["__restore_key__"]
        with pytest.raises(ValueError, match="single samples"):
            loader.restore_sample(key, index=0)
    with loader_of(texts) as loader:  # no function at all
        batch = take(loader, 1)[0]
        assert loader.restore_sample(batch.__restore_key__, index=2)["txt"] == batch.txt[2]


class PackingRecipe(DefaultTaskEncoder[Any, Any, Any, Any]):
    """The packing recipe of the documentation: adds the longest sample that fits, until none fits."""

    def __init__(self, max_length: int) -> None:
        super().__init__(batch_type=EncodedBatch)
        self.max_length = max_length

    @stateless
    def preencode_sample(self, sample: Any) -> EncodedSample:
        number = sample["json"]["number"]
        return EncodedSample.derive_from(sample, number=number, tokens=numpy.arange(number % 7 + 1))

    def select_samples_to_pack(self, samples: list[EncodedSample]) -> list[list[EncodedSample]]:
        packs: list[list[EncodedSample]] = []
        for sample in sorted(samples, key=lambda one: -len(one.tokens)):
            fits = [p for p in packs if self.length(p) + len(sample.tokens) <= self.max_length]
            if fits:
                fits[0].append(sample)
            else:
                packs.append([sample])
        return packs

    @stateless
    def postencode_sample(self, sample: EncodedSample) -> EncodedSample:
        return EncodedSample.derive_from(
            sample, number=sample.number, tokens=sample.tokens + sample.number
        )

    @stateless
    def pack_selected_samples(self, samples: list[EncodedSample]) -> EncodedSample:
        tokens = numpy.concatenate([sample.tokens for sample in samples])
        padding = numpy.full(self.max_length - len(tokens), -1)
        numbers: Any = [sample.number for sample in samples]
        padded = numpy.concatenate([tokens, padding])
        return EncodedSample.derive_from(samples[0], number=numbers, tokens=padded)

    def encode_batch(self, batch: EncodedSample) -> EncodedBatch:
        numbers: Any = batch.number
        return EncodedBatch.derive_from(batch, number=numbers, mask=batch.tokens)

    @staticmethod
    def length(pack: list[EncodedSample]) -> int:
        return sum(len(sample.tokens) for sample in pack)


def test_the_recipe_of_packing(texts: str, num_workers: int) -> None:
    options: dict[str, Any] = {"num_workers": num_workers, "packing_buffer_size": 20}
    options["tensors"] = "numpy"
    with loader_of(texts, PackingRecipe(12), batch_size=2, **options) as loader:
        batches = list(loader)
        again = loader.restore_sample(batches[1].__restore_key__)
        one = loader.restore_sample(batches[1].__restore_key__, index=1)
    packs = [pack for batch in batches for pack in batch.number]
    assert sorted(sum(packs, [])) == list(range(60)) and len(packs) < 30
    for batch in batches:
        assert batch.mask.shape[1] == 12
        for numbers, tokens in zip(batch.number, batch.mask):
            wanted = numpy.concatenate([numpy.arange(n % 7 + 1) + n for n in numbers])
            assert numpy.array_equal(tokens[tokens >= 0], wanted)
    assert numpy.array_equal(again.mask, batches[1].mask)
    assert numpy.array_equal(one.tokens, batches[1].mask[1])


def test_augmented_encoders(texts: str, num_workers: int) -> None:
    class Adds(energon.AugmentTaskEncoder[Any, Any, Any, Any]):
        def encode_batch(self, batch: Any) -> Any:
            encoded: EncodedBatch = super().encode_batch(batch)
            encoded.number = [number + 100 for number in encoded.number]
            return encoded

    with loader_of(texts, Adds(Recipe()), num_workers=num_workers) as loader:
        batches = list(loader)
    numbers = [number for batch in batches for number in batch.number]
    assert sorted(numbers) == [100 + number for number in range(60) if number % 10 != 9]
    plain = energon.AugmentTaskEncoder(DefaultTaskEncoder())
    assert not loader_of(texts, plain).dataset.calls_python


def test_hooks_that_are_never_called_are_errors(texts: str) -> None:
    class Builds(DefaultTaskEncoder[Any, Any, Any, Any]):
        def build_batch(self, dataset: Any, **options: Any) -> Any:
            return super().build_batch(dataset, **options)  # type: ignore[misc]

    with pytest.raises(TypeError, match="Builds overrides build_batch.*build_train_datasets"):
        loader_of(texts, Builds())

    class Decodes(energon.FileStoreDecoder):
        def decode(self, fname: str, data: Any) -> Any:
            return data

    encoder: Any = DefaultTaskEncoder()
    encoder.decoder = Decodes()
    with pytest.raises(TypeError, match="a SampleDecoder or None, not a Decodes"):
        loader_of(texts, encoder)


def test_a_validation_loop(texts: str, num_workers: int) -> None:
    dataset = get_val_dataset(texts, worker_config=config(num_workers), batch_size=4, limit=5)
    loader = get_loader(dataset, prefetch_factor=2, watchdog_timeout_seconds=None)
    assert [len(list(loader)) for _ in range(2)] == [len(loader)] * 2 == [5, 5]
    loader.close()


def test_samples_and_batches_have_the_functions_of_energon() -> None:
    @dataclasses.dataclass(kw_only=True, eq=False)
    class More(EncodedSample):
        extra: int = 0

    base = EncodedSample(__key__="k", __restore_key__=None, number=1, tokens=numpy.zeros(2))
    more = More.extend(base, extra=5)
    assert (more.__key__, more.number, more.extra) == ("k", 1, 5)
    batch = RawBatch.from_samples([base, more], number=[7, 8])
    assert batch.number == [7, 8] and batch.tokens.shape == (2, 2)
    assert batch.__key__ == ["k", "k"]

    class Pinned:
        def pin_memory(self) -> str:
            return "pinned"

    held = Batch()
    held.one, held.many = Pinned(), {"a": [Pinned(), 3]}
    pinned = held.pin_memory()
    assert pinned.one == "pinned" and pinned.many == {"a": ["pinned", 3]}
    mixed = energon.homogeneous_concat_mix(
        [{"a": numpy.ones((1, 2)), "b": 1}, {"a": numpy.ones((2, 3)), "b": 2}])  # fmt: skip
    assert mixed["a"].tolist() == [[1, 1, 0], [1, 1, 1], [1, 1, 1]] and mixed["b"] == [1, 2]
    with pytest.raises(TypeError, match="dict, list"):
        energon.homogeneous_concat_mix([{}, []])
