#!/usr/bin/env bash
# Prints the Pythons that `make wheels` builds for: of 3.10 and 3.11 one each, since a wheel of these serves its version
# alone, and the oldest from 3.12 on, whose wheel serves all later ones. Looks at PATH and at pyenv's versions; only
# those with headers and venv count.
set -euo pipefail

usable() {
  "$1" -c 'import ensurepip, os, sysconfig, venv
raise SystemExit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2>/dev/null
}

find_minor() {
  local python
  for python in /usr/bin/python3."$1" $(type -ap python3."$1") "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$1".*/bin/python; do
    if [[ -x $python ]] && usable "$python"; then
      echo "$python"
      return
    fi
  done
  return 1
}

for minor in 10 11; do
  find_minor "$minor" || echo "wheels: no Python 3.$minor with its headers is installed here" >&2
done
for minor in 12 13 14; do
  if find_minor "$minor"; then
    exit 0
  fi
done
echo "wheels: no Python from 3.12 on with its headers is installed here" >&2
