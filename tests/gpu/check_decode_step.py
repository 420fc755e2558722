#!/usr/bin/env python3
"""torch.compile(model, backend="strata", options={"mode": "megakernel"}) on a GPU, beside eager mode and float64.

usage: check_decode_step.py [--seed N]

Needs a Hopper GPU, PyTorch with CUDA, transformers and the package strata. Models have two layers of sizes that a seed
draws. Each decodes the same tokens as the eager model, with prompts in between, and its error beside float64 may be
twice the eager model's. The exit code is the number of failures."""

import argparse
import copy
import logging
import random
import sys

import torch
import transformers as hf
from checks import tried

FAMILIES = {"qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM), "llama": (hf.LlamaConfig, hf.LlamaForCausalLM)}


class Lines(logging.Handler):
    """What the backend says."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())


def model_of(family, draw):
    heads = draw.choice([1, 2, 4])
    queries = heads * draw.choice([1, 2, 3, 4, 7])
    sizes = {
        "vocab_size": draw.randint(100, 3000), "hidden_size": 16 * queries * draw.randint(1, max(1, 60 // queries)),
        "intermediate_size": draw.randint(50, 2000), "num_hidden_layers": 2, "num_key_value_heads": heads,
        "num_attention_heads": queries, "head_dim": draw.choice([32, 64, 128]),
        "max_position_embeddings": 4096, "tie_word_embeddings": draw.random() < 0.5,
        "rms_norm_eps": draw.choice([1e-5, 1e-6]),
    }
    config_type, model_type = FAMILIES[family]
    model = model_type(config_type(**sizes)).eval().cuda()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 1.0 if parameter.ndim == 1 else 0.0, 0.2 if parameter.ndim == 1 else
                              sizes["hidden_size"] ** -0.5)
    return model.to(torch.bfloat16), sizes


def decode(model, step, pieces, length, dtype):
    """The last position's logits after each piece of the tokens; pieces of one token go through `step`."""
    config = model.config
    cache = hf.StaticCache(config=config, max_cache_len=length)
    cache.early_initialization(pieces[0].shape[0], config.num_key_value_heads, config.head_dim, dtype,
                               torch.device("cuda"))
    found = []
    with torch.no_grad():
        for ids in pieces:
            run = step if ids.shape[1] == 1 else model
            found.append(run(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, -1].double())
    return torch.stack(found), cache


def check_steps(arguments, family, number):
    draw = random.Random(f"{arguments.seed} {family} {number}")
    torch.manual_seed(draw.randint(0, 2**31))
    model, sizes = model_of(family, draw)
    batch, length = draw.choice([1, 1, 2, 3, 5, 8]), draw.choice([40, 77, 300, 1000, 2048])
    counts = [draw.randint(1, length - 30), *[1] * 6, 5, *[1] * 4]
    pieces = [torch.randint(0, sizes["vocab_size"], (batch, count), device="cuda") for count in counts]
    lines = Lines()
    log = logging.getLogger("strata")
    log.addHandler(lines)
    torch._dynamo.reset()
    try:
        step = torch.compile(model, backend="strata", options={"mode": "megakernel"})
        ours, own = decode(model, step, pieces, length, torch.bfloat16)
    finally:
        log.removeHandler(lines)
    assert any("becomes one persistent kernel" in line for line in lines.said), lines.said
    assert not any("by kernels" in line for line in lines.said), lines.said
    eager, theirs = decode(model, model, pieces, length, torch.bfloat16)
    wide = copy.deepcopy(model).double()
    exact, _ = decode(wide, wide, pieces, length, torch.float64)
    error, bar = ((one - exact).norm() / exact.norm() for one in (ours, eager))
    assert error <= 2 * bar, (error, bar, sizes)
    for mine, other in zip(own.layers, theirs.layers, strict=True):
        assert mine.cumulative_length == other.cumulative_length
        for a, b in ((mine.keys, other.keys), (mine.values, other.values)):
            assert (a - b).abs().max() <= 0.06 * b.abs().max(), sizes
    return f"batch {batch}, {length} positions: error {error / bar:.2f} of eager's; {lines.said[-1]}"


def check_generate(arguments):
    """By transformers' generate, which compiles the step itself where it is told how."""
    torch._dynamo.reset()
    model, sizes = model_of("qwen3", random.Random(f"{arguments.seed} generate"))
    ids = torch.randint(0, sizes["vocab_size"], (1, 9), device="cuda")
    how = {"max_new_tokens": 8, "do_sample": False, "cache_implementation": "static"}
    expected = model.generate(ids, disable_compile=True, **how)
    lines = Lines()
    logging.getLogger("strata").addHandler(lines)
    options = hf.CompileConfig(backend="strata", mode=None, options={"mode": "megakernel"})
    found = model.generate(ids, compile_config=options, **how)
    logging.getLogger("strata").removeHandler(lines)
    assert any("becomes one persistent kernel" in line for line in lines.said), lines.said
    model.forward = torch.compile(model.forward, backend="strata", options={"mode": "megakernel"})
    again = model.generate(ids, disable_compile=True, **how)
    same = [int((one[0, 9:] == expected[0, 9:]).sum()) for one in (found, again)]
    assert min(same) >= 4, (found, again, expected)
    return f"{same} of 8 tokens are eager's"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=6, help="models of each family")
    arguments = parser.parse_args()
    logging.getLogger("strata").setLevel(logging.INFO)
    failures = tried("generate", check_generate, arguments)
    for family in FAMILIES:
        for number in range(arguments.count):
            failures += tried(f"{family} {number}", check_steps, arguments, family, number)
    sys.exit(failures)


if __name__ == "__main__":
    main()
