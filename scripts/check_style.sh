#!/usr/bin/env bash
# Fails on C and C++ sources that are not formatted by .clang-format; with --fix formats them. The version is fixed because
# versions of clang-format disagree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(--dry-run -Werror)
[[ ${1:-} != --fix ]] || mode=(-i)

# Expected outputs in tests/golden are compared byte by byte, so they are nobody's to format.
folders=()
for folder in include src tools tests bench examples; do
  [[ ! -d $folder ]] || folders+=("$folder")
done
find "${folders[@]}" -path tests/golden -prune -o \
  \( -name '*.h' -o -name '*.c' -o -name '*.cpp' -o -name '*.cuh' \) -print0 | xargs -0 -r -n 32 clang-format-14 --style=file "${mode[@]}"
