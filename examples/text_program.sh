#!/usr/bin/env bash
# A program as text: the seven operators of RMSNorm and a linear layer become one kernel, which is proved equal and kept
# in out/example. Run in the checkout, after `make run`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
strata=${STRATA:-build/release/bin/strata}
out=${1:-out/example}

"$strata" show programs/rmsnorm.strata
"$strata" optimize programs/rmsnorm.strata -o "$out"
# The checker knows nothing of the search.
"$strata" verify programs/rmsnorm.strata "$out/best.strata"
"$strata" run "$out/best.strata" --seed 1
