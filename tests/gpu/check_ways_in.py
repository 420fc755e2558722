#!/usr/bin/env python3
"""The decoder, calls under jax.jit and functions of tvm-ffi, on a GPU.

usage: check_ways_in.py [--config NAME] [--strata PROGRAM]

Needs a GPU, PyTorch with CUDA and the package strata; without JAX for CUDA, or without apache-tvm-ffi, a line says
that its check did not run. PROGRAM is the command line, whose tokens the decoder's must equal. The exit code is the
number of failures."""

import argparse
import os
import subprocess
import sys
import threading
import time

import torch
from checks import tried

import strata

HLO = """HloModule twice
ENTRY main {
  x = f32[256,256] parameter(0)
  ROOT y = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def check_decoder(arguments):
    begin = time.perf_counter()
    decoder = strata.Decoder(arguments.config, weights="random", seed=1, capacity=1024, device="gpu")
    said = [f"ready after {time.perf_counter() - begin:.1f} s", *decoder.notes]
    prompt = [3, 17, 200]
    begin = time.perf_counter()
    generation = decoder.generate(prompt, 256, eos=())
    first, tokens = None, []
    for token in generation:
        first = first or time.perf_counter() - begin
        tokens.append(token)
    seconds = time.perf_counter() - begin
    assert len(tokens) == 256 and first < seconds / 2, (len(tokens), first, seconds)
    said.append(f"first token {first * 1e3:.2f} ms, then {(seconds - first) / 255 * 1e3:.3f} ms each")
    assert list(decoder.generate(prompt, 256, eos=())) == tokens
    hot, again = (list(decoder.generate(prompt, 32, temperature=1.5, top_k=50, top_p=0.9, seed=5, eos=()))
                  for _ in range(2))  # fmt: skip
    assert hot == again != tokens[:32]
    for token in decoder.generate(prompt, 900, eos=()):  # a launch that is left
        assert token == tokens[0]
        break
    assert list(decoder.generate(prompt, 16, eos=())) == tokens[:16]
    # On another thread, beside work of PyTorch's.
    found = []
    worker = threading.Thread(target=lambda: found.extend(decoder.generate(prompt, 16, eos=())))
    worker.start()
    x = torch.randn(2048, 2048, device="cuda")
    for _ in range(10):
        x = (x @ x).clamp(-1, 1)
    worker.join()
    torch.cuda.synchronize()
    assert found == tokens[:16]
    if arguments.strata:
        command = [arguments.strata, "decode", "--config", arguments.config, "--seed", "1", "--prompt-ids", "3,17,200",
                   "--tokens", "256", "--ignore-eos", "--capacity", "1024"]  # fmt: skip
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert [int(word) for word in told.splitlines()[0].split()] == tokens  # times follow
        said.append("the command line's tokens")
    return "; ".join(said)


def check_jax(_):
    try:
        import jax

        if jax.default_backend() != "gpu":
            return "NOT RUN: JAX has no GPU"
    except ImportError:
        return "NOT RUN: JAX is not installed"
    import strata.jax

    function = strata.jax.jit(lambda x, y: jax.numpy.tanh(x @ y) + 1)
    x, y = (jax.random.normal(jax.random.key(n), (128, 128)) for n in (1, 2))
    expected = jax.numpy.tanh(x @ y) + 1
    run = jax.jit(lambda x, y: function(x * 2, y / 2))
    for _ in range(20):
        assert jax.numpy.allclose(run(x, y), expected, rtol=1e-2, atol=1e-2)
    cpu = jax.devices("cpu")[0]  # a program for the processor, where the GPU is the default
    found = run(jax.device_put(x, cpu), jax.device_put(y, cpu))
    assert jax.numpy.allclose(found, jax.device_put(expected, cpu), rtol=1e-2, atol=1e-2)
    gradient = jax.jit(jax.grad(lambda x: function(x, y).sum()))(x)
    with jax.default_matmul_precision("highest"):  # tanh is steep where it is not flat: TF32 shows
        exact = jax.grad(lambda x: (jax.numpy.tanh(x @ y) + 1).sum())(x)
    assert jax.numpy.allclose(gradient, exact, rtol=1e-2, atol=1e-2)
    text = run.lower(x, y).as_text()
    assert "@strata_call" in text and "callback" not in text, text
    return "custom calls of XLA"


def check_tvm_ffi(_):
    try:
        import tvm_ffi  # noqa: F401
    except ImportError:
        return "NOT RUN: apache-tvm-ffi is not installed"
    function = strata.compile_hlo(HLO, target="gpu").tvm_ffi_function()
    x = torch.randn(256, 256, device="cuda")
    y = torch.empty_like(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function(x, y)
    stream.synchronize()
    torch.testing.assert_close(y, x @ x, rtol=1e-2, atol=1e-1)
    return "on the caller's stream"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="qwen3-0.6b")
    parser.add_argument("--strata", default=os.environ.get("STRATA"))
    arguments = parser.parse_args()
    checks = (check_decoder, check_jax, check_tvm_ffi)
    sys.exit(sum(tried(check.__name__, check, arguments) for check in checks))


if __name__ == "__main__":
    main()
