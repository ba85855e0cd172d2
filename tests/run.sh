#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests: preset dev, or the presets named; `all` is dev, asan and tsan.
#   bash tests/run.sh [--without-python] [dev|asan|tsan|release|all]…
# Lists the tests that were skipped, with the reason of each, at the end. --without-python leaves the Python package out, for a machine
# without PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."

python=yes
if [ "${1:-}" = --without-python ]; then
  python=no
  shift
fi
presets=("${@:-dev}")
if [ "${presets[0]}" = all ]; then
  presets=(dev asan tsan)
fi

bash tools/install_dependencies.sh
options=(-D ENERGON_BUILD_PYTHON=OFF)
if [ $python = yes ]; then
  options=(-D ENERGON_BUILD_PYTHON=AUTO)
  if ! bash python/make_environment.sh build/python_environment; then
    echo "tests/run.sh: the packages for the Python tests cannot be installed (see above). Without them: tests/run.sh --without-python" >&2
    exit 1
  fi
fi

reports=()
for preset in "${presets[@]}"; do
  cmake --preset "$preset" "${options[@]}" >/dev/null
  cmake --build --preset "$preset"
  reports+=("build/$preset/tests.xml")
  ctest --preset "$preset" -j "$(nproc)" --test-output-size-passed 100000 --output-junit "$PWD/build/$preset/tests.xml"
done
python3 tests/skipped.py "${reports[@]}"
