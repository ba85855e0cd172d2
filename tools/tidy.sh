#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy:
#   tools/tidy.sh             # all headers and sources: about 30 minutes of CPU
#   tools/tidy.sh --headers   # all headers, and the sources of the Python module: about 6 minutes of CPU; .ci/run does this
#   tools/tidy.sh FILE...     # these sources
# The Python module is checked where python/make_environment.sh has created build/python_environment.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v clang-tidy-14 >/dev/null; then
  echo "tools/tidy.sh: clang-tidy-14 is missing: apt-get install clang-tidy-14" >&2
  exit 1
fi
# Flags that the build passes to single sources.
flags=(-std=c++20 -I. -DENERGON_VERSION='"0"' -DENERGON_SENTENCEPIECE_SHIM_PATHS='"0"')
for codec in JPEG PNG WEBP GIF TIFF; do
  flags+=("-DENERGON_HAS_$codec=1")
done
python=build/python_environment/bin/python
folders=(io energon media wrappers protocols cli)
if [ -x $python ]; then
  folders+=(python/src)
  flags+=("-isystem$($python -m nanobind --include_dir)" "-isystem$($python -c 'import sysconfig; print(sysconfig.get_path("include"))')")
fi

# One source for each folder, which includes its headers.
work=build/tidy
header_sources() {
  mkdir -p $work
  local folder
  for folder in "${folders[@]}"; do
    git ls-files "$folder/*.h" ':!energon/torch' | sed 's/.*/#include "&"/' >"$work/${folder//\//_}.cpp"
    echo "$work/${folder//\//_}.cpp"
  done
  # Debian's ATen compiles with clang in C++20 mode only if this header comes first.
  { echo '#include <ATen/core/ivalue.h>' && git ls-files 'energon/torch/*.h' | sed 's/.*/#include "&"/'; } >$work/torch.cpp
  echo $work/torch.cpp
}
sources() { git ls-files "${@/%//*.cpp}" ':!energon/torch'; }

case ${1:-} in
  --headers) mapfile -t files < <(header_sources && [ -x $python ] && sources python/src) ;;
  "") mapfile -t files < <(header_sources && sources "${folders[@]}") ;;
  *) files=("$@") ;;
esac
check() { clang-tidy-14 --quiet "$@" 2>/dev/null; }
export -f check
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'check "$@"' check {} -- "${flags[@]}"
echo "clean: ${#files[@]} files"
