#!/usr/bin/env bash
# Prints the root of the CUDA toolkit to use, and fails where there is none. A root counts only when it has all that
# Strata compiles with: NVRTC, nvJitLink, the half-precision headers and CCCL's cuda/ptx.
# `--toolkit` leaves out the packages in .venv, to decide whether they are needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

is_complete() {
  local lib
  for lib in "$1/lib64" "$1/lib" "$1/targets/$(uname -m)-linux/lib"; do
    if compgen -G "$lib/libnvrtc.so*" >/dev/null && compgen -G "$lib/libnvJitLink.so*" >/dev/null; then
      [[ -e $1/include/cuda_fp16.h ]] && [[ -e $1/include/cccl/cuda/ptx || -e $1/include/cuda/ptx ]]
      return
    fi
  done
  return 1
}

roots=("${STRATA_CUDA_ROOT:-}" "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda)
if [[ ${1:-} != --toolkit ]]; then
  roots+=("$PWD"/.venv/lib/python3*/site-packages/nvidia/cu13)
fi
for root in "${roots[@]}"; do
  if [[ -n $root ]] && is_complete "$root"; then
    echo "$root"
    exit 0
  fi
done
exit 1
