"""Problems of forking Python processes. Each test runs in its own process, with a time limit."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import textwrap
import time
from typing import Any

import pytest
from conftest import Ran, run_script

BEGIN = """
import gc, os, sys, threading, time
import energon_cpp as energon
from conftest import config, loader_of, take

texts = sys.argv[1]

class Encoder(energon.DefaultTaskEncoder):
    def encode_sample(self, sample):
        work(sample)
        return {"__key__": sample["__key__"], "number": sample["json"]["number"]}

def work(sample):
    pass

def numbers(batches):
    return [int(number) for batch in batches for number in batch["number"]]

"""


def run(texts: str, code: str, timeout: float = 60, **more: Any) -> Ran:
    return run_script(BEGIN + textwrap.dedent(code), texts, timeout=timeout, **more)


def succeed(texts: str, code: str, timeout: float = 60) -> str:
    ran = run(texts, code, timeout)
    assert (ran.code, ran.err) == (0, ""), ran
    return ran.out


def gone(pids: list[int], within: float = 10) -> bool:
    end = time.monotonic() + within
    while time.monotonic() < end:
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def alive(pid: int) -> bool:
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return "State:\tZ" not in status


@pytest.mark.timeout(310)
def test_loaders_made_under_busy_threads(texts: str) -> None:
    code = """
        import logging
        end = threading.Event()
        def busy():
            while not end.is_set():
                sum(i * i for i in range(1000))
                logging.getLogger("x").debug("busy")
        def holds_lock():
            while not end.is_set():
                logging._acquireLock()
                time.sleep(0.001)
                logging._releaseLock()
        threads = [threading.Thread(target=busy) for _ in range(3)]
        threads.append(threading.Thread(target=holds_lock))
        [thread.start() for thread in threads]
        def work(sample):
            logging.getLogger("x").debug("in a worker")
        for _ in range(100):
            with loader_of(texts, Encoder(), num_workers=1) as loader:
                assert numbers(take(loader, 1)) == [0, 1, 2, 3]
        end.set()
        [thread.join() for thread in threads]
    """
    succeed(texts, code, 300)


def test_a_loader_made_and_used_in_a_thread(texts: str) -> None:
    code = """
        def run():
            with loader_of(texts, Encoder(), num_workers=2) as loader:
                print(sorted(numbers(list(loader))) == list(range(60)))
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    """
    assert succeed(texts, code) == "True\n"


def test_foreign_descriptors_are_harmless(texts: str) -> None:
    code = """
        import socket
        foreign = [os.pipe() for _ in range(5)] + [socket.socketpair() for _ in range(5)]
        numbers_of = [fd if isinstance(fd, int) else fd.fileno() for pair in foreign for fd in pair]
        for reading, writing in foreign[:5]:
            os.write(writing, b"for the trainer")
        for one, other in foreign[5:]:
            one.send(b"for the trainer")
        files = [open(texts + "/shard_0.tar", "rb") for _ in range(40)]
        done = []
        def work(sample):
            for fd in numbers_of:
                for use in (lambda: os.write(fd, b"x" * 64), lambda: os.read(fd, 64)):
                    try:
                        use()
                    except OSError:
                        continue
                    raise RuntimeError("a foreign descriptor can be used")
            for file in files:
                assert len(os.pread(file.fileno(), 10, 0)) == 10
            if files:
                files.clear()
                gc.collect()
        with loader_of(texts, Encoder(), num_workers=2) as loader:
            print(sorted(numbers(list(loader))) == list(range(60)))
        for reading, writing in foreign[:5]:
            assert os.read(reading, 64) == b"for the trainer"
        for one, other in foreign[5:]:
            assert other.recv(64) == b"for the trainer"
    """
    assert succeed(texts, code) == "True\n"


def test_readers_of_pipes_see_the_end_and_ports_are_free(texts: str) -> None:
    code = """
        import socket, subprocess
        reading, writing = os.pipe()
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with loader_of(texts, Encoder(), num_workers=2) as loader:
            take(loader, 1)
            os.close(writing)
            assert os.read(reading, 1) == b""
            listener.close()
            socket.create_server(("127.0.0.1", port)).close()
            child.stdin.close()
            assert child.stdout.read() == b"" and child.wait(10) == 0
            print(len(numbers(list(loader))))
    """
    assert succeed(texts, code) == "56\n"


@pytest.mark.parametrize(
    "end",
    ["os.execv(sys.executable, [sys.executable, '-c', 'pass'])", "os._exit(0)",
     "os.kill(os.getpid(), 15)", "os.kill(os.getpid(), 9)", "sys.exit(0)", "1 / 0"],
)  # fmt: skip
def test_no_process_is_left(texts: str, end: str) -> None:
    code = f"""
        loader = loader_of(texts, Encoder(), num_workers=2)
        take(loader, 1)
        print(*loader.worker_pids, flush=True)
        {end}
    """
    ran = run(texts, code)
    pids = [int(pid) for pid in ran.out.split()]
    assert len(pids) == 2
    assert gone(pids)


def test_cycles_and_global_variables_end_without_output(texts: str) -> None:
    code = """
        class Trainer:
            def __init__(self):
                encoder = Encoder()
                encoder.encode_sample = self.encode  # a bound method: a cycle
                self.loader = loader_of(texts, encoder, num_workers=1)
            def encode(self, sample):
                return {"number": 1}
        trainer = Trainer()
        take(trainer.loader, 1)
        (pid,) = trainer.loader.worker_pids
        del trainer
        gc.collect()
        for _ in range(100):
            if not os.path.exists(f"/proc/{pid}"):
                break
            time.sleep(0.05)
        print(os.path.exists(f"/proc/{pid}"))
        other = Trainer()
        batches = iter(other.loader)
        batch = next(batches)
    """
    assert succeed(texts, code) == "False\n"


def test_a_daemon_thread_in_next_at_exit(texts: str) -> None:
    code = """
        def work(sample):
            time.sleep(5)
        loader = loader_of(texts, Encoder(), num_workers=1)
        def endless():
            while True:
                list(loader)
        threading.Thread(target=endless, daemon=True).start()
        time.sleep(1)
    """
    assert succeed(texts, code) == ""


def test_threads_share_a_loader_safely(texts: str) -> None:
    code = """
        def work(sample):
            time.sleep(0.01)
        loader = loader_of(texts, Encoder(), num_workers=2, training=True)
        refused, counts = [], []
        end = time.monotonic() + 3
        def reads():
            count = 0
            while time.monotonic() < end:
                try:
                    count += len(take(loader, 3))
                except energon.InvalidArgumentError as error:
                    refused.append(str(error))
            counts.append(count)
        threads = [threading.Thread(target=reads) for _ in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(len(refused) > 0, sum(counts) > 3)
        loader.close()
    """
    assert succeed(texts, code) == "True True\n"


def test_close_wakes_next(texts: str) -> None:
    code = """
        def work(sample):
            time.sleep(30)
        loader = loader_of(texts, Encoder(), num_workers=1)
        errors = []
        def reads():
            try:
                take(loader, 1)
            except energon.CancelledError as error:
                errors.append(error)
        thread = threading.Thread(target=reads)
        thread.start()
        time.sleep(0.5)
        begin = time.monotonic()
        loader.close()
        thread.join()
        print(len(errors), time.monotonic() - begin < 3)
    """
    assert succeed(texts, code) == "1 True\n"


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_ctrl_c_loses_nothing(texts: str, num_workers: int, on_error: str) -> None:
    code = f"""
        def work(sample):
            time.sleep(0.05)
        options = {{"num_workers": {num_workers}, "on_error": "{on_error}"}}
        with loader_of(texts, Encoder(), **options) as loader:
            whole = numbers(list(loader))
        with loader_of(texts, Encoder(), **options) as loader:
            got, interrupts = [], 0
            print("ready", flush=True)
            while len(numbers(got)) < 60:
                try:
                    got.extend(loader)
                except KeyboardInterrupt:
                    interrupts += 1
            print(interrupts, numbers(got) == whole)
    """

    def interrupt(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        process.stdout.readline()
        for _ in range(2):
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)

    ran = run(texts, code, signal_after=interrupt)
    assert ran.code == 0, ran
    assert ran.out.split("\n")[-2] == "2 True", ran


def test_ctrl_c_interrupts_a_wait_soon(texts: str) -> None:
    code = """
        def work(sample):
            time.sleep(30)
        with loader_of(texts, Encoder(), num_workers=1) as loader:
            for _ in range(9):
                try:
                    print("ready", flush=True)
                    take(loader, 1)
                except KeyboardInterrupt:
                    print(time.time(), flush=True)
    """
    delays = []

    def interrupt(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for wait in range(9):
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.3 + 0.013 * wait)  # at any moment within the interval of the checks
            sent = time.time()
            process.send_signal(signal.SIGINT)
            delays.append(float(process.stdout.readline()) - sent)

    ran = run(texts, code, signal_after=interrupt)
    assert ran.code == 0, ran
    # A busy machine may be slow once or twice.
    assert sorted(delays)[6] < 0.1, delays


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_is_printed_once(
    texts: str, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    code = """
        def work(sample):
            print("worker", sample["__key__"])
        print("before", end=" ")
        with loader_of(texts, Encoder(), num_workers=2) as loader:
            list(loader)
        print("after")
    """
    lines = succeed(texts, code).split("\n")
    words = " ".join(lines).split()
    assert words.count("before") == words.count("after") == 1
    assert words.count("worker") == 60
    assert sorted(word for word in words if word.isdigit()) == [f"{i:04}" for i in range(60)]


def test_subprocesses_and_pools_in_a_worker(texts: str) -> None:
    code = """
        import multiprocessing, multiprocessing.resource_tracker, subprocess
        from multiprocessing import shared_memory
        multiprocessing.resource_tracker.ensure_running()
        def work(sample):
            if sample["json"]["number"] in (0, 30):
                assert subprocess.run(["true"]).returncode == 0
                with multiprocessing.get_context("fork").Pool(1) as pool:
                    assert pool.map(abs, [-1, -2]) == [1, 2]
                block = shared_memory.SharedMemory(create=True, size=10)
                block.close()
                block.unlink()
        with loader_of(texts, Encoder(), num_workers=2) as loader:
            print(len(numbers(list(loader))))
    """
    assert succeed(texts, code) == "60\n"


def test_processes_of_a_function_can_be_terminated(texts: str) -> None:
    code = """
        import multiprocessing, time
        def work(sample):
            if sample["json"]["number"] == 7:
                process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
                process.start()
                process.terminate()
                process.join(10)
                assert process.exitcode == -15, process.exitcode
        with loader_of(texts, Encoder(), num_workers=1) as loader:
            print(len(numbers(list(loader))))
    """
    assert succeed(texts, code) == "60\n"


def test_a_crash_names_the_sample(texts: str) -> None:
    code = """
        import ctypes
        def work(sample):
            if sample["json"]["number"] == 9:
                ctypes.string_at(0)
        with loader_of(texts, Encoder(), num_workers=1) as loader:
            try:
                list(loader)
            except energon.WorkerDiedError as error:
                print("SIGSEGV" in str(error), "0009" in str(error), error.worker)
    """
    ran = run(texts, code)
    assert ran.out == "True True 0\n", ran


def test_two_loaders_share_no_pages(texts: str) -> None:
    code = """
        def shared_kilobytes():
            with open("/proc/meminfo") as file:
                return next(int(line.split()[1]) for line in file if line.startswith("Shmem:"))
        class Large(energon.DefaultTaskEncoder):
            def batch(self, samples):
                return {"zeros": bytearray(50_000_000)}
        first = loader_of(texts, Large(), num_workers=1)
        take(first, 2)
        second = loader_of(texts, Encoder(), num_workers=1)
        take(second, 1)
        before = shared_kilobytes()
        first.close()
        del first
        gc.collect()
        time.sleep(0.5)
        print(before - shared_kilobytes() > 90_000)
        second.close()
    """
    assert succeed(texts, code) == "True\n"


def test_a_forked_child_leaves_the_loader_alone(texts: str) -> None:
    code = """
        loader = loader_of(texts, Encoder(), num_workers=2)
        first = take(loader, 2)
        child = os.fork()
        if child == 0:
            try:
                take(loader, 1)
            except energon.CancelledError:
                sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(len(numbers(first + list(loader))))
        loader.close()
    """
    assert succeed(texts, code) == "7\n60\n"


def test_workers_have_one_thread_of_torch_and_faults_have_tracebacks(texts: str) -> None:
    pytest.importorskip("torch")
    code = """
        import torch
        torch.set_num_threads(2)
        class Threads(energon.DefaultTaskEncoder):
            def batch(self, samples):
                return {"threads": torch.get_num_threads(), "tensor": torch.ones(3)}
        with loader_of(texts, Threads(), num_workers=1) as loader:
            batch = take(loader, 1)[0]
            print(batch["threads"], type(batch["tensor"]).__name__, torch.get_num_threads())
    """
    assert succeed(texts, code, 110) == "1 Tensor 2\n"


def test_a_collection_copies_no_memory(texts: str) -> None:
    code = """
        table = [(i, str(i)) for i in range(500_000)]  # about 80 MB
        def work(sample):
            gc.collect()
        with loader_of(texts, Encoder(), num_workers=1) as loader:
            take(loader, 1)
            (pid,) = loader.worker_pids
            with open(f"/proc/{pid}/smaps_rollup") as file:
                private = next(int(line.split()[1]) for line in file if "Private_Dirty" in line)
            print(private < 30_000 or private)
            assert gc.isenabled() and gc.get_freeze_count() == 0
    """
    assert succeed(texts, code) == "True\n"


# --- Hooks of forks ---


def test_hooks_run_at_forks() -> None:
    ran = run_script("""
        import dataclasses, os
        from energon_cpp import fork_hook

        seen = []

        class Told(fork_hook.ForkMixin):
            def __before_fork__(self):
                seen.append("object before")

        @dataclasses.dataclass
        class ToldToo(fork_hook.DataclassForkMixin):
            name: str
            def __after_in_child_fork__(self):
                seen.append(self.name)

        def in_parent():
            seen.append("parent")

        kept, also_kept, gone = Told(), ToldToo("child"), Told()
        del gone
        fork_hook.after_in_parent_fork_hook(in_parent)
        fork_hook.after_in_parent_fork_hook(in_parent)
        fork_hook.before_fork_hook(lambda: seen.append("forgotten"))
        fork_hook.before_fork_hook(lambda: seen.append("persistent"), make_persistent=True)
        pid = os.fork()
        if pid == 0:
            print(seen, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        print(seen)
    """)
    before = "['object before', 'persistent'"
    assert ran == Ran(0, f"{before}, 'child']\n{before}, 'parent']\n", "")
