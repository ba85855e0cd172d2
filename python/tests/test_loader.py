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
        assert loader.size is None and loader.batches_left is None
        assert len(loader) == len(loader.dataset) == len(first)
    with loader_of(texts, training=True, virtual_epoch_length=5) as loader:
        assert len(loader) == 5 == len(list(loader)) == len(list(loader))


def test_loaders_are_shown_with_their_dataset(texts: str) -> None:
    with loader_of(texts, num_workers=2) as loader:
        shown = repr(loader)
    assert shown.startswith(f"SavableDataLoader(Dataset({texts!r}, functions: none), batch_size=4")
    assert "rank 0 of 1, num_workers=2" in shown
    state = repr(loader.save_state_rank())
    assert state == "LoaderState(batch 0, epoch 0)"


def test_a_loop_continues_after_break(texts: str, num_workers: int) -> None:
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
        with pytest.raises(ValueError, match="not the state of a loader"):
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
        batches = list(loader)
        first = keys(batches)
        assert keys(list(loader)) == first and len(first) == len(loader)
        assert loader.restore_sample(batches[2].__restore_key__).__key__ == first[2]
        assert loader.stats()["consumer"]["samples"] == 120
        for name in ("save_state_rank", "restore_state_rank", "state_dict", "load_state_dict"):
            assert not hasattr(loader, name)


# The results of three loops over get_loader() of megatron-energon 7.4.1 with the same data: workers,
# batch size, options, the batches after which each loop ends with a break (None means that it runs to
# its end), and the first numbers of each loop.
VIRTUAL: dict[str, Any] = {"virtual_epoch_length": 2}
BUFFERED: dict[str, Any] = {
    "virtual_epoch_length": 3,
    "shuffle_buffer_size": 7,
    "max_samples_per_sequence": 4,
}
LOOPS_OF_ENERGON: list[tuple[int, int, dict[str, Any], int | None, str]] = [
    (0, 5, VIRTUAL, None, "20 21 22 0 40 1 41 23 42 43, 24 25 44 2 3 45 26 27 28 29, 30 31 46 32 47"),
    (2, 5, VIRTUAL, None, "0 1 2 3 4 40 41 30 42 31, 20 5 21 6 22 43 32 44 45 33, 23 7 8 24 9 34 46"),
    (0, 2, BUFFERED, None, "36 38 24 56 12 41, 52 4 37 57 39 13, 14 53 0 16 32 54"),
    (2, 2, BUFFERED, None, "26 20 44 35 0 8, 17 27 48 30 25 12, 9 14 36 31 16 21"),
    (0, 10, {"repeat": False}, None, "20 21 22 0 40 1, 20 0 1 2 21 22, 20 21 22 23 0 40"),
    (2, 10, {"repeat": False}, None, "0 1 2 3 4 20, 20 0 21 1 2 22, 0 1 20 21 22 2"),
    (0, 5, {}, 2, "20 21 22 0 40 1 41 23 42 43, 24 25 44 2 3 45 26 27 28 29, 30 31 46 32 47 48"),
]


@pytest.mark.parametrize(
    ("workers", "batch_size", "options", "stop_after", "expected"), LOOPS_OF_ENERGON
)
def test_loops_continue_as_in_energon(
    texts: str,
    workers: int,
    batch_size: int,
    options: dict[str, Any],
    stop_after: int | None,
    expected: str,
) -> None:
    for make in (energon.get_loader, energon.get_savable_loader):
        dataset = energon.get_train_dataset(
            texts,
            worker_config=config(workers),
            **{"batch_size": batch_size, "shuffle_buffer_size": None} | options,
        )
        with make(dataset) as loader:
            for loop in expected.split(", "):
                batches = list(loader) if stop_after is None else take(loader, stop_after)
                numbers = [int(key) for batch in batches for key in batch.__key__]
                known = [int(number) for number in loop.split()]
                assert numbers[: len(known)] == known


@pytest.mark.parametrize(
    "options", [{"virtual_epoch_length": 4}, {}, {"repeat": False}], ids=["virtual", "endless", "once"]
)
def test_loops_lose_and_repeat_no_batch(
    texts: str, num_workers: int, options: dict[str, Any]
) -> None:
    dataset = energon.get_train_dataset(
        texts, worker_config=config(num_workers), batch_size=3, shuffle_buffer_size=8, **options
    )
    whole: list[Any] = []
    with energon.get_savable_loader(dataset) as savable:
        while len(whole) < 60:
            whole += keys(take(savable, 60))
    for persistent in (True, False):
        with energon.get_loader(dataset, persistent_workers=persistent) as loader:
            got: list[Any] = []
            for count in (1, 2, 1, 5, 3, 20, 4):  # each loop ends with a break, or with its epoch
                got += keys(take(loader, count))
                assert got == whole[: len(got)]
            assert len(got) > 12


def test_a_validation_loop_after_a_break_delivers_the_rest(
    texts: str, num_workers: int
) -> None:
    dataset = energon.get_val_dataset(texts, worker_config=config(num_workers), batch_size=7)
    with energon.get_loader(dataset) as loader:
        whole = keys(list(loader))
        assert keys(take(loader, 3)) == whole[:3]
        assert keys(list(loader)) == whole[3:]
        assert keys(list(loader)) == whole


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


@pytest.mark.parametrize("seconds", [float("inf"), 1e30, 0, None])
@pytest.mark.parametrize(
    "option", ["timeout", "watchdog_timeout_seconds", "watchdog_initial_timeout_seconds"]
)
def test_timeouts_without_a_limit(texts: str, option: str, seconds: Any) -> None:
    with loader_of(texts, num_workers=1, loader={option: seconds}) as loader:
        assert len(take(loader, 2)) == 2
        has_limit = seconds == 1e30 or (option == "watchdog_initial_timeout_seconds" and not seconds)
        assert (loader.timeout > 0) == has_limit


@pytest.mark.parametrize("seconds", [float("nan"), -1, float("-inf")])
@pytest.mark.parametrize("option", ["timeout", "watchdog_timeout_seconds"])
def test_invalid_timeouts(texts: str, option: str, seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout must be in seconds, 0 or None for no limit"):
        loader_of(texts, loader={option: seconds})


@pytest.mark.parametrize(
    "option, text",
    [
        ("shuffle_buffer_size", "shuffle_buffer_size is -1, expected at least 0"),
        ("failure_tolerance", "the failure tolerance is -1, expected at least 0"),
        ("virtual_epoch_length", "virtual_epoch_length is -1, expected at least 0"),
    ],
)
def test_negative_options(texts: str, option: str, text: str) -> None:
    options: dict[str, Any] = {option: -1}
    with pytest.raises(energon.InvalidArgumentError, match=text):
        loader_of(texts, training=True, **options)


def test_a_negative_tolerance_of_a_function(texts: str) -> None:
    class Encoder(energon.DefaultTaskEncoder):
        @energon.stateless(failure_tolerance=-1)
        def encode_sample(self, sample: Any) -> Any:
            return sample

    with pytest.raises(energon.InvalidArgumentError, match="tolerance of 'encode_sample' is -1"):
        loader_of(texts, Encoder())


def test_a_negative_seed_offset_is_another_order(texts: str) -> None:
    def order(seed: int) -> list[list[str]]:
        dataset = energon.get_train_dataset(
            texts, worker_config=config(seed_offset=seed), batch_size=4, shuffle_buffer_size=20
        )
        with energon.get_savable_loader(dataset) as loader:
            return keys(take(loader, 4))

    assert order(-1) == order(-1) != order(1) and order(-1) != order(0)


def test_paths(texts: str, tmp_path: Any) -> None:
    assert keys(take(loader_of(texts.encode()), 1)) == keys(take(loader_of(texts), 1))  # type: ignore[arg-type]

    def opened(path: Any) -> Any:
        energon.get(path, "0000")

    def in_a_store(path: Any) -> Any:
        energon.SystemFileStore(path)

    def written(path: Any) -> Any:
        loader_of(texts, loader={"quarantine_file": path})

    def indexed(path: Any) -> Any:
        loader_of(texts, cache_dir=path)

    functions: list[Any] = [loader_of, opened, in_a_store, written, indexed]
    functions += [energon.WebDataset, energon.load_dataset]
    for function in functions:
        with pytest.raises(ValueError, match="contains a NUL character"):
            function(texts + "\0x")
        with pytest.raises(ValueError, match="is not valid UTF-8: rename"):
            function(texts + "\udcff")
    for function in [loader_of, opened, in_a_store, energon.load_dataset]:
        with pytest.raises(TypeError, match="a path must be a str or an os.PathLike, not int"):
            function(3)
    with loader_of(texts) as loader:
        state = loader.save_state_rank()
    for use in (state.write, energon.LoaderState.read, energon.JobState.read):
        with pytest.raises(ValueError, match="contains a NUL character"):
            use(str(tmp_path / "state\0x"))
    assert list(tmp_path.iterdir()) == []


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
        with pytest.raises(energon.InvalidArgumentError, match="only 60 batches have been delivered"):
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
        # 60 samples in batches of 4; the last batch of each of the two workers is partial.
        assert len(first) == (16 if num_workers == 2 else 15)
        loader.rewind(12)
        assert keys(list(loader)) == first[12:]
        assert keys(list(loader)) == second
        loader.rewind(len(first))  # the end of the first epoch is still to come, as after a restore
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
