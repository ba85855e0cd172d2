"""Runs jobs with one of the two packages, each in its own fork with a time limit:
    peer_side.py MODULE JOBS RESULTS
JOBS and RESULTS contain one JSON value per line. A job is {"prepare": [arguments of the program]}
for Energon, or {"tree": folder, "configuration": …}."""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import json
import os
import pathlib
import pickle
import re
import signal
import sys
import time
import traceback
import types
import warnings
from typing import Any, Iterator

import peer_encoders
from peer_values import batch_record

SECONDS = 180
# Loaders that were used. They end with the process, because a loader of Energon that is collected
# earlier waits five seconds for each worker.
used: list[Any] = []
END = "end of the epoch"


def quiet(error: Exception, sample: Any, sources: Any) -> None:
    """The error handler that leaves the sample out."""


def make_datasets(energon: types.ModuleType, job: dict[str, Any], rank: int) -> list[Any]:
    made = job["configuration"]
    handler = quiet if made["handler"] == "quiet" else energon.reraise_exception
    config = energon.WorkerConfig(
        rank=rank,
        world_size=made["world_size"],
        num_workers=made["num_workers"],
        seed_offset=made["seed_offset"],
        global_error_handler=handler,
    )
    path = str(pathlib.Path(job["tree"]) / made["data"]["path"])
    encoder = peer_encoders.make_encoder(energon, made["functions"])
    given = {**made["options"], "worker_config": config, "task_encoder": encoder}
    if made["each"]:
        return [dataset for dataset, _ in energon.get_val_datasets(path, **given)]
    if made["mode"] == "val":
        return [energon.get_val_dataset(path, **given)]
    return [energon.get_train_dataset(path, **given)]


def short(error: BaseException) -> str:
    """Type and text of an error that a function raised, without the text that torch's workers add."""
    text = str(error)
    said = re.findall(r"no good: [^\s{]+", text)
    return f"{type(error).__name__}: {said[-1] if said else ''}"


class Collector:
    """Takes batches of a loader, and records the ends of epochs. Loops run to the end of the epoch:
    otherwise, Energon without workers delivers the samples in its buffers twice."""

    def __init__(self, made: dict[str, Any], loader: Any) -> None:
        self.epochs_left = 1 if made["mode"] == "epochs" else 3
        self.is_packed = made["functions"]["capacity"] > 0
        self.loader = loader
        self.loop: Iterator[Any] | None = None
        self.last: Any = None

    def take(self, count: int, into: list[Any]) -> None:
        """Appends up to `count` batches of a few epochs."""
        while count > 0 and self.epochs_left > 0:
            self.loop = self.loop or iter(self.loader)
            batch = next(self.loop, None)
            if batch is None:
                into.append(END)
                self.loop = None
                self.epochs_left -= 1
            else:
                into.append(batch_record(batch, self.is_packed))
                self.last = batch
                count -= 1

    def remade(self) -> bool | None:
        """Whether the last batch is the same when it is rebuilt."""
        batch = self.last
        if batch is None:
            return None
        key = batch["__restore_key__"] if isinstance(batch, dict) else batch.__restore_key__
        again = batch_record(self.loader.restore_sample(key), self.is_packed)
        return again == batch_record(batch, self.is_packed)


def run_loader(energon: types.ModuleType, job: dict[str, Any], dataset: Any, again: Any) -> Any:
    """The batches of a rank, and the batches after a save in the middle. again: an equal dataset."""
    made = job["configuration"]
    is_ours = energon.__name__ == "energon_cpp"
    result: dict[str, Any] = {"batches": [], "rest": [], "restored": []}
    try:
        loader = energon.get_savable_loader(dataset)
        used.append(loader)
        collector = Collector(made, loader)
        collector.take(made["saved_after"], result["batches"])
        # Energon waits forever for the state of workers that have not started.
        saves = again is not None and collector.last is not None
        saves = saves and (is_ours or made["energon resumes"])
        state = loader.save_state_rank() if saves else None
        left = collector.epochs_left
        collector.take(made["batches"], result["rest"])
        # Energon cannot restore groups or packs with postencode_sample.
        result["remade"] = collector.remade() if is_ours else None
        result["saves"] = saves
        if saves:
            second = energon.get_savable_loader(again)
            used.append(second)
            second.restore_state_rank(pickle.loads(pickle.dumps(state)))
            restored = Collector(made, second)
            restored.epochs_left = left
            restored.take(made["batches"], result["restored"])
    except Exception as error:
        result["error"] = short(error)
        result["traceback"] = traceback.format_exc()[-3000:]
    return result


def run_configuration(energon: types.ModuleType, job: dict[str, Any]) -> Any:
    made = job["configuration"]
    ranks = []
    for rank in range(made["world_size"]):
        datasets = make_datasets(energon, job, rank)
        again = make_datasets(energon, job, rank) if rank == made["world_size"] - 1 else None
        for i, dataset in enumerate(datasets):
            ranks.append(run_loader(energon, job, dataset, again[i] if again else None))
    return ranks


def run_job(energon: types.ModuleType, job: dict[str, Any]) -> dict[str, Any]:
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            if "prepare" in job:
                main = importlib.import_module("megatron.energon.cli.main").main
                main(args=job["prepare"], standalone_mode=False)
                return {"prepared": job["prepare"][-1]}
            return {"ranks": run_configuration(energon, copy.deepcopy(job))}
    except BaseException:  # also SystemExit: its message is the report
        return {"failed": traceback.format_exc()[-3000:], "output": output.getvalue()[-1000:]}


def run_in_fork(energon: types.ModuleType, job: dict[str, Any], results: pathlib.Path) -> None:
    """Appends the results of the job to `results`. A fork that hangs or dies is killed."""
    begin = time.monotonic()
    print(json.dumps(job)[:200], flush=True)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        line = json.dumps(run_job(energon, job))
        with results.open("a") as file:
            file.write(line + "\n")
            file.flush()
        os._exit(0)
    status = 0
    while time.monotonic() - begin < SECONDS:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if not done:
        os.waitpid(pid, 0)
    if not done or status != 0:
        failed = f"not done after {SECONDS} s" if not done else f"ended with status {status}"
        with results.open("a") as file:
            file.write(json.dumps({"failed": failed}) + "\n")


def main() -> None:
    name, jobs, results = sys.argv[1:]
    warnings.filterwarnings("ignore")
    energon = importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    for line in pathlib.Path(jobs).read_text().splitlines():
        run_in_fork(energon, json.loads(line), pathlib.Path(results))


if __name__ == "__main__":
    main()
