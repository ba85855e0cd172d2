#!/usr/bin/env bash
# Makes a virtual environment with the real Megatron-Energon in a folder, or finds it there. Exit code
# 77 where it cannot be had: no network, no CPU build of torch. PEERS_PYTHON: a Python that
# has it, so that nothing is made.
set -euo pipefail
folder=${1:?usage: make_environment.sh FOLDER}
version=7.4.1

if [ -n "${PEERS_PYTHON:-}" ]; then
  "$PEERS_PYTHON" -c "import megatron.energon" > /dev/null 2>&1 && exit 0
  echo "SKIPPED: $PEERS_PYTHON cannot import megatron-energon"
  exit 77
fi
works() { "$folder/bin/python" -c "import megatron.energon" > /dev/null 2>&1; }
works && exit 0

pip_install() { timeout 900 "$folder/bin/pip" install --quiet --no-input "$@" > /dev/null 2>&1; }
give_up() {
  echo "SKIPPED: $1"
  exit 77
}
rm -rf "$folder"
python3 -m venv "$folder" > /dev/null 2>&1 || give_up "no virtual environment can be made"
pip_install --no-deps "megatron-energon==$version" || give_up "megatron-energon $version cannot be installed"
pip_install braceexpand click filetype mfusepy 'multi-storage-client>=0.40.0' numpy pillow pyyaml 'rapidyaml>=0.10.0' s3fs \
  tqdm webdataset || give_up "what megatron-energon needs cannot be installed"
# Of torch only the package itself and what its import needs. Wheels that are at hand first: PyPI's need CUDA's libraries on x86-64.
pip_install filelock typing_extensions sympy networkx jinja2 fsspec || give_up "what torch needs cannot be installed"
pip_install --no-deps --no-index torch || pip_install --no-deps torch || give_up "torch cannot be installed"
works || give_up "megatron-energon cannot be imported, probably for want of a CPU build of torch"
