#!/usr/bin/env bash
# Formats all sources; with --check only says which are not formatted, and fails if there are any.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
if [ "${1:-}" = --check ]; then
  mode=(--dry-run --Werror)
fi
find io energon wrappers cli tests bench examples \( -name '*.h' -o -name '*.cpp' \) -print0 |
  xargs -0 clang-format-14 "${mode[@]}"
