"""Wrappers that users compose: functions as stages of a dataset, and several datasets as one."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import pytest
from conftest import config, take

import energon_cpp as energon
from energon_cpp.dataset_config import get_dataset_from_config


def samples(path: str, num_workers: int = 0, training: bool = False) -> energon.Dataset:
    factory = get_dataset_from_config(path, training=training, worker_config=config(num_workers))
    return factory.build()


def number(sample: Any) -> int:
    return int(sample["json"]["number"])


def all_of(dataset: energon.Dataset) -> list[Any]:
    with energon.get_loader(dataset) as loader:
        return list(loader)


def even(value: int) -> bool:
    return value % 2 == 0


def test_a_dataset_is_built_from_its_configuration(texts: str) -> None:
    factory = get_dataset_from_config(
        texts, training=False, worker_config=config(), subflavors={"a": 1}
    )
    assert isinstance(factory, energon.BaseCoreDatasetFactory)
    assert factory.subflavors == {"a": 1} and str(factory.paths[0]) == texts
    dataset = factory.build()
    assert len(dataset) == 60
    found = all_of(dataset)
    assert [number(sample) for sample in found] == list(range(60))
    assert found[0]["__subflavors__"] == {"a": 1}
    shuffled = [number(sample) for sample in all_of(samples(texts, training=True))]
    assert shuffled != list(range(60)) and sorted(shuffled) == list(range(60))
    with pytest.raises(TypeError, match="must belong to the class"):
        get_dataset_from_config(
            texts, worker_config=config(), sample_type=energon.TextSample
        ).build()


def test_functions_become_stages(texts: str, num_workers: int) -> None:
    given = samples(texts, num_workers)
    mapped = energon.MapDataset(given, number, worker_config=config(num_workers))
    kept = energon.FilterDataset(mapped, filter_fn=even)
    doubled = energon.MapDataset(kept, lambda value: value * 2, failure_tolerance=3)
    batches = energon.BatchDataset(doubled, 4, sum)
    whole = energon.MapDataset(batches, str)
    found = all_of(whole)
    assert all(isinstance(one, str) for one in found)
    assert sum(int(one) for one in found) == 2 * sum(range(0, 60, 2))
    assert isinstance(whole, energon.BaseWrapperDataset) and whole.dataset is batches
    assert repr(kept).startswith("FilterDataset(MapDataset(Dataset(")
    full = energon.BatchDataset(mapped, 7, len, drop_last=True)
    assert set(all_of(full)) == {7} and len(energon.BatchDataset(mapped, 60, len)) >= 1


def test_generators_are_chained(texts: str) -> None:
    def twice(value: int) -> Any:
        yield value
        yield -value

    mapped = energon.MapDataset(samples(texts), number)
    one = energon.MapDataset(energon.MapDataset(mapped, twice), lambda value: value + 1)
    assert all_of(one)[:4] == [1, 1, 2, 0]
    two = energon.MapDataset(energon.MapDataset(mapped, twice), twice)
    assert all_of(two)[4:8] == [1, -1, -1, 1]


def test_groups_and_packs(texts: str) -> None:
    mapped = energon.MapDataset(samples(texts), number)
    grouped = energon.GroupBatchDataset(
        mapped, 3, lambda value: (even(value), 5 if even(value) else None), list
    )
    lengths = {(even(batch[0]), len(batch)) for batch in all_of(grouped)}
    assert lengths == {(True, 5), (False, 3)}

    def pairs(values: list[Any]) -> list[list[Any]]:
        return [values[i : i + 2] for i in range(0, len(values), 2)]

    packed = energon.PackingDataset(mapped, 10, pairs, tuple, sample_encoder=lambda value: -value)
    assert all_of(packed)[:2] == [(0, -1), (-2, -3)]
    assert all_of(energon.BatchDataset(packed, 2, list))[0] == [(0, -1), (-2, -3)]


def test_positions_of_wrappers_resume(texts: str, num_workers: int) -> None:
    def made() -> Any:
        shuffled = energon.ShuffleBufferDataset(samples(texts, num_workers, True), 20)
        mapped = energon.MapDataset(shuffled, number)
        batches = energon.BatchDataset(energon.FilterDataset(mapped, filter_fn=even), 3, list)
        return energon.get_savable_loader(batches)

    with made() as loader:
        take(loader, 3)
        state = loader.save_state_rank()
        expected = take(loader, 5)
    with made() as loader:
        loader.restore_state_rank(state)
        assert take(loader, 5) == expected


def test_epochs_of_a_number_of_batches(texts: str) -> None:
    endless = energon.get_train_dataset(texts, worker_config=config(), batch_size=2)
    with energon.get_loader(energon.EpochizeDataset(endless, 3)) as loader:
        assert [len(list(loader)) for _ in range(3)] == [3, 3, 3] and len(loader) == 3


def test_wrappers_out_of_order_are_refused(texts: str) -> None:
    single = samples(texts)
    batches = energon.BatchDataset(single, 2, list)
    with pytest.raises(ValueError, match="single samples: set batch_size=None"):
        energon.BatchDataset(batches, 2, list)
    with pytest.raises(ValueError, match="BatchDataset.. must be inside EpochizeDataset"):
        energon.BatchDataset(energon.LimitDataset(single, 3), 2, list)
    with pytest.raises(ValueError, match="FilterDataset.. must be inside"):
        energon.FilterDataset(energon.LimitDataset(single, 3), filter_fn=even)
    with pytest.raises(ValueError, match="for training"):
        energon.ShuffleBufferDataset(single, 3)
    with pytest.raises(ValueError, match="for training"):
        energon.EpochizeDataset(single, 3)
    with pytest.raises(TypeError, match="map_fn must be a function, not 3"):
        energon.MapDataset(single, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch_size must be at least 1, not 0"):
        energon.BatchDataset(single, 0, list)
    with pytest.raises(ValueError, match="put it around each dataset inside"):
        energon.MapDataset(energon.ConcatDataset(single, single), number)


# --- Several datasets ---


def labelled(path: str, label: str, num_workers: int = 0) -> energon.Dataset:
    single = energon.MapDataset(samples(path, num_workers), number)
    return energon.MapDataset(single, lambda value: (label, value))


def test_a_concatenation_is_one_epoch(texts: str) -> None:
    both = energon.ConcatDataset(labelled(texts, "a"), labelled(texts, "b"))
    expected = [(label, i) for label in "ab" for i in range(60)]
    with energon.get_loader(both) as loader:
        assert list(loader) == expected == list(loader)
        assert loader.size == len(loader) == len(both) == 120


def test_a_blend_draws_by_weight(texts: str) -> None:
    both = energon.BlendDataset((labelled(texts, "a"), 1), (labelled(texts, "b"), 4))
    assert [weight for _, weight in both.dataset_weights] == [1, 4]
    found = all_of(both)
    assert sorted(found) == [(label, i) for label in "ab" for i in range(60)]
    first = [label for label, _ in found[:50]]
    assert 30 <= first.count("b") <= 48 and [label for label, _ in found[-30:]] == ["a"] * 30
    assert [value for label, value in found if label == "a"] == list(range(60))


def test_batches_are_mixed(texts: str) -> None:
    pairs = [(labelled(texts, "a"), 1.0), (labelled(texts, "b"), 1.0)]
    lists = all_of(energon.MixBatchDataset(*pairs, batch_size=50))
    assert [len(batch) for batch in lists] == [50, 50, 20]
    counted = energon.MixBatchDataset(*pairs, batch_size=40, batch_mix_fn=len)
    assert all_of(counted) == [40] * 3 and len(counted) == 3


def test_positions_of_several_datasets_resume(texts: str, num_workers: int) -> None:
    def made() -> Any:
        datasets = [(labelled(texts, label, num_workers), 1.0) for label in "ab"]
        return energon.get_savable_loader(energon.MixBatchDataset(*datasets, batch_size=9))

    with made() as loader:
        take(loader, 10)
        state = loader.state_dict()
        expected = take(loader, 20)  # into the next epochs
    with made() as loader:
        loader.load_state_dict(state)
        assert take(loader, 20) == expected
        with pytest.raises(energon.StateMismatchError, match="not a state of the loader"):
            loader.load_state_dict({})


def test_states_of_several_datasets_are_checked_before_they_are_restored(texts: str) -> None:
    def blend(weight: float, second: energon.Dataset) -> Any:
        return energon.get_savable_loader(
            energon.BlendDataset((labelled(texts, "a"), 1), (second, weight))
        )

    other = energon.get_val_dataset(texts, worker_config=config(), batch_size=3)
    with blend(1, labelled(texts, "b")) as loader, blend(1, other) as wrong:
        take(loader, 20)
        state = loader.state_dict()
        expected = list(loader)
        for name, value in (("draws", "2"), ("ended", [False]), ("loaders", state["loaders"][:1])):
            with pytest.raises(energon.StateMismatchError, match=f"{name}: found"):
                loader.load_state_dict({**state, name: value})
        with blend(2, labelled(texts, "b")) as heavier:
            with pytest.raises(energon.StateMismatchError, match="weights: found .*, expected"):
                heavier.load_state_dict(state)
        before = wrong.state_dict()
        with pytest.raises(energon.StateMismatchError):
            wrong.load_state_dict(state)
        assert wrong.state_dict() == before
        loader.load_state_dict(state)
        assert list(loader) == expected


def test_a_failed_mix_is_made_again(texts: str, num_workers: int) -> None:
    """Also by a loader with the state that was saved after the failure."""
    calls = 0

    def fails_once(batches: list[Any]) -> list[Any]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise ValueError("the third mix")
        return batches

    def made() -> Any:
        pairs = [(labelled(texts, label, num_workers), 1.0) for label in "ab"]
        return energon.get_savable_loader(
            energon.MixBatchDataset(*pairs, batch_size=4, batch_mix_fn=fails_once)
        )

    with made() as loader:
        found = []
        with pytest.raises(ValueError, match="the third mix"):
            for batch in loader:
                found += batch
        state = loader.state_dict()
        rest = sum(list(loader), [])
        assert sorted(found + rest) == [(label, i) for label in "ab" for i in range(60)]
    with made() as loader:
        loader.load_state_dict(state)
        assert sum(list(loader), []) == rest


def test_a_failure_ends_a_loop_over_several_datasets(texts: str) -> None:
    def fails(value: int) -> int:
        if value == 3:
            raise ValueError("no 3")
        return value

    mapped = energon.MapDataset(energon.MapDataset(samples(texts), number), fails)
    with energon.get_savable_loader(energon.ConcatDataset(mapped, mapped)) as loader:
        with pytest.raises(ValueError, match="no 3"):
            list(loader)
        with pytest.raises(ValueError, match="no 3"):
            list(loader)


def test_several_datasets_are_checked(texts: str) -> None:
    single = samples(texts)
    with pytest.raises(ValueError, match="weights must be above 0, not 0"):
        energon.BlendDataset((single, 0))
    with pytest.raises(TypeError, match="pairs of a dataset and its weight"):
        energon.BlendDataset(single)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one dataset"):
        energon.ConcatDataset()
    with pytest.raises(ValueError, match="worker_config must equal"):
        energon.ConcatDataset(single, samples(texts, 2))
    with pytest.raises(ValueError, match="ConcatDataset has 2 datasets"):
        energon.ConcatDataset(single, single).dataset
    both = energon.ConcatDataset(single, single)
    with pytest.raises(ValueError, match="debug_log_path must be None"):
        energon.get_savable_loader(both, debug_log_path="log-{worker_id}.jsonl")


def test_batches_of_the_library_have_dataclass_fields(texts: str) -> None:
    dataset = energon.get_val_dataset(texts, worker_config=config(), batch_size=2)

    @dataclasses.dataclass
    class Labelled(energon.Batch):
        txt: Any
        json: Any
        bin: Any
        label: str

    def label(batch: Any) -> Any:
        return Labelled(**dataclasses.asdict(batch), label="x")

    batch = all_of(energon.MapDataset(dataset, label))[0]
    assert batch.label == "x" and len(batch.txt) == 2 and batch.__key__ == ["0000", "0001"]


def test_the_datasets_of_a_metadataset(tmp_path: pathlib.Path, texts: str) -> None:
    from energon_cpp.metadataset.loader_interface import DatasetBlendMode

    recipe = tmp_path / "recipe.yaml"
    blend = f"[{{path: {texts}, weight: 3, subflavors: {{a: 1}}}}, {{path: {texts}, weight: 1}}]"
    recipe.write_text(f"__class__: MetadatasetV2\nsplits:\n  train: {{blend: {blend}}}\n")
    found = energon.load_dataset(recipe).get_datasets(
        training=True, split_part="train", worker_config=config(), subflavors={"b": 2}
    )
    assert found.blend_mode == DatasetBlendMode.DATASET_WEIGHT and len(found) == 2
    assert [one.weight for one in found.datasets] == [0.75, 0.25]
    assert [one.dataset.subflavors for one in found.datasets] == [{"a": 1, "b": 2}, {"b": 2}]
    alone = energon.load_dataset(texts).get_datasets(training=False, worker_config=config())
    assert alone.blend_mode == DatasetBlendMode.NONE
    assert str(alone.datasets[0].dataset.paths[0]) == texts


# --- Datasets that a task encoder builds ---


def recipe_of(folder: pathlib.Path, blend: str, name: str = "recipe.yaml") -> str:
    path = folder / name
    splits = f"{{train: {{blend: {blend}}}, val: {{blend: {blend}}}}}"
    path.write_text(f"__class__: MetadatasetV2\nsplits: {splits}\n")
    return str(path)


def test_a_task_encoder_puts_wrappers_around_its_dataset(texts: str, num_workers: int) -> None:
    class Builds(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            return number(sample)

        def batch(self, samples: list[Any]) -> Any:
            return samples

        def build_train_datasets(self, **arguments: Any) -> Any:
            dataset = super().build_train_datasets(**{**arguments, "batch_size": 3})
            return energon.MapDataset(dataset, sorted)

        def build_val_datasets(self, **arguments: Any) -> Any:
            return energon.LimitDataset(super().build_val_datasets(**arguments), 2)

    for encoder in (Builds(), energon.AugmentTaskEncoder(Builds())):
        options: dict[str, Any] = {"worker_config": config(num_workers), "task_encoder": encoder}
        trained = energon.get_train_dataset(texts, batch_size=5, repeat=False, **options)
        batches = all_of(trained)
        assert all(batch == sorted(batch) for batch in batches)
        assert sorted(sum(batches, [])) == list(range(60)) and len(batches[0]) == 3
        assert len(all_of(energon.get_val_dataset(texts, batch_size=5, **options))) == 2
        for dataset, _source in energon.get_val_datasets(texts, batch_size=5, **options):
            assert len(all_of(dataset)) == 2


def test_a_task_encoder_blends_batches(texts: str, tmp_path: pathlib.Path) -> None:
    """As in Energon's documentation: batches of one dataset each, which are blended."""

    class Builds(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        def build_train_datasets(
            self, *, datasets: Any, batch_size: Any, blend_mode: Any, **_: Any
        ) -> Any:
            assert blend_mode.name == "DATASET_WEIGHT"
            pairs = []
            for one in datasets:
                samples = energon.RepeatDataset(
                    energon.BatchDataset(one.dataset.build(), batch_size, self.batch)
                )
                pairs.append((samples, one.weight))
            return energon.BlendDataset(*pairs)

    blend = f"[{{path: {texts}, weight: 3, subflavors: {{a: 1}}}}, {{path: {texts}, weight: 1}}]"
    dataset = energon.get_train_dataset(
        recipe_of(tmp_path, blend), worker_config=config(), batch_size=4, task_encoder=Builds(),
        subflavors={"b": 2},
    )  # fmt: skip
    with energon.get_loader(dataset) as loader:
        batches = take(loader, 200)
    labels = [batch.__subflavors__ for batch in batches]
    assert all(one in ([{"a": 1, "b": 2}] * 4, [{"b": 2}] * 4) for one in labels)
    assert 120 <= labels.count([{"a": 1, "b": 2}] * 4) <= 180


def test_what_cannot_be_built_alone_is_refused(texts: str, tmp_path: pathlib.Path) -> None:
    class Builds(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        def build_train_datasets(self, *, datasets: Any, **_: Any) -> Any:
            return datasets[0].dataset.build()

        def build_val_datasets(self, **_: Any) -> Any:
            return 3

    blend = f"[{{path: {texts}, subset: {{range: [0%, 50%]}}}}]"
    options: dict[str, Any] = {"worker_config": config(), "task_encoder": Builds(), "batch_size": 4}
    with pytest.raises(energon.UnsupportedError, match="cannot be built alone"):
        energon.get_train_dataset(recipe_of(tmp_path, blend), **options)
    with pytest.raises(TypeError, match="build_val_datasets.. must return a dataset, not a int"):
        energon.get_val_dataset(texts, **options)
