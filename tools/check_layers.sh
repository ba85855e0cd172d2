#!/usr/bin/env bash
# Checks that includes only point down the layers. With the repository root as include path, the compiler would accept any include. Prints
# each wrong one. tools/draw_folders.py reads the table below, too.
set -euo pipefail
cd "$(dirname "$0")/.."

# The folders that those of protocols/ may include.
loaders="io energon/state energon/sample energon/order energon/stage energon/checkpoint energon/worker energon/loader energon/distributed"
# A file may include headers of its own folder and of folders above it in this list. After the bar: only these.
folders=(
  "io"
  "io/tar"
  "io/index"
  "io/dataset"
  "io/recipe"
  "io/store"
  "io/prepare"
  "io/lint"
  "energon/state|io"
  "energon/sample|io energon/state"
  "energon/order"
  "energon/stage"
  "energon/checkpoint|io energon/state energon/sample energon/order energon/stage"
  "energon/read"
  "energon/process|io"
  "energon/worker"
  "energon/loader"
  "energon/distributed"
  "energon/autosave"
  "energon/megatron"
  "energon/torch"
  "media|io energon/sample"
  "media/data|io io/tar energon/sample media"
  "media/image|io energon/sample media"
  "media/transform|io energon/sample energon/stage media media/image"
  "media/av|io energon/sample media media/transform"
  "media/decode|io energon/sample energon/stage media media/data media/image media/av media/transform"
  "media/metadata|io io/tar io/index io/dataset io/prepare energon/sample media media/image media/av"
  "media/tokens|io energon/sample energon/stage media"
  "wrappers/orders"
  "wrappers/buffers"
  "wrappers/watch"
  "wrappers/stages"
  "wrappers/types"
  "wrappers/batching"
  "wrappers/recipe"
  "energon"
  "python/src"
  "bench/support"
  "bench"
  "cli"
  "cli/preview"
  "cli/commands"
  # Optional: no room above includes it, and no system includes another.
  "protocols|$loaders"
  "protocols/accelerate|$loaders protocols"
  "protocols/cerebras|$loaders protocols"
  "protocols/torchdata|$loaders protocols"
)
# Third-party headers that only these folders may include.
owners=(
  "archive|io/tar"
  "nettle|io"
  "sqlite3|io/index"
  "yaml-cpp|io/(dataset|recipe|lint)"
  "boost/interprocess|energon/process"
  "torch|energon/torch"
  "ATen|energon/torch"
  "c10|energon/torch"
  "CLI|cli"
  "png|(cli|media/image)"
  "jpeglib|media/image"
  "gif_lib|media/image"
  "tiffio|media/image"
  "webp|media/image"
  "libav[a-z]*|media/av"
  "libsw[a-z]*|media/av"
  "nanobind|python/src"
  "sentencepiece_processor|media/tokens"
)

status=0
above=" "
for row in "${folders[@]}"; do
  folder=${row%%|*}
  allowed=$above
  if [ "$row" != "$folder" ]; then
    allowed=" ${row#*|} "
  fi
  above+="$folder "
  wrong=$(find "$folder" -maxdepth 1 \( -name '*.h' -o -name '*.cpp' \) -exec grep -HnE '^#include "' {} + |
    awk -F'"' -v allowed="$allowed$folder " '{ folder = $2; sub("/[^/]*$", "", folder) } !index(allowed, " " folder " ")')
  if [ -n "$wrong" ]; then
    echo "$wrong"
    status=1
  fi
done
# A folder without a row is not checked.
while read -r folder; do
  if [[ "$above" != *" $folder "* ]]; then
    echo "$folder: no row in tools/check_layers.sh"
    status=1
  fi
done < <(find io energon media wrappers cli python bench protocols \( -name '*.h' -o -name '*.cpp' \) -printf '%h\n' | sort -u)
for owner in "${owners[@]}"; do
  header=${owner%%|*}
  folder=${owner#*|}
  if grep -rnE "^#include <$header[/.]" io energon media wrappers cli python protocols --include='*.h' --include='*.cpp' | grep -vE "^$folder/"; then
    status=1
  fi
done
if [ $status -ne 0 ]; then
  echo "The includes above point up the layers (tools/check_layers.sh has the table)." >&2
fi
exit $status
