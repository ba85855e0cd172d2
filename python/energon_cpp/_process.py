"""What happens in the interpreter around the forks of a loader."""

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
    """Text that waits to be written must not be written by both processes."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # there is none, or it is closed


def begin_fork_server() -> None:
    """Workers share the memory of what exists now: the collector must not write into it."""
    gc.disable()
    gc.freeze()


# The worker of the rank that this process is; None: it is no worker.
worker_id: int | None = None


def begin_worker() -> None:
    global worker_id
    worker_id = _own_number()
    _let_terminate_children()
    gc.enable()
    for stream in (sys.stdout, sys.stderr):
        try:
            # Also where PYTHONUNBUFFERED is set: pieces of lines of two workers would mix.
            stream.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]
        except (AttributeError, OSError, ValueError):
            pass
    if faulthandler.is_enabled():
        faulthandler.disable()
        faulthandler.enable()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def _own_number() -> int | None:
    """Workers are called energon-w0, energon-w1, ..."""
    try:
        with open("/proc/self/comm", encoding="ascii") as file:
            return int(file.read().strip().removeprefix("energon-w"))
    except (OSError, ValueError):
        return None


def _let_terminate_children() -> None:
    """Workers ignore SIGTERM. Processes of multiprocessing that a function starts must not, because
    terminate() sends it: a Pool would wait forever. A signal that comes before the child has set
    this is held back until then."""
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
