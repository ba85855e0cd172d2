"""Loaders: epochs, lengths, states, ends."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest
from conftest import config, loader_of, processes_named, take

import energon_cpp as energon


def keys(batches: list[Any]) -> list[list[str]]:
    return [batch.__key__ for batch in batches]


def test_epochs_and_lengths(texts: str, num_workers: int) -> None:
    with loader_of(texts, num_workers=num_workers, training=True, repeat=False) as loader:
        first = keys(list(loader))
        assert len(loader) == len(first)
        assert sorted(sum(first, [])) == [f"{i:04}" for i in range(60)]
        assert loader.epoch == 1
        assert loader.batches_left == len(first)
        second = keys(list(loader))
        assert sorted(sum(second, [])) == sorted(sum(first, [])) and second != first
    with loader_of(texts, num_workers=num_workers, training=True) as loader:
        with pytest.raises(TypeError, match="not known"):
            len(loader)
    with loader_of(texts, training=True, virtual_epoch_length=5) as loader:
        assert len(loader) == 5 == len(list(loader)) == len(list(loader))


def test_a_loop_goes_on_after_break(texts: str, num_workers: int) -> None:
    with loader_of(texts, num_workers=num_workers) as loader:
        whole = keys(list(loader))
        parts = keys(take(loader, 3)) + keys(take(loader, 4)) + keys(list(loader))
        assert parts == whole


def test_state_at_any_batch(texts: str, num_workers: int) -> None:
    options: dict[str, Any] = {"num_workers": num_workers, "training": True, "repeat": False}
    options["shuffle_buffer_size"] = 20
    with loader_of(texts, **options) as loader:
        states, batches = [loader.save_state_rank()], []
        for _ in range(2):
            for batch in loader:
                batches.append(batch)
                states.append(loader.save_state_rank())
        whole = keys(batches)
    assert states[3].batch_index == 3
    for at in (0, 1, 7, len(whole) // 2, len(whole) - 1):
        with loader_of(texts, **options) as loader:
            loader.restore_state_rank(states[at])
            rest = [batch.__key__ for _ in range(2) for batch in loader]
            assert rest[: len(whole) - at] == whole[at:]


def test_state_dict_before_during_and_after(texts: str, num_workers: int) -> None:
    with loader_of(texts, num_workers=num_workers) as loader:
        before = loader.state_dict()
        whole = keys(list(loader))
        after = loader.state_dict()
        loader.load_state_dict(before)
        assert keys(take(loader, 4)) == whole[:4]
        during = pickle.loads(pickle.dumps(loader.state_dict()))
        assert keys(take(loader, 3)) == whole[4:7]
        loader.load_state_dict(during)
        assert keys(list(loader)) == whole[4:]
        loader.load_state_dict(after)
        assert keys(list(loader)) == whole
        with pytest.raises(ValueError, match="no state of a loader"):
            loader.load_state_dict({"epoch": 1})


def test_states_are_values(texts: str, tmp_path) -> None:
    with loader_of(texts) as loader:
        take(loader, 2)
        state = loader.save_state_rank()
    assert pickle.loads(pickle.dumps(state)) == state
    assert energon.LoaderState(bytes(state)) == state
    state.write(tmp_path / "rank0.state")
    assert (tmp_path / "rank0.state").read_bytes() == bytes(state)
    assert energon.LoaderState.read(tmp_path / "rank0.state") == state
    assert state.describe()["batch_index"] == 2
    with pytest.raises(energon.CorruptDataError):
        energon.LoaderState(bytes(state)[:-1])


def test_a_state_of_another_loader_is_refused(texts: str, num_workers: int) -> None:
    with loader_of(texts, batch_size=4) as other:
        state = other.save_state_rank()
    with loader_of(texts, batch_size=5, training=True, num_workers=num_workers) as loader:
        with pytest.raises(energon.StateMismatchError, match="Epochize|Batch|config|differ"):
            loader.restore_state_rank(state)
        assert len(take(loader, 1)) == 1


def test_restore_sample(texts: str, num_workers: int) -> None:
    with loader_of(texts, num_workers=num_workers, training=True, shuffle_buffer_size=9) as loader:
        batches = take(loader, 5)
        again = loader.restore_sample(batches[3].__restore_key__)
        assert again.__key__ == batches[3].__key__ and again.txt == batches[3].txt
        assert loader.restore_sample(str(batches[1].__restore_key__)).txt == batches[1].txt
        with pytest.raises(energon.InvalidArgumentError):
            loader.restore_sample("Batch(7)[]")


def test_close_and_stop(texts: str) -> None:
    with loader_of(texts, num_workers=2) as whole:
        expected = keys(list(whole))
    loader = loader_of(texts, num_workers=2)
    assert keys(take(loader, 2)) == expected[:2]
    pids = loader.worker_pids
    assert len(pids) == 2
    loader.stop()
    assert processes_named(pids) == []
    assert keys(take(loader, 1)) == expected[2:3]
    pids = loader.worker_pids
    loader.close()
    assert processes_named(pids) == []
    assert loader.save_state_rank().batch_index == 3
    with pytest.raises(energon.CancelledError):
        take(loader, 1)
    loader.close()


def test_stats(texts: str, num_workers: int) -> None:
    with loader_of(texts, num_workers=num_workers) as loader:
        list(loader)
        stats = loader.stats()
    assert stats["consumer"]["samples"] == 60


def test_basic_loader(texts: str, num_workers: int) -> None:
    dataset = energon.get_val_dataset(texts, worker_config=config(num_workers), batch_size=7)
    with energon.get_loader(dataset) as loader:
        assert len(loader) == (9 if num_workers == 0 else 10)
        first = keys(list(loader))
        assert keys(list(loader)) == first and len(first) == len(loader)
        side_by_side = list(zip(loader, loader))
        assert all(one.__key__ == two.__key__ for one, two in side_by_side)
        key = side_by_side[2][0].__restore_key__
        assert loader.restore_sample(key).__key__ == first[2]
        assert loader.stats()["consumer"]["samples"] == 60


def test_ranks_share_the_data(texts: str) -> None:
    seen: list[str] = []
    for rank in range(3):
        dataset = energon.get_val_dataset(
            texts, worker_config=config(rank=rank, world_size=3), batch_size=4
        )
        seen += sum(keys(list(energon.get_savable_loader(dataset))), [])
    assert sorted(seen) == [f"{i:04}" for i in range(60)]


def test_default_worker_config(monkeypatch: pytest.MonkeyPatch) -> None:
    assert energon.default_worker_config(3) == config(3)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    made = energon.WorkerConfig.default_worker_config(0, seed_offset=7)
    assert (made.rank, made.world_size, made.num_workers, made.seed_offset) == (2, 4, 0, 7)


def test_going_back(texts: str, num_workers: int) -> None:
    options: dict[str, Any] = {"num_workers": num_workers, "training": True}
    options["loader"] = {"checkpoint_history": 40}
    with loader_of(texts, **options) as loader:
        batches = keys(take(loader, 60))
        assert (loader.earliest_state, loader.stats()["earliest_state"]) == (20, 20)
        assert loader.stats()["batch_index"] == 60
        state = loader.state_at(35)
        assert state.batch_index == 35
        with pytest.raises(energon.InvalidArgumentError, match="after 20 batches, of 60 delivered"):
            loader.state_at(19)
        with pytest.raises(energon.InvalidArgumentError, match="60 were delivered"):
            loader.rewind(61)
        loader.rewind(50)
        assert keys(take(loader, 10)) == batches[50:]
        loader.stop()
        loader.rewind(30)
        assert keys(take(loader, 30)) == batches[30:]
        with loader_of(texts, **options) as other:
            other.restore_state_rank(state)
            assert keys(take(other, 25)) == batches[35:]
            assert other.earliest_state == 35


def test_going_back_over_the_end_of_an_epoch(texts: str, num_workers: int) -> None:
    with loader_of(texts, num_workers=num_workers) as loader:
        first, second = keys(list(loader)), keys(list(loader))
        assert len(first) == 15
        loader.rewind(12)
        assert keys(list(loader)) == first[12:]
        assert keys(list(loader)) == second
        loader.rewind(15)  # the end of the first epoch is still to come, as after a restore
        assert list(loader) == []
        assert keys(list(loader)) == second


def test_saves_from_a_thread_disturb_nothing(texts: str, num_workers: int) -> None:
    class Encoder(energon.TaskEncoder):
        def encode_sample(self, sample: Any) -> Any:
            return sample

    with loader_of(texts, Encoder(), num_workers=num_workers, training=True) as loader:
        expected = keys(take(loader, 400))
    with loader_of(texts, Encoder(), num_workers=num_workers, training=True) as loader:
        states: list[Any] = []
        failures: list[BaseException] = []

        def save() -> None:
            try:
                for _ in range(300):
                    states.append(loader.save_state_rank())
                    loader.state_dict()
                    loader.state_at(max(loader.earliest_state, states[-1].batch_index - 5))
                    loader.stats()
                    loader.batches_left
            except BaseException as failure:
                failures.append(failure)

        thread = threading.Thread(target=save)
        thread.start()
        found: list[list[str]] = []
        while thread.is_alive() or len(found) < 100:
            found += keys(take(loader, 20))
        thread.join()
        assert failures == []
        assert len(states) == 300
        count = min(len(found), 400)
        assert found[:count] == expected[:count]
    saved = [state for state in states if state.batch_index < 380]
    for state in [saved[0], saved[len(saved) // 2], saved[-1]]:
        with loader_of(texts, Encoder(), num_workers=num_workers, training=True) as loader:
            loader.restore_state_rank(state)
            begin = state.batch_index
            assert keys(take(loader, 10)) == expected[begin : begin + 10]
