"""What a GPU's modules say, written without one: fake tensors lie on it."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its front end is not tested")

from torch import nn  # noqa: E402
from torch_helpers import graph_of, module_lines  # noqa: E402

aten = torch.ops.aten


def instructions(function, *shapes, device="cuda"):
    """{name: line} of the modules of a function of arrays of these shapes."""
    lines = [line.strip() for line in module_lines(graph_of(function, *shapes, device=device))]
    return {line.removeprefix("ROOT ").split(" = ")[0]: line for line in lines if " = " in line}


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_images_read_filters_as_they_are_but_reversed(n, transposed):
    """cuDNN has a kernel for them then. Over images that are filled up with zeros it multiplies 2^n times as much."""
    image, small = (2, 4, *[16] * n), (2, 6, *[8] * n)

    def step(x, w, grad):
        if transposed:
            return aten.convolution(grad, w, None, [2] * n, [1] * n, [1] * n, True, [0] * n, 1)
        return aten.convolution_backward(grad, x, w, None, [2] * n, [1] * n, [1] * n, False, [0] * n, 1,
                                         [True, False, False])[0]

    lines = instructions(step, image, (6, 4, *[4] * n), small)
    [convolution] = [line for line in lines.values() if " convolution(" in line]
    assert "lhs_dilate" in convolution and "_io" in convolution
    filters = convolution.split(" convolution(")[1].split(")")[0].split(", ")[1]
    assert " reverse(parameter" in lines[filters]


@pytest.mark.parametrize("device, function", [("cuda", "tanh("), ("cpu", "erf(")])
def test_gelu_of_an_encoder_layer_in_inference(device, function):
    """On a GPU torch computes it as cuBLASLt does after a product: with tanh."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu")
    attention = layer.self_attn
    parameters = [attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight, attention.out_proj.bias]
    others = [layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias, layer.linear1.weight,
              layer.linear1.bias, layer.linear2.weight, layer.linear2.bias]

    def step(x, *weights):
        return aten._transformer_encoder_layer_fwd(x, 8, 2, *weights[:4], True, False, 1e-5, *weights[4:])

    lines = instructions(step, (3, 5, 8), *[w.shape for w in (*parameters, *others)], device=device)
    assert any(f" {function}" in line for line in lines.values())


@pytest.mark.parametrize("function", [lambda x: x.sum(), lambda x: x.mean(), lambda x: torch.dot(x, x),
                                      lambda x: torch.linalg.vector_norm(x, 1)])
def test_long_sums_are_in_f64(function):
    """A kernel's blocks would add up hundreds of parts one after the other."""
    assert any(" reduce(" in line and "f64[]" in line for line in instructions(function, (300_000,)).values())
    assert not any("f64" in line for line in instructions(function, (200_000,)).values())


def test_statistics_of_channels_are_in_f32():
    """As torch has them; blocks share what they read and add up, which they could not in f64."""
    def step(x, w, b, mean, var):
        return aten._native_batch_norm_legit_functional(x, w, b, mean, var, True, 0.1, 1e-5)

    for channels in (3, 64):
        lines = instructions(step, (256, channels, 112, 112), *[(channels,)] * 4)
        assert any(" reduce(" in line for line in lines.values())
        assert not any("f64" in line for line in lines.values())
