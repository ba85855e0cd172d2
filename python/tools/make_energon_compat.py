#!/usr/bin/env python3
"""Writes docs/energon-compat.md: each public name of megatron-energon, and its equivalent here.

    python3 python/tools/make_energon_compat.py [--package FOLDER_OR_WHEEL] [--check]

The package is read as text, not imported: a folder that contains `megatron/energon`, a wheel, or by
default the installed package. energon_compat.json, next to this script, has an entry for each name.
A name that only one of them has is an error. --check writes nothing, and fails if the document
differs from the text that would be written.

The public names are the names in `__all__` of the package and its subpackages, and the classes and
functions of its other modules that do not begin with an underscore. A class has a line for each of
its own public methods. Names that are also in the top package are listed only there.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import pathlib
import sys
import zipfile
from typing import Any

from energon_names import PublicName, public_names

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "docs" / "energon-compat.md"
DATA = HERE / "energon_compat.json"
STATES = ("same", "differs", "absent")

HEAD = """# Names of Megatron-Energon

Each public name of megatron-energon {version}, and its equivalent in `energon_cpp`. Of {total} names, {same} are the same, {differs} differ
and {absent} are absent. Members of an absent class are neither counted nor listed. A script that uses only names that are the same runs after
`import energon_cpp as energon`; `megatron.energon.NAME` and `megatron.energon.MODULE.NAME` become `energon.NAME` and `energon.MODULE.NAME`.

* **same**: the same name, parameters and meaning.
* **differs**: the name and the parameters exist; the line describes the difference.
* **absent**: the name does not exist; the line gives the reason or an alternative.

Parameters are listed with the names. This file is written by `python/tools/make_energon_compat.py`. General differences are described in
[python.md](python.md#what-differs-from-energon). `ctest -L peers` compares both packages with the same task encoders over 100 random
configurations: prepared files, order, keys, the bytes of all fields, exceptions, and the batches after a save and a restore.

"""


def read_package(place: str | None) -> tuple[str, dict[str, str]]:
    """Returns (version, source text by path below megatron/energon)."""
    if place is None:
        return read_folder(installed_folder())
    if place.endswith(".whl"):
        return read_wheel(place)
    return read_folder(pathlib.Path(place) / "megatron" / "energon")


def installed_folder() -> pathlib.Path:
    try:
        found = importlib.util.find_spec("megatron.energon")
    except ModuleNotFoundError:
        found = None
    if found is None or not found.submodule_search_locations:
        sys.exit("megatron-energon is not installed: pip install megatron-energon, or --package")
    return pathlib.Path(next(iter(found.submodule_search_locations)))


def read_folder(folder: pathlib.Path) -> tuple[str, dict[str, str]]:
    metadata = sorted(folder.parents[1].glob("megatron_energon-*.dist-info/METADATA"))
    if not metadata:
        sys.exit(f"{folder.parents[1]} has no metadata of megatron-energon")
    files = {str(p.relative_to(folder)): p.read_text("utf-8") for p in folder.rglob("*.py")}
    return version_in(metadata[-1].read_text("utf-8")), files


def read_wheel(path: str) -> tuple[str, dict[str, str]]:
    with zipfile.ZipFile(path) as wheel:
        texts = {name: wheel.read(name).decode("utf-8") for name in wheel.namelist()
                 if name.endswith((".py", ".dist-info/METADATA"))}  # fmt: skip
    metadata = [text for name, text in texts.items() if name.endswith("METADATA")][0]
    prefix = "megatron/energon/"
    files = {n.removeprefix(prefix): text for n, text in texts.items() if n.startswith(prefix)}
    return version_in(metadata), files


def version_in(metadata: str) -> str:
    lines = [line for line in metadata.splitlines() if line.startswith("Version: ")]
    return lines[0].removeprefix("Version: ")


def read_data() -> dict[str, dict[str, Any]]:
    """Returns {"is": state, "why": text, "without": parameters} by name or pattern."""
    data: dict[str, dict[str, Any]] = {}
    for state, names in json.loads(DATA.read_text("utf-8")).items():
        if state not in STATES:
            sys.exit(f"{DATA.name}: expected one of {STATES}, found '{state}'")
        for name, why in names.items():
            text, *without = why if isinstance(why, list) else [why]
            if name in data or (state != "same" and not text):
                sys.exit(f"{DATA.name}: '{name}' occurs twice, or has no reason")
            data[name] = {"is": state, "why": text, "without": without}
    return data


def entry_of(name: str, data: dict[str, dict[str, Any]]) -> str | None:
    """The key of the entry for `name`: the name itself, its class if the class is absent, else the
    longest pattern that matches."""
    if name in data:
        return name
    owner = name.rpartition(".")[0]
    if owner in data and data[owner]["is"] == "absent":
        return owner
    fits = [key for key in data if "*" in key and fnmatch.fnmatchcase(name, key)]
    return max(fits, key=len, default=None)


def names_by_entry(
    names: list[PublicName], data: dict[str, dict[str, Any]]
) -> dict[str, list[PublicName]]:
    """The names that each entry of the data describes."""
    used: dict[str, list[PublicName]] = {}
    missing = []
    for name in names:
        key = entry_of(name.path, data)
        if key is None:
            missing.append(name.path)
        else:
            used.setdefault(key, []).append(name)
    unused = [key for key in data if key not in used]
    if missing or unused:
        sys.exit(f"{DATA.name} lacks: {' '.join(missing)}\nnot in the package: {' '.join(unused)}")
    return used


def line_of(key: str, names: list[PublicName], entry: dict[str, Any]) -> str:
    why = entry["why"]
    shown = f"`{key}`"
    if entry["is"] != "absent":
        parameters = names[0].parameters
        unknown = [name for name in entry["without"] if name not in (parameters or [])]
        if unknown or "*" in key:
            sys.exit(f"{DATA.name}: '{key}' has no parameters {unknown}, or is a pattern")
        if entry["without"]:
            why += "; without " + ", ".join(f"`{name}`" for name in entry["without"])
        if parameters is not None:
            kept = [name for name in parameters if name not in entry["without"]]
            shown = f"`{key}({', '.join(kept)})`"
    elif "*" in key:
        shown = f"`{key}` ({len(names)})"
    return f"| {shown} | {entry['is']} | {why.replace('|', chr(92) + '|')} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--package", help="a folder or wheel (default: the installed package)")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if it differs")
    options = parser.parse_args()
    version, files = read_package(options.package)
    data = read_data()
    used = names_by_entry(public_names(files), data)
    lines = [line_of(key, used[key], data[key]) for key in used]
    counts = dict.fromkeys(STATES, 0)
    for key, about in used.items():
        # A class that is absent counts once: its members need no reason of their own.
        counts[data[key]["is"]] += len(about) if "*" in key else 1
    head = HEAD.format(version=version, total=sum(counts.values()), **counts)
    text = head + "| name | | reason or difference |\n|---|---|---|\n"
    text += "\n".join(lines) + "\n"
    if options.check:
        if not DOCUMENT.exists() or DOCUMENT.read_text("utf-8") != text:
            sys.exit(f"{DOCUMENT.name} is out of date: run this script without --check")
        return
    DOCUMENT.write_text(text, "utf-8")
    print(f"{len(lines)} lines")


if __name__ == "__main__":
    main()
