#!/usr/bin/env bash
# Formats all sources; with --check, only lists unformatted files, and fails if there are any (exit code 77 without clang-format-14).
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
if [ "${1:-}" = --check ]; then
  mode=(--dry-run --Werror)
fi
if ! command -v clang-format-14 >/dev/null; then
  echo "SKIPPED: clang-format-14 is missing" >&2
  exit 77
fi
find io energon media wrappers protocols cli python tests bench examples \( -name '*.h' -o -name '*.cpp' \) -print0 |
  xargs -0 clang-format-14 "${mode[@]}"
