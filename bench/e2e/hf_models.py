#!/usr/bin/env python3
"""Unmodified Hugging Face models through torch.compile(backend="strata"), beside eager mode.

usage: hf_models.py [--models NAME,…] [--device cpu|cuda] [--dtype float32|bfloat16|float16] [--train] [--time]

Models have small configurations and random weights; transformers comes from PyPI. For each one a line: whether the
results agree (the error's norm against float64, in the mean over the results, is at most twice eager's or one unit in
the last place), the ratio
of the errors, graphs, operators that ran in torch, and with --time milliseconds of eager mode, torch.compile and
Strata. --train compares gradients of all parameters instead of results. The exit code is the number of models that
fail or differ, at most 100.
"""

import argparse
import collections
import copy
import sys
import time

import torch
import transformers as hf

from strata import torch_backend
from strata.debug import RATIO, UNITS, error

SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def ids(n=9):
    return {"input_ids": torch.randint(3, 96, (2, n))}


def text(model, config, **more):
    """A decoder by the names of its classes, with a configuration of small sizes."""
    return lambda: (getattr(hf, model)(getattr(hf, config)(**{**SMALL, **more})), ids())


def bert():
    config = hf.BertConfig(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                           intermediate_size=48, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 6:] = 0
    return hf.BertModel(config), {**ids(), "attention_mask": mask}


def gpt2():
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64,
                                            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)), ids()


def vit():
    config = hf.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                          image_size=32, patch_size=8)
    return hf.ViTModel(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


def whisper():
    config = hf.WhisperConfig(d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=48,
                              num_mel_bins=16, max_source_positions=20, dropout=0.0)
    return hf.models.whisper.modeling_whisper.WhisperEncoder(config), {"input_features": torch.randn(2, 16, 40)}


def mamba():
    return hf.MambaForCausalLM(hf.MambaConfig(vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=8)), ids()


def resnet():
    config = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    return hf.ResNetModel(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


def t5():
    config = hf.T5Config(vocab_size=96, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0)
    return hf.T5ForConditionalGeneration(config), {**ids(), "decoder_input_ids": torch.randint(3, 96, (2, 5))}


MODELS = {
    "Qwen3": text("Qwen3ForCausalLM", "Qwen3Config", head_dim=8),
    "Llama": text("LlamaForCausalLM", "LlamaConfig"),
    "Mistral": text("MistralForCausalLM", "MistralConfig", sliding_window=6),
    "Gemma": text("GemmaForCausalLM", "GemmaConfig", head_dim=8),
    "Gemma2": text("Gemma2ForCausalLM", "Gemma2Config", head_dim=8, sliding_window=6),
    "Phi": text("PhiForCausalLM", "PhiConfig", num_key_value_heads=4),
    "Phi3": text("Phi3ForCausalLM", "Phi3Config"),
    "GPT-2": gpt2, "BERT": bert, "ViT": vit, "Whisper encoder": whisper, "Mamba": mamba,
    "Mixtral": text("MixtralForCausalLM", "MixtralConfig", num_local_experts=4, num_experts_per_tok=2),
    "Qwen3-MoE": text("Qwen3MoeForCausalLM", "Qwen3MoeConfig", head_dim=8, num_experts=4, num_experts_per_tok=2,
                      moe_intermediate_size=16),
    "OLMo2": text("Olmo2ForCausalLM", "Olmo2Config"), "GPT-NeoX": text("GPTNeoXForCausalLM", "GPTNeoXConfig"),
    "ResNet": resnet, "T5": t5,
    "Falcon": text("FalconForCausalLM", "FalconConfig", num_attention_heads=4),
    "Cohere": text("CohereForCausalLM", "CohereConfig"),
}


def tensors_of(result):
    """The floating point results: logits, or the last hidden state."""
    found = [v for k, v in result.items() if k in ("logits", "last_hidden_state", "pooler_output")]
    return [v for v in found if isinstance(v, torch.Tensor)]


def run(model, inputs, train):
    """Results, or the parameters' gradients of their mean square."""
    if not train:
        with torch.no_grad():
            return tensors_of(model(**inputs, **keyword(model)))
    model.zero_grad()
    sum(t.double().square().mean() for t in tensors_of(model(**inputs, **keyword(model)))).backward()
    owner = getattr(model, "_orig_mod", model)
    return [p.grad.clone() for p in owner.parameters() if p.grad is not None]


def keyword(model):
    return {"use_cache": False} if hasattr(model.config, "use_cache") else {}


def milliseconds(function, device):
    """The median of 20 runs after 3."""
    times = []
    for _ in range(23):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times[3:])[10]


def compare(make, given):
    """(agrees, ratio, what ran in torch, seconds to compile, times)"""
    torch.manual_seed(0)
    model, inputs = make()
    model = model.eval().to(given.device)
    exact_model = copy.deepcopy(model).double()
    exact_model.config._experts_implementation = "eager"  # grouped products have no float64
    model = model.to(getattr(torch, given.dtype))
    exact_model.load_state_dict({k: v.double() if v.is_floating_point() else v for k, v in model.state_dict().items()})
    inputs = {k: v.to(given.device) for k, v in inputs.items()}
    exact_inputs = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    inputs = {k: v.to(getattr(torch, given.dtype)) if v.is_floating_point() else v for k, v in inputs.items()}
    exact, eager = run(exact_model, exact_inputs, given.train), run(model, inputs, given.train)
    torch._dynamo.reset()
    torch_backend.FALLBACKS.clear()
    start = time.perf_counter()
    ours_model = torch.compile(model, backend=torch_backend.backend, options={"effort": "none"})
    ours = run(ours_model, inputs, given.train)
    seconds = time.perf_counter() - start
    eager_error, our_error = (sum(map(error, some, exact)) / len(exact) for some in (eager, ours))
    agrees = our_error <= max(RATIO * eager_error, UNITS * torch.finfo(eager[0].dtype).eps)
    ratio = our_error / max(eager_error, 1e-30)
    names = collections.Counter(name for name, _, _ in torch_backend.FALLBACKS)
    times = []
    if given.time:
        usual = torch.compile(model)
        times = [milliseconds(lambda m=m: run(m, inputs, given.train), given.device)
                 for m in (model, usual, ours_model)]
    return agrees, ratio, names, seconds, times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--time", action="store_true")
    given = parser.parse_args()
    heads = "   eager  compile   Strata ms" if given.time else ""
    print(f"{'model':16} {'agrees':8} {'error ratio':>11} {'compile s':>9} {heads}  ran in torch", flush=True)
    failed = 0
    for name in given.models.split(","):
        try:
            agrees, ratio, names, seconds, times = compare(MODELS[name], given)
        except Exception as reason:  # a table goes on with the next model
            failed += 1
            print(f"{name:16} failed: {type(reason).__name__}: {str(reason).strip().splitlines()[0][:150]}", flush=True)
            continue
        failed += not agrees
        clock = "".join(f"{t:9.2f}" for t in times)
        fell = ", ".join(f"{n} × {op}" for op, n in names.items()) or "nothing"
        print(f"{name:16} {'yes' if agrees else 'NO':8} {ratio:11.2f} {seconds:9.1f} {clock}  {fell}", flush=True)
    sys.exit(min(failed, 100))


if __name__ == "__main__":
    main()
