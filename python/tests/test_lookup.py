"""Finding samples by key: get, restore_sample, which_step, which_keys."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
from typing import Any

import pytest
from conftest import loader_of, take

import energon_cpp as energon


class Doubling(energon.DefaultTaskEncoder):
    """Makes one sample from one, so the order does not depend on the function."""

    def encode_sample(self, sample: Any) -> Any:
        own = energon.basic_sample_keys(sample)
        return {**own, "number": 2 * sample["json"]["number"], "draw": random.random()}


class Skipping(energon.DefaultTaskEncoder):
    """Leaves out every fifth sample, by SkipSample or by an error."""

    def encode_sample(self, sample: Any) -> Any:
        number = sample["json"]["number"]
        if number % 10 == 3:
            raise energon.SkipSample()
        if number % 10 == 8:
            raise ValueError(f"cannot use {number}")
        return {**energon.basic_sample_keys(sample), "number": number}


class Packing(energon.DefaultTaskEncoder):
    """Decides which samples are in an item."""

    calls = 0

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        type(self).calls += 1
        ordered = sorted(samples, key=lambda sample: sample["json"]["number"])
        return [ordered[i : i + 3] for i in range(0, len(ordered), 3)]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        numbers = [sample["json"]["number"] for sample in samples]
        return {**energon.basic_sample_keys(samples[0]), "numbers": numbers}


def run_job(path: str, encoder: Any, steps: int, **options: Any) -> tuple[Any, list[Any]]:
    """Returns the loader after `steps` batches, and the batches."""
    loader = loader_of(path, encoder, training=True, shuffle_buffer_size=7, **options)
    return loader, take(loader, steps)


class Making(energon.DefaultTaskEncoder):
    """Samples of buffers that the function creates."""

    def encode_sample(self, sample: Any) -> Any:
        return {**energon.basic_sample_keys(sample), "made": bytes(20_000)}


def resident_bytes() -> int:
    fields = pathlib.Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def keys_of(batch: Any) -> list[str]:
    return list(batch["__key__"])


def test_get_returns_the_stored_parts(texts: str) -> None:
    sample = energon.get(texts, "0021")
    assert isinstance(sample, energon.CrudeSample)
    assert sample["txt"] == b"text 21"
    assert bytes(sample["bin"]) == bytes([21]) * 40000
    assert sample["__key__"] == "0021"
    assert sample["__sources__"][0].shard_name == "shard_1.tar"
    assert sample["__sources__"][0].index == 1
    dataset = loader_of(texts, Doubling()).dataset
    assert energon.get(dataset, "0021")["txt"] == b"text 21"


def test_get_names_a_missing_key(texts: str) -> None:
    with pytest.raises(energon.NotFoundError, match="9999"):
        energon.get(texts, "9999")


def test_which_keys_and_which_step_list_deliveries(texts: str, num_workers: int) -> None:
    loader, batches = run_job(texts, Doubling(), 20, num_workers=num_workers)
    state = loader.save_state_rank()
    loader.close()
    for step, batch in enumerate(batches):
        (delivered,) = energon.which_keys(loader.dataset, state, step)
        assert (delivered.rank, delivered.keys) == (0, keys_of(batch))
        assert delivered.restore_key == batch["__restore_key__"]
    wanted = keys_of(batches[7])[2]
    expected = [
        (step, keys_of(batch).index(wanted))
        for step, batch in enumerate(batches)
        if wanted in keys_of(batch)
    ]
    found = energon.which_step(loader.dataset, [state], wanted)
    assert [(one.step, one.position) for one in found] == expected
    assert (7, 2) in expected
    assert {one.key for one in found} == {wanted}


def test_skipped_samples_are_taken_into_account(texts: str, num_workers: int) -> None:
    loader, batches = run_job(texts, Skipping(), 30, num_workers=num_workers, on_error="skip")
    state = loader.save_state_rank()
    later = take(loader, 2)
    loader.close()
    for step, batch in enumerate(batches):
        (told,) = energon.which_keys(loader.dataset, state, step)
        assert (step, told.keys) == (step, keys_of(batch))
        assert told.restore_key == batch["__restore_key__"]
    wanted = keys_of(batches[25])[1]
    found = [one.step for one in energon.which_step(loader.dataset, state, wanted)]
    assert found == [step for step, batch in enumerate(batches) if wanted in keys_of(batch)]
    assert energon.which_keys(loader.dataset, state, 31)[0].keys == keys_of(later[1])
    other = loader_of(texts, Doubling(), training=True, shuffle_buffer_size=7).dataset
    if num_workers == 0:  # otherwise the layout differs, too
        with pytest.raises(energon.StateMismatchError, match="SkipSample"):
            energon.which_keys(other, state, 0)


def test_a_future_step_is_found_too(texts: str) -> None:
    loader, before = run_job(texts, Doubling(), 3)
    state = loader.save_state_rank()
    later = energon.which_keys(loader.dataset, state, 5)[0]
    told = later.keys
    assert told == keys_of(take(loader, 3)[-1])
    assert not later.is_delivered and "step 5 to come" in repr(later)
    delivered = energon.which_keys(loader.dataset, state, 2)[0]
    assert delivered.is_delivered and delivered.step == 2
    assert repr(delivered) == f"DeliveredStep(rank 0, step 2, keys {delivered.keys})"
    assert told not in [keys_of(batch) for batch in before]


def test_functions_that_choose_samples_are_called(texts: str) -> None:
    loader, batches = run_job(texts, Packing(), 6, packing_buffer_size=9, batch_size=2)
    state = loader.save_state_rank()
    Packing.calls = 0
    told = [energon.which_keys(loader.dataset, state, step)[0] for step in range(6)]
    assert Packing.calls > 0
    assert [one.restore_key for one in told] == [batch["__restore_key__"] for batch in batches]
    numbers = [[int(key) for key in one.keys] for one in told]
    assert numbers == [sum(batch["numbers"], []) for batch in batches]
    key = f"{numbers[4][1]:04}"
    assert 4 in [one.step for one in energon.which_step(loader.dataset, state, key)]


def test_lookup_leaves_random_numbers_as_they_are(texts: str, num_workers: int) -> None:
    loader, batches = run_job(texts, Doubling(), 2, num_workers=num_workers)
    state = loader.save_state_rank()
    loader.close()
    random.seed(5)
    expected = random.random()
    random.seed(5)
    again = energon.restore_sample(loader.dataset, str(batches[1]["__restore_key__"]))
    energon.which_keys(loader.dataset, state, 1)
    assert random.random() == expected
    for name in ("draw", "number"):
        assert again[name] == batches[1][name]


def test_restore_sample_needs_no_more_memory_after_many_calls(texts: str) -> None:
    loader = loader_of(texts, Making(), training=True)
    key = str(take(loader, 1)[0]["__restore_key__"])
    for _ in range(100):
        loader.restore_sample(key)
    before = resident_bytes()
    for _ in range(1500):
        loader.restore_sample(key)
    assert resident_bytes() - before < 32_000_000


def test_states_may_be_files_of_ranks_and_jobs(texts: str, tmp_path: pathlib.Path) -> None:
    files = []
    for rank in range(2):
        dataset = energon.get_train_dataset(
            texts,
            worker_config=energon.WorkerConfig(rank=rank, world_size=2, num_workers=0),
            batch_size=4,
        )
        loader = energon.get_savable_loader(dataset)
        batches = take(loader, 3)
        files.append(tmp_path / f"rank{rank}.state")
        loader.save_state_rank().write(files[-1])
    job = tmp_path / "job.state"
    program = os.environ["ENERGON_PROGRAM"]
    merge = [program, "checkpoint", "merge", *map(str, files), "--output", str(job)]
    subprocess.run(merge, check=True, timeout=60, capture_output=True)
    both = energon.which_keys(dataset, job, 2)
    assert [one.rank for one in both] == [0, 1]
    assert both[1].keys == keys_of(batches[2])
    assert energon.which_keys(dataset, str(files[1]), 2)[0].keys == both[1].keys
    for states in (files, list(map(str, files)), (files[0], energon.LoaderState.read(files[1]))):
        assert [one.keys for one in energon.which_keys(dataset, states, 2)] == [
            one.keys for one in both
        ]
    with pytest.raises(TypeError, match="paths of state files.*int"):
        energon.which_keys(dataset, [7], 2)  # type: ignore[list-item]


def test_another_dataset_and_wrong_steps_are_refused(texts: str) -> None:
    loader, _ = run_job(texts, Doubling(), 3)
    state = loader.save_state_rank()
    other = loader_of(texts, Doubling(), training=True, shuffle_buffer_size=8).dataset
    with pytest.raises(energon.StateMismatchError, match="8"):
        energon.which_keys(other, state, 0)
    with pytest.raises(ValueError, match="-1"):
        energon.which_keys(loader.dataset, state, -1)


def test_a_job_goes_on_with_an_exclusion(texts: str, tmp_path: pathlib.Path) -> None:
    bad = tmp_path / "bad.jsonl"

    def loader(**options: Any) -> Any:
        return loader_of(texts, training=True, shuffle_buffer_size=7, batch_size=None, **options)

    job = loader()
    take(job, 5)
    state = job.save_state_rank()
    rest = [sample["__key__"] for sample in take(job, 20)]
    [excluded] = energon.exclude(texts, rest[3], output=bad, cause="blurred")
    assert (excluded.key, excluded.is_changed) == (rest[3], True)
    assert '"cause":"blurred"' in bad.read_text() and excluded.line == bad.read_text()
    assert not energon.exclude(texts, [rest[3]], output=bad)[0].is_changed
    with pytest.raises(energon.NotFoundError, match="did you mean '0021'"):
        energon.exclude(texts, "0021x", output=bad)

    later = loader(exclude_files=[str(bad)])
    later.restore_state_rank(state)
    expected = [key for key in rest if key != rest[3]]
    assert [sample["__key__"] for sample in take(later, len(expected))] == expected
    energon.exclude(texts, rest[3], output=bad, remove=True)
    assert bad.read_text() == ""
