#!/usr/bin/env bash
# Installs MkDocs for `make site`, at the versions of requirements-site.txt, in .venv-site.
exec "$(dirname "${BASH_SOURCE[0]}")/install_venv.sh" site MkDocs
