#!/usr/bin/env bash
# Installs MkDocs for `make site`, at the versions of requirements-site.txt, in .venv-site. Quick and offline when it is
# there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec {lock}<scripts/install_site.sh
flock "$lock"

stamp=.venv-site/installed
# The folder is in the stamp because a virtual environment that was moved is broken.
wanted=$(pwd && sha256sum requirements-site.txt)
if [[ -x .venv-site/bin/python && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  exit
fi
echo "install: MkDocs of requirements-site.txt in .venv-site"
"$(readlink -f .venv/bin/python)" -m venv --clear .venv-site
.venv-site/bin/python -m pip install -q --disable-pip-version-check --no-deps --only-binary :all: \
  -r requirements-site.txt </dev/null
echo "$wanted" >"$stamp"
