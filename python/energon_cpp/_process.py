"""Prepares the interpreter before and after the forks of a loader."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import threading


def descriptors_to_keep() -> list[int]:
    """The pipe of multiprocessing's resource tracker, which workers may use."""
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    if tracker is None:
        return []
    descriptor = getattr(tracker._resource_tracker, "_fd", None)
    return [] if descriptor is None else [descriptor]


def before_fork() -> None:
    """Flushes the output streams, so that buffered text is not written by both processes."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # missing or closed


def begin_fork_server() -> None:
    """Keeps the collector from writing to existing objects, whose memory the workers share."""
    gc.disable()
    gc.freeze()


# The index of this worker in its rank, or None if this process is not a worker.
worker_id: int | None = None
_is_worker = False


def begin_worker() -> None:
    global worker_id, _is_worker
    _is_worker = True
    worker_id = _own_number()
    _let_terminate_children()
    gc.enable()
    for stream in (sys.stdout, sys.stderr):
        try:
            # Also if PYTHONUNBUFFERED is set: parts of lines of two workers would mix.
            stream.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]
        except (AttributeError, OSError, ValueError):
            pass
    if faulthandler.is_enabled():
        faulthandler.disable()
        faulthandler.enable()
    limit_threads()


def limit_threads() -> None:
    """Gives torch one thread in a worker, also if it is imported there."""
    torch = sys.modules.get("torch")
    if torch is not None and _is_worker:
        torch.set_num_threads(1)


def _own_number() -> int | None:
    """The index in the name of this process: workers are called energon-w0, energon-w1, ..."""
    try:
        with open("/proc/self/comm", encoding="ascii") as file:
            return int(file.read().strip().removeprefix("energon-w"))
    except (OSError, ValueError):
        return None


def _let_terminate_children() -> None:
    """Lets SIGTERM end the processes of multiprocessing that a function starts. Workers ignore the
    signal, but terminate() sends it, so a Pool would wait forever. A signal that arrives before the
    child has restored the default action is blocked until then."""
    masks = threading.local()

    def before() -> None:
        masks.own = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def after_in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.own)

    def after_in_child() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.own)

    os.register_at_fork(
        before=before, after_in_parent=after_in_parent, after_in_child=after_in_child
    )
