#!/usr/bin/env bash
# From a fresh Debian 12 machine to an exactly resumed epoch, in one command:
#
#   bash examples/quickstart.sh              makes a small multimodal demo set
#   bash examples/quickstart.sh SHARDS       uses yours: a folder, a .tar, a .tgz, .tar.gz or .tar.zst
#
# Your shards are only read: they are linked into a temporary folder, which is removed at the end.
# ENERGON_BUILD_DIR names a build folder to use instead of installing and building.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

step() { printf '\n== %s\n' "$*"; }
fail() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }

source_path=${1:-}
if [[ -n $source_path ]]; then
  source_path=$(realpath -- "$source_path") || fail "no such file or folder: $1"
  [[ -e $source_path ]] || fail "no such file or folder: $1"
fi

log=$(mktemp)
work=$(mktemp -d)
trap 'rm -rf "$work" "$log"' EXIT

build=${ENERGON_BUILD_DIR:-}
if [[ -z $build ]]; then
  step "1. Install what is missing"
  bash "$root/tools/install_dependencies.sh" minimal
  echo "done"

  step "2. Build (a few minutes the first time)"
  cmake=/usr/bin/cmake
  [[ -x $cmake ]] || cmake=cmake
  build=$root/build/quickstart  # the release preset as a user builds it: without tests, and warnings are not errors
  options=(-D ENERGON_DEVELOPER_MODE=OFF -D ENERGON_BUILD_TESTS=OFF -D ENERGON_BUILD_BENCH=OFF -D ENERGON_BUILD_EXAMPLES=ON
    -D ENERGON_TORCH=OFF -D CMAKE_UNITY_BUILD=ON "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG")
  if ! (cd "$root" && "$cmake" --preset release -B "$build" "${options[@]}" &&
    "$cmake" --build "$build" --target energon make_demo_data) >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    fail "the build failed"
  fi
fi
energon=$build/cli/energon
"$energon" --version

step "3. Data"
data=$work/shards
export ENERGON_CACHE_DIR=$work/cache
mkdir -p "$data"
if [[ -z $source_path ]]; then
  "$build/examples/make_demo_data" "$data"
elif [[ -d $source_path ]]; then
  (cd "$source_path" && find -L . -type f \( -name '*.tar' -o -name '*.tgz' -o -name '*.tar.gz' -o -name '*.tar.zst' \) -print0) |
    while IFS= read -r -d '' name; do
      mkdir -p "$data/$(dirname "$name")"
      ln -s "$source_path/$name" "$data/$name"
    done
  echo "using the shards of $source_path"
else
  ln -s "$source_path" "$data/"
  echo "using $source_path"
fi

step "4. Prepare, and look at it"
"$energon" prepare "$data" --split-ratio 1,0,0 --non-interactive --checksums
"$energon" preview "$data" --count 1

flags=(--num-workers 2 --batch-size 8 --shuffle-buffer-size 100 --epochs 1)
step "5. Load an epoch with 2 workers"
"$energon" bench "$data" "${flags[@]}" --repetitions 1 --warmup-batches 0

step "6. Decode an epoch: images, texts and JSON as they go to the model"
if ! "$energon" bench "$data" "${flags[@]}" --repetitions 1 --warmup-batches 0 --decode torchrgb8; then
  echo "Not everything can be decoded: energon lint PATH --decode names what cannot, and why."
fi

step "7. Save in the middle, resume in a new process"
"$energon" run "$data" "${flags[@]}" >"$work/whole.jsonl"
batches=$(wc -l <"$work/whole.jsonl")
middle=$((batches / 2))
"$energon" run "$data" "${flags[@]}" --limit "$middle" --save-after "$middle" --save-to "$work/state" >"$work/resumed.jsonl"
echo "saved after batch $middle of $batches: $(wc -c <"$work/state") bytes"
"$energon" run "$data" "${flags[@]}" --restore-from "$work/state" >>"$work/resumed.jsonl"
if ! cmp "$work/whole.jsonl" "$work/resumed.jsonl"; then
  fail "the resumed stream is DIFFERENT"
fi
echo "both streams are identical: $batches batches, keys and digests of all bytes"

step "8. Fetch one sample by its key"
key=$(sed -n '1s/.*"keys":\["\([^"]*\)".*/\1/p' "$work/whole.jsonl")
"$energon" get "$data" "$key"
