#!/usr/bin/env python3
"""Writes docs/energon-compat.md: each public name of megatron-energon, and its equivalent here. Also
writes python/energon_cpp/_energon_names.py: the names that each module of Energon has here.

    python3 python/tools/make_energon_compat.py [--package FOLDER_OR_WHEEL] [--check]

The package is read as text, not imported: a folder that contains `megatron/energon`, a wheel, or by
default the installed package. energon_compat.json, next to this script, has an entry for each name.
A name that only one of them has is an error. --check writes nothing, and fails if one of the two
files differs from the text that would be written.

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
import textwrap
import zipfile
from typing import Any

from energon_names import (
    Modules,
    PublicName,
    bound_names,
    defined_names,
    listed_names,
    names_by_module,
    parse,
    public_names,
)

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "docs" / "energon-compat.md"
DATA = HERE / "energon_compat.json"
PACKAGE = HERE.parent / "energon_cpp"
TABLE = PACKAGE / "_energon_names.py"
# Names that are others here, with the module that defines them.
OTHER_NAMES = {
    f"tools.{tool}.command": ("_program", f"{tool}_command")
    for tool in ("analyze_debug", "info", "lint", "prepare", "prepare_media", "preview")
} | {"tools.checkpoint.command_redist": ("_program", "redistribute_command")}
# Names that modules have here in addition to those of Energon.
MORE_NAMES = {"cache": ["JsonlFileStore", "WebdatasetFileStore"], "flavors": ["VQAOCRSample"]}
STATES = ("same", "differs", "absent")

HEAD = """# Names of Megatron-Energon

Each public name of megatron-energon {version}, and its equivalent in `energon_cpp`. Of {total} names, {same} are the same, {differs} differ
and {absent} are absent. Members of an absent class are neither counted nor listed. A script that uses only names that are the same runs after
`import energon_cpp as energon`; `megatron.energon.MODULE` becomes `energon_cpp.MODULE`. Each module of Energon has those of its names that
exist here, including names that it imports from its own package. [python.md](python.md#scripts-written-for-megatron-energon) shows how
scripts run without any change.

* **same**: the same name, parameters and meaning.
* **differs**: the name and the parameters exist; the line describes the difference.
* **absent**: the name does not exist; the line gives the reason or an alternative.

Parameters are listed with the names. This file is written by `python/tools/make_energon_compat.py`. General differences are described in
[python.md](python.md#what-differs-from-energon). `ctest -L peers` compares both packages with the same task encoders over 100 random
configurations: prepared files, order, keys, the bytes of all fields, exceptions, and the batches after a save and a restore.

Energon's sources after {version}, which are not released, have new names. These exist here: `__class__: Recipe` for `MetadatasetV2`; `tags`
for `subflavors` in metadatasets and `dataset.yaml`, `Cooker(has_tags=...)`, `sample.__tags__`; `blend_weight_unit: samples`. These are
absent: weights in other units with `@sample_size_metric` (in C++: `BlendBy::kShare`), weights that change during a run, `filter` of a
dataset, byte ranges as auxiliary data, Parquet, `Sample(__tags__=...)`, the packages `megatron.energon.recipe` and
`megatron.energon.dataloader`, and the packing encoder in `task_encoder.multimodal`.

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


# --- The table of modules ---

TABLE_HEAD = '''"""The modules of Megatron-Energon {version}, and the names that each of them has here.

By module, then by the module of this package that defines the names; "" is the package itself.
NAME=OTHER is called OTHER where it is defined.
Written by python/tools/make_energon_compat.py.
"""

NAMES: dict[str, dict[str, str]] = {{
'''


def table_of(theirs: Modules, data: dict[str, dict[str, Any]], version: str) -> str:
    files = {str(p.relative_to(PACKAGE)): p.read_text("utf-8") for p in PACKAGE.rglob("*.py")}
    ours = parse(files)
    text = TABLE_HEAD.format(version=version)
    for module, names in modules_here(theirs, data, ours).items():
        homes: dict[str, list[str]] = {}
        for name in sorted(names, key=lambda name: (name.lower(), name)):
            homes.setdefault(names[name], []).append(name)
        lines = "".join(line_of_home(home, homes[home]) for home in sorted(homes))
        text += f'    "{module}": ' + (f"{{\n{lines}    }},\n" if lines else "{},\n")
    return text + "}\n"


def modules_here(
    theirs: Modules, data: dict[str, dict[str, Any]], ours: Modules
) -> dict[str, dict[str, str]]:
    """By module: its names that exist here, with the module that defines each; NAME=OTHER where it
    has another name there. Leaves out modules that only import such names."""
    table: dict[str, dict[str, str]] = {}
    for module, names in names_by_module(theirs).items():
        table[module] = {}
        for name, path in names.items():
            key = None if path is None else entry_of(path, data)
            if path in OTHER_NAMES and name == path.rpartition(".")[2]:
                home, other = OTHER_NAMES[path]
                table[module][f"{name}={other}"] = home
            elif key is None or data[key]["is"] != "absent":
                home = home_of(name, module, ours, is_constant=path is None)
                table[module] |= {} if home is None else {name: home}
        defined = {name for name in defined_names(theirs[module]) if not name.startswith("T_")}
        is_package = any(other.startswith(f"{module}.") for other in theirs)
        kept_names = {name.partition("=")[0] for name in table[module]}
        if not is_package and not defined & kept_names:
            table[module] = {}
    for module, more in MORE_NAMES.items():
        table[module] |= {name: "" for name in more}
    kept = {module for module, names in table.items() if module and names}
    parents = {module.rpartition(".")[0] for module in kept} - {""}
    return {module: names for module, names in table.items() if module in kept | parents}


def home_of(name: str, module: str, ours: Modules, is_constant: bool) -> str | None:
    """The module that has the name of `module` of Energon; "" if the package itself has it. None
    for a constant that does not exist here."""
    if name in listed_names(ours[""]):
        return ""
    if module in ours and name in bound_names(ours[module]):
        return module
    homes = [home for home, tree in ours.items() if name in defined_names(tree)]
    homes = homes or [home for home, tree in ours.items() if name in listed_names(tree)]
    if len(homes) == 1:
        return homes[0]
    if is_constant:
        package = module.partition(".")[0]
        return package if package in homes else None
    sys.exit(f"'{name}' must be defined in one module of energon_cpp, found in {homes}")


def line_of_home(home: str, names: list[str]) -> str:
    line = f'        "{home}": "{" ".join(names)}",'
    if len(line) <= 100:
        return line + "\n"
    parts = textwrap.wrap(" ".join(names), 82)
    quoted = [f'            "{part}{" " if part is not parts[-1] else ""}"' for part in parts]
    return f'        "{home}": (\n' + "\n".join(quoted) + "\n        ),\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--package", help="a folder or wheel (default: the installed package)")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if it differs")
    options = parser.parse_args()
    version, files = read_package(options.package)
    data = read_data()
    modules = parse(files)
    used = names_by_entry(public_names(modules), data)
    lines = [line_of(key, used[key], data[key]) for key in used]
    counts = dict.fromkeys(STATES, 0)
    for key, about in used.items():
        # A class that is absent counts once: its members need no reason of their own.
        counts[data[key]["is"]] += len(about) if "*" in key else 1
    head = HEAD.format(version=version, total=sum(counts.values()), **counts)
    text = head + "| name | | reason or difference |\n|---|---|---|\n"
    text += "\n".join(lines) + "\n"
    written = {DOCUMENT: text, TABLE: table_of(modules, data, version)}
    for path, content in written.items():
        if not options.check:
            path.write_text(content, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != content:
            sys.exit(f"{path.name} is out of date: run this script without --check")
    if not options.check:
        print(f"{len(lines)} lines")


if __name__ == "__main__":
    main()
