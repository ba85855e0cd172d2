#!/usr/bin/env bash
# Builds the fuzz targets and runs them, one per core at a time:
#   tools/fuzz.sh [--runs N | --seconds N] [--seed N] [--preset asan] [TARGET...]
#
# Runs all targets of tests/fuzz/CMakeLists.txt by default, 60 seconds each. With --seed, every run tries the same inputs in the same
# order. Prints a line per target. --preset asan: in build/asan, where most of the
# libraries may be built already.
# Fails if an input breaks a target; libFuzzer writes it to build/fuzz. Inputs to start from are those in tests/fuzz/corpus.tar.xz, and
# seeds that are made of files of the repository and, where it is there, of ../shared/data; build/fuzz/corpus keeps what was found.
# --pack rewrites tests/fuzz/corpus.tar.xz: from build/fuzz/corpus and the repository's seeds, it selects small inputs that reach all edges.
# ENERGON_OWN_SEEDS=1 excludes ../shared/data, whose files must not get into the corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=-1
seconds=60
pack=no
seed=0
preset=fuzz
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --runs) runs=$2 seconds=0 && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    --seed) seed=$2 && shift 2 ;;
    --preset) preset=$2 && shift 2 ;;
    --pack) pack=yes && shift ;;
    -*) echo "usage: tools/fuzz.sh [--runs N | --seconds N | --pack] [--seed N] [--preset NAME] [TARGET...]" >&2 && exit 2 ;;
    *) targets+=("$1") && shift ;;
  esac
done

cmake --preset "$preset" -D ENERGON_FUZZ=ON >/dev/null
programs=build/$preset/tests/fuzz
if [ ${#targets[@]} = 0 ]; then
  cmake --build --preset "$preset" --target fuzz_targets
  for program in "$programs"/fuzz_*; do
    if [ -f "$program" ] && [ -x "$program" ]; then
      targets+=("$(basename "$program" | sed 's/^fuzz_//')")
    fi
  done
else
  cmake --build --preset "$preset" --target "${targets[@]/#/fuzz_}"
fi
seeds=build/fuzz/seeds
shared=../shared/data
rm -rf $seeds
if [ -d $shared ] && [ $pack = no ] && [ -z "${ENERGON_OWN_SEEDS:-}" ]; then
  python3 tests/fuzz/make_seeds.py $seeds $shared
else
  python3 tests/fuzz/make_seeds.py $seeds
fi

# Less quarantined memory is faster.
export ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=4}

committed=build/fuzz/committed
rm -rf $committed
mkdir -p $committed
if [ -e tests/fuzz/corpus.tar.xz ]; then
  tar -xJf tests/fuzz/corpus.tar.xz -C $committed
fi

# The folders with inputs of a target, in `folders`, and how large an input may be, in `longest`.
inputs_of() {
  local target=$1
  folders=()
  longest=1000000
  if [ -d "$committed/$target" ]; then
    folders+=("$committed/$target")
  fi
  if [ -d "$seeds/$target" ]; then
    folders+=("$seeds/$target")
    case $target in
      av_* | sample_decoder) longest=8192 ;;
      energon_states) longest=40000 ;;
      *) longest=4096 ;;
    esac
  else
    folders+=(tests/golden/version_1)  # states and samples
  fi
}

run_target() {
  local target=$1 corpus=build/fuzz/corpus/$1 log=build/fuzz/$1.log folders longest
  inputs_of "$target"
  # Limits for a hostile file: ten seconds, two GiB of memory.
  local options=(-timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -seed="$seed" -artifact_prefix="build/fuzz/${target}_" -max_len="$longest")
  mkdir -p "$corpus"
  if [ -f "tests/fuzz/media/$target.dict" ]; then
    options+=(-dict="tests/fuzz/media/$target.dict")
  fi
  if ! "$programs/fuzz_$target" "${options[@]}" -runs="$runs" -max_total_time="$seconds" "$corpus" "${folders[@]}" >"$log" 2>&1; then
    tail -60 "$log"
    return 1
  fi
  awk -v target="$target" '
    / cov: / { for (i = 1; i < NF; ++i) if ($i == "cov:") edges = $(i + 1) }
    /^stat::number_of_executed_units/ { runs = $2 }
    /^stat::average_exec_per_sec/ { rate = $2 }
    END { printf "%-18s %10d runs, %6d edges, %7d runs a second\n", target, runs, edges, rate }' "$log"
}

# Skips inputs above 64 KiB.
pack_target() {
  local target=$1 folders longest
  inputs_of "$target"
  mkdir -p "build/fuzz/corpus/$target" "build/fuzz/packed/$target"
  "$programs/fuzz_$target" -merge=1 -timeout=10 -rss_limit_mb=2048 -max_len="$((longest < 65536 ? longest : 65536))" \
    "build/fuzz/packed/$target" "build/fuzz/corpus/$target" "${folders[@]}" >"build/fuzz/$target.log" 2>&1
}

export programs seeds committed runs seconds seed
export -f inputs_of run_target pack_target
for_each_target() { printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -euo pipefail -c "$1 {}"; }
if [ $pack = yes ]; then
  rm -rf build/fuzz/packed
  for_each_target pack_target
  tar -cJf tests/fuzz/corpus.tar.xz --sort=name --owner=0 --group=0 --mtime=@0 -C build/fuzz/packed .
else
  for_each_target run_target
fi
