#!/usr/bin/env bash
# Builds energon::torch, its tests and the dispatch example against the torch package of PyPI, and runs them.
#   bash tests/torch2/run.sh BUILD_DIR [WORK_DIR]
# BUILD_DIR is a finished build (any preset without sanitizers). The package is installed into a virtual environment in WORK_DIR
# ($XDG_CACHE_HOME/energon-tests/torch2) and kept there; ENERGON_TORCH_PREFIX names one that is installed elsewhere. Exits with 77,
# which is "skipped", where it cannot be installed.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
work=${2:-${XDG_CACHE_HOME:-$HOME/.cache}/energon-tests/torch2}
mkdir -p "$work"

skip() {
  echo "SKIPPED: $1"
  exit 77
}

# The libraries alone: no Python program imports the package. The wheel of PyPI is built with CUDA, and libtorch_cpu needs two small
# libraries of it; their versions are those that the package asks for.
install_torch() {
  python3 -m venv "$work/venv" || return 1
  "$work/venv/bin/pip" install --quiet --no-deps torch || return 1
  local packages toolkit
  packages=$(echo "$work"/venv/lib/python3*/site-packages)
  toolkit=$(sed -nE 's/^Requires-Dist: cuda-toolkit\[.*\]==([0-9]+\.[0-9]+).*/\1/p' "$packages"/torch-*/METADATA)
  if [ -n "$toolkit" ]; then
    "$work/venv/bin/pip" install --quiet --no-deps "nvidia-cuda-runtime==$toolkit.*" "nvidia-cuda-cupti==$toolkit.*" || return 1
  else
    sed -nE 's/^Requires-Dist: (nvidia-cuda-(runtime|cupti)-cu[0-9]+==[0-9.]+).*/\1/p' "$packages"/torch-*/METADATA |
      xargs -r "$work/venv/bin/pip" install --quiet --no-deps || return 1
  fi
}

prefix=${ENERGON_TORCH_PREFIX:-}
if [ -z "$prefix" ]; then
  if [ ! -e "$work/installed" ]; then
    rm -rf "$work/venv"
    install_torch || skip "torch cannot be installed from PyPI"
    touch "$work/installed"
  fi
  prefix=$(echo "$work"/venv/lib/python3*/site-packages/torch)
fi
[ -e /usr/include/gloo/algorithm.h ] || [ -e "$prefix/include/gloo/algorithm.h" ] ||
  skip "the headers of gloo (libgloo-dev) are not there, which ProcessGroupGloo.hpp includes"
if ldd "$prefix/lib/libtorch_cpu.so" | grep "not found"; then
  skip "libtorch_cpu needs the libraries above"
fi

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S "$source/tests/torch2" -B "$work/build" "${generator[@]}" -D CMAKE_BUILD_TYPE=Debug \
  -D ENERGON_BUILD_DIR="$build" -D ENERGON_TORCH_PREFIX="$prefix"
cmake --build "$work/build"
"$work/build/torch_tests"

data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
"$build/examples/make_demo_data" "$data/demo" 60 3
"$build/cli/energon" prepare "$data/demo" --split-ratio 1,0,0
ranks=()
for rank in 0 1 2; do
  timeout 120 "$work/build/dispatch" "$data/demo" "$data/store" $rank 3 >"$data/rank$rank" &
  ranks+=($!)
done
for rank in "${ranks[@]}"; do
  wait "$rank"
done
cat "$data"/rank?
for rank in 0 1 2; do
  grep -q "^rank $rank: [1-9][0-9]* steps, [1-9][0-9]* samples$" "$data/rank$rank"
done
grep -h TORCH_VERSION\  "$prefix/include/torch/csrc/api/include/torch/version.h" || true
echo "passed with the torch package in $prefix"
