#!/usr/bin/env bash
# Builds preset fuzz and runs each target so many seconds: tools/fuzz.sh [SECONDS]. Stops at the first input that breaks
# one; libFuzzer writes it to build/fuzz. Seeds are the golden files; build/fuzz/corpus keeps what was found.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz
for program in build/fuzz/tests/fuzz/fuzz_*; do
  if [ -x "$program" ] && [ -f "$program" ]; then
    corpus=build/fuzz/corpus/$(basename "$program")
    mkdir -p "$corpus"
    echo "== $(basename "$program")"
    # A megabyte of input, two GiB of memory, ten seconds: what a hostile file may cost.
    log=build/fuzz/$(basename "$program").log
    if ! "$program" -max_total_time="${1:-60}" -timeout=10 -rss_limit_mb=2048 -max_len=1000000 -print_final_stats=1 \
      -artifact_prefix=build/fuzz/ "$corpus" tests/golden/second >"$log" 2>&1; then
      tail -60 "$log"
      exit 1
    fi
    grep 'stat::number_of_executed_units' "$log"
  fi
done
