"""What is taken apart before operators are lowered: torch's own decompositions, attention and dropout."""

from __future__ import annotations

import functools
import math
import operator

import torch
import torch._higher_order_ops.flex_attention  # noqa: F401  (it makes torch.ops.higher_order's)
import torch.nn.functional as F
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

from . import (  # noqa: F401  (they fill the table)
    composites_of_bessel, composites_of_images, composites_of_layers, composites_of_special,
)
from .composites import COMPOSITES
from .registry import RULES, find_operator

# Operators beyond the core set that torch can take apart.
_MORE = (
    "upsample_bilinear2d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bicubic2d",
    "grid_sampler_2d", "native_batch_norm", "_native_batch_norm_legit", "log_sigmoid_forward", "nan_to_num",
    "im2col", "col2im", "linalg_cross", "logaddexp", "logcumsumexp", "std", "std_mean", "trace", "index_add",
    "index_copy", "rrelu_with_noise", "_to_copy", "sgn", "cudnn_batch_norm", "triu_indices", "tril_indices",
    "take", "aminmax", "count_nonzero", "replication_pad1d", "replication_pad2d", "pixel_shuffle", "glu", "celu",
    "mish", "softplus", "unfold_backward", "bernoulli", "floor_divide", "linspace", "logspace", "isin", "bucketize",
    "addmv", "dist", "ldexp", "rrelu_with_noise_backward", "upsample_trilinear3d",
)


def decomposition_table() -> dict:
    """Operators that have a rule of their own are not taken apart, but for those of composites.py, which give up what
    they do not take to the rule."""
    table = dict(core_aten_decompositions())
    more = [getattr(torch.ops.aten, name) for name in _MORE if hasattr(torch.ops.aten, name)]
    table.update(get_decompositions(more))
    for name in ("aten.bernoulli.default", "aten.native_dropout.default", "aten._to_copy.default"):
        table.pop(find_operator(name), None)
    for name in ("mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward"):
        loss = find_operator(f"aten.{name}.default")
        table[loss] = _of_elements(table[loss])
    return {op: function for op, function in table.items() if op not in RULES} | COMPOSITES


def _of_elements(loss_backward):
    """A decomposition of torch's that divides Python's numbers by the number of elements, for none of them, too."""
    @functools.wraps(loss_backward)
    def decomposed(gradient, x, target, *others, **named):
        if x.numel() == 0 or target.numel() == 0:
            return x.new_zeros(torch.broadcast_shapes(x.shape, target.shape))
        return loss_backward(gradient, x, target, *others, **named)
    return decomposed


# Attention, in the types of torch's fused kernels: scores and softmax in f32, products of the inputs' type.

def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _causal(rows: int, columns: int, device: torch.device) -> torch.Tensor:
    """Which keys each query sees: those up to its own place."""
    places = [torch.arange(n, device=device) for n in (rows, columns)]
    return places[0].unsqueeze(-1) >= places[1]


def _scores(q, k, bias, scale, causal: bool) -> torch.Tensor:
    scores = torch.matmul(_wide(q), _wide(k).transpose(-1, -2))
    if scale != 1:
        scores = scores * scale
    if bias is not None:
        scores = scores + _wide(bias)
    return torch.where(_causal(*scores.shape[-2:], q.device), scores, -math.inf) if causal else scores


class _Attention(torch.autograd.Function):
    """softmax(q kᵀ scale + bias) v for q (…, m, e), k (…, n, e), v (…, n, f). 16-bit inputs: products are of 16 bits
    with f32 sums, probabilities and their gradients are rounded before a product, as fused kernels do."""

    @staticmethod
    def forward(ctx, q, k, v, bias, scale, causal):
        scores = _scores(q, k, bias, scale, causal)
        # Rows in which a bias allows nothing give 0, as torch's kernels do. Without one there are no such rows, and the
        # compiler knows plain softmax between two products.
        if bias is None:
            exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
            probabilities = exponentials / exponentials.sum(-1, keepdim=True)
        else:
            probabilities = _softmax(scores)[0]
        out = torch.matmul(probabilities.to(v.dtype), v)
        ctx.save_for_backward(q, k, v, probabilities)
        ctx.scale, ctx.bias = scale, None if bias is None else (bias.shape, bias.dtype)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, probabilities = ctx.saved_tensors
        of_v = torch.matmul(probabilities.to(v.dtype).transpose(-1, -2), grad)
        of_p = torch.matmul(_wide(grad), _wide(v).transpose(-1, -2))
        product = of_p * probabilities
        of_scores = product - probabilities * product.sum(-1, keepdim=True)
        of_bias = None
        if ctx.bias is not None and ctx.needs_input_grad[3]:
            of_bias = of_scores.sum_to_size(ctx.bias[0]).to(ctx.bias[1])
        of_products = (of_scores * ctx.scale).to(q.dtype)
        return (torch.matmul(of_products, k), torch.matmul(of_products.transpose(-1, -2), q), of_v, of_bias, None, None)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention from operators that have rules."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    rows, columns = query.shape[-2], key.shape[-2]
    bias = attn_mask
    if is_causal and bias is not None:
        raise RuntimeError("scaled_dot_product_attention: attn_mask and is_causal exclude each other")
    if bias is not None and bias.dtype == torch.bool:
        kind = torch.float32 if query.dtype in (torch.float16, torch.bfloat16) else query.dtype
        zero = torch.zeros((), dtype=kind, device=query.device)
        bias = torch.where(bias, zero, torch.full((), -math.inf, dtype=kind, device=query.device))
    group = query.shape[-3] // key.shape[-3] if enable_gqa and query.dim() > 2 else 1
    if group > 1:
        key, value = key.repeat_interleave(group, -3), value.repeat_interleave(group, -3)
    lead = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    if columns == 0:  # no key: torch's attention is 0
        none = torch.matmul(query.expand(*lead, *query.shape[-2:]), key.transpose(-1, -2))
        return torch.matmul(none.to(value.dtype), value)  # gradients go through it, and are 0
    query, key, value = (x.expand(*lead, *x.shape[-2:]) for x in (query, key, value))
    if dropout_p:
        probabilities = torch.softmax(_scores(query, key, bias, scale, is_causal), -1)
        return torch.matmul(F.dropout(probabilities, dropout_p).to(value.dtype), value)
    if torch._C._functorch.peek_interpreter_stack() is not None:  # vmap, jvp: they take no function of autograd's
        probabilities = _softmax(_scores(query, key, bias, scale, is_causal))[0]  # by operators that torch derives
        return torch.matmul(probabilities.to(value.dtype), value)
    return _Attention.apply(query, key, value, bias, scale, is_causal)


def _softmax(scores):
    """(probabilities, which are 0 in rows of -∞ alone, the logarithm of the sum of exponentials, the largest score)"""
    top = scores.amax(-1, keepdim=True)
    hidden = top == -math.inf
    base = torch.where(hidden, 0.0, top).detach()
    exponentials = torch.exp(scores - base)
    total = torch.where(hidden, 1.0, exponentials.sum(-1, keepdim=True))
    return exponentials / total, torch.where(hidden, -math.inf, base + total.log()), top


def replace_attention(gm: torch.fx.GraphModule) -> None:
    """In a graph of dynamo: attention as operators, before autograd sees it."""
    for module in gm.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if node.op == "call_function" and node.target is F.scaled_dot_product_attention:
                node.target = attention
            elif node.op == "call_function" and node.target is torch.ops.higher_order.flex_attention:
                node.target = flex_attention
        module.recompile()


def flex_attention(query, key, value, score_mod, block_mask, scale, kernel_options, score_arrays=(), mask_arrays=()):
    """torch.ops.higher_order.flex_attention (results, logarithms of sums by base 2, largest scores by base 2), in the
    types of its kernels. `block_mask` ends with the mask's function: blocks say nothing more than it."""
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    group = query.shape[1] // key.shape[1]
    if group > 1:
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    key, value = (x.expand(query.shape[0], *x.shape[1:]) for x in (key, value))
    scores = torch.matmul(query.to(wide), key.to(wide).transpose(-1, -2)) * scale
    places = [torch.arange(n, dtype=torch.int32, device=query.device) for n in scores.shape]
    with TransformGetItemToIndex():  # so that an array may be read at a place that is itself an array
        changed = _for_each_score(score_mod, 1, len(score_arrays))(scores, *places, *score_arrays)
        seen = _for_each_score(block_mask[-1], 0, len(mask_arrays))(*places, *mask_arrays)
    scores = torch.where(seen, changed.to(wide), -math.inf)
    probabilities, sums, top = _softmax(scores)
    out = torch.matmul(probabilities.to(query.dtype), value.to(query.dtype))
    return out, sums.squeeze(-1) / math.log(2), top.squeeze(-1) / math.log(2)


def _for_each_score(function, of_scores: int, arrays: int):
    """A function of a score (or none), its batch, head, query and key, and arrays, for all of them at once."""
    for d in reversed(range(4)):
        places = [0 if i == d else None for i in range(4)]
        function = torch.vmap(function, in_dims=(*[0] * of_scores, *places, *[None] * arrays))
    return function


# Dropout

def separate_dropout(gm: torch.fx.GraphModule) -> None:
    """x → dropout as x · mask · scale, where torch draws the mask (the same one as in eager mode) from an array that
    lies as x does: so the graph is not cut where x is computed."""
    dropout = torch.ops.aten.native_dropout.default
    for node in list(gm.graph.nodes):
        if node.target is not dropout or not isinstance(node.meta["val"][0], torch.Tensor):
            continue
        x, p, train = node.args
        fake = node.meta["val"][0]
        if not train or p in (0, 1) or any(not isinstance(n, int) for n in fake.shape):
            continue
        graph = gm.graph

        def call(target, *args, value, node=node, **kwargs):
            made = node.graph.call_function(target, args, kwargs)
            made.meta = {**node.meta, "val": value}
            return made

        with graph.inserting_before(node), fake.fake_mode:
            order = sorted(range(fake.dim()), key=lambda d: (-fake.stride(d), d))  # numbers are drawn in this order
            back = [order.index(d) for d in range(fake.dim())]
            lying = fake.new_ones([fake.shape[d] for d in order])
            like = call(torch.ops.aten.ones.default, list(lying.shape), dtype=fake.dtype, device=fake.device,
                        pin_memory=False, value=lying)
            if back != list(range(fake.dim())):
                like = call(torch.ops.aten.permute.default, like, back, value=lying.permute(back))
            drawn = call(dropout, like, p, train, value=node.meta["val"])
            mask = call(operator.getitem, drawn, 1, value=node.meta["val"][1])
            scaled = call(torch.ops.aten.mul.Tensor, x, 1 / (1 - p), value=fake)
            dropped = call(torch.ops.aten.mul.Tensor, scaled, mask, value=fake)
        for user in list(node.users):
            user.replace_all_uses_with(dropped if user.args[1] == 0 else mask)
            graph.erase_node(user)
        graph.erase_node(node)
    gm.recompile()

