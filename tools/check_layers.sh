#!/usr/bin/env bash
# The include arrow points one way: io <- energon <- wrappers <- {cli, examples, bench}. With the repository root as
# include path the compiler accepts any include; this does not. Prints each wrong one.
set -euo pipefail
cd "$(dirname "$0")/.."

base='io/(error|bytes|file_source|hash|output_target|shared_folder|unique_fd|write_all)\.h'
# folder (not its sub-folders) -> what it may include
rules=(
  "io|$base"
  "io/tar|$base|io/tar/"
  "io/formats|$base|io/tar/|io/formats/"
  "energon|$base|energon/[a-z0-9_]+\.h"
  "energon/webdataset|$base|io/tar/|io/formats/|energon/[a-z_]+\.h|energon/webdataset/"
  "energon/process|io/(error|bytes|hash|unique_fd)\.h|energon/process/"
  "energon/loader|$base|energon/[a-z_]+\.h|energon/process/|energon/loader/"
  "energon/distributed|$base|energon/[a-z_]+\.h|energon/process/wait\.h|energon/loader/|energon/distributed/"
  "energon/protocols|$base|energon/[a-z_]+\.h|energon/loader/|energon/distributed/|energon/protocols/"
  "energon/torch|$base|energon/[a-z_]+\.h|energon/process/wait\.h|energon/distributed/|energon/torch/"
  "wrappers|$base|io/formats/|energon/[a-z_]+\.h|energon/webdataset/|wrappers/"
  "bench|$base|io/formats/|energon/|wrappers/|bench/"
  "bench/support|$base|io/formats/|energon/|wrappers/|bench/"
  "cli|$base|io/(tar|formats)/|energon/([a-z_]+|loader/[a-z_]+|protocols/[a-z_]+|webdataset/[a-z_]+)\.h|wrappers/|cli/"
)
# Third-party headers that only these folders may include.
owners=(
  "archive|io/tar"
  "openssl|io/formats"
  "sqlite3|io/formats"
  "yaml-cpp|io/formats"
  "boost/interprocess|energon/process"
  "torch|energon/torch"
  "ATen|energon/torch"
  "c10|energon/torch"
  "CLI|cli"
  "png|cli"
)

status=0
for rule in "${rules[@]}"; do
  folder=${rule%%|*}
  allowed=${rule#*|}
  files=$(find "$folder" -maxdepth 1 \( -name '*.h' -o -name '*.cpp' \) 2>/dev/null) || true
  [ -n "$files" ] || continue
  # shellcheck disable=SC2086
  if grep -nHE '^#include "' $files | grep -vE "#include \"($allowed)"; then
    status=1
  fi
done
for owner in "${owners[@]}"; do
  header=${owner%%|*}
  folder=${owner#*|}
  if grep -rnE "^#include <$header[/.]" io energon wrappers cli --include='*.h' --include='*.cpp' | grep -v "^$folder/"; then
    status=1
  fi
done
if [ $status -ne 0 ]; then
  echo "The includes above point up the layers (tools/check_layers.sh has the table)." >&2
fi
exit $status
