"""One loader: tasks are JSON, and each runs in its own process, which prints a line of JSON.

python_run.py --serve LOADER imports the loader once, and forks for each task that it reads, one per line
(see python_process.py). python_run.py --probe LOADER checks whether it can be imported.

Tasks: "time" checks the contents on request, then measures; "resume" saves at 99 % of an epoch and
continues in a new loader; "loop" times the bare Python loop.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.metadata
import itertools
import json
import os
import signal
import statistics
import sys
import time
import traceback
from typing import Any

import python_checks
import python_data
import python_plan
import python_usage
from loaders.peer import Job, Peer
from python_touch import touch

DISTRIBUTIONS = {
    "megatron.energon": "megatron-energon",
    "streaming": "mosaicml-streaming",
    "nvidia.dali": "nvidia-dali-cuda120",
    "spdl.io": "spdl",
}


# Limit for reads from disk during a timed run; its data should be in the page cache.
UNCACHED_BYTES = 1 << 20


def module_of(name: str) -> Any:
    return importlib.import_module(f"loaders.{name}_loader")


def open_loader(job: Job) -> Peer:
    loader: Peer = module_of(job.loader).Loader(job)
    return loader


def version_of(module: str) -> str:
    try:
        return importlib.metadata.version(DISTRIBUTIONS.get(module, module))
    except importlib.metadata.PackageNotFoundError:  # found by PYTHONPATH
        return str(getattr(importlib.import_module(module), "__version__", "unknown"))


def probe(name: str) -> dict[str, Any]:
    """Works and versions, or why the loader is not available."""
    try:
        loader = module_of(name).Loader
        versions = {module: version_of(module) for module in loader.MODULES}
    except Exception as error:  # imports of other packages may raise anything
        return {"why_not": f"{type(error).__name__}: {error}".splitlines()[0]}
    about = {"works": loader.WORKS, "resumes": loader.RESUMES, "many": loader.MANY_WORKERS}
    return about | {"versions": versions, "reads": loader.READS}


def measure(task: dict[str, Any], job: Job) -> dict[str, Any]:
    if task["verify"]:
        peer = open_loader(job)
        checked = python_checks.check(peer, task["verify"])
        peer.close()
        del peer
    else:
        checked = 0
    begin = time.monotonic()
    peer = open_loader(job)
    batches = iter(peer.batches())
    touch(peer.columns(next(batches)))
    first = time.monotonic() - begin
    take(peer, batches, task["warmup"], 4 * max(job.workers, 1) + 4)
    cpu, disk = python_usage.cpu_seconds(), python_usage.disk_bytes()
    seconds, samples = take(peer, batches, task["seconds"], 2)
    cpu, disk = python_usage.cpu_seconds() - cpu, python_usage.disk_bytes() - disk
    if disk > UNCACHED_BYTES:
        raise python_checks.WrongData(f"{disk} {python_plan.FROM_DISK}")
    result = {"samples_per_second": samples / seconds, "first_batch_seconds": first}
    result |= {"cpu_seconds_per_million": cpu / samples * 1e6, "pss_bytes": python_usage.pss_bytes()}
    return result | {"verified_samples": checked}


def take(peer: Peer, batches: Any, seconds: float, least: int) -> tuple[float, int]:
    """Takes and touches batches for a minimum time and a minimum number of batches: (seconds, samples)."""
    samples = taken = 0
    now = begin = time.monotonic()
    while now - begin < seconds or taken < least:
        batch = next(batches)
        touch(peer.columns(batch))
        samples += peer.count(batch)
        taken += 1
        now = time.monotonic()
    return now - begin, samples


def resume(task: dict[str, Any], job: Job) -> dict[str, Any]:
    """Saves at 99 % of an epoch; a new loader must deliver the same next batch as the first."""
    peer = open_loader(job)
    batches = iter(peer.batches())
    count = max(1, job.samples * 99 // 100 // job.batch_size)
    for _ in itertools.islice(batches, count):
        pass
    saves = []
    for _ in range(5):
        begin = time.monotonic()
        state = peer.save()
        saves.append(time.monotonic() - begin)
    expected = peer.samples(next(batches))
    peer.close()
    del peer, batches
    begin = time.monotonic()
    peer = open_loader(job)
    peer.restore(state)
    batch = next(iter(peer.batches()))
    seconds = time.monotonic() - begin
    if [list(map(bytes, parts)) for parts in peer.samples(batch)] != [
        list(map(bytes, parts)) for parts in expected
    ]:
        raise python_checks.WrongData("the resumed loader delivers another batch")
    peer.close()
    return {"save_seconds": statistics.median(saves), "resume_seconds": seconds}


def loop(task: dict[str, Any], job: Job) -> dict[str, Any]:
    """Seconds per batch in a loop that ignores it, and the part of them in which the loader's C++ pipeline
    was busy, by its statistics. Without workers, so the two add up."""
    peer: Any = open_loader(job)
    batches = iter(peer.batches())
    for _ in itertools.islice(batches, task["warmup_batches"]):
        pass
    busy = peer.loader.stats()["workers"][0]["busy_seconds"]
    begin = time.monotonic()
    for _ in itertools.islice(batches, task["batches"]):
        pass
    seconds = time.monotonic() - begin
    busy = peer.loader.stats()["workers"][0]["busy_seconds"] - busy
    peer.close()
    return {"Python": seconds / task["batches"], "C++": busy / task["batches"]}


TASKS = {"time": measure, "resume": resume, "loop": loop}


def run(task: dict[str, Any]) -> None:
    """Prints the result, and ends this process and those that loaders left running, some of which would
    wait forever."""
    status = 1
    try:
        job = Job(**task["job"])
        # Otherwise the first run on some data, or the one after a pause, also reads from the disk.
        python_data.read_all(module_of(job.loader).Loader.data_folder(job))
        result = TASKS[task["task"]](task, job)
        print("\n" + json.dumps(result), flush=True)
        status = 0
    except Exception:
        traceback.print_exc()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler raises when a worker is killed
    for pid in python_usage.descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(status)


def serve(loader: str) -> None:
    module_of(loader)
    gc.collect()
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if pid == 0:
            output = os.open(task.pop("output"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            run(task)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(f"exit status {code}" if code >= 0 else f"signal {-code}", flush=True)


def main() -> None:
    what, loader = sys.argv[1:]
    if what == "--serve":
        serve(loader)
    else:
        print("\n" + json.dumps(probe(loader)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
