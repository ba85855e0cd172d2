#!/usr/bin/env bash
# Runs the comparison with Megatron-Energon: run.sh ENVIRONMENT PROGRAM [OPTIONS…]; with --foreign, that of foreign sample types. Or
# run.sh ENVIRONMENT --pytest FILE for a file of tests. PEERS_PYTHON: a Python that has megatron-energon, instead of the environment that
# python/make_environment.sh makes. Exit code 77 if neither exists.
set -euo pipefail
python=${PEERS_PYTHON:-${1:?usage: run.sh ENVIRONMENT PROGRAM [OPTIONS…]}/bin/python}
shift
if ! "$python" -c "import energon_cpp, megatron.energon, PIL, yaml" > /dev/null 2>&1; then
  echo "SKIPPED: $python is missing, or cannot import energon_cpp and megatron-energon (python/make_environment.sh FOLDER peers)"
  exit 77
fi
if [[ ${1:-} == --pytest ]]; then
  cd "$(dirname "$0")"
  exec "$python" -B -m pytest -c ../../pyproject.toml -p no:cacheprovider "${2:?}"
fi
if [[ ${2:-} == --foreign ]]; then
  exec "$python" -B "$(dirname "$0")/compare_foreign.py" "$1"
fi
exec "$python" -B "$(dirname "$0")/compare_with_energon.py" "$@"
