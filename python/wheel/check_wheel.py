"""Prints the contents and sizes of a repaired wheel. Fails if the wheel is too large.

    python check_wheel.py WHEEL
"""

from __future__ import annotations

import collections
import pathlib
import re
import sys
import zipfile

LIMIT_BYTES = 12_000_000
# Large libraries, security libraries that the system must update, and a second OpenMP runtime.
FORBIDDEN = re.compile(r"libicu|libcrypto|libssl|libxml2|libx26[45]|libtorch|libpython|lib[gi]omp")
NEEDED = ["energon_cpp/_core.pyi", "energon_cpp/py.typed", "energon_cpp/bin/energon"]


def group_of(name: str) -> str:
    """The line of the table for a file: binary files by name, others by kind."""
    if ".libs/" in name or name.endswith(".so") or "/bin/" in name or "/lib/" in name:
        return re.sub(r"-[0-9a-f]{8}\.", ".", name)
    return "licenses and metadata" if ".dist-info/" in name else "Python"


def main() -> None:
    wheel = pathlib.Path(sys.argv[1])
    with zipfile.ZipFile(wheel) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    sizes: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for entry in entries:
        sizes[group_of(entry.filename)][0] += entry.file_size
        sizes[group_of(entry.filename)][1] += entry.compress_size
    print(f"{'':58} unpacked  in the wheel")
    for name, (unpacked, packed) in sorted(sizes.items(), key=lambda item: -item[1][1]):
        print(f"{name:58} {unpacked / 1e6:5.2f} MB  {packed / 1e6:5.2f} MB")
    total = wheel.stat().st_size
    print(f"{wheel.name}: {total / 1e6:.2f} MB, at most {LIMIT_BYTES / 1e6:.0f} MB")

    names = [entry.filename for entry in entries]
    libraries = [name for name in names if ".so" in name]
    problems = [f"{name} must not be in a wheel" for name in libraries if FORBIDDEN.search(name)]
    problems += [f"{name} is missing" for name in NEEDED if name not in names]
    if total > LIMIT_BYTES:
        problems.append(f"the wheel has {total} bytes, but must have at most {LIMIT_BYTES}")
    sys.exit("\n".join(problems) or None)


if __name__ == "__main__":
    main()
