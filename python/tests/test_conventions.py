"""Behavior that users of torch's DataLoader expect: options, epochs, states of jobs."""

from __future__ import annotations

import io
import json
import warnings
from typing import Any

import pytest
from conftest import config, loader_of, processes_named, run_script, take

import energon_cpp as energon


def keys(batches: list[Any]) -> list[list[str]]:
    return [batch.__key__ for batch in batches]


def dataset_of(path: str, num_workers: int = 0, **options: Any) -> energon.Dataset:
    return energon.get_val_dataset(
        path, worker_config=config(num_workers), **{"batch_size": 4, **options}
    )


ELSEWHERE = {
    "batch_size": "get_train_dataset",
    "shuffle": "get_train_dataset",
    "sampler": "metadatasets",
    "batch_sampler": "batch_group_criterion",
    "num_workers": "WorkerConfig",
    "collate_fn": "TaskEncoder",
    "drop_last": "batch_drop_last",
    "worker_init_fn": "TaskEncoder",
    "multiprocessing_context": "forked",
    "generator": "seed_offset",
    "pin_memory_device": "current device",
    "snapshot_every_n_steps": "checkpoint_every_batches",
}


@pytest.mark.parametrize("make", [energon.get_savable_loader, energon.get_loader])
@pytest.mark.parametrize("name", list(ELSEWHERE))
def test_options_of_other_functions(texts: str, make: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"no option '{name}'.*{ELSEWHERE[name]}"):
        make(dataset_of(texts), **{name: None})


def test_options_that_are_refused(texts: str) -> None:
    dataset = dataset_of(texts)
    for make in (energon.get_savable_loader, energon.get_loader):
        with pytest.raises(ValueError, match="in_order=False is not possible"):
            make(dataset, in_order=False)
        with pytest.raises(ValueError, match="timeout must be in seconds.*-1"):
            make(dataset, timeout=-1)
        with pytest.raises(TypeError, match="unexpected keyword argument 'prefetch'"):
            make(dataset, prefetch=1)


def test_attributes(texts: str) -> None:
    dataset = dataset_of(texts, 2, batch_drop_last=True)
    with energon.get_savable_loader(dataset, prefetch_factor=3, timeout=0) as loader:
        assert loader.dataset is dataset
        assert (loader.batch_size, loader.num_workers, loader.drop_last) == (4, 2, True)
        assert (loader.prefetch_factor, loader.timeout, loader.pin_memory) == (3, 0, False)
        assert loader.in_order is True and loader.persistent_workers is True
    basic = energon.get_loader(dataset_of(texts, batch_size=None))
    assert (basic.batch_size, basic.num_workers, basic.drop_last) == (None, 0, False)
    assert (basic.prefetch_factor, basic.timeout) == (None, 60)


def test_workers_that_end_with_each_epoch(texts: str) -> None:
    with loader_of(texts, num_workers=2) as loader:
        whole = keys(list(loader))
        pids = loader.worker_pids
        assert len(pids) == 2 and keys(list(loader)) == whole and loader.worker_pids == pids
    with loader_of(texts, num_workers=2, loader={"persistent_workers": False}) as loader:
        loop = iter(loader)
        assert keys([next(loop)]) == whole[:1]
        pids = loader.worker_pids
        assert len(pids) == 2 and keys(list(loop)) == whole[1:]
        assert processes_named(pids) == [] and loader.worker_pids == []
        assert next(loop, None) is None
        assert keys(take(loader, 2)) == whole[:2] and not set(loader.worker_pids) & set(pids)


def test_set_epoch(texts: str, num_workers: int) -> None:
    options: dict[str, Any] = {"training": True, "repeat": False, "num_workers": num_workers}
    with loader_of(texts, **options) as loader:
        whole = [keys(list(loader)) for _ in range(3)]
    assert whole[0] != whole[1] != whole[2]
    with loader_of(texts, **options) as loader:
        got = []
        for epoch in range(2):
            loader.set_epoch(epoch)
            got.append(keys(list(loader)))
            with pytest.raises(ValueError, match=rf"set_epoch\({epoch}\): .*is epoch {epoch + 1}"):
                loader.set_epoch(epoch)
        take(loader, 1)
        loader.set_epoch(2)  # within the epoch
        with pytest.raises(ValueError, match=f"which has {len(whole[2]) - 1} batches left"):
            loader.set_epoch(3)
        assert got + [whole[2][:1] + keys(list(loader))] == whole
        state = loader.state_dict()
    with loader_of(texts, **options) as loader:
        loader.load_state_dict(state)
        loader.set_epoch(3)
        with pytest.raises(ValueError):
            loader.set_epoch(0)
    with loader_of(texts, training=True) as loader:
        first = keys(take(loader, len(loader)))  # len() of endless data is that of one pass
        loader.set_epoch(1)
        assert keys(take(loader, 1)) != first[:1]
    basic = energon.get_loader(dataset_of(texts))
    basic.set_epoch(0)
    with pytest.raises(ValueError, match="the next loop is epoch 0"):
        basic.set_epoch(1)
    list(basic)
    basic.set_epoch(1)


def test_a_loop_that_stops_at_the_last_batch(texts: str, num_workers: int) -> None:
    with loader_of(texts, num_workers=num_workers) as loader:
        whole = keys(list(loader))
        for epoch in range(1, 3):  # like trainers that know the length
            loader.set_epoch(epoch)
            assert keys([batch for _, batch in zip(range(len(loader)), loader)]) == whole
            at_end = loader.state_dict()
            loader.set_epoch(epoch + 1)
        assert keys(take(loader, 2)) == whole[:2] and loader.epoch == 3
    with loader_of(texts, num_workers=num_workers) as loader:
        loader.load_state_dict(at_end)  # saved in the loop, which continues to its end
        assert list(loader) == [] and loader.epoch == 3
        assert keys(list(loader)) == whole


def test_epochs_of_one_batch(texts: str) -> None:
    with loader_of(texts, limit=1) as loader:
        assert [len(list(loader)) for _ in range(3)] == [1, 1, 1]
        assert [len(take(loader, 1)) for _ in range(3)] == [1, 1, 1]


def test_states_have_plain_types(texts: str) -> None:
    with loader_of(texts) as loader:
        take(loader, 3)
        state = loader.state_dict()
    assert {type(name) for name in state} == {str}
    assert {type(value) for value in state.values()} == {bytes}


def test_finish_is_not_interrupted(texts: str) -> None:
    code = """
        import os, signal, sys
        import energon_cpp as energon
        from conftest import config
        dataset = energon.get_val_dataset(sys.argv[1], worker_config=config(2), batch_size=4)
        calls = 0
        def finish(batch):
            global calls
            calls += 1
            if calls in (2, 6, 11):
                os.kill(os.getpid(), signal.SIGINT)
            return batch.json["number"]
        numbers = lambda batches: [int(number) for batch in batches for number in batch]
        got, interrupts = [], 0
        with energon.SavableDataLoader(dataset, finish=finish) as loader:
            while len(numbers(got)) < 60:
                try:
                    got.extend(loader)
                except KeyboardInterrupt:
                    interrupts += 1
        print(interrupts, sorted(numbers(got)) == list(range(60)))
    """

    ran = run_script(code, texts)
    assert ran.code == 0 and ran.out.split("\n")[-2] == "3 True", ran


def test_progress_bars(texts: str) -> None:
    tqdm = pytest.importorskip("tqdm")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with loader_of(texts) as loader:
            bar = tqdm.tqdm(loader, file=io.StringIO())
            assert bar.total == len(loader) == len(list(bar))
        with loader_of(texts, training=True) as loader:
            bar = tqdm.tqdm(loader, file=io.StringIO())
            assert bar.total == len(loader) == 15 and len(take(bar, 20)) == 20
            bar.close()


def job(path: str, world_size: int, **more: Any) -> list[energon.SavableDataLoader]:
    loaders = []
    for rank in range(world_size):
        worker_config = config(rank=rank, world_size=world_size, logical_shards=6, **more)
        dataset = energon.get_train_dataset(
            path, worker_config=worker_config, batch_size=4, shuffle_buffer_size=9, repeat=False
        )
        loaders.append(energon.get_savable_loader(dataset))
    return loaders


def keys_of_job(loaders: list[energon.SavableDataLoader], steps: int | None = None) -> list[str]:
    found = []
    for loader in loaders:
        batches = list(loader) if steps is None else take(loader, steps)
        found += [key for batch in batches for key in batch.__key__]
    return found


@pytest.mark.parametrize("kind", ["states", "bytes", "dicts", "json of dicts"])
def test_states_of_two_ranks_continue_on_three(texts: str, kind: str) -> None:
    two = job(texts, 2)
    seen = keys_of_job(two, 3)
    assert len(seen) == 24
    states: list[Any] = [loader.save_state_rank() for loader in two]
    if kind == "bytes":
        states = [bytes(state) for state in states]
    elif kind == "dicts":
        states = [loader.state_dict() for loader in two]
    elif kind == "json of dicts":
        dicts = [{n: v.hex() for n, v in loader.state_dict().items()} for loader in two]
        dicts = [json.loads(json.dumps(one)) for one in dicts]
        states = [{n: bytes.fromhex(v) for n, v in one.items()} for one in dicts]
    three = job(texts, 3)
    for loader in three:
        loader.restore_state_rank(energon.rescale_states(reversed(states), loader.worker_config))
    rest = keys_of_job(three)
    assert len(rest) == 36 and sorted(seen + rest) == [f"{i:04}" for i in range(60)]
    assert sorted(keys_of_job(three)) == [f"{i:04}" for i in range(60)]  # the next epoch


def test_job_states(texts: str, tmp_path: Any) -> None:
    two = job(texts, 2)
    keys_of_job(two, 2)
    states = [loader.save_state_rank() for loader in two]
    made = energon.JobState.merge(states)
    assert made.world_size == 2 and made.state_of_rank(1) == states[1]
    assert energon.JobState(bytes(made)) == made == energon.JobState.merge(states[::-1])
    made.write(tmp_path / "job.state")
    assert energon.JobState.read(tmp_path / "job.state") == made
    assert made.rescale(world_size=3, num_workers=2).world_size == 3
    assert made.rescale(3, 0).rescale(2, 0).state_of_rank(0).describe()["batch_index"] > 0
    with pytest.raises(energon.StateMismatchError, match="missing|rank"):
        energon.JobState.merge(states[:1])
    with pytest.raises(energon.StateMismatchError):
        made.state_of_rank(2)
    with pytest.raises(energon.InvalidArgumentError, match="4|uneven"):
        made.rescale(4, 0)
    assert made.rescale(4, 0, allow_uneven=True).world_size == 4
