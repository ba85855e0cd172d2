#!/usr/bin/env bash
# Builds the preset release and runs all benchmarks; results go to bench/results/*.json.
#   bench/run_all.sh [DATA_FOLDER]     by default $TMPDIR/energon-bench; needs 6 GB
# BUILD_DIR: another build folder. Run it on an idle machine: the report contains the load.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD_DIR:-build/release}
data=${1:-${TMPDIR:-/tmp}/energon-bench}

cmake --preset release -B "$build" -D CMAKE_UNITY_BUILD=ON  # a third of the build time
programs=(bench_raw_read bench_large_bytes bench_ring bench_loader bench_small_samples bench_rotation bench_small_batches bench_save_restore bench_large_states bench_startup bench_opening bench_shuffle_buffer bench_prepare bench_media_decode bench_media_crops bench_media_video bench_media_memory)
cmake --build "$build" --target "${programs[@]}"
for program in "${programs[@]}"; do
  "$build/bench/$program" --data "$data"
  echo
done
BUILD_DIR=$build bench/peers/compare_torch.sh "$data" || [ $? -eq 77 ]  # needs torch, which may be missing
echo "Results are in bench/results; bench/results/make_table.py writes them into README.md and docs."
