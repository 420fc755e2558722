#!/usr/bin/env bash
# test.sh PRESET [ctest argument...]: the Python tests, where there are any, then ctest. ctest comes last, and runs even
# when the Python tests failed, so that its summary closes the output.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
shift

python=0
if [[ $preset == release ]] && compgen -G 'tests/python/test_*.py' >/dev/null; then
  # With PyTorch and JAX where they are installed: `make test` does that.
  interpreter=.venv-frameworks/bin/python
  [[ -x $interpreter ]] || interpreter=.venv/bin/python
  # As many at once as there are jobs, each with one thread. The log is what failed_tests.py reads.
  OMP_NUM_THREADS=1 "$interpreter" -m pytest -q -rsfE -n "${JOBS:-$(nproc)}" --dist worksteal tests/python </dev/null |
    tee build/python_tests.log || python=$?
fi

if [[ $preset == tsan ]]; then
  export TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.supp ${TSAN_OPTIONS:-}"
fi
# The limit is for hangs alone: sanitizers and other work on the machine make a test many times slower.
ctest --preset "$preset" --timeout 3600 -j "${JOBS:-$(nproc)}" --no-tests=error "$@" </dev/null || exit

if [[ $python -ne 0 ]]; then
  echo "The Python tests failed; see above." >&2
  exit "$python"
fi
