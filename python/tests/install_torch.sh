#!/usr/bin/env bash
# Installs torch, without CUDA's libraries, into a virtual environment: install_torch.sh FOLDER
# Exit code 77 where it cannot be had: no network, no build of torch for CPUs.
set -euo pipefail
folder=${1:?usage: install_torch.sh FOLDER}
pip_install() { timeout 1200 "$folder/bin/pip" install --quiet --no-input "$@" >/dev/null 2>&1; }
give_up() {
  echo "SKIPPED: $1"
  exit 77
}
# Only the package itself and what its import needs. Wheels that are at hand first: PyPI's need CUDA's libraries on x86-64.
pip_install filelock typing_extensions sympy networkx jinja2 fsspec numpy pillow || give_up "what torch needs cannot be installed"
pip_install --no-deps --no-index torch || pip_install torch --index-url https://download.pytorch.org/whl/cpu ||
  pip_install --no-deps torch || give_up "torch cannot be installed"
"$folder/bin/python" -c "import torch" >/dev/null 2>&1 || give_up "torch cannot be imported, probably for want of a CPU build"
