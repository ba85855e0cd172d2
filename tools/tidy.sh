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
# What the build says to single sources.
defines='-DENERGON_VERSION=\"0\" -DENERGON_SENTENCEPIECE_LIBRARY=\"0\"'
for codec in JPEG PNG WEBP GIF TIFF; do
  defines+=" -DENERGON_HAS_$codec=1"
done
printf '%s\n' "$@" |
  xargs -P "$(nproc)" -I{} sh -c 'clang-tidy-14 --quiet "$1" -- -std=c++20 -I. '"$defines"' 2>/dev/null' sh {}
echo "clean: $# files"
