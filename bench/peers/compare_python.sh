#!/usr/bin/env bash
# Compares energon_cpp with other Python loaders, in turn.
#   bench/peers/compare_python.sh [DATA_FOLDER [options of compare_python.py]]
# Texts through a tokenizer of Hugging Face, a report of their own:
#   PEERS_JSON=bench/results/peers_tokens.json bench/peers/compare_python.sh DATA_FOLDER --report peers_tokens \
#     --loaders energon_cpp megatron_energon --batches 64
# BUILD_DIR: the folder of a finished build (build/release) with the Python package and the program:
#   bash python/make_environment.sh build/python_environment && cmake --preset release
#   cmake --build --preset release --target energon_python energon
# PEERS_PYTHON: a Python of the version that the package was built for, with torch, torchvision, numpy
# and the other loaders to compare. Without it they are installed into a virtual
# environment in $XDG_CACHE_HOME/energon-bench/python and kept there (7 GB). PEERS_JSON: the report.
# Exits with 77 if the package or torch is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${BUILD_DIR:-build/release}")
data=${1:-${TMPDIR:-/tmp}/energon-bench}
[ $# -eq 0 ] || shift
environment=${XDG_CACHE_HOME:-$HOME/.cache}/energon-bench/python
json=${PEERS_JSON-bench/results/peers_python.json}

skip() {
  echo "SKIPPED: $1"
  exit 77
}
pip_install() { timeout 1800 "$environment/bin/pip" install --quiet --no-input --retries 1 "$@" > /dev/null 2>&1; }
works() { "$1" -c "import numpy, torch, PIL, energon_cpp" > /dev/null 2>&1; }

export PYTHONPATH=$build/python/package
for file in "$build/cli/energon" "$PYTHONPATH/energon_cpp/_core.pyi"; do
  [ -e "$file" ] || skip "there is no $file; build the targets energon_python and energon, or set BUILD_DIR"
done
python=${PEERS_PYTHON:-$environment/bin/python}
if ! works "$python"; then
  [ -z "${PEERS_PYTHON:-}" ] || skip "$PEERS_PYTHON cannot import energon_cpp, torch, numpy and Pillow"
  python3 -m venv --clear "$environment" > /dev/null || skip "cannot create a virtual environment: python3-venv"
  pip_install --index-url https://download.pytorch.org/whl/cpu --extra-index-url https://pypi.org/simple torch torchvision numpy pillow ||
    pip_install torch torchvision numpy pillow || skip "torch cannot be installed; name a Python that has it in PEERS_PYTHON"
  works "$python" || skip "$python cannot import energon_cpp; it was built for another version of Python"
  # Installed one by one, so that a failure does not affect the others. mosaicml-streaming requires the SDKs of all clouds, which local data does not
  # need.
  for packages in webdataset torchdata megatron-energon==7.4.1 litdata "grain array_record" spdl nvidia-dali-cuda120 \
    "--no-deps mosaicml-streaming" "catalogue zstandard zstd python-snappy xxhash Brotli transformers"; do
    # shellcheck disable=SC2086 # several words
    pip_install $packages || echo "cannot be installed: $packages"
  done
fi
exec python3 -B bench/peers/compare_python.py --python "$python" --energon "$build/cli/energon" --data "$data" --json "$json" "$@"
