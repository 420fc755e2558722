#!/usr/bin/env bash
# Runs each fuzz target of build/fuzz for FUZZ_SECONDS. New inputs go to build/fuzz/corpus; the inputs in
# tests/fuzz/corpus/NAME seed them and are not written to.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

targets=(build/fuzz/bin/*_fuzz)
if [[ ! -x ${targets[0]} ]]; then
  echo "fuzz: no fuzz target in build/fuzz/bin" >&2
  exit 1
fi
for target in "${targets[@]}"; do
  name=$(basename "$target" _fuzz)
  found=build/fuzz/corpus/$name
  seeds=tests/fuzz/corpus/$name
  mkdir -p "$found"
  corpora=("$found")
  [[ ! -d $seeds ]] || corpora+=("$seeds")
  echo "fuzz: $name for ${FUZZ_SECONDS:-60} s"
  "$target" -max_total_time="${FUZZ_SECONDS:-60}" -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" "${corpora[@]}"
done
