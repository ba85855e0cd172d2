#!/usr/bin/env bash
# Measures which lines the tests run: builds preset coverage, runs all tests, prints a table by folder.
#   bash tools/coverage.sh                     the table
#   bash tools/coverage.sh --lines FOLDER      the lines below FOLDER that no test runs, from the last run
# Lines that run only in processes killed by a signal count as not run, because their counters are lost.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/coverage

if [ "${1:-}" != --lines ]; then
  cmake --preset coverage >/dev/null
  cmake --build --preset coverage
  find "$build" -name '*.gcda' -delete
  ctest --preset coverage -j "$(nproc)" || echo "tests failed; the table covers what ran" >&2
fi
python3 -B tools/coverage_table.py "$build" "$@"
