#!/usr/bin/env bash
# Builds preset fuzz and runs its targets, one after another: tools/fuzz.sh [--runs N | --seconds N] [TARGET...]
#
# Without targets: all, those of tests/fuzz/CMakeLists.txt. Without a number: 60 seconds each. Prints a line for each target.
# Stops at the first input that breaks one; libFuzzer writes it to build/fuzz. Seeds are made of files of the repository and, where
# it is there, of ../shared/data; build/fuzz/corpus keeps what was found.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=-1
seconds=60
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --runs) runs=$2 seconds=0 && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    -*) echo "usage: tools/fuzz.sh [--runs N | --seconds N] [TARGET...]" >&2 && exit 2 ;;
    *) targets+=("$1") && shift ;;
  esac
done

cmake --preset fuzz >/dev/null
if [ ${#targets[@]} = 0 ]; then
  cmake --build --preset fuzz
  for program in build/fuzz/tests/fuzz/fuzz_*; do
    if [ -f "$program" ] && [ -x "$program" ]; then
      targets+=("$(basename "$program" | sed 's/^fuzz_//')")
    fi
  done
else
  cmake --build --preset fuzz --target "${targets[@]/#/fuzz_}"
fi
seeds=build/fuzz/seeds
shared=../shared/data
if [ -d $shared ]; then
  python3 tests/fuzz/make_seeds.py $seeds $shared
else
  python3 tests/fuzz/make_seeds.py $seeds
fi

# Freed memory that is watched: less is faster.
export ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=4}

run_target() {
  local target=$1 corpus=build/fuzz/corpus/$1 log=build/fuzz/$1.log
  # What a hostile file may cost: ten seconds, two GiB of memory.
  local options=(-timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="build/fuzz/${target}_")
  local folders=("$corpus")
  mkdir -p "$corpus"
  if [ -d "$seeds/$target" ]; then
    folders+=("$seeds/$target")
    case $target in
      av_* | sample_decoder) options+=(-max_len=8192) ;;
      *) options+=(-max_len=4096) ;;
    esac
  else
    folders+=(tests/golden/second)  # states and samples
    options+=(-max_len=1000000)
  fi
  if [ -f "tests/fuzz/media/$target.dict" ]; then
    options+=(-dict="tests/fuzz/media/$target.dict")
  fi
  if ! "build/fuzz/tests/fuzz/fuzz_$target" "${options[@]}" -runs="$runs" -max_total_time="$seconds" "${folders[@]}" >"$log" 2>&1; then
    tail -60 "$log"
    return 1
  fi
  awk -v target="$target" '
    / cov: / { for (i = 1; i < NF; ++i) if ($i == "cov:") edges = $(i + 1) }
    /^stat::number_of_executed_units/ { runs = $2 }
    /^stat::average_exec_per_sec/ { rate = $2 }
    END { printf "%-18s %10d runs, %6d edges, %7d runs a second\n", target, runs, edges, rate }' "$log"
}
for target in "${targets[@]}"; do
  run_target "$target"
done
