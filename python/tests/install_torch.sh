#!/usr/bin/env bash
# Installs torch into a virtual environment: install_torch.sh FOLDER
# A build for CPUs if pip finds one (PIP_FIND_LINKS), otherwise the build of PyPI with CUDA's libraries (3 GB), without which it cannot be
# imported.
set -euo pipefail
folder=${1:?usage: install_torch.sh FOLDER}
pip_install() { timeout 1800 "$folder/bin/pip" install --quiet --no-input "$@"; }
pip_install filelock typing_extensions sympy networkx jinja2 fsspec numpy pillow
pip_install --no-deps --no-index torch 2>/dev/null || pip_install torch
"$folder/bin/python" -c "import torch"
