#!/usr/bin/env bash
# clang-tidy over the libraries and the program, or over the files given: tools/tidy.sh [FILE…]
# .clang-tidy has the checks. Takes about 25 minutes of CPU.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v clang-tidy-14 >/dev/null; then
  echo "tools/tidy.sh: clang-tidy-14 is missing: apt-get install clang-tidy-14" >&2
  exit 1
fi
if [ $# -eq 0 ]; then
  mapfile -t files < <(git ls-files 'io/*.cpp' 'energon/*.cpp' 'media/*.cpp' 'wrappers/*.cpp' 'cli/*.cpp' ':!energon/torch')
  set -- "${files[@]}"
fi
printf '%s\n' "$@" |
  xargs -P "$(nproc)" -I{} sh -c 'clang-tidy-14 --quiet "$1" -- -std=c++20 -I. -DENERGON_VERSION=\"0\" 2>/dev/null' sh {}
echo "clean: $# files"
