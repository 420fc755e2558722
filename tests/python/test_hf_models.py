"""Unmodified models of transformers at small sizes, with random weights, beside float64 (bench/e2e/hf_models.py)."""

import argparse
import pathlib
import sys

import pytest

pytest.importorskip("torch")

from rounds import in_rounds  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "e2e"))
import hf_models  # noqa: E402

# Of each kind one comes first: experts, encoders of text, pictures and sound, windows, state spaces, parallel blocks.
FIRST = ["Mixtral", "BERT", "ViT", "Whisper encoder", "Gemma2", "Mamba", "Phi"]
# On a processor, transformers multiplies groups by an operator of its own.
IN_TORCH = {"transformers.grouped_mm_fallback.default"}


@pytest.mark.parametrize("name", in_rounds(*FIRST, *(name for name in hf_models.MODELS if name not in FIRST)))
def test_agrees_as_nearly_as_eager_mode(name):
    given = argparse.Namespace(device="cpu", dtype="float32", train=False, time=False)
    agrees, ratio, in_torch, *_ = hf_models.compare(hf_models.MODELS[name], given)
    assert agrees, f"{ratio:.2f} times eager mode's error"
    assert set(in_torch) <= IN_TORCH
