#!/usr/bin/env bash
# Makes a virtual environment with the frameworks that the tests here use, or finds it there:
#   python/tests/frameworks/make_environment.sh FOLDER
# Takes minutes and a gigabyte. Exit code 77 where it cannot be had: no network, no CPU build of torch.
set -euo pipefail
folder=${1:?usage: make_environment.sh FOLDER}
modules="torch, torchdata, lightning, accelerate, transformers, tqdm, ipykernel, jupyter_client, pytest, pytest_timeout"

works() { "$folder/bin/python" -c "import $modules" >/dev/null 2>&1; }
works && exit 0

pip_install() { timeout 1200 "$folder/bin/pip" install --quiet --no-input "$@" >/dev/null 2>&1; }
give_up() {
  echo "SKIPPED: $1"
  exit 77
}
rm -rf "$folder"
python3 -m venv "$folder" >/dev/null 2>&1 || give_up "no virtual environment can be made"
bash "$(dirname "$0")/../install_torch.sh" "$folder"
pip_install --no-deps torchdata || give_up "torchdata cannot be installed"
pip_install lightning accelerate transformers tqdm ipykernel jupyter_client pytest pytest-timeout ||
  give_up "the frameworks cannot be installed"
works || give_up "not all of $modules can be imported"
