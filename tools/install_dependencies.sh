#!/usr/bin/env bash
# Installs the build dependencies from Debian 12 packages. Does nothing if all are installed.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config
  libarchive-dev libboost-dev libxxhash-dev zlib1g-dev libzstd-dev libsqlite3-dev nettle-dev libyaml-cpp-dev
  nlohmann-json3-dev libcli11-dev libfmt-dev
  libjpeg-dev libpng-dev libwebp-dev libgif-dev libtiff-dev libsentencepiece-dev
  libavcodec-dev libavformat-dev libavutil-dev libswscale-dev libhwy-dev
)
# Additional packages for tests and developers; "minimal" omits them.
if [ "${1:-}" != minimal ]; then
  packages+=(ccache libtorch-dev libgloo-dev catch2 clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev python3 python3-dev python3-venv strace valgrind chromium)
fi

missing=()
for package in "${packages[@]}"; do
  if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed'; then
    missing+=("$package")
  fi
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

echo "Installing: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
