#!/usr/bin/env bash
# Installs PyTorch, JAX, tvm-ffi and transformers for the tests of the Python package, at the versions of
# requirements-frameworks.txt, in .venv-frameworks: apart from .venv, whose CUDA libraries they would replace. The
# extension is built for the Python of .venv.
exec "$(dirname "${BASH_SOURCE[0]}")/install_venv.sh" frameworks "PyTorch, JAX, tvm-ffi and transformers"
