#!/usr/bin/env python3
"""Decode steps of unmodified Hugging Face models through torch.compile, one token a step with a static cache.

usage: hf_decode.py [--models NAME,…] [--ways WAY,…] [--batch N] [--prompt N] [--cache N] [--steps N] [--output FILE.json]

Models have the real configurations of examples/models and random weights in bfloat16. Ways: eager; inductor, by default
and with mode="reduce-overhead" (CUDA graphs); strata, by kernels and with mode="megakernel". A step is a call of the
model with one token a sequence, then the argmax, which is the next token: milliseconds of the median step by the clock,
as a caller has it. Each way decodes the same tokens: those of the eager model in bfloat16 are fed to all. The error is
that of the logits beside eager's, the norm of the difference over that of eager's; where --exact is given, both beside
float64.
"""

import argparse
import copy
import gc
import json
import logging
import pathlib
import statistics
import sys
import time

import torch
import transformers as hf

MODELS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "models"
CLASSES = {"qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM), "llama": (hf.LlamaConfig, hf.LlamaForCausalLM)}
WAYS = {
    "eager": None,
    "inductor": {},
    "inductor reduce-overhead": {"mode": "reduce-overhead"},
    "strata kernels": {"backend": "strata", "options": {"mode": "kernels"}},
    "strata megakernel": {"backend": "strata", "options": {"mode": "megakernel"}},
}


def model_of(name):
    known = json.loads((MODELS / f"{name}.json").read_text())
    config_type, model_type = CLASSES[known["model_type"]]
    config = config_type(**{key: value for key, value in known.items() if key != "architectures"})
    torch.manual_seed(0)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = model_type(config).eval()
        torch.set_default_dtype(torch.float32)
    return model


def cache_of(model, given, dtype=torch.bfloat16):
    config = model.config
    cache = hf.StaticCache(config=config, max_cache_len=given.cache)
    cache.early_initialization(given.batch, config.num_key_value_heads, config.head_dim, dtype, torch.device("cuda"))
    for layer in cache.layers:
        for tensor in (layer.keys, layer.values, getattr(layer, "cumulative_length", None)):
            if tensor is not None:
                torch._dynamo.mark_static_address(tensor)
    return cache


def decode(step, model, prompt, tokens, given, dtype=torch.bfloat16):
    """Logits of the first steps, seconds of each, and the tokens: those given, or the likeliest."""
    cache = cache_of(model, given, dtype)
    logits = model(input_ids=prompt, past_key_values=cache, use_cache=True).logits[:, -1:]
    kept, seconds, made = [], [], [logits.argmax(-1)]
    torch.cuda.synchronize()
    for n in range(given.steps):
        token = made[-1] if tokens is None else tokens[n].clone()
        begin = time.perf_counter()
        position = torch.full((given.batch, 1), given.prompt + n, device="cuda")
        logits = step(input_ids=token, past_key_values=cache, position_ids=position, use_cache=True).logits[:, -1:]
        made.append(logits.argmax(-1))
        made[-1].tolist()
        seconds.append(time.perf_counter() - begin)
        if n < 8:
            kept.append(logits.double().cpu())
    return torch.stack(kept), seconds, made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="qwen3-0.6b,llama-3.2-1b")
    parser.add_argument("--ways", default=",".join(WAYS))
    for name, value in (("batch", 1), ("prompt", 512), ("cache", 1024), ("steps", 64)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--output")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("strata").setLevel(logging.INFO)
    rows = []
    for name in given.models.split(","):
        model = model_of(name)
        prompt = torch.randint(0, model.config.vocab_size, (given.batch, given.prompt), device="cuda")
        with torch.no_grad():
            expected, _, tokens = decode(model, model, prompt, None, given)
            exact = None
            if given.exact:
                wide = copy.deepcopy(model).double()
                exact = decode(wide, wide, prompt, tokens, given, torch.float64)[0]
                del wide
            for way in given.ways.split(","):
                torch._dynamo.reset()
                gc.collect()
                torch.cuda.empty_cache()
                begin = time.perf_counter()
                step = model if WAYS[way] is None else torch.compile(model, **WAYS[way])
                row = {"model": name, "way": way, "batch": given.batch}
                try:
                    logits, first, _ = decode(step, model, prompt, tokens, given)
                    row["start_s"] = round(time.perf_counter() - begin, 2)
                    seconds = decode(step, model, prompt, tokens, given)[1]
                    row["ms"] = round(statistics.median(seconds) * 1e3, 4)
                    of = expected if exact is None else exact
                    row["error"] = ((logits - of).norm() / of.norm()).item()
                    if exact is not None:
                        row["eager_error"] = ((expected - of).norm() / of.norm()).item()
                except Exception as error:
                    row["failed"] = " ".join(str(error).split())[:300]
                rows.append(row)
                print(json.dumps(row), flush=True)
        del model
    if given.output:
        about = {"device": torch.cuda.get_device_name(), "date": time.strftime("%Y-%m-%d"), "torch": torch.__version__,
                 "transformers": hf.__version__, "command": "python3 " + " ".join(sys.argv), "rows": rows}
        pathlib.Path(given.output).write_text(json.dumps(about, indent=1) + "\n")
    return sum("failed" in row for row in rows)


if __name__ == "__main__":
    sys.exit(main())
