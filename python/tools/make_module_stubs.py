#!/usr/bin/env python3
"""Writes stubs of the modules that energon_cpp makes when they are imported, for type checkers.

    python3 python/tools/make_module_stubs.py FOLDER

FOLDER is that of the package, or a copy. The table is energon_cpp/_energon_names.py. A module that
has a file needs no stub. Type checkers do not find modules below one that is not a folder.
"""

from __future__ import annotations

import pathlib
import runpy
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "energon_cpp"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    names = runpy.run_path(str(PACKAGE / "_energon_names.py"))["NAMES"]
    for module, homes in names.items():
        place = module.replace(".", "/")
        above = place.partition("/")[0]
        files = [PACKAGE / place / "__init__.py", PACKAGE / f"{place}.py", PACKAGE / f"{above}.py"]
        if any(file.is_file() for file in files):
            continue
        is_package = any(other.startswith(f"{module}.") for other in names)
        stub = pathlib.Path(sys.argv[1], place + ("/__init__.pyi" if is_package else ".pyi"))
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text("".join(map(imports, homes, homes.values())), "utf-8")


def imports(home: str, names: str) -> str:
    module = f"energon_cpp.{home}" if home else "energon_cpp"
    pairs = [entry.partition("=") for entry in names.split()]
    return "".join(f"from {module} import {other or name} as {name}\n" for name, _, other in pairs)


if __name__ == "__main__":
    main()
