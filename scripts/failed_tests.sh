#!/usr/bin/env bash
# failed_tests.sh PRESET...: run again what failed in each preset's last run, so that the names and the output close a
# long log. Whether it passes now changes nothing: the run that failed has failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for preset in "$@"; do
  failed=build/$preset/Testing/Temporary/LastTestsFailed.log
  [[ -s $failed ]] || continue
  echo "Failed in $preset; run again, alone:"
  sed 's/^[0-9]*:/  /' "$failed"
  ctest --preset "$preset" --rerun-failed --output-on-failure --timeout 600 </dev/null
done
if [[ -s .venv/bin/python && -s .pytest_cache/v/cache/lastfailed ]]; then
  echo "Failed in tests/python:"
  .venv/bin/python -m pytest -q --last-failed --last-failed-no-failures none tests/python </dev/null
fi
exit 0
