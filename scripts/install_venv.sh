#!/usr/bin/env bash
# install_venv.sh NAME WHAT: WHAT, the packages of requirements-NAME.txt, in .venv-NAME, with the Python of .venv. Quick
# and offline when they are there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=.venv-$1
requirements=requirements-$1.txt
# Two builds at once must not make the same virtual environment; the lock ends with the script.
exec {lock}<"$requirements"
flock "$lock"

stamp=$venv/installed
# The folder is in the stamp because a virtual environment that was moved is broken.
wanted=$(pwd && sha256sum "$requirements")
if [[ -x $venv/bin/python && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  exit
fi
echo "install: $2 of $requirements in $venv"
"$(readlink -f .venv/bin/python)" -m venv --clear "$venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
  -r "$requirements" </dev/null
echo "$wanted" >"$stamp"
