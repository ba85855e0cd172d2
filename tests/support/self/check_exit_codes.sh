#!/usr/bin/env bash
# check_exit_codes.sh PROGRAM: checks the exit codes of a test program whose cases pass, fail or are skipped.
set -euo pipefail
program=$1
status=0

expect() {  # expect CODE TEXT ARGUMENTS…
  local code=$1 text=$2 got=0 output
  shift 2
  output=$("$program" "$@" 2>&1) || got=$?
  if [ "$got" -ne "$code" ] || [[ $output != *"$text"* ]]; then
    printf '%s: exit code %s, expected %s and "%s"; output:\n%s\n' "$*" "$got" "$code" "$text" "$output" >&2
    status=1
  fi
}

expect 0 "All tests passed" "passes"
expect 77 "SKIPPED: its data is missing" "is skipped"
expect 0 "skipped: is skipped: its data is missing" "passes,is skipped"
expect 1 "failed" "fails after it was skipped"
expect 1 "failed" "passes,fails after it was skipped,is skipped"
expect 1 "failed" "fails 77 times"
expect 1 "no test case matches" "there is no such case"
expect 1 "forks without the tag [fork]: forks untagged" "forks untagged"
expect 0 "All tests passed" "forks"
exit $status
