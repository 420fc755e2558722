#!/usr/bin/env bash
# export.sh FOLDER [PROGRAM...]: makes what run.py needs on a GPU machine that has no Strata: for each program the best
# µGraph's cubins for all targets and the launch manifest; for programs that run.py does not know, or with DATA=1,
# also inputs and the interpreter's outputs in float64.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$1
shift
programs=("$@")
[[ ${#programs[@]} -gt 0 ]] || programs=(programs/*.strata)
for program in "${programs[@]}"; do
  name=$(basename "$program" .strata)
  build/release/bin/strata optimize "$program" -o "$folder/$name" --candidates 2 --time-limit 30
  if grep -q "\"$name\":" tests/gpu/run.py && [[ ${DATA:-0} != 1 ]]; then continue; fi
  build/release/bin/strata run "$program" --seed 3 --with-inputs --output "$folder/$name/data"
done
