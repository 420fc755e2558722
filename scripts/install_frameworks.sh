#!/usr/bin/env bash
# Installs PyTorch, JAX and tvm-ffi for the tests of the Python package, at the versions of requirements-frameworks.txt,
# in .venv-frameworks: apart from .venv, whose CUDA libraries they would replace. Quick and offline when they are there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec {lock}<scripts/install_frameworks.sh
flock "$lock"

stamp=.venv-frameworks/installed
# The folder is in the stamp because a virtual environment that was moved is broken.
wanted=$(pwd && sha256sum requirements-frameworks.txt)
if [[ -x .venv-frameworks/bin/python && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  exit
fi
echo "install: PyTorch, JAX and tvm-ffi of requirements-frameworks.txt in .venv-frameworks"
# The Python of .venv, for which the extension is built.
"$(readlink -f .venv/bin/python)" -m venv --clear .venv-frameworks
.venv-frameworks/bin/python -m pip install -q --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
  -r requirements-frameworks.txt </dev/null
echo "$wanted" >"$stamp"
