"""Operators that the torch front end takes apart itself, and scans: results and gradients beside eager mode's."""

import copy
import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its front end is not tested")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from rounds import in_rounds  # noqa: E402
from torch_helpers import array, assert_same, check, check_training, compiled, lowered  # noqa: E402

from strata import torch_backend  # noqa: E402
from strata.torch_backend.composites import COMPOSITES  # noqa: E402
from strata.torch_backend.writer import read_constants_as_they_are  # noqa: E402

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(17)


class Function(nn.Module):
    """A function as a module, for check_training."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def train(function, *inputs, **more):
    check_training(Function(function), *inputs, **more)


def check_all(function, *inputs, **more):
    """check, of results in a tree."""
    check(lambda *given: torch.utils._pytree.tree_leaves(function(*given)), *inputs, **more)


def integers(high, *shape):
    return torch.randint(0, high, shape)


def test_order_statistics():
    x, ties = array(4, 7), array(3, 6, 9, dtype=torch.int64, low=0, high=3)
    train(lambda x: x.kthvalue(3, 1).values + x.median(1).values + x.nanmedian(-1).values, x)
    check_all(lambda x: (x.kthvalue(1, 0), x.kthvalue(7, 1, True), x.median(0, True), x.median(), x.nanmedian()), x)
    check_all(lambda x: (x.mode(1), x.mode(-1, True), x.mode(0).values, x.median(2).values, x.median()), ties)
    with_nan = torch.where(array(5, 8) > 1.5, torch.nan, array(5, 8))
    check_all(lambda x: (x.median(1).values, x.median(), x.nanmedian(1).values, x.nanmedian()), with_nan)
    check_all(lambda x: (x.median(0), x.kthvalue(1), x.nanmedian(0)), torch.tensor(2.0))


def test_cumulative_extremes():
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool):
        x = array(5, 9, dtype=dtype, low=-3, high=3)
        x = x.round() if dtype.is_floating_point else x  # ties: the last of equals is named
        check_all(lambda x: (x.cummax(1), x.cummin(0)), x)
    inf, nan = torch.inf, torch.nan
    check_all(lambda x: (x.cummax(0), x.cummin(0)), torch.tensor([1.0, -inf, nan, 3.0, nan, inf]))
    train(lambda x: x.cummax(1).values * x.cummin(0).values, array(4, 6))


def test_logcumsumexp():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        check(lambda x: (x.logcumsumexp(1), x.logcumsumexp(0)), array(3, 40, dtype=dtype, low=-30, high=30))
    inf = torch.inf
    check(lambda x: x.logcumsumexp(0), torch.tensor([-inf, -inf, 1.0, 200.0, -200.0, inf, 3.0]))
    check(lambda x: x.logcumsumexp(0), torch.tensor([1.0, torch.nan, 2.0]))
    train(lambda x: x.logcumsumexp(1), array(3, 9))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode):
    for more in ({}, {"padding_idx": 2}, {"include_last_offset": True}) + (
            () if mode == "max" else ({"scale_grad_by_freq": True},)):
        # The second bag is empty. The last offset, where it is asked for, is the number of indices.
        last = 11 if "include_last_offset" in more else 7
        check_training(Bag(mode, more), integers(10, 11), torch.tensor([0, 3, 3, last]))
    check_training(nn.EmbeddingBag(10, 5, mode=mode), integers(10, 3, 4))
    if mode == "sum":
        train(lambda w, p, i: F.embedding_bag(i, w, mode="sum", per_sample_weights=p, padding_idx=1),
              array(10, 5), array(3, 4), integers(10, 3, 4))


class Bag(nn.Module):
    def __init__(self, mode, more):
        super().__init__()
        self.bag = nn.EmbeddingBag(10, 5, mode=mode, **more)

    def forward(self, indices, offsets):
        return self.bag(indices, offsets)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce):
    def of(x, **more):
        return torch.segment_reduce(x, reduce, unsafe=True, **more)

    lengths, x = torch.tensor([3, 0, 4, 1]), array(8, 5)
    nan = torch.where(x > 2.5, torch.nan, x)
    for data in in_rounds(nan, x.bfloat16(), x, x.double(), x.round()):
        check(lambda x, n: of(x, lengths=n), data, lengths)
        check(lambda x, n: of(x, lengths=n, initial=2), data, lengths)
        check(lambda x, n: of(x, offsets=n), data, torch.tensor([0, 3, 3, 8]))
    check(lambda x, n: of(x, lengths=n, axis=1), array(2, 7, 3), torch.tensor([[2, 5], [6, 1]]))
    if reduce != "prod":
        train(lambda x: of(x, lengths=lengths, initial=0), x.round())
        train(lambda x: of(x, lengths=torch.tensor([[2, 5], [6, 1]]), axis=1), array(2, 7, 3))


@pytest.mark.parametrize("norm", in_rounds(2.0, 1.0, math.inf))
def test_embeddings_of_bounded_length(norm):
    for layer in (nn.Embedding, nn.EmbeddingBag):
        module = layer(11, 5, max_norm=1.5, norm_type=norm)
        eager, indices = copy.deepcopy(module), integers(11, 4, 3)
        indices[0] = indices[1]
        torch_backend.FALLBACKS.clear()
        for _ in range(2):
            got, expected = compiled(module)(indices), eager(indices)
            assert not torch_backend.FALLBACKS
            assert_same(got.detach(), expected.detach())
            assert_same(module.weight.detach(), eager.weight.detach())
            for result in (got, expected):
                result.square().sum().backward()
            assert_same(module.weight.grad, eager.weight.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch._dynamo.config.patch(allow_rnn=True)
def test_lstm_that_is_not_trained(dtype):
    for more in ({}, {"bidirectional": True, "batch_first": True}, {"bias": False, "num_layers": 2}):
        module = nn.LSTM(5, 7, **more).to(dtype)
        x = array(4, 3, 5, dtype=dtype)
        with torch.no_grad():
            wide = copy.deepcopy(module).double()(x.double())
            assert_same([v.double() for v in torch.utils._pytree.tree_leaves(compiled(module)(x))],
                        torch.utils._pytree.tree_leaves(wide), strides=False,
                        units=8 * torch.finfo(dtype).eps / torch.finfo(torch.float64).eps)
        assert not torch_backend.FALLBACKS


def test_gradients_of_an_embedding_by_frequency():
    check_training(nn.Embedding(10, 5, scale_grad_by_freq=True, padding_idx=3), integers(10, 4, 6))


@pytest.mark.parametrize("p", [0.0, 2.0, math.inf, *in_rounds(1.5, 1.0, 3.0)])
def test_distances(p):
    x, y = array(2, 5, 3), array(2, 6, 3)
    train(lambda x, y: torch.cdist(x, y, p=p), x, y)
    train(lambda x: F.pdist(x, p), x[0])
    train(lambda x: torch.cdist(x, x.roll(1, 1), p=p), x)  # with distances of 0
    if p == 2:
        train(torch.cdist, array(40, 3), array(30, 3), units=512)


def test_elements_of_a_mask():
    x = array(4, 5)
    train(lambda x, s: x.masked_scatter(x > 0, s), x, array(30))
    train(lambda x, s: x.masked_scatter((x[:, :1] > 0), s), x, array(5, 4))


def test_writes():
    x, places = array(5, 4), integers(5, 3, 4)
    for function in (lambda x, i, v: x.put(i.flatten() % 3 + torch.arange(12), v, accumulate=True),
                     lambda x, i, v: x.index_reduce(0, i[:, 0], v, "mean"),
                     lambda x, i, v: x.index_reduce(0, i[:, 0], v, "amax", include_self=False),
                     lambda x, i, v: x.scatter_reduce(0, i, v, "mean"),
                     lambda x, i, v: x.scatter_reduce(0, i, v, "mean", include_self=False)):
        check(function, x, places, array(3, 4))
    train(lambda x, i, v: x.scatter_reduce(0, i, v, "mean"), x, places, array(3, 4))
    check(lambda x, i, v: x.scatter_reduce(0, i, v, "mean"), array(5, 4, dtype=torch.int64, low=-9, high=9), places,
          array(3, 4, dtype=torch.int64, low=-9, high=9))
    for offset in (-2, 0, 1):
        train(lambda x, v: x.diagonal_scatter(v, offset), x, torch.diagonal(x, offset) * 2)
    train(lambda x: x.diagonal(1, 0, 2).sum(-1) + x.take(torch.tensor([3, 1, 3])).sum(), array(3, 2, 4))


def test_repeats_of_known_total():
    def f(x, n):
        return x.repeat_interleave(n, 0, output_size=8)

    n = torch.tensor([0, 3, 1, 0, 4])
    train(f, array(5, 3), n)


def test_frequencies_and_ends_of_the_table():
    check(lambda x: (torch.fft.fftfreq(7, 0.5) * x, torch.fft.rfftfreq(12) * x, torch.fft.fftfreq(6)[:3]), array(7))
    special = torch.tensor([0.0, -0.0, 1.5, -2.5, torch.inf, -torch.inf, torch.nan, -torch.nan])
    check(lambda x: (x.signbit(), x.angle(), x.round(decimals=1), x.round(decimals=-1)), special)
    check(lambda x: x.signbit(), torch.tensor([3, -3, 0]))
    check(lambda s: (torch.searchsorted(s, 0.3), torch.searchsorted(s, 1, right=True)), array(7).sort()[0])


def test_pooling_by_maxima():
    volume = array(2, 3, 6, 7, 8)
    check(lambda x: aten.max_pool3d_with_indices(x, [3, 2, 3], [2], [1]), volume)
    check(lambda x: aten.max_pool2d_with_indices(x, [2, 2]), array(1, 4, 6, dtype=torch.int32))
    check_training(nn.MaxPool3d(3, 2, 1), array(1, 2, 5, 6, 4))
    for n, size in ((1, 5), (2, 1), (2, 5), (3, 2)):
        check_training(getattr(nn, f"AdaptiveMaxPool{n}d")(size), array(2, 3, *(7, 8, 6)[:n]))


def test_unfused_layers():
    check_training(nn.Bilinear(3, 4, 5), array(2, 3), array(2, 4))
    for dim in (0, 1):
        check_training(torch.nn.utils.parametrizations.weight_norm(nn.Linear(6, 3), dim=dim), array(4, 6), units=256)
    train(lambda x, a, b: torch.addbmm(x, a, b, beta=0.5, alpha=2), array(3, 5), array(2, 3, 4), array(2, 4, 5))


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layers_that_are_not_trained(norm_first):
    """torch runs one operator for the whole layer, here without a fall-back."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first, activation="gelu").eval()
    x, padding = array(2, 5, 8), torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    for masks in ({"src_key_padding_mask": padding},) if norm_first else (
            {}, {"src_mask": causal}, {"src_mask": causal, "src_key_padding_mask": padding}):
        with torch.no_grad():
            expected, got = layer(x, **masks), compiled(layer)(x, **masks)
        assert not torch_backend.FALLBACKS
        assert_same(got, expected)


@pytest.mark.parametrize("mode, padding, align", [
    ("bilinear", "zeros", False), ("bilinear", "reflection", True), ("nearest", "border", False),
    ("bicubic", "reflection", False)])
def test_samples_of_pictures(mode, padding, align):
    train(lambda x, g: F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=align),
          array(2, 3, 4, 5), array(2, 3, 3, 2, low=-1.4, high=1.4), units=512)


def test_samples_outside_a_picture_read_nothing():
    picture = array(1, 1, 3, 4)
    picture[0, 0, 0, 0] = math.inf
    # The first lies on the corner's outer edge, the second far from it, the third outside.
    grid = torch.tensor([[[[-0.75, -1.0], [0.9, 0.9], [3.0, 3.0]]]])
    check(lambda x, g: F.grid_sample(x, g, align_corners=False), picture, grid)


def test_fake_quantisation_divides_in_float32():
    for scale in (0.1, 0.3, 1 / 3, 0.7):
        halves = (torch.arange(-40, 40) + 0.5) * scale
        check(lambda x, scale=scale: torch.fake_quantize_per_tensor_affine(x, scale, 3, -32, 31), halves)


def test_samples_of_volumes():
    train(lambda x, g: F.grid_sample(x, g, align_corners=False, padding_mode="border"), array(1, 2, 3, 4, 5),
          array(1, 2, 2, 2, 3, low=-1.1, high=1.1), units=512)


def test_gradients_of_padding():
    for mode, n in (("replicate", 1), ("replicate", 3), ("reflect", 2)):
        train(lambda x: F.pad(x, (2, 1, 0, 3, 1, 1)[:2 * n], mode=mode), array(1, 2, *(3, 4, 3)[-n:]))
    check(lambda g, x: aten.reflection_pad3d_backward(g, x, [1, 2, 0, 1, 2, 2]), array(2, 7, 5, 6), array(2, 3, 4, 3))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resampling_that_averages(mode):
    for size in ((3, 4), (9, 4)):
        check(lambda x: F.interpolate(x, size=size, mode=mode, antialias=True), array(2, 3, 7, 8))
    more = {"mode": mode, "antialias": True, "align_corners": True}
    train(lambda x: F.interpolate(x, scale_factor=0.7, **more), array(1, 1, 7, 8))


def test_masks_of_dropout_in_any_layout():
    """What torch draws does not depend on where the dropped-out tensor is computed, but on how it lies."""
    p, drawn = 0.4, {"fallbacks": ["aten.native_dropout.default"]}
    train(lambda x: F.dropout((x * 2).transpose(0, 1), p), array(5, 7), **drawn)
    train(lambda x: F.dropout((x * 2).permute(2, 0, 1).exp(), p), array(2, 3, 4), **drawn)
    picture = array(2, 3, 4, 5).to(memory_format=torch.channels_last)
    train(lambda x: F.dropout(x * 2, p) + F.dropout(x.contiguous() + 1, p), picture, **drawn)


def test_gamma_functions():
    special = torch.tensor([0.0, -0.0, 1.0, 2.0, -2.0, 1e-6, 170.0, 1e5, torch.inf, torch.nan])
    x = torch.cat([array(300, low=0.05, high=30), array(300, low=-5, high=0), special])
    for got, function in zip(lowered(lambda x: (x.lgamma(), x.digamma()), x), (torch.lgamma, torch.digamma)):
        exact = function(x.double())
        torch.testing.assert_close(got.double(), exact, rtol=1e-6, atol=1e-6, equal_nan=True)
        error = (got.double() - exact)[:300].abs()
        assert bool((error <= torch.finfo(x.dtype).eps * exact[:300].abs()).all())
    check(torch.lgamma, array(3, dtype=torch.float64), fallbacks=["aten.lgamma.default"])


def test_quantisation_that_is_acted_out():
    x = array(3, 4, 5)
    train(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -16, 15), x)
    scale, zero = array(4, low=0.05, high=0.3), torch.tensor([0, 1, -2, 3], dtype=torch.int32)
    train(lambda x: torch.fake_quantize_per_channel_affine(x, scale, zero, 1, -8, 7), x)
    one = torch.tensor([1])
    train(lambda x: torch.fake_quantize_per_tensor_affine(x, scale[:1], zero[:1], -8, 7), x)
    for enabled in (one, one * 0):
        check(lambda *given: aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(*given, -8, 7),
              x, scale[:1], zero[:1], enabled)


def test_lists_of_arrays():
    """What optimizers call."""
    x, y = [array(3), array(2, 4, low=0.1)], [array(3), array(2, 4)]
    for function in (torch._foreach_add, torch._foreach_mul, torch._foreach_maximum):
        check(lambda a, b, c, d: function([a, b], [c, d]), *x, *y)
        check(lambda a, b: function([a, b], 2.0), *x)
        check(lambda a, b: function([a, b], [2.0, 3.0]), *x)
    check(lambda a, b, c, d: torch._foreach_addcmul([a, b], [c, d], [a, b], 0.5), *x, *y)
    check(lambda a, b: (*torch._foreach_norm([a, b]), *torch._foreach_sqrt([a.abs(), b])), *x)

    model = nn.Linear(4, 3)
    steps = []
    for run in (lambda f: f, compiled):
        weights = [p.detach().clone().requires_grad_() for p in model.parameters()]
        optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9, weight_decay=0.1, foreach=True)
        for _ in range(2):
            for i, p in enumerate(weights):
                p.grad = torch.full_like(p, 0.5 + i)
            run(optimizer.step)()
        steps.append([p.detach() for p in weights])
    assert_same(steps[1], steps[0], 256)


# What only GPUs have as one operator: the functions that take it apart, beside torch on the processor.

def of_gpu(name):
    return COMPOSITES[getattr(aten, name).default]


def same_gradients(results, inputs, found):
    """Gradients of results' sums by weights, beside those that a composite gives."""
    weights = [torch.randn_like(x) for x in results]
    expected = torch.autograd.grad([*results], inputs, weights)
    for one, other in zip(found(*weights), expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("kind, gates", [("lstm", 4), ("gru", 3)])
def test_recurrent_cells_as_gpus_have_them(kind, gates, has_bias):
    width = 5
    x, h = (torch.randn(3, gates * width, dtype=torch.float64, requires_grad=True) for _ in range(2))
    state, cell = (torch.randn(3, width, dtype=torch.float64, requires_grad=True) for _ in range(2))
    biases = [torch.randn(gates * width, dtype=torch.float64, requires_grad=True) for _ in range(2 * has_bias)]
    one = torch.eye(gates * width, dtype=torch.float64)
    if kind == "lstm":
        # The products are the gates themselves: by a unit matrix, and by none of the state.
        no_state = torch.zeros(gates * width, width, dtype=torch.float64)
        expected = torch.lstm_cell(x + h, (state, cell), one, no_state, *biases)
        new, new_cell, saved = of_gpu("_thnn_fused_lstm_cell")(x, h, cell, *biases)
        found = new, new_cell
        inputs = [x, cell, *biases[:1]]

        def gradients(of_new, of_cell):
            return [g for g in of_gpu("_thnn_fused_lstm_cell_backward_impl")(
                of_new, of_cell, cell.detach(), new_cell.detach(), saved.detach(), has_bias) if g is not None]
    else:
        def cell_of(x, h, before):
            if has_bias:
                x, h = x + biases[0], h + biases[1]
            (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), h.chunk(3, 1)
            update = torch.sigmoid(xz + hz)
            return (1 - update) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + update * before
        # That this is torch's: with the state's product of a unit matrix beside it.
        weights = torch.randn(gates * width, width, dtype=torch.float64)
        zero = [torch.zeros_like(b) for b in biases] if not has_bias else biases
        torch.testing.assert_close(cell_of(x, state @ weights.T, state), torch.gru_cell(x, state, one, weights, *zero))
        expected = (cell_of(x, h, state),)
        new, saved = of_gpu("_thnn_fused_gru_cell")(x, h, state, *biases)
        found = (new,)
        inputs = [x, h, state, *biases]

        def gradients(of_new):
            return [g for g in of_gpu("_thnn_fused_gru_cell_backward")(of_new, saved.detach(), has_bias)
                    if g is not None]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    same_gradients(expected, inputs, gradients)


def test_pictures_are_sampled_as_gpus_have_it():
    x, grid = array(2, 3, 5, 6, dtype=torch.float64), array(2, 4, 7, 2, dtype=torch.float64, low=-1.3, high=1.3)
    x.requires_grad_()
    grid.requires_grad_()
    expected = F.grid_sample(x, grid, align_corners=True)
    torch.testing.assert_close(of_gpu("cudnn_grid_sampler")(x, grid), expected)
    same_gradients([expected], [x, grid], lambda grad: of_gpu("cudnn_grid_sampler_backward")(x, grid, grad))


def test_readers_of_numbers_read_the_constant():
    """Not the copy, which lies in the processor's memory where all else is a GPU's."""
    def masked(x):
        x = x.clone()
        x[x > 0.5] = torch.tensor(-1.0)
        return x
    x = array(3, 4)
    graph = torch.fx.experimental.proxy_tensor.make_fx(masked, tracing_mode="fake")(x)
    copies = [node for node in graph.graph.nodes if node.target is aten.lift_fresh_copy.default]
    assert copies
    read_constants_as_they_are(graph.graph)
    assert not [node for node in graph.graph.nodes if node.target is aten.lift_fresh_copy.default]
    assert_same(graph(x), masked(x))
    check(masked, x)


def test_lists_have_all_names():
    for name in ("_foreach_lerp", "_foreach_addcdiv", "_foreach_sqrt"):
        for overload in getattr(aten, name).overloads():
            operator = getattr(getattr(aten, name), overload)
            tensor = name == "_foreach_addcdiv" and overload == "Tensor"
            assert overload.endswith("out") or tensor or operator in COMPOSITES, operator
