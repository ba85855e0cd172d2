#!/usr/bin/env bash
# Creates the virtual environment that the Python package is built and tested with, or reuses the one that is there:
#   python/make_environment.sh FOLDER [peers]
# Installs the build tools, pytest, mypy, torch, Pillow, tqdm and webdataset. `peers` adds Lightning, Accelerate, Transformers, notebooks
# and megatron-energon, which the tests labeled `peers` need. Everything comes from PyPI: 1.6 GB, or 5 GB where only torch with CUDA is to
# be had. Exits with 1, after pip's own message, if a package cannot be installed.
set -euo pipefail
folder=${1:?usage: make_environment.sh FOLDER [peers]}
packages=('nanobind>=2.4' 'scikit-build-core>=0.11' numpy pytest pytest-timeout mypy pillow tqdm webdataset)
# Energon's own requirements include packages that no test needs, so they are listed here without those.
peers=(lightning accelerate transformers ipykernel jupyter_client braceexpand click filetype mfusepy
  'multi-storage-client>=0.40.0' pyyaml requests 'rapidyaml>=0.10.0' s3fs)
without_dependencies=(torchdata 'megatron-energon==7.4.1')

# Which packages are there is recorded in a file for each of the two sets.
installed() { [ "$(cat "$folder/$1" 2>/dev/null)" = "$2" ]; }
pip_install() { timeout 1800 "$folder/bin/pip" install --quiet --no-input "$@"; }

if ! installed packages "${packages[*]}" || ! [ -x "$folder/bin/python" ]; then
  rm -rf "$folder"
  python3 -m venv "$folder"
  bash "$(dirname "$0")/tests/install_torch.sh" "$folder"
  pip_install "${packages[@]}"
  echo "${packages[*]}" >"$folder/packages"
fi
if [ "${2:-}" = peers ] && ! installed peers "${peers[*]} ${without_dependencies[*]}"; then
  pip_install --no-deps "${without_dependencies[@]}"
  pip_install "${peers[@]}"
  "$folder/bin/python" -c "import torch, torchdata, lightning, accelerate, transformers, megatron.energon"
  echo "${peers[*]} ${without_dependencies[*]}" >"$folder/peers"
fi
