"""CPU time, memory and disk reads of this process and of all its descendants, from /proc.

This process is a fork of one that only imported modules and waits (python_run.py --serve)."""

from __future__ import annotations

import os
import pathlib

TICK = 1 / os.sysconf("SC_CLK_TCK")


def descendants() -> list[int]:
    """Live descendants of this process."""
    parents: dict[int, int] = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                parents[int(entry.name)] = int(fields[1])
    found = [os.getpid()]
    for pid in found:  # grows while it is read
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def cpu_seconds() -> float:
    """User and system time of the processes, with that of children that ended."""
    total = 0
    for pid in [os.getpid(), *descendants()]:
        fields = _stat(pid)
        if fields:
            total += sum(int(value) for value in fields[11:15])
    return total * TICK


def disk_bytes() -> int:
    """Bytes that the processes, with children that ended, had to fetch from a disk because they were
    not cached."""
    total = 0
    for pid in [os.getpid(), *descendants()]:
        try:
            text = pathlib.Path(f"/proc/{pid}/io").read_text()
        except OSError:
            continue
        lines = [line for line in text.splitlines() if line.startswith("read_bytes:")]
        total += sum(int(line.split()[1]) for line in lines)
    return total


def pss_bytes() -> int:
    """Memory; shared memory counts once. Modules are also mapped by the process that imported them,
    so its share of them is added."""
    total = 0
    for pid in [os.getppid(), os.getpid(), *descendants()]:
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        lines = [line for line in text.splitlines() if line.startswith("Pss:")]
        total += int(lines[0].split()[1]) * 1024 if lines else 0
    return total


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, or [] if the process has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()
