"""Layers that torch has as one operator, and their gradients, taken apart into others."""

from __future__ import annotations

import math
from ctypes import c_float

import torch
import torch.nn.functional as F

from .composites import takes_apart, wide

# Bags of embeddings: 0 sums, 1 means, 2 maxima

def _parts(offsets: torch.Tensor, size: int) -> torch.Tensor:
    """The part of each of `size` elements, for the places at which parts begin, in order; -1 before the first one."""
    places = torch.arange(size, dtype=offsets.dtype, device=offsets.device).expand(*offsets.shape[:-1], -1)
    return torch.searchsorted(offsets.contiguous(), places.contiguous(), right=True) - 1


def _bags(indices: torch.Tensor, offsets: torch.Tensor, last_too: bool) -> tuple[torch.Tensor, int]:
    """The bag of each index, and how many bags there are."""
    if last_too:
        offsets = offsets[:-1]
    return _parts(offsets, indices.shape[0]), offsets.shape[0]


def _sum_of_bags(x: torch.Tensor, bag: torch.Tensor, count: int) -> torch.Tensor:
    return torch.zeros(count, *x.shape[1:], dtype=x.dtype, device=x.device).index_add(0, bag, x)


@takes_apart("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=-1):
    """(results, the bag of each index, sizes of bags, for maxima the rows that they are of, else nothing of use)"""
    if sparse or indices.dim() != 1 or indices.shape[0] == 0:
        return NotImplemented
    bag, count = _bags(indices, offsets, include_last_offset)
    rows = wide(weight[indices])
    counted = indices != padding_idx
    sizes = _sum_of_bags(counted.long(), bag, count)
    kinds = {"dtype": indices.dtype, "device": indices.device}
    if mode == 2:
        lowest = torch.full((count, rows.shape[1]), -math.inf, dtype=rows.dtype, device=rows.device)
        rows = torch.where(counted[:, None], rows, -math.inf)
        best = lowest.scatter_reduce(0, bag[:, None].expand_as(rows), rows, "amax")
        places = torch.arange(indices.shape[0], device=indices.device)[:, None]
        first = torch.where(rows == best[bag], places, indices.shape[0])
        first = torch.full_like(best, indices.shape[0], dtype=torch.int64).scatter_reduce(
            0, bag[:, None].expand_as(first), first, "amin")
        of_row = indices[first.clamp_max(indices.shape[0] - 1)]
        found = torch.where(sizes[:, None] > 0, best, 0.0)
        return found.to(weight.dtype), bag.to(**kinds), sizes.to(**kinds), of_row
    rows = torch.where(counted[:, None], rows, 0.0)
    if per_sample_weights is not None:
        rows = rows * wide(per_sample_weights)[:, None]
    found = _sum_of_bags(rows, bag, count)
    if mode == 1:
        found = found / sizes.clamp_min(1)[:, None]
    return found.to(weight.dtype), bag.to(**kinds), sizes.to(**kinds), torch.zeros_like(sizes).to(**kinds)


@takes_apart("aten._embedding_bag_backward.default")
def embedding_bag_backward(grad, indices, offsets, bag, sizes, of_row, num_weights, scale_grad_by_freq, mode, sparse,
                           per_sample_weights, padding_idx=-1):
    if sparse:
        return NotImplemented
    width = grad.shape[1]
    kinds = {"dtype": wide(grad).dtype, "device": grad.device}
    total = torch.zeros(num_weights, width, **kinds)
    if mode == 2:
        columns = torch.where(sizes[:, None] > 0, wide(grad), 0.0)
        return total.scatter_add(0, of_row.long(), columns).to(grad.dtype)
    rows = wide(grad)[bag]
    if mode == 1:
        rows = rows / sizes.clamp_min(1)[bag][:, None]
    if per_sample_weights is not None:
        rows = rows * wide(per_sample_weights)[:, None]
    if scale_grad_by_freq:
        times = torch.zeros(num_weights, **kinds).index_add(0, indices, torch.ones(indices.shape, **kinds))
        rows = rows / times[indices][:, None]
    rows = torch.where((indices != padding_idx)[:, None], rows, 0.0)
    return total.index_add(0, indices, rows).to(grad.dtype)


@takes_apart("aten._embedding_bag_per_sample_weights_backward.default")
def embedding_bag_weights_backward(grad, weight, indices, offsets, bag, mode, padding_idx=-1):
    products = (wide(grad)[bag] * wide(weight)[indices]).sum(1)
    return torch.where(indices != padding_idx, products, 0.0).to(grad.dtype)


# Segments of an array: parts of one dimension that follow each other

_OF_SEGMENTS = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0), "max": ("amax", -math.inf),
                "min": ("amin", math.inf)}


def _segments(data, lengths, offsets, axis: int):
    """(the segment of each element, how many segments there are, their lengths); segments that do not cover an element
    leave it to one that comes after them all."""
    offsets = F.pad(lengths.cumsum(-1), (1, 0)) if offsets is None else offsets
    count = offsets.shape[-1] - 1
    segment = _parts(offsets, data.shape[axis])
    segment = torch.where(segment < 0, count, segment)
    return _along(segment, data).expand_as(data), count, _along(offsets.diff(), data)


def _along(x: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """With as many dimensions as the data: those of segments are the first."""
    return x.reshape(*x.shape, *[1] * (data.dim() - x.dim()))


@takes_apart("aten.segment_reduce.default")
def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    if indices is not None or data.numel() == 0:
        return NotImplemented
    axis = axis % data.dim()
    segment, count, lengths = _segments(data, lengths, offsets, axis)
    way, start = _OF_SEGMENTS[reduce]
    shape = [*data.shape[:axis], count + 1, *data.shape[axis + 1:]]
    x = wide(data)
    found = torch.full(shape, start if initial is None else initial, dtype=x.dtype, device=x.device)
    found = found.scatter_reduce(axis, segment, x, way).narrow(axis, 0, count)
    if reduce == "mean":
        empty = math.nan if initial is None else initial
        found = torch.where(lengths > 0, found / lengths, empty)
    return found.to(data.dtype).contiguous()


@takes_apart("aten._segment_reduce_backward.default")
def segment_reduce_backward(grad, output, data, reduce, *, lengths=None, offsets=None, axis=0, initial=None):
    if reduce == "prod" or data.numel() == 0:
        return NotImplemented
    axis = axis % data.dim()
    segment, count, lengths = _segments(data, lengths, offsets, axis)

    def of_elements(x):
        """What stands for the segment of each element, 0 for an element of none."""
        one = list(x.shape)
        one[axis] = 1
        return torch.cat([x, x.new_zeros(one)], axis).gather(axis, segment)

    if reduce == "sum":
        return of_elements(grad)
    if reduce == "mean":
        return of_elements((wide(grad) / lengths.clamp_min(1)).to(grad.dtype))
    best = of_elements(output)
    chosen = ((data == best) | data.isnan()) & (segment < count)
    equals = torch.zeros([*data.shape[:axis], count + 1, *data.shape[axis + 1:]], dtype=torch.int64, device=data.device)
    equals = equals.scatter_add(axis, segment, chosen.long()).narrow(axis, 0, count)
    # Torch shares gradients among equal elements where they are above 0, and gives each all of one below.
    shared = torch.where(grad > 0, (wide(grad) / equals.clamp_min(1)).to(grad.dtype), grad)
    return torch.where(chosen, of_elements(shared), 0.0)


# Layers

@takes_apart("aten.embedding_renorm.default")
def embedding_renorm(weight, indices, max_norm, norm_type):
    """The weight, whose rows that the indices name are no longer than max_norm."""
    if indices.numel() == 0:
        return weight.clone()
    places = indices.reshape(-1)
    rows = weight[places]
    sizes = torch.linalg.vector_norm(wide(rows), norm_type, -1, keepdim=True)
    shorter = (rows * (max_norm / (sizes + 1e-7)).to(rows.dtype)).to(rows.dtype)
    return weight.index_put([places], torch.where(sizes > max_norm, shorter, rows))


@takes_apart("aten._weight_norm_interface_backward.default")
def weight_norm_backward(grad, v, g, norms, dim):
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    norms, v_wide, grad_wide = norms.view(g.shape), wide(v), wide(grad)
    products = (grad_wide * v_wide).sum(others, keepdim=True)
    of_v = wide(g) / norms * (grad_wide - v_wide * (products / (norms * norms)))
    return of_v.to(v.dtype), (products / norms).to(g.dtype)


@takes_apart("aten._transformer_encoder_layer_fwd.default")
def transformer_encoder_layer(x, width, heads, qkv_weight, qkv_bias, out_weight, out_bias, use_gelu, norm_first, eps,
                              weight_1, bias_1, weight_2, bias_2, up_weight, up_bias, down_weight, down_bias,
                              mask=None, mask_type=None):
    """What torch.nn.TransformerEncoderLayer runs where nothing is trained."""
    if x.dim() != 3 or x.is_nested:
        return NotImplemented
    hidden = None
    if mask is not None:
        # 0: queries by keys, 1: of padding, by sequence and key; 2: both, already by sequence and head.
        shape = {0: mask.shape, 1: (x.shape[0], 1, 1, x.shape[1]), 2: mask.shape}.get(mask_type)
        if shape is None:
            return NotImplemented
        hidden = mask.to(torch.bool).view(shape)

    def attend(y):
        q, k, v = F.linear(y, qkv_weight, qkv_bias).view(*y.shape[:2], 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(wide(q), wide(k).transpose(-1, -2)) / math.sqrt(width // heads)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        mixed = torch.matmul(scores.softmax(-1).to(v.dtype), v)
        return F.linear(mixed.transpose(1, 2).reshape(y.shape), out_weight, out_bias)

    def feed(y):
        y = F.linear(y, up_weight, up_bias)
        # On a GPU torch computes this GELU where cuBLASLt would, after a product, and as it does: with tanh.
        return F.linear(F.gelu(y, approximate="tanh" if y.is_cuda else "none") if use_gelu else F.relu(y),
                        down_weight, down_bias)

    def norm_1(y):
        return F.layer_norm(y, (width,), weight_1, bias_1, eps)

    def norm_2(y):
        return F.layer_norm(y, (width,), weight_2, bias_2, eps)

    if norm_first:
        x = x + attend(norm_1(x))
        return x + feed(norm_2(x))
    x = norm_1(x + attend(x))
    return norm_2(x + feed(x))


# Quantisation that is only acted out

def _act_out(x, scale, zero, low, high):
    # Torch divides in float32, where a number may have another reciprocal.
    inverse = 1 / scale if isinstance(scale, torch.Tensor) else c_float(1 / c_float(scale).value).value
    level = torch.round(wide(x) * inverse) + zero
    kept = (level >= low) & (level <= high)
    return ((level.clamp(low, high) - zero) * scale).to(x.dtype), kept


@takes_apart("aten.fake_quantize_per_tensor_affine_cachemask.default")
def fake_quantize(x, scale, zero_point, quant_min, quant_max):
    return _act_out(x, scale, zero_point, quant_min, quant_max)


@takes_apart("aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default")
def fake_quantize_by_tensors(x, scale, zero_point, enabled, quant_min, quant_max):
    found, kept = _act_out(x, scale, zero_point, quant_min, quant_max)
    on = enabled.reshape(()) != 0
    return torch.where(on, found, x), kept | ~on


@takes_apart("aten.fake_quantize_per_channel_affine_cachemask.default")
def fake_quantize_channels(x, scale, zero_point, axis, quant_min, quant_max):
    shape = [-1 if d == axis % x.dim() else 1 for d in range(x.dim())]
    return _act_out(x, scale.view(shape), zero_point.view(shape), quant_min, quant_max)


# Recurrent cells: on a GPU torch has each as one operator after the products. Gates lie beside each other: of an LSTM
# input, forget, cell and output, of a GRU reset, update and new. What the gradient needs is the last result.

def _gates(x, hidden, input_bias, hidden_bias):
    """The two products with their biases, in f32 where they have 16 bits."""
    if input_bias is None:
        return wide(x), wide(hidden)
    return wide(x) + wide(input_bias), wide(hidden) + wide(hidden_bias)


@takes_apart("aten._thnn_fused_lstm_cell.default")
def lstm_cell(input_gates, hidden_gates, cell, input_bias=None, hidden_bias=None):
    i, f, g, o = sum(_gates(input_gates, hidden_gates, input_bias, hidden_bias)).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * wide(cell) + i * g
    return ((o * new.tanh()).to(cell.dtype), new.to(cell.dtype),
            torch.cat([i, f, g, o], 1).to(input_gates.dtype))


@takes_apart("aten._thnn_fused_lstm_cell_backward_impl.default")
def lstm_cell_backward(grad_hidden, grad_cell, cell, new_cell, gates, has_bias):
    i, f, g, o = wide(gates).chunk(4, 1)
    squashed = wide(new_cell).tanh()
    of_hidden = torch.zeros_like(squashed) if grad_hidden is None else wide(grad_hidden)
    of_new = of_hidden * o * (1 - squashed * squashed)
    of_new = of_new if grad_cell is None else of_new + wide(grad_cell)
    grad = torch.cat([of_new * g * i * (1 - i), of_new * wide(cell) * f * (1 - f), of_new * i * (1 - g * g),
                      of_hidden * squashed * o * (1 - o)], 1)
    return (grad.to(gates.dtype), (of_new * f).to(cell.dtype),
            grad.sum(0).to(gates.dtype) if has_bias else None)


@takes_apart("aten._thnn_fused_gru_cell.default")
def gru_cell(input_gates, hidden_gates, hidden, input_bias=None, hidden_bias=None):
    x, h = _gates(input_gates, hidden_gates, input_bias, hidden_bias)
    (x_reset, x_update, x_new), (h_reset, h_update, h_new) = x.chunk(3, 1), h.chunk(3, 1)
    reset, update = (x_reset + h_reset).sigmoid(), (x_update + h_update).sigmoid()
    new = (x_new + reset * h_new).tanh()
    before = wide(hidden)
    return ((new + update * (before - new)).to(hidden.dtype),
            torch.cat([reset, update, new, before, h_new], 1).to(hidden.dtype))


@takes_apart("aten._thnn_fused_gru_cell_backward.default")
def gru_cell_backward(grad, workspace, has_bias):
    reset, update, new, before, h_new = wide(workspace).chunk(5, 1)
    of_result = wide(grad)
    of_update = of_result * (before - new) * update * (1 - update)
    of_new = of_result * (1 - update) * (1 - new * new)
    of_reset = of_new * h_new * reset * (1 - reset)
    of_input = torch.cat([of_reset, of_update, of_new], 1)
    of_hidden = torch.cat([of_reset, of_update, of_new * reset], 1)
    biases = [x.sum(0).to(grad.dtype) if has_bias else None for x in (of_input, of_hidden)]
    return of_input.to(grad.dtype), of_hidden.to(grad.dtype), (of_result * update).to(grad.dtype), *biases
