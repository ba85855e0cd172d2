"""Error handlers, tolerances, fields and methods of WorkerConfig."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Iterator

import pytest
from conftest import config, loader_of, take, write_tar

import energon_cpp as energon


class Picky(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: Any) -> Any:
        number = sample["json"]["number"]
        if number % 7 == 0:
            raise ValueError(f"bad number {number}")
        if number % 5 == 0:
            raise energon.SkipSample
        return {"number": number}


WANTED = [number for number in range(60) if number % 5 and number % 7]


def dataset_of(path: str, encoder: Any, num_workers: int, **fields: Any) -> energon.Dataset:
    worker_config = config(num_workers, **fields)
    return energon.get_val_dataset(
        path, worker_config=worker_config, batch_size=4, task_encoder=encoder
    )


def numbers(batches: list[Any]) -> list[int]:
    return sorted(int(number) for batch in batches for number in batch["number"])


def test_a_handler_gets_each_failure(
    texts: str, num_workers: int, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "log"

    def handler(error: Exception, sample: Any, sources: Any) -> None:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{error}|{sample['__key__']}|{sources[0].shard_name}\n")

    dataset = dataset_of(texts, Picky(), num_workers, global_error_handler=handler)
    with energon.get_savable_loader(dataset) as loader:
        assert numbers(list(loader)) == WANTED
    lines = sorted(log.read_text().splitlines())
    wanted = [f"bad number {i}|{i:04}|shard_{i // 20}.tar" for i in range(0, 60, 7)]
    assert lines == sorted(wanted)  # each failure once; SkipSample does not reach the handler


def test_generators_and_batches_reach_the_handler(texts: str) -> None:
    seen: list[Any] = []

    class Halves(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Iterator[Any]:
            yield {"number": sample["json"]["number"]}
            if sample["json"]["number"] == 3:
                raise ValueError("second half")

        def batch(self, samples: list[Any]) -> Any:
            if samples[0]["number"] == 8:
                raise RuntimeError("no batch")
            return {"number": [sample["number"] for sample in samples]}

    def handler(error: Exception, sample: Any, sources: Any) -> None:
        seen.append((type(error), type(sample), sources is not None))

    dataset = dataset_of(texts, Halves(), 0, global_error_handler=handler)
    with energon.get_savable_loader(dataset) as loader:
        list(loader)
    assert (ValueError, energon.CrudeSample, True) in seen
    assert any(kind is RuntimeError and of is list for kind, of, _ in seen)


def test_native_stages_reach_the_handler(num_workers: int, tmp_path: pathlib.Path) -> None:
    parts = [b"7" if i % 4 else b"no number" for i in range(12)]
    (tmp_path / "data").mkdir()
    samples = [(f"{i}", {"cls": part}) for i, part in enumerate(parts)]
    write_tar(tmp_path / "data" / "a.tar", samples)
    log = tmp_path / "log"

    def handler(error: Exception, sample: Any, sources: Any) -> None:
        assert isinstance(error, energon.CorruptDataError) and "cls" in str(error)
        assert error.path is not None and error.path.endswith("a.tar")
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{sample['__key__']}|{sources[0].shard_name}|{sources[0].index}\n")

    path = str(tmp_path / "data")
    dataset = dataset_of(path, None, num_workers, global_error_handler=handler)
    with energon.get_savable_loader(dataset) as loader:
        assert [key for batch in loader for key in batch.__key__] == [
            str(i) for i in range(12) if i % 4]  # fmt: skip
    assert sorted(log.read_text().split()) == [f"{i}|a.tar|{i}" for i in (0, 4, 8)]

    def refuses(error: Exception, sample: Any, sources: Any) -> None:
        raise energon.FatalSampleError(sample["__key__"])

    dataset = dataset_of(path, None, num_workers, global_error_handler=refuses)
    with energon.get_savable_loader(dataset) as loader:
        with pytest.raises(energon.FatalSampleError, match="^0$"):
            list(loader)


def test_an_exception_of_a_handler_ends_the_stream(texts: str, num_workers: int) -> None:
    def handler(error: Exception, sample: Any, sources: Any) -> None:
        raise ArithmeticError("enough") from error

    for handle, kind in ((handler, ArithmeticError), (energon.reraise_exception, ValueError)):
        dataset = dataset_of(texts, Picky(), num_workers, global_error_handler=handle)
        with energon.get_savable_loader(dataset) as loader:
            with pytest.raises(kind):
                list(loader)


def test_fatal_errors_bypass_the_handler(texts: str, num_workers: int) -> None:
    class Fatal(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            raise energon.FatalSampleError.from_sample(sample, "over")

    dataset = dataset_of(
        texts, Fatal(), num_workers, global_error_handler=energon.log_exception
    )
    with energon.get_savable_loader(dataset) as loader:
        with pytest.raises(energon.FatalSampleError, match="'0000' failed: over"):
            list(loader)


def test_log_exception_names_the_sample(texts: str, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = dataset_of(texts, Picky(), 0, global_error_handler=energon.log_exception)
    with energon.get_savable_loader(dataset) as loader:
        assert numbers(list(loader)) == WANTED
    out = capsys.readouterr().out
    assert out.count("ValueError: bad number") == 9
    assert "in encode_sample" in out and "shard_1.tar" in out and "__key__: '0021'" in out


def test_tolerance_belongs_to_the_function(texts: str, num_workers: int) -> None:
    class Fails(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        @energon.stateless(failure_tolerance=3)
        def encode_sample(self, sample: Any) -> Any:
            raise ValueError("always")

    with loader_of(texts, Fails(), num_workers=num_workers, on_error="skip") as loader:
        with pytest.raises(ValueError, match="always") as raised:
            list(loader)
    assert "3 samples in a row failed" in str(raised.value.__cause__)

    class Lenient(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        __default_failure_tolerance__ = 0

        def encode_sample(self, sample: Any) -> Any:
            if sample["json"]["number"] < 40:
                raise ValueError("often")
            return {"number": sample["json"]["number"]}

    options: dict[str, Any] = {"on_error": "skip", "failure_tolerance": 2}
    with loader_of(texts, Lenient(), num_workers=num_workers, **options) as loader:
        assert numbers(list(loader)) == list(range(40, 60))


def test_skipped_samples_cause_one_warning_an_epoch(texts: str, num_workers: int) -> None:
    class Fails(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            if sample["json"]["number"] % 20 == 3:
                raise ValueError("bad number")
            return {"number": sample["json"]["number"]}

    with loader_of(texts, Fails(), num_workers=num_workers, on_error="skip") as loader:
        for left_out in (3, 6):
            with pytest.warns(UserWarning) as warned:
                assert len(numbers(list(loader))) == 57
            (text,) = [str(one.message) for one in warned]
            assert text.startswith(f"on_error='skip' left out 3 samples, {left_out} in all")
            assert "ValueError: bad number" in text
    with loader_of(texts, Fails(), num_workers=num_workers, on_error="skip") as loader:
        take(loader, 14)
        with pytest.warns(UserWarning, match="left out 3 samples, 3 in all"):
            loader.close()


def test_restore_error_handler(texts: str) -> None:
    broken: list[bool] = []

    class Breaks(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            if broken:
                raise ValueError("broken now")
            return energon.Sample.derive_from(sample)

    seen: list[Exception] = []
    fields = {"restore_error_handler": lambda error, key, sources: seen.append(error)}
    with energon.get_savable_loader(dataset_of(texts, Breaks(), 0, **fields)) as loader:
        key = take(loader, 1)[0].__restore_key__
        assert loader.restore_sample(key) is not None and not seen
        broken.append(True)
        assert loader.restore_sample(key) is None
    assert [str(error) for error in seen] == ["broken now"]


class Tells(energon.DefaultTaskEncoder[Any, Any, Any, Any]):
    def __init__(self, of: energon.WorkerConfig) -> None:
        super().__init__()
        self.of = of

    def encode_sample(self, sample: Any) -> Any:
        return {"worker": self.of.rank_worker_id(), "all": self.of.global_worker_id()}


def test_functions_know_their_worker(texts: str) -> None:
    two = config(2, rank=1, world_size=3)
    with loader_of(texts, Tells(two), num_workers=2) as loader:
        batches = list(loader)
    workers = {int(worker) for batch in batches for worker in batch["worker"]}
    everyone = {int(worker) for batch in batches for worker in batch["all"]}
    assert workers == {0, 1} and everyone == {2, 3}
    assert two.rank_worker_id() == 0 and two.global_worker_id(1) == 3 and two.global_rank() == 1
    assert two.config() == {
        "rank": 1, "world_size": 3, "num_workers": 2, "data_parallel_group": None}  # fmt: skip


def test_batches_are_logged(texts: str, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "new" / "logs"
    path = str(folder / "log_{worker_id}.json")
    with pytest.raises(ValueError, match="worker_debug_path"):
        dataset_of(texts, None, 0, worker_log_level=2)
    for level, wanted in ((1, 0), (2, 15)):
        fields = {"worker_debug_path": path, "worker_log_level": level}
        with energon.get_savable_loader(dataset_of(texts, None, 0, **fields)) as loader:
            assert len(list(loader)) == 15
        lines = [line for file in folder.glob("*") for line in file.read_text().splitlines()]
        assert len([line for line in lines if json.loads(line)["t"] == "yield_batch"]) == wanted


def test_errors_of_unknown_arguments_name_an_alternative(texts: str) -> None:
    with pytest.raises(TypeError, match=r"pass it to get_savable_loader\(\)"):
        energon.get_train_dataset(  # type: ignore[call-arg]
            texts, worker_config=config(), batch_size=1, cache_pool=None)  # fmt: skip
    with pytest.raises(TypeError, match="'color'$"):
        energon.get_val_dataset(  # type: ignore[call-arg]
            texts, worker_config=config(), batch_size=1, color=1)  # fmt: skip
    with pytest.raises(TypeError, match="YAML file"):
        energon.get_val_dataset({}, worker_config=config(), batch_size=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="worker_config must equal that of the dataset"):
        dataset = energon.get_val_dataset(texts, worker_config=config(), batch_size=1)
        energon.get_loader(dataset, worker_config=config(rank=1, world_size=2))
