"""Runs a script or a module with this package under the name megatron.energon.

    python -m energon_cpp.shim train.py ARGUMENTS...
    python -m energon_cpp.shim -m pytest ARGUMENTS...
"""

from __future__ import annotations

import os
import runpy
import sys

from . import install_as_megatron_energon


def main() -> None:
    arguments = sys.argv[1:]
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
