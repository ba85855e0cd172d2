#!/usr/bin/env bash
# Makes the wheel, installs it into a fresh virtual environment, and uses it without a compiler, headers, or libraries other than those
# of every system with Python (manylinux's list):
#   python/tests/wheel/run.sh [WHEEL]     # without a wheel, python/make_wheel.sh makes one in build/portable
# Exit code 77 if that is not possible. WITHOUT_FFMPEG=1: without sound and video. WITHOUT_TORCH=1: without the examples.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
here=$root/python/tests/wheel
folder=${WHEEL_FOLDER:-$root/build/portable}
wheel=${1:-}
if [ -z "$wheel" ]; then
  bash "$root/python/make_wheel.sh" "$folder"
  wheel=$(ls "$folder"/dist/energon_cpp-*.whl)
fi
give_up() {
  echo "SKIPPED: $1" >&2
  exit 77
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv" >/dev/null || give_up "no virtual environment can be made: python3-venv"
timeout 300 "$work/venv/bin/pip" install --quiet --no-input --no-deps "$wheel"
timeout 300 "$work/venv/bin/pip" install --quiet --no-input numpy || give_up "pip cannot install numpy"

echo "== types: mypy --strict of a user's script against the installed wheel"
"${PYTHON:-python3}" -m venv "$work/mypy" >/dev/null
timeout 300 "$work/mypy/bin/pip" install --quiet --no-input mypy || give_up "pip cannot install mypy"
(cd "$work" && cp "$here/user_script.py" . &&
  mypy/bin/mypy --strict --cache-dir "$work/mypy_cache" --python-executable venv/bin/python user_script.py)
if (cd "$work" && sed 's/batch_size=4/batch_size="four"/' user_script.py >wrong_script.py &&
  mypy/bin/mypy --strict --cache-dir "$work/mypy_cache" --python-executable venv/bin/python wrong_script.py) >"$work/wrong"; then
  echo "mypy accepts a wrong argument: it has no types of the package" >&2
  exit 1
fi

echo "== use, without headers and libraries of the system"
mkdir -p "$work/lib" "$work/empty" "$work/data"
cp "$root"/tests/media/av/data/*.* "$root"/tests/media/image/data/*.* "$work/data"
multiarch=$(gcc -print-multiarch 2>/dev/null || echo x86_64-linux-gnu)
system=/usr/lib/$multiarch
# The libraries of the system that wheels may use, and the libraries that this Python uses.
allowed='ld-linux.*|libc|libm|libmvec|libdl|librt|libpthread|libutil|libresolv|libnsl|libgcc_s|libstdc\+\+|libz|libexpat|libffi|libbz2|liblzma|libnss_files|libtinfo'
for file in "$system"/*.so.*; do
  if [[ $(basename "$file") =~ ^($allowed)[.-] ]]; then
    cp -L "$file" "$work/lib"
  fi
done
cat >"$work/hidden.sh" <<HIDDEN
set -eu
mount --bind "$work/empty" /usr/include
mount --bind "$work/lib" "$system"
cd "$work"
exec env -i ${WITHOUT_FFMPEG:+WITHOUT_FFMPEG=1} HOME="$work" TMPDIR="$work" PATH="$work/venv/bin" \
  "$work/venv/bin/python" -I -B "$work/use_wheel.py" "$work/data" "$system"
HIDDEN
cp "$here"/{use_wheel.py,import_cost.py,media_digests.py,media_digests.txt} "$work"
hide=(unshare --mount)
[ "$(id -u)" -eq 0 ] || hide=(unshare --user --map-root-user --mount)
"${hide[@]}" true 2>/dev/null || give_up "folders of the system cannot be hidden: unshare is not allowed"
timeout 300 "${hide[@]}" bash "$work/hidden.sh"

if [ -z "${WITHOUT_TORCH:-}" ]; then
  echo "== the examples, with torch and Pillow"
  bash "$root/python/tests/install_torch.sh" "$work/venv"
  for example in train train_from_energon webdataset_style; do
    (cd "$work" && timeout 300 "$work/venv/bin/python" "$root/python/examples/$example.py") | tee "$work/said"
    grep -q 'same .*: True$' "$work/said"  # losses or batches after a resume
  done
fi
