#!/usr/bin/env bash
# Runs a file of tests in the environment that python/make_environment.sh makes: run.sh ENVIRONMENT FILE. Exit code 77 without one.
set -euo pipefail
environment=${1:?usage: run.sh ENVIRONMENT FILE}
if ! "$environment/bin/python" -c "import torch, pytest_timeout" >/dev/null 2>&1; then
  echo "SKIPPED: no environment has torch and the frameworks (python/make_environment.sh FOLDER peers)"
  exit 77
fi
cd "$(dirname "$0")/.."
exec "$environment/bin/python" -B -m pytest -c ../pyproject.toml -p no:cacheprovider "frameworks/${2:?}"
