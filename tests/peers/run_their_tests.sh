#!/usr/bin/env bash
# Runs the tests of another project with energon_cpp under the name megatron.energon:
#   tests/peers/run_their_tests.sh CHECKOUT [FILES AND OPTIONS OF PYTEST…]
# CHECKOUT: of Megatron-Energon, all its tests; of Megatron-Bridge, its tests of data. Prints how many pass, by file, and each failure with
# its reason. A name that energon_cpp does not have can be imported and fails when it is used, so that one does not hide the others. Packages
# that are not installed are replaced by stubs (their_tests.py); MEGATRON_LM names a checkout of Megatron-LM, whose megatron.core is then
# used. PEERS_PYTHON: a Python with the packages, instead of build/python_environment. PYTHONPATH: the folder of the package energon_cpp,
# instead of build/dev/python/package. Nothing is written into CHECKOUT. No other script runs this.
set -euo pipefail
checkout=$(cd "${1:?usage: run_their_tests.sh CHECKOUT [FILES AND OPTIONS OF PYTEST…]}" && pwd)
shift
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
python=${PEERS_PYTHON:-$root/build/python_environment/bin/python}
package=${PYTHONPATH:-$root/build/dev/python/package}
if ! PYTHONPATH=$package "$python" -c "import energon_cpp, pytest, torch" >/dev/null 2>&1; then
  echo "SKIPPED: $python cannot import energon_cpp (from $package), pytest and torch" >&2
  exit 77
fi
if [ -d "$checkout/src/megatron/energon" ]; then
  tests=(tests)
  paths=$checkout
elif [ -d "$checkout/src/megatron/bridge" ]; then
  unit=tests/unit_tests
  tests=($unit/data/energon $unit/data/builders/test_energon_builder.py $unit/data/test_conversation_processing.py
    $unit/data/test_module_layout.py $unit/diffusion/data $unit/models/qwen_vl/data $unit/utils/test_safe_pickle.py
    $unit/tutorials/test_multimodal_data_tutorials.py $unit/examples/test_prepare_mantis_energon.py
    $unit/recipes/utils/test_dataset_utils.py)
  paths=$checkout/src:$checkout
else
  echo "$checkout is a checkout of neither Megatron-Energon nor Megatron-Bridge" >&2
  exit 1
fi
for argument in "$@"; do
  [ "${argument#-}" = "$argument" ] && [ -e "$checkout/${argument%%::*}" ] && tests=()
done
cd "$checkout"
export PYTHONPATH=$package:$here:$paths${MEGATRON_LM:+:$MEGATRON_LM}
exec "$python" -B -m energon_cpp.shim --allow-imports '*' -m pytest -p their_tests -p no:cacheprovider -o addopts= -q -r N --no-header --tb no --show-capture no \
  --timeout 300 --continue-on-collection-errors "${tests[@]}" "$@"
