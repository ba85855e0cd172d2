#!/usr/bin/env bash
# Builds a small FFmpeg for wheels, from Debian's source package with its patches:
#   python/wheel/build_ffmpeg.sh FOLDER
# FOLDER/prefix receives the shared libraries and headers, with libdav1d. ffmpeg_parts.txt lists the decoders and
# demuxers; encoders, network and parts under the GPL are left out. Nothing is installed on the system. Does nothing
# if FOLDER already contains the same build. Exit code 77 if FFmpeg cannot be built: not Debian, or no network.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: build_ffmpeg.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
prefix="$folder/prefix"
give_up() {
  echo "SKIPPED: $1" >&2
  exit 77
}
fail() {
  tail -20 "$2" >&2
  echo "$1: $folder/${2#../}" >&2
  exit 1
}

# apt for the same Debian, with sources, in its own folder.
. /etc/os-release
[ "$ID" = debian ] || give_up "the FFmpeg of a wheel is built from a Debian source package, but this system is $ID"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
{
  for suite in "debian $VERSION_CODENAME" "debian-security $VERSION_CODENAME-security"; do
    echo "deb [signed-by=$keys] http://deb.debian.org/$suite main"
    echo "deb-src [signed-by=$keys] http://deb.debian.org/$suite main"
  done
} >"$folder/sources.list"
mkdir -p "$folder/lists/partial"
apt=(apt-get -qq -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$folder/lists"
  -o APT::Sandbox::User=)
timeout 300 "${apt[@]}" update || give_up "apt-get cannot update the list of packages"

cd "$folder"
"${apt[@]}" source --download-only ffmpeg || give_up "apt-get cannot download the source package ffmpeg"
"${apt[@]}" download nasm libdav1d-dev libdav1d6 || give_up "apt-get cannot download nasm and libdav1d"
source=$(ls -v ffmpeg_*.dsc | tail -1)
mark="$source $(cksum <"$here/ffmpeg_parts.txt") $(cksum <"$here/build_ffmpeg.sh")"
[ "$(cat built 2>/dev/null)" != "$mark" ] || exit 0

rm -rf source tools "$prefix"
dpkg-source --no-check -x "$source" source >/dev/null
mkdir tools
for package in nasm_*.deb libdav1d*.deb; do
  dpkg -x "$package" tools
done
mkdir -p "$prefix/lib"
cp -a tools/usr/lib/*/libdav1d.so* "$prefix/lib"
sed "s#^prefix=.*#prefix=$folder/tools/usr#; s#^libdir=.*#libdir=$prefix/lib#" tools/usr/lib/*/pkgconfig/dav1d.pc >tools/dav1d.pc

parts=()
while read -r kind names; do
  for name in $names; do
    parts+=("--enable-$kind=$name")
  done
done < <(grep -v '^#' "$here/ffmpeg_parts.txt")
compiler=gcc
if command -v ccache >/dev/null; then
  compiler="ccache gcc"
fi
cd source
PKG_CONFIG_PATH="$folder/tools" ./configure --prefix="$prefix" --cc="$compiler" --x86asmexe="$folder/tools/usr/bin/nasm" \
  --toolchain=hardened --enable-shared --disable-static --disable-programs --disable-doc --disable-debug --disable-autodetect \
  --disable-everything --disable-avdevice --disable-avfilter --disable-postproc --disable-network --enable-zlib --enable-libdav1d \
  "${parts[@]}" >../configure.log 2>&1 || fail "FFmpeg cannot be configured" ../configure.log
{ make -j"${JOBS:-$(nproc)}" && make install; } >../make.log 2>&1 || fail "FFmpeg cannot be compiled" ../make.log
echo "$mark" >../built
