"""What users run today, for the programs of the benchmark table: PyTorch eager and compiled, and its attention backends.

Each peer is a function of the program's inputs in the order of programs/bench. The norms compute in float32 where a
careful user would.
"""
import torch
import torch.nn.functional as F


def wide(x):
    """In float32, or float64 where it is that already."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def rms(x):
    return x * torch.rsqrt(wide(x).pow(2).mean(-1, keepdim=True)).to(x.dtype)


def l2(x):
    return x * torch.rsqrt(wide(x).pow(2).sum(-1, keepdim=True)).to(x.dtype)


def gqa(q, k, v):
    e = torch.exp(q @ k)
    return (e / e.sum(-1, keepdim=True)) @ v


def attn(q, kt, v):
    return torch.softmax(q @ kt.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def sdpa(backend):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def run(q, kt, v):
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return F.scaled_dot_product_attention(q[None], kt[None], v[None])[0]
    return run


def flex(q, kt, v):
    from torch.nn.attention.flex_attention import flex_attention
    return flex_attention(q[None], kt[None], v[None])[0]


def normed(attention):
    return lambda q, kt, v: attention(rms(q), rms(kt), v)


def rmsnorm(x, g, w):
    return (rms(x) * g) @ w


def lora(x, w, a, b):
    return x @ w + (x @ a) @ b


# Program (without its batch) -> functions by name. "eager" is the definition that errors are measured against.
FUNCTIONS = {
    "gqa": {"eager": gqa},
    "qknorm": {"eager": lambda q, k, v: gqa(rms(q), k, rms(v))},
    "attn": {"eager": attn, "flash": sdpa("FLASH_ATTENTION"), "cudnn": sdpa("CUDNN_ATTENTION"), "flex": flex},
    "attn_decode8k": {"eager": attn, "flash": sdpa("FLASH_ATTENTION"), "cudnn": sdpa("CUDNN_ATTENTION"), "flex": flex},
    "qknorm_decode4k": {"eager": normed(attn), "flash": normed(sdpa("FLASH_ATTENTION")),
                        "cudnn": normed(sdpa("CUDNN_ATTENTION")), "flex": normed(flex)},
    "rmsnorm": {"eager": rmsnorm}, "rmsnorm_4k": {"eager": rmsnorm},
    "lora": {"eager": lora}, "lora_4k": {"eager": lora},
    "gated_mlp": {"eager": lambda x, w1, w2: F.silu(x @ w1) * (x @ w2)},
    "ntrans": {"eager": lambda h, x, a: l2(x + a * (l2(h) - x))},
}


def peers(program):
    """(name, function) of every peer of a program. Flex attention is meant to be compiled and is not run without."""
    for name, function in FUNCTIONS[program].items():
        if name != "flex":
            yield name, function
        if name in ("flash", "cudnn") and program.startswith("attn"):
            continue  # one library call: there is nothing to compile
        yield name + "+compile", torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)


def floor_seconds(program, tensors, output):
    """The largest of bytes, tensor core operations and exponentials over the machine's measured rates (H200)."""
    size = sum(t.numel() * t.element_size() for t in [*tensors, output])
    flops, exponentials = 0, 0
    if program in ("gqa", "qknorm", "attn", "attn_decode8k", "qknorm_decode4k"):
        q, k, v = tensors
        context = v.shape[1]
        flops = 4 * q.shape[0] * q.shape[1] * context * q.shape[2]
        exponentials = q.shape[0] * q.shape[1] * context
    elif program != "ntrans":
        x, matrices = tensors[0], [t for t in tensors[1:] if t.dim() == 2]
        flops = sum(2 * x.shape[0] * m.numel() for m in matrices)
    return max(size / 4.39e12, flops / 680e12, exponentials / 4e12)
