"""Runs a script or a module with this package under the name megatron.energon.

    python -m energon_cpp.shim train.py ARGUMENTS...
    python -m energon_cpp.shim -m pytest ARGUMENTS...

Energon imports the classes that dataset.yaml names, whatever they are. Here, allow their modules
first, or "*" for all; give the option again for each module:

    python -m energon_cpp.shim --allow-imports megatron.bridge train.py ARGUMENTS...
"""

from __future__ import annotations

import os
import runpy
import sys

from . import allow_imports, install_as_megatron_energon


def main() -> None:
    arguments = sys.argv[1:]
    while len(arguments) > 1 and arguments[0] == "--allow-imports":
        allow_imports(arguments[1])
        del arguments[:2]
    is_module = arguments[:1] == ["-m"]
    sys.argv = arguments[1:] if is_module else arguments
    if not sys.argv or (sys.argv[0].startswith("-") and not is_module):
        sys.exit(__doc__)
    install_as_megatron_energon()
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
