#!/usr/bin/env bash
# Decoding as one persistent kernel. With a GPU: Qwen3-0.6B with random weights (--weights FOLDER for real ones). Without:
# a small model, by the same device code compiled for the processor. Run in the checkout, after `make run`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
strata=${STRATA:-build/release/bin/strata}

if "$strata" doctor | grep '^GPU *missing' >/dev/null; then
  "$strata" decode --config examples/models/tiny.json --prompt-ids 3,17,200 --tokens 4 --device host-kernel
else
  "$strata" decode --config qwen3-0.6b --prompt-ids 3,17,200 --tokens 16
fi
