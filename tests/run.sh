#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests: preset dev, and with `all` also asan and tsan.
#   bash tests/run.sh [dev|asan|tsan|release|all]…
set -euo pipefail
cd "$(dirname "$0")/.."

bash tools/install_dependencies.sh

# Without an environment the Python package is neither built nor tested.
bash python/make_environment.sh build/python_environment || [ $? -eq 77 ]

presets=("${@:-dev}")
if [ "${presets[0]}" = all ]; then
  presets=(dev asan tsan)
fi
for preset in "${presets[@]}"; do
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset"
  ctest --preset "$preset" -j "$(nproc)"
done
