#!/usr/bin/env bash
# Compares bench_media_crops and the Python package with torch's DataLoader and torchvision, all with two workers, in turn.
#   bench/peers/compare_torch.sh [DATA_FOLDER [options of compare_torch.py]]
# BUILD_DIR: the folder of a finished build (build/release); with the target energon_python, the report has rows
# for the package. PEERS_JSON: the report. PEERS_PYTHON: a Python with torch and torchvision, of the version
# that the package was built for; without it they are installed into a virtual environment in
# $XDG_CACHE_HOME/energon-bench/torch and kept there: CPU builds from PyTorch's own index, otherwise those
# from PyPI, which bring 6 GB of CUDA libraries. Exits with 77 if neither can be installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath -m "${BUILD_DIR:-build/release}")
data=${1:-${TMPDIR:-/tmp}/energon-bench}
[ $# -eq 0 ] || shift
environment=${XDG_CACHE_HOME:-$HOME/.cache}/energon-bench/torch

works() { "$1" -c "import torch, torchvision; from torchvision.io import decode_jpeg" > /dev/null 2>&1; }
skip() {
  echo "SKIPPED: $1"
  exit 77
}
pip_install() {
  python3 -m venv --clear "$environment" > /dev/null &&
    timeout 1800 "$environment/bin/pip" install --quiet --no-input --retries 1 "$@" torch torchvision numpy > /dev/null 2>&1 &&
    works "$environment/bin/python"
}

python=${PEERS_PYTHON:-$environment/bin/python}
if ! works "$python"; then
  [ -z "${PEERS_PYTHON:-}" ] || skip "$PEERS_PYTHON cannot import torch and torchvision"
  pip_install --index-url https://download.pytorch.org/whl/cpu --extra-index-url https://pypi.org/simple || pip_install ||
    skip "torch and torchvision cannot be installed; name a Python that has them in PEERS_PYTHON"
fi
[ -x "$build/bench/bench_media_crops" ] || skip "there is no $build/bench/bench_media_crops; build it, or set BUILD_DIR"
export PYTHONPATH=$build/python/package
without=()
if ! "$python" -c "import energon_cpp" > /dev/null 2>&1; then
  echo "without the Python package: $python cannot import it from $PYTHONPATH"
  without=(--without-python)
fi
python3 -B bench/peers/compare_torch.py --bench "$build/bench/bench_media_crops" --python "$python" --data "$data" \
  --json "${PEERS_JSON-bench/results/media_torch.json}" "${without[@]}" "$@"
