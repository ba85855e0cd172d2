"""The build backend: scikit-build-core without source distributions."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from scikit_build_core.build import *  # noqa: F403


def build_sdist(sdist_directory: str, config_settings: Any = None) -> NoReturn:
    sys.exit(
        "energon_cpp has no source distribution: the C++ libraries are outside the folder python. "
        "In a clone: pip install ./python, or python -m build --wheel ./python"
    )
