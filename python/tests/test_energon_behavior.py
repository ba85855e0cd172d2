"""What scripts of Energon rely on besides names: wrappers, lengths, options, indices, states."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import inspect
import pathlib
import pickle
import pickletools
import random
import re
import types
import warnings
from typing import Any, Iterator

import numpy
import pytest
from conftest import config, loader_of, take, write_tar

import energon_cpp as energon
from energon_cpp import LimitDataset, RepeatDataset
from energon_cpp.rng import SystemRngState
from energon_cpp.savable_loader import (
    SavableDataLoaderState,
    SavableDatasetCheckpoint,
    SavableDatasetState,
)
from energon_cpp.state import FlexState

NO_WORKER = {"rank": 0, "world_size": 1, "num_workers": 0}


def keys(batches: Any) -> list[list[str]]:
    return [batch.__key__ for batch in batches]


def val(path: str, num_workers: int = 0, **options: Any) -> energon.Dataset:
    given = {"batch_size": 4, **options}
    return energon.get_val_dataset(path, worker_config=config(num_workers), **given)


def train(path: str, num_workers: int = 0, **options: Any) -> energon.Dataset:
    given = {"batch_size": 4, "shuffle_buffer_size": 7, **options}
    return energon.get_train_dataset(path, worker_config=config(num_workers), **given)


def epochs(dataset: energon.Dataset, count: int) -> list[list[list[str]]]:
    with energon.get_loader(dataset) as loader:
        return [keys(loader) for _ in range(count)]


# --- Wrappers ---


def test_a_limit_starts_over_in_each_epoch(texts: str, num_workers: int) -> None:
    whole = epochs(val(texts, num_workers), 1)[0]
    limited = LimitDataset(val(texts, num_workers), 5, reset_after_epoch=True)
    assert epochs(limited, 3) == [whole[:5]] * 3
    assert len(limited) == limited.length == 5 and limited.batch_size == 4
    assert epochs(LimitDataset(val(texts, num_workers), 100), 2) == [whole] * 2
    assert epochs(LimitDataset(val(texts, num_workers), 0), 2) == [[], []]
    trained = epochs(LimitDataset(train(texts, num_workers), 3), 3)
    assert trained[0] == trained[1] == trained[2] and len(trained[0]) == 3


def test_a_repetition_is_one_epoch(texts: str, num_workers: int) -> None:
    whole = epochs(val(texts, num_workers), 1)[0]
    twice = RepeatDataset(val(texts, num_workers), repeats=2)
    with energon.get_savable_loader(twice) as loader:
        assert loader.size == len(loader) == len(twice) == 2 * len(whole)
        # A worker begins its second pass while the other is still in its first.
        first = keys(loader)
        assert sorted(first) == sorted(whole * 2) and keys(loader) == first
    once = RepeatDataset(val(texts, num_workers), repeats=1, restart=False)
    assert epochs(once, 3) == [whole, [], []]
    assert epochs(RepeatDataset(val(texts, num_workers), repeats=0), 2) == [[], []]


def test_a_fraction_continues_in_the_next_epoch(texts: str) -> None:
    whole = epochs(val(texts), 1)[0]
    assert len(whole) == 15
    fraction = RepeatDataset(val(texts), repeats=1.5)
    first, second, third = epochs(fraction, 3)
    assert first == whole + whole[:7]
    assert second == whole[7:] + whole[:7] == third


def test_the_validation_loop_of_megatron(texts: str, num_workers: int) -> None:
    whole = epochs(val(texts, num_workers), 1)[0]
    for given in (None, config(num_workers)):
        limited = LimitDataset(
            val(texts, num_workers), length=6, reset_after_epoch=True, worker_config=given
        )
        dataset = RepeatDataset(limited, worker_config=given)
        assert isinstance(dataset, energon.Dataset) and len(dataset) == 6
        with energon.get_loader(dataset) as loader:
            assert loader.size is None and keys(take(loader, 20)) == (whole[:6] * 4)[:20]


@pytest.mark.parametrize("kind", ["limit", "endless", "three", "fraction", "nested"])
def test_wrapped_positions_resume(texts: str, num_workers: int, kind: str) -> None:
    def make() -> energon.Dataset:
        inner = val(texts, num_workers)
        if kind == "three":
            inner = train(texts, num_workers, repeat=False)
        if kind == "limit":
            return LimitDataset(inner, 7)
        if kind == "nested":
            return LimitDataset(RepeatDataset(LimitDataset(inner, 4)), 11)
        if kind == "endless":
            return RepeatDataset(LimitDataset(inner, 5))
        return RepeatDataset(inner, repeats=3 if kind == "three" else 1.3)

    def follow(loader: Any, count: int) -> list[list[str]]:
        got: list[list[str]] = []
        while len(got) < count:
            got += keys(take(loader, count - len(got)))
        return got

    with energon.get_savable_loader(make()) as loader:
        states, whole = [loader.save_state_rank()], []
        for _ in range(60):
            whole += follow(loader, 1)
            states.append(loader.save_state_rank())
    for at in (0, 1, 4, 5, 6, 7, 11, 15, 16, 22, 30, 45):
        with energon.get_savable_loader(make()) as loader:
            loader.restore_state_rank(states[at])
            assert follow(loader, 60 - at) == whole[at:], at


def test_wrapped_batches_are_found_and_rebuilt(texts: str) -> None:
    dataset = RepeatDataset(LimitDataset(val(texts), 5), repeats=2)
    with energon.get_savable_loader(dataset) as loader:
        batches = list(loader)
        state = loader.save_state_rank()
        restored = loader.restore_sample(batches[7].__restore_key__)
    assert restored.__key__ == batches[7].__key__ and restored.txt == batches[7].txt
    assert energon.restore_sample(dataset, batches[7].__restore_key__).txt == batches[7].txt
    assert [one.step for one in energon.which_step(dataset, state, batches[2].__key__[1])] == [2, 7]
    assert energon.which_keys(dataset, state, 8)[0].keys == batches[8].__key__


def test_a_wrapped_leaf_of_a_metadataset(texts: str, tmp_path: pathlib.Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        write_tar(tmp_path / name / "s.tar", [(f"{name}{i}", {"txt": b"x"}) for i in range(9)])
    recipe = tmp_path / "recipe.yaml"
    blend = "[{path: a/s.tar}, {path: b/s.tar}]"
    recipe.write_text(f"__class__: MetadatasetV2\nsplits:\n  val: {{blend: {blend}}}\n")
    pairs = energon.get_val_datasets(
        str(recipe), worker_config=config(), batch_size=2, subflavors={"x": 1}
    )
    assert [source.subflavors for _, source in pairs] == [{"x": 1}] * 2
    second = LimitDataset(pairs[1][0], 2)
    assert epochs(second, 2) == [[["b0", "b1"], ["b2", "b3"]]] * 2
    # With other options, and one sample again, it is still the second dataset.
    pool = energon.FileStoreCachePool()
    for dataset in (pairs[1][0], second):
        with energon.get_savable_loader(dataset, cache_pool=pool) as loader:
            batch = take(loader, 1)[0]
            assert batch.__key__ == ["b0", "b1"] and batch.__subflavors__ == [{"x": 1}] * 2
            assert loader.restore_sample(batch.__restore_key__, index=1)["__key__"] == "b1"


def test_wrappers_refuse_what_they_cannot_wrap(texts: str) -> None:
    dataset: Any = [1, 2]
    with pytest.raises(TypeError, match=r"LimitDataset\(\) needs a dataset of get_train_dataset"):
        LimitDataset(dataset, 3)
    with pytest.raises(ValueError, match="worker_config must equal that of the dataset"):
        RepeatDataset(val(texts), worker_config=config(3))
    with pytest.raises(ValueError, match="length must be at least 0, not -1"):
        LimitDataset(val(texts), -1)
    with pytest.raises(ValueError, match="repeats must be at least 0.*not -0.5"):
        RepeatDataset(val(texts), repeats=-0.5)
    with pytest.raises(TypeError, match=r"RepeatDataset\(\) got.*'repeat'; did you mean 'repeats'"):
        RepeatDataset(val(texts), repeat=3)  # type: ignore[call-arg]
    wrong: Any
    for wrong in (2.5, True, "3", None):
        with pytest.raises(TypeError, match=f"length must be a whole number, not {wrong!r}"):
            LimitDataset(val(texts), wrong)
    with pytest.raises(ValueError, match=f"length must be at most {2**63 - 1}, not {2**63}"):
        LimitDataset(val(texts), 2**63)
    assert LimitDataset(val(texts), numpy.int32(3)).length == 3  # type: ignore[arg-type]
    for wrong in (True, "3", [1]):
        text = f"repeats must be a number or None, not {wrong!r}"
        with pytest.raises(TypeError, match=re.escape(text)):
            RepeatDataset(val(texts), repeats=wrong)
    for wrong in (float("inf"), 1e16, 10**400):
        with pytest.raises(ValueError, match="repeats must be at most 1e15.*None.*not "):
            RepeatDataset(val(texts), repeats=wrong)
    with pytest.raises(ValueError, match="repeats must be at least 0.*not nan"):
        RepeatDataset(val(texts), repeats=float("nan"))
    assert RepeatDataset(val(texts), repeats=numpy.float32(1.5)).repeats == 1.5  # type: ignore[arg-type]


def test_values_are_checked_where_they_are_given(texts: str) -> None:
    for wrong in (0, -1, 65537):
        for make in (train, val):
            text = f"samples_per_call is {wrong}, expected 1 to 65536"
            with pytest.raises(ValueError, match=text):
                make(texts, samples_per_call=wrong)
    with pytest.raises(TypeError, match="sample_type must be a class, not 'x'"):
        val(texts, sample_type="x")


# --- Lengths ---


def test_lengths(texts: str, num_workers: int) -> None:
    class Packs(energon.DefaultTaskEncoder):
        def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
            return [samples[i : i + 2] for i in range(0, len(samples), 2)]

        def pack_selected_samples(self, samples: list[Any]) -> Any:
            return samples[0]

    per_pass = 15 if num_workers == 0 else 16  # each worker has 30 samples
    assert len(val(texts, num_workers)) == len(train(texts, num_workers)) == per_pass
    assert len(train(texts, num_workers, batch_drop_last=True)) == (15 if num_workers == 0 else 14)
    assert len(val(texts, num_workers, batch_size=None)) == 60
    packing = {"packing_buffer_size": 8, "task_encoder": Packs()}
    assert len(val(texts, num_workers, **packing)) == per_pass  # packs count as samples
    assert len(train(texts, num_workers, virtual_epoch_length=9)) == 9
    assert len(RepeatDataset(val(texts, num_workers))) == per_pass
    assert len(RepeatDataset(val(texts), repeats=1.5)) == 22
    with energon.get_savable_loader(train(texts, num_workers)) as loader:
        assert len(loader) == per_pass and loader.size is None and bool(loader)
    with energon.get_loader(val(texts, num_workers, **packing)) as packed:
        assert len(packed) == per_pass and packed.size is None
    with energon.get_loader(val(texts, num_workers, limit=0)) as whole:
        assert len(whole) == whole.size == per_pass
    assert bool(LimitDataset(val(texts), 0))


# --- Old options, and suggestions ---


def test_old_options_mean_what_they_mean_in_energon(texts: str) -> None:
    with pytest.warns(FutureWarning, match="handler is deprecated and ignored") as caught:
        dataset = train(texts, handler=print)
    assert caught[0].filename == __file__  # the line of the script
    encoder: Any = energon.DefaultTaskEncoder()
    with pytest.warns(FutureWarning, match="image_decode, video_decode_audio: deprecated"):
        dataset = train(texts, image_decode="pil", video_decode_audio=True, task_encoder=encoder)
    decoder = energon.SampleDecoder(image_decode="pil", video_decode_audio=True)
    assert dataset.task_encoder is encoder and encoder.decoder == decoder
    with pytest.warns(FutureWarning):  # the same once more, for validation
        val(texts, image_decode="pil", video_decode_audio=True, task_encoder=encoder)
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="has another decoder"):
        val(texts, image_decode="torchrgb", task_encoder=encoder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert val(texts, auto_decode=False).task_encoder.decoder is None
        val(texts, auto_decode=True)
        assert val(texts, auto_decode=False, image_decode="pil").task_encoder.decoder is None


def test_refused_options_leave_the_encoder_unchanged(texts: str) -> None:
    class Encoder(energon.DefaultTaskEncoder):
        pass

    old: Any
    decoder = Encoder.decoder
    with pytest.raises(TypeError, match=r"an object, not a class: Encoder\(\)"):
        train(texts, task_encoder=Encoder, auto_decode=False)
    assert Encoder.decoder is decoder
    for old in ({"auto_decode": False}, {"image_decode": "pil"}):
        encoder: Any = Encoder()
        for refused in ({"bach": 1}, {"subflavors": 1}, {"on_error": "x"}):
            with warnings.catch_warnings(), pytest.raises((TypeError, ValueError)):
                warnings.simplefilter("ignore")
                train(texts, task_encoder=encoder, **old, **refused)
            assert encoder.decoder is decoder


def prepared(folder: pathlib.Path, program: str) -> str:
    import subprocess

    samples = [(f"{i:02}", {"txt": f"t{i}".encode()}) for i in range(6)]
    write_tar(folder / "a.tar", samples[:3])
    write_tar(folder / "b.tar", samples[3:])
    command = [program, "prepare", str(folder), "--non-interactive", "--split-parts", "train:.*"]
    command += ["--sample-type", "TextSample", "--field-map", "text=txt"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    meta = folder / ".nv-meta"
    (meta / "raw.yaml").write_text("__class__: CrudeWebdataset\nsubflavors: {own: 1, x: yaml}\n")
    split = "split_parts:\n  train: [a.tar, b.tar]\nexclude: []\nexclude: [a.tar]\n"
    (meta / "half.yaml").write_text(split)
    return str(folder)


def test_files_and_subflavors_of_a_dataset(tmp_path: pathlib.Path) -> None:
    import os

    program = os.environ.get("ENERGON_PROGRAM")
    if not program:
        pytest.skip("no program energon")
    path = prepared(tmp_path, program)
    options: dict[str, Any] = {"split_part": "train", "batch_size": None}
    batches = take(energon.get_loader(val(path, **options)), 9)
    assert [type(one) for one in batches] == [energon.TextSample] * 6
    assert batches[0].__subflavors__ == {}
    other = {**options, "dataset_config": "raw.yaml", "subflavors": {"x": "given", "y": [1]}}
    with energon.get_loader(val(path, **other)) as loader:
        crude = take(loader, 1)[0]
    assert isinstance(crude, energon.CrudeSample) and crude["txt"] == "t0"
    assert crude["__subflavors__"] == {"own": 1, "x": "given", "y": [1]}
    # The last of two lists of exclusions counts, as in Energon.
    half = val(path, split_config="half.yaml", **options)
    assert [one.__key__ for one in take(energon.get_loader(half), 9)] == ["03", "04", "05"]
    val(path, sample_type=energon.TextSample, **options)
    val(path, sample_type=energon.Sample, **options)
    with pytest.raises(TypeError, match="must belong to the class OCRSample, but belong to TextSample"):
        val(path, sample_type=energon.OCRSample, **options)
    with pytest.raises(TypeError, match="subflavors must be a dict, not a list"):
        val(path, subflavors=["a"], **options)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("__class__: MetadatasetV2\nsplits: {val: {path: ., split_part: train}}\n")
    with pytest.raises(ValueError, match="only prepared datasets have a split_config"):
        val(str(recipe), split_config="half.yaml")
    with energon.get_loader(val(str(recipe), batch_size=None, subflavors={"z": 2})) as loader:
        assert take(loader, 1)[0].__subflavors__ == {"z": 2}


FUNCTIONS = [
    name
    for name in energon.__all__
    if isinstance(getattr(energon, name), types.FunctionType)
    and len(inspect.signature(getattr(energon, name)).parameters) > 1
    and getattr(energon, name).__module__ not in ("energon_cpp.batching", "energon_cpp.errors")
]
CLASSES = ["AVDecoder", "Cooker", "DefaultTaskEncoder", "FileStoreCachePool", "LimitDataset"]
CLASSES += ["RepeatDataset", "SampleDecoder", "SourceInfo", "WorkerConfig"]


@pytest.mark.parametrize("name", FUNCTIONS + CLASSES)
def test_a_misspelled_option_is_answered_with_the_right_one(name: str) -> None:
    if name == "basic_sample_keys":  # called for each sample
        return
    function = getattr(energon, name)
    known = [one for one in inspect.signature(function).parameters if one not in ("more", "self")]
    right = max(known, key=len)
    wrong = right[:-2] + right[-1] + right[-2] if len(right) > 2 else right + "_"
    if wrong == right:
        wrong = right + "x"
    with pytest.raises(TypeError, match=rf"'{wrong}'; did you mean '{right}'\?"):
        function(**{wrong: None})


def test_signatures_show_all_options(texts: str) -> None:
    for function in (energon.get_train_dataset, energon.get_val_dataset, energon.get_val_datasets):
        kinds = {one.kind for one in inspect.signature(function).parameters.values()}
        assert kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    one = inspect.signature(energon.get_val_dataset).parameters
    assert list(one) == list(inspect.signature(energon.get_val_datasets).parameters)
    with pytest.raises(TypeError, match="'bach_size'; did you mean 'batch_size'"):
        energon.get_train_dataset(  # type: ignore[call-arg]
            texts, worker_config=config(), bach_size=4)  # fmt: skip


def test_a_misspelled_function_of_an_encoder_is_a_warning(texts: str) -> None:
    class Encoder(energon.DefaultTaskEncoder):
        def encode_sampel(self, sample: Any) -> Any:
            return sample

        def encode(self, sample: Any) -> Any:
            return sample

    text = "encode_sampel is never called; did you mean 'encode_sample'"
    with pytest.warns(UserWarning, match=text) as caught:
        val(texts, task_encoder=Encoder())
    assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.raises(TypeError, match=r"an object, not a class: DefaultTaskEncoder\(\)"):
        val(texts, task_encoder=energon.DefaultTaskEncoder)
    for wrong in ("get_savable_loder", "WorkerConfg"):
        with pytest.raises(AttributeError) as raised:
            getattr(energon, wrong)
        assert raised.value.name == wrong and raised.value.obj is energon  # Python suggests names


def test_properties_of_an_encoder_are_not_read(texts: str) -> None:
    class Encoder(energon.DefaultTaskEncoder):
        @functools.cached_property
        def model(self) -> Any:
            raise RuntimeError("loaded in the trainer")

        @property
        def encode_sampel(self) -> Any:
            raise RuntimeError("read in the trainer")

        @classmethod
        def encode_batc(cls, batch: Any) -> Any:
            return batch

    with pytest.warns(UserWarning, match="encode_batc is never called") as caught:
        val(texts, task_encoder=Encoder())
    assert len(caught) == 1


# --- Indices ---


class Indexed(energon.DefaultTaskEncoder):
    """Samples and batches with the indices that their functions see."""

    decoder = None

    def encode_sample(self, sample: Any) -> Any:
        if sample["__key__"] == "0005":
            raise energon.SkipSample()
        return {"sample": self.current_sample_index, "batch": self.current_batch_index}

    def batch(self, samples: list[Any]) -> Any:
        assert isinstance(energon.WorkerConfig.active_worker_config, energon.WorkerConfig)
        return {
            "samples": [sample["sample"] for sample in samples],
            "batches": [sample["batch"] for sample in samples],
            "own": (self.current_sample_index, self.current_batch_index),
            "__restore_key__": None,
        }


def test_indices_of_calls(texts: str, num_workers: int) -> None:
    with loader_of(texts, Indexed(), num_workers=num_workers, training=True) as loader:
        batches = take(loader, 12)
        state = loader.save_state_rank()
        restored = [loader.restore_sample(batch["__restore_key__"]) for batch in batches]
        rest = take(loader, 20)
    for one, again in zip(batches, restored):
        assert all(one[name] == again[name] for name in ("samples", "batches", "own"))
    assert [batch["batches"] for batch in batches] == [[i] * 4 for i in range(12)]
    assert [batch["own"] for batch in batches] == [(i, i) for i in range(12)]
    calls = [call for batch in batches for call in batch["samples"]]
    assert len(set(calls)) == 48 and min(calls) == 0
    with loader_of(texts, Indexed(), num_workers=num_workers, training=True) as loader:
        loader.restore_state_rank(state)
        assert take(loader, 20) == rest


def test_there_are_no_indices_elsewhere() -> None:
    encoder = energon.DefaultTaskEncoder()
    assert energon.WorkerConfig.active_worker_config is None
    for name in ("current_batch_index", "current_sample_index"):
        with pytest.raises(RuntimeError, match="only in functions of a task encoder"):
            getattr(encoder, name)
    assert not hasattr(encoder, "current_index")


@pytest.fixture
def activated() -> Iterator[energon.WorkerConfig]:
    made = energon.WorkerConfig(rank=1, world_size=2, num_workers=2, seed_offset=3)
    made.worker_activate(5)
    yield made
    made.worker_deactivate()


class Draws(energon.DefaultTaskEncoder):
    @energon.stateless(restore_seeds=True)
    def encode_sample(self, sample: Any) -> Any:
        return sample, random.random(), float(numpy.random.random())

    @energon.stateless(restore_seeds=True)
    def encode_batch(self, batch: Any) -> Any:
        for _ in range(2):
            yield random.random()


def test_functions_called_by_hand_are_seeded(activated: energon.WorkerConfig) -> None:
    assert energon.WorkerConfig.active_worker_config is activated
    assert config().active_worker_config is activated.active_worker_config is activated
    encoder = Draws()
    assert encoder.current_batch_index == encoder.current_sample_index == 10
    before = random.getstate()
    first = encoder.encode_sample("x")
    assert encoder.encode_sample("x") == first and random.getstate() == before
    activated.worker_push_sample_index(7)
    assert (encoder.current_sample_index, encoder.current_batch_index) == (14, 10)
    assert encoder.encode_sample("x") != first
    assert activated.worker_pop_sample_index() == 7
    outputs = encoder.encode_batch("b")
    one = next(outputs)
    random.seed(1)
    assert [one, next(outputs)] == list(encoder.encode_batch("b"))
    assert next(outputs, None) is None
    with pytest.raises(RuntimeError, match="worker_deactivate"):
        activated.worker_activate(1)


def test_tests_may_set_the_active_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        active_worker_sample_index = 0

        def worker_seed(self) -> int:
            return 42

    random.seed(7)
    unseeded = Draws().encode_sample("x")
    assert Draws().encode_sample("x") != unseeded
    monkeypatch.setattr(energon.WorkerConfig, "active_worker_config", Fake(), raising=False)
    assert Draws().encode_sample("x") == Draws().encode_sample("x") != unseeded
    assert isinstance(config().active_worker_config, Fake)
    monkeypatch.undo()
    assert energon.WorkerConfig.active_worker_config is config().active_worker_config is None


def test_seeds_of_workers() -> None:
    made = energon.WorkerConfig(rank=2, world_size=4, num_workers=3, seed_offset=1)
    assert [made.worker_seed(i) for i in range(3)] == [779986826, 2753224130, 739344894]
    alone = energon.WorkerConfig(**NO_WORKER)
    assert alone.worker_seed() == alone.worker_seed(4)


# --- States ---


def globals_in(pickled: bytes) -> set[str]:
    found, texts = set(), []
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name in ("SHORT_BINUNICODE", "BINUNICODE"):
            texts.append(argument)
        elif opcode.name == "STACK_GLOBAL":
            found.add(".".join(texts[-2:]))
        elif opcode.name == "GLOBAL":
            found.add(argument.replace(" ", "."))
    return found


def test_pickled_states_are_dicts(texts: str, num_workers: int) -> None:
    with loader_of(texts, num_workers=num_workers) as loader:
        take(loader, 3)
        state = loader.save_state_rank()
        rest = keys(take(loader, 5))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        pickled = pickle.dumps(state, protocol=protocol)
        assert globals_in(pickled) <= {"collections.OrderedDict", "_codecs.encode"}
        again = pickle.loads(pickled)
        assert type(again) is collections.OrderedDict and again == state and state == again
        assert [(type(name), type(value)) for name, value in again.items()] == [(str, bytes)]
    assert copy.copy(state) is state and copy.deepcopy({"s": state})["s"] == state
    assert again != 3 and state != {"other": b""} and state != {}
    with loader_of(texts, num_workers=num_workers) as loader:
        loader.restore_state_rank(again)
        assert keys(take(loader, 5)) == rest
        assert energon.which_keys(loader.dataset, again, 1) != []
    with loader_of(texts, num_workers=num_workers) as loader:
        loader.restore_state_global([again])
        assert keys(take(loader, 5)) == rest
        with pytest.raises(TypeError, match="not a OrderedDict|not a dict"):
            loader.restore_state_global(again)
    assert bytes(again["energon_cpp.state"]) == bytes(state)
    assert energon.JobState.merge([again]) == energon.JobState.merge([state])
    assert energon.rescale_states([again], config(num_workers)) == state


def test_the_classes_of_energons_states(texts: str) -> None:
    dataset = SavableDatasetState(rng=None, dataset_state=FlexState(a=[b"x"]), sample_index=4)
    state = SavableDataLoaderState(
        worker_states=[SavableDatasetCheckpoint(state=dataset, offset=1)],
        next_worker_id=0,
        micro_batch_size=None,
    )
    assert state == pickle.loads(pickle.dumps(state)) == copy.deepcopy(state)
    assert state != dataclasses.replace(state, next_worker_id=1) and state != dataset
    with pytest.raises(TypeError):
        hash(state)
    arrays = SystemRngState(torch=None, numpy=numpy.arange(3), random=(1,))
    assert arrays == copy.deepcopy(arrays) and isinstance(FlexState(), dict)
    with loader_of(texts) as loader:
        with pytest.raises(TypeError, match="a SavableDataLoaderState of Energon, not a int"):
            loader.restore_state_rank(3)
        empty = dataclasses.replace(state, worker_states=[])
        with pytest.raises(ValueError, match="worker_states of the state is empty: expected one for"):
            loader.restore_state_rank(empty)


# --- Sources, and comparison by value ---


def test_sources_are_values(texts: str) -> None:
    with loader_of(texts) as loader:
        found = take(loader, 1)[0].__sources__[1]
    assert isinstance(found, energon.SourceInfo) and found.byte_size > 0
    fields = {"dataset_path": pathlib.Path(found.dataset_path), "shard_name": found.shard_name}
    made = energon.SourceInfo(**fields, index=found.index, file_names=())
    assert made == found and hash(made) == hash(found) and made.dataset_path == found.dataset_path
    assert pickle.loads(pickle.dumps(found)) == found
    assert made != energon.SourceInfo(**fields, index="0001.txt", file_names=("0001.txt",))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.index = 3  # type: ignore[misc]
    sample = {"__sources__": (made,)}
    assert energon.source_info.add_source_info(sample, found, found) is sample
    assert energon.source_info.get_source_info([sample]) == [made, found, found]


@energon.edataclass
class Plain:
    x: int
    y: Any = None


@energon.edataclass
class Own(energon.Sample):
    x: int
    y: Any = None


@pytest.mark.parametrize("kind", [Plain, Own])
def test_dataclasses_are_compared_by_value(kind: Any) -> None:
    class Unequal:
        def __eq__(self, other: object) -> bool:
            raise ArithmeticError

    array = numpy.arange(6).reshape(2, 3)
    same = [1.5, "a", None, array, [array, 1], {"a": (array,)}, Plain(x=2, y=array)]
    for value in same:
        assert kind(x=1, y=value) == kind(x=1, y=copy.deepcopy(value))
    different = [array.astype("f4"), array[:1], array + 1, [array], Unequal(), 1]
    for value in different:
        assert kind(x=1, y=array) != kind(x=1, y=value)
    assert kind(x=1, y=Unequal()) != kind(x=1, y=Unequal())
    assert kind(x=1) != kind(x=2) and kind(x=1) != 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(kind(x=1))


def test_samples_and_batches_are_compared_by_value(texts: str) -> None:
    a, b = (energon.TextSample(__key__="k", text="t") for _ in range(2))
    assert a == b and a != energon.TextSample(__key__="l", text="t")
    assert a != energon.Sample(__key__="k")
    one, other = (take(loader_of(texts), 2) for _ in range(2))
    assert one[0].__key__ == other[0].__key__ and one[0].txt == other[0].txt
    assert one[0] == other[0] and one[0] != other[1]
    other[0].more = 1
    assert one[0] != other[0]


# --- Metadatasets ---


def test_traversing_lists_what_is_missing(tmp_path: pathlib.Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    inner = tmp_path / "inner.yaml"
    head = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n"
    inner.write_text(f"{head}  val: {{path: gone, subflavors: {{a: 1, b: 2}}}}\n")
    aux = "aux: {labels: missing_aux, files: 'filesystem://files'}"
    second = "{path: inner.yaml, split_part: val, subflavors: {a: 3}}"
    blend = f"[{{path: missing, {aux}}}, {second}]"
    recipe.write_text(f"{head}  train: {{blend: {blend}}}\n")
    first, last = energon.traverse_metadataset(recipe, split_part="train")
    assert first.path == tmp_path / "missing" and first.split_part == "train"
    assert first.aux == {"labels": tmp_path / "missing_aux", "files": tmp_path / "files"}
    assert last.path == tmp_path / "gone" and last.split_part == "val"
    assert last.subflavors == {"a": 3, "b": 2} and first.subflavors == {}
    with pytest.raises(FileNotFoundError, match="missing"):
        energon.load_dataset(recipe).get_datasets("train")
    with pytest.raises(FileNotFoundError):
        energon.traverse_metadataset(tmp_path / "none.yaml", split_part="train")
