"""import_energon_state() continues states that the real megatron-energon saved (energon_states/stored), and refuses others."""

from __future__ import annotations

import json
import pathlib
import random
import signal
import subprocess
import time
from typing import Any

import pytest
from conftest import config, run_script, take, write_tar
from test_energon_pickles import SavableDataLoaderState, SavableDatasetCheckpoint, dumps

import energon_cpp as energon

STORED = pathlib.Path(__file__).parent / "energon_states" / "stored"
EXPECTED = {entry["file"]: entry for entry in json.loads((STORED / "expected.json").read_text())}


class Raw(energon.DefaultTaskEncoder):
    decoder = None


class Skipping(Raw):
    """Leaves out every fifth sample."""

    @energon.stateless
    def encode_sample(self, sample: Any) -> Any:
        if int(sample["__key__"][-4:]) % 5 == 0:
            raise energon.SkipSample()
        return sample


class Packing(Raw):
    """Packs of one sample."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [[sample] for sample in samples]

    @energon.stateless
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return samples[0]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("data")
    number = 0
    for shard, count in enumerate(EXPECTED["shuffled.pt"]["shards"]):
        samples = [(f"{number + i:04}", {"txt": b"text"}) for i in range(count)]
        write_tar(folder / f"shard_{shard}.tar", samples)
        number += count
    return str(folder)


def dataset_of(data: str, file: str, rank: int = 0, **changes: Any) -> energon.Dataset:
    """The dataset of the job whose state is in `file`, with `changes` of its options."""
    of = {
        "shuffled.pt": {"shuffle_buffer_size": 5, "max_samples_per_sequence": 6},
        "workers.pickle": {},
        "ranks_of_old_torch.pt": {},
    }[file]
    workers = changes.pop("num_workers", 2 if file == "workers.pickle" else 0)
    ranks = changes.pop("world_size", 2 if file == "ranks_of_old_torch.pt" else 1)
    is_val = file == "ranks_of_old_torch.pt"
    make = energon.get_val_dataset if is_val else energon.get_train_dataset
    options = {"batch_size": 4, "task_encoder": Raw(), **of, **changes}
    seed = options.pop("seed_offset", 0)
    worker_config = config(workers, rank=rank, world_size=ranks, seed_offset=seed)
    return make(data, worker_config=worker_config, **options)


def numbers(batches: list[Any]) -> list[list[int]]:
    return [[int(key[-4:]) for key in batch.__key__] for batch in batches]


def follow(dataset: energon.Dataset, state: energon.LoaderState, count: int) -> list[list[int]]:
    """The next batches, across the ends of epochs."""
    batches: list[Any] = []
    with energon.get_savable_loader(dataset) as loader:
        loader.restore_state_rank(state)
        while len(batches) < count:
            batches += take(loader, count - len(batches))
    return numbers(batches)


@pytest.mark.parametrize("file", list(EXPECTED))
def test_stored_states_continue(data: str, file: str) -> None:
    states = energon.import_energon_state(dataset_of(data, file), str(STORED / file))
    assert len(states) == len(EXPECTED[file]["ranks"])
    for rank, expected in enumerate(EXPECTED[file]["ranks"]):
        assert len(expected) == 31
        assert states[rank].batch_index == 9
        assert follow(dataset_of(data, file, rank), states[rank], len(expected)) == expected


def test_files_may_be_paths_and_lists(data: str) -> None:
    dataset = dataset_of(data, "shuffled.pt")
    path = STORED / "shuffled.pt"
    states = energon.import_energon_state(dataset, str(path))
    assert energon.import_energon_state(dataset, path) == states
    assert energon.import_energon_state(dataset, [path]) == states


def test_no_function_is_called_if_functions_never_skip(data: str) -> None:
    calls = []

    class Counting(Raw):
        @energon.stateless
        def encode_sample(self, sample: Any) -> Any:
            calls.append(sample["__key__"])
            return sample

    dataset = dataset_of(data, "workers.pickle", task_encoder=Counting())
    file = STORED / "workers.pickle"
    states = energon.import_energon_state(dataset, file, functions_skip=False)
    assert calls == []
    assert energon.import_energon_state(dataset, file) == states
    assert len(calls) > 0 and len(calls) % 4 == 0


def test_functions_that_read_ahead(data: str) -> None:
    class Many(Raw):
        def encode_samples(self, samples: list[Any]) -> list[Any]:
            return samples

    file = STORED / "shuffled.pt"
    many = dataset_of(data, file.name, task_encoder=Many())
    one = dataset_of(data, file.name, task_encoder=Many(), samples_per_call=1)
    states = energon.import_energon_state(one, file)
    plain = dataset_of(data, file.name)
    expected = follow(plain, *energon.import_energon_state(plain, file), 9)
    assert follow(many, *states, 9) == expected
    again = energon.import_energon_state(many, file, functions_skip=False)
    assert follow(many, *again, 9) == expected
    with pytest.raises(energon.StateMismatchError, match="_sample_count"):
        energon.import_energon_state(many, file)


def write_offset(file: pathlib.Path, offset: int, workers: int = 1) -> None:
    """Writes a state in which each worker has delivered `offset` batches since its start."""
    worker = SavableDatasetCheckpoint(state=None, offset=offset + 1)
    fields = {"worker_states": [worker] * workers, "next_worker_id": 0, "micro_batch_size": 4}
    file.write_bytes(dumps(SavableDataLoaderState(**fields)))


@pytest.mark.parametrize("encoder", [Raw(), Skipping(), Packing()])
def test_batches_since_the_state_are_skipped(
    data: str, tmp_path: pathlib.Path, encoder: Any
) -> None:
    """If a function leaves samples out, the batches are made and dropped."""
    options: dict[str, Any] = {"task_encoder": encoder, "num_workers": 2, "shuffle_buffer_size": 5}
    if isinstance(encoder, Packing):
        options["packing_buffer_size"] = 10
    dataset = dataset_of(data, "workers.pickle", **options)
    with energon.get_savable_loader(dataset) as loader:
        whole = numbers(take(loader, 60))
    write_offset(tmp_path / "a.pt", 15, workers=2)
    (state,) = energon.import_energon_state(dataset, tmp_path / "a.pt")
    assert follow(dataset, state, 30) == whole[30:]


def test_random_numbers_stay_as_they_are(data: str) -> None:
    class Drawing(Raw):
        def encode_sample(self, sample: Any) -> Any:
            random.random()
            return sample

    dataset = dataset_of(data, "workers.pickle", task_encoder=Drawing())
    before = random.getstate()
    energon.import_energon_state(dataset, STORED / "workers.pickle")
    assert random.getstate() == before


@pytest.mark.parametrize(
    "changes, advice",
    [
        ({"batch_size": 3}, "batches of 4 samples, this one has batches of 3 samples"),
        ({"batch_size": None}, "batches of 4 samples, this one has no batches"),
        ({"shuffle_buffer_size": 7}, "check the size of the shuffle buffer"),
        ({"max_samples_per_sequence": 3}, "the seed offset, max_samples_per_sequence"),
        ({"parallel_shard_iters": 4}, "16 slices open at a time, this job 4"),
        ({"virtual_epoch_length": 5}, "check the length of virtual epochs"),
        ({"seed_offset": 3}, "check the seed offset"),
        ({"num_workers": 2}, "have 0 workers, but the worker configuration of the dataset has 2"),
        ({"repeat": False}, "whether it is repeated"),
    ],
)
def test_another_job_is_refused(data: str, changes: dict[str, Any], advice: str) -> None:
    dataset = dataset_of(data, "shuffled.pt", **changes)
    with pytest.raises(energon.StateMismatchError) as raised:
        energon.import_energon_state(dataset, STORED / "shuffled.pt")
    assert advice in str(raised.value)
    assert "shuffled.pt" in str(raised.value)


def test_other_functions_are_refused_where_they_choose_samples(data: str) -> None:
    dataset = dataset_of(
        data, "shuffled.pt", task_encoder=Packing(), packing_buffer_size=8
    )
    with pytest.raises(energon.StateMismatchError, match="check the functions of the task"):
        energon.import_energon_state(dataset, STORED / "shuffled.pt")


def test_other_data_and_ranks_are_refused(data: str, texts: str) -> None:
    with pytest.raises(energon.StateMismatchError, match="check the data"):
        energon.import_energon_state(dataset_of(texts, "shuffled.pt"), STORED / "shuffled.pt")
    dataset = dataset_of(data, "ranks_of_old_torch.pt", world_size=3)
    with pytest.raises(energon.StateMismatchError, match="states of 2 ranks, but the job has 3"):
        energon.import_energon_state(dataset, STORED / "ranks_of_old_torch.pt")


def test_errors_of_functions_end_the_import(data: str) -> None:
    class Failing(Raw):
        @energon.stateless
        def encode_sample(self, sample: Any) -> Any:
            raise KeyError("no such thing")

    dataset = dataset_of(data, "workers.pickle", task_encoder=Failing())
    with pytest.raises(Exception, match="no such thing"):
        energon.import_energon_state(dataset, STORED / "workers.pickle")


@pytest.mark.parametrize("encoder", ["Raw", "Skipping"])
def test_ctrl_c_ends_a_long_import_soon(data: str, tmp_path: pathlib.Path, encoder: str) -> None:
    file = tmp_path / "a.pt"
    write_offset(file, 1 << 40)
    code = f"""
        import sys, time
        import test_energon_states as tests
        options = dict(num_workers=1, task_encoder=tests.{encoder}())
        dataset = tests.dataset_of(sys.argv[1], "workers.pickle", **options)
        print("ready", flush=True)
        try:
            tests.energon.import_energon_state(dataset, {str(file)!r})
        except KeyboardInterrupt:
            print(time.time())
    """
    sent = []

    def interrupt(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(1)
        sent.append(time.time())
        process.send_signal(signal.SIGINT)

    ran = run_script(code, data, signal_after=interrupt)
    assert ran.code == 0, ran
    assert float(ran.out.split()[-1]) - sent[0] < 1.0, ran
