#!/usr/bin/env bash
# Makes a virtual environment with what the Python package is built and tested with, or finds it there:
#   python/make_environment.sh FOLDER
# Exit code 77 where it cannot be had, for example without a network.
set -euo pipefail
folder=${1:?usage: make_environment.sh FOLDER}
packages=('nanobind>=2.4' 'scikit-build-core>=0.11' numpy pytest pytest-timeout mypy)
mark="$folder/packages"

if [ -x "$folder/bin/python" ] && [ "$(cat "$mark" 2>/dev/null)" = "${packages[*]}" ]; then
  exit 0
fi
give_up() {
  echo "SKIPPED: $1" >&2
  exit 77
}
rm -rf "$folder"
python3 -m venv "$folder" >/dev/null || give_up "no virtual environment can be made: python3-venv"
timeout 600 "$folder/bin/pip" install --quiet --no-input "${packages[@]}" 2>/dev/null ||
  give_up "pip cannot install ${packages[*]}"
echo "${packages[*]}" >"$mark"
