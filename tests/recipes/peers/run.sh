#!/usr/bin/env bash
# Runs the comparison in the environment that python/make_environment.sh makes, or with PEERS_PYTHON. Exit code 77 if there is no such
# environment.
set -euo pipefail
environment=${1:?usage: run.sh ENVIRONMENT PROGRAM [OPTIONS…]}
shift
python=${PEERS_PYTHON:-$environment/bin/python}
if ! "$python" -c "import megatron.energon" > /dev/null 2>&1; then
  echo "SKIPPED: there is no environment with megatron-energon (python/make_environment.sh FOLDER peers)"
  exit 77
fi
exec "$python" -B "$(dirname "$0")/compare_energon.py" "$@"
