#!/usr/bin/env bash
# tidy.sh [FOLDER...]: clang-tidy over the sources below the folders, src by default. It has a build folder of its own:
# clang cannot read the precompiled headers of g++, and which compiler warnings are errors is for g++ to say.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -gt 0 ]] || set -- src

cmake -S . -B build/tidy -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  -DSTRATA_WARNINGS_AS_ERRORS=OFF >/dev/null
# Only what the build compiles: clang-tidy guesses the flags of a file that it does not know, and guesses wrong.
.venv/bin/python - "$@" <<'PYTHON' | xargs -0 -r -n 1 -P "${JOBS:-$(nproc)}" clang-tidy-19 -p build/tidy --quiet
import json, pathlib, sys
folders = [pathlib.Path(folder).resolve() for folder in sys.argv[1:]]
for entry in json.load(open("build/tidy/compile_commands.json")):
    file = pathlib.Path(entry["file"])
    if any(file.is_relative_to(folder) for folder in folders):
        print(file, end="\0")
PYTHON
