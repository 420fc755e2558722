"""Complex numbers and Fourier transforms through the torch front end, beside eager mode."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: its front end is not tested")

from torch_helpers import array, assert_same, compiled  # noqa: E402

from strata import torch_backend  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(23)


def numbers(*shape, dtype=torch.complex64):
    part = torch.float32 if dtype == torch.complex64 else torch.float64
    return torch.complex(array(*shape, dtype=part), array(*shape, dtype=part))


def pairs(x):
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def agree(function, *inputs, fallbacks=(), gradients=False):
    """Results, and the gradients of the sum of their sizes' cubes, within a few units of the largest."""
    runs = []
    for run in (function, compiled(function)):
        given = [x.clone().requires_grad_(gradients and (x.is_floating_point() or x.is_complex())) for x in inputs]
        found = torch.utils._pytree.tree_leaves(run(*given))
        if gradients:
            sum(one.abs().pow(3).sum() for one in found).backward()
            found += [x.grad for x in given if x.requires_grad]
        runs.append([one.detach() for one in found])
    assert sorted({name for name, _, _ in torch_backend.FALLBACKS}) == sorted(fallbacks), torch_backend.FALLBACKS
    for one, other in zip(*runs, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        one, other = pairs(one), pairs(other)
        if not one.is_floating_point():
            assert torch.equal(one, other)
            continue
        bound = 64 * torch.finfo(one.dtype).eps * float(other.abs().max().clamp_min(1e-3))
        torch.testing.assert_close(one, other, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_arithmetic(dtype):
    x, y = numbers(3, 4, dtype=dtype), numbers(4, dtype=dtype)
    agree(lambda x, y: (x + y, x - 2, x * y, x / y, x * 2.5, 1j * x, x**2, -x, x == y, x != y, x.reciprocal()), x, y)
    agree(lambda x, y: (x.abs(), x.angle(), x.real, x.imag, x.conj() * y, torch.where(x.real > 0, x, y)), x, y)
    agree(lambda x, y: (x.exp(), x.log(), x.sqrt(), x.sin(), x.cos(), x.sgn(), x.sum(), x.mean(0), x.cumsum(1)), x, y)
    agree(lambda x, y: (x @ y, x @ x.mT, torch.einsum("ij,kj->ik", x, x.conj()), torch.vdot(y, y + 1j)), x, y)


def test_views_and_moves():
    x, i = numbers(4, 6), torch.tensor([2, 0, 2])
    agree(lambda x, i: (x.t() * 2, x[1:, ::2] + 1, x[i], x.gather(1, i[None]), torch.cat([x, x.flip(0)])), x, i)
    agree(lambda x: (x.reshape(3, 8).clone(), torch.stack([x, -x]), x.expand(2, 4, 6).sum(0), x.diagonal() * 1), x)
    agree(lambda x: (torch.full((2,), 1 - 2j) * x[0, 0], x.masked_fill(x.real > 0, 0), x.tril(), x.roll(1)), x)
    agree(lambda x: (x.conj(), x.conj().mT * 1, x.conj().imag), x)

    def write(x):
        x = x.clone()
        x[1] = 3j
        x[:, 2] += x[:, 0]
        return x

    agree(write, x)


def test_types():
    agree(lambda x, y: (x + y, x.to(torch.complex128) * 2, y.to(torch.complex64), torch.complex(y, y * 2)),
          numbers(3), array(3))
    agree(lambda x: (x.to(torch.complex64) * 1j, x * (1 + 2j)), array(4, dtype=torch.int64))


def test_rotary_embeddings_by_complex_numbers():
    """As in Llama's reference code."""
    def rotate(q, angles):
        turns = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(3).type_as(q)

    agree(rotate, array(2, 5, 2, 8), array(5, 1, 4), gradients=True)
    turns = torch.polar(torch.ones(5, 1, 4), array(5, 1, 4))
    agree(lambda q, turns: rotate(q, turns.angle()), array(2, 5, 2, 8), turns)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_fourier_transforms(norm):
    fft, x, z = torch.fft, array(3, 4, 6), numbers(3, 4, 6)
    agree(lambda z: (fft.fft(z, norm=norm), fft.ifft(z, dim=1, norm=norm), fft.fft2(z, norm=norm),
                     fft.ifftn(z, norm=norm), fft.fftn(z[None, None], dim=(0, 1, 2, 4), norm=norm)), z)
    agree(lambda x: (fft.fft(x, norm=norm), fft.rfft(x, dim=0, norm=norm), fft.rfft2(x, norm=norm),
                     fft.rfftn(x, norm=norm), fft.ifft(x, norm=norm)), x)
    agree(lambda z: (fft.irfft(z, norm=norm), fft.irfft(z, n=7, dim=1, norm=norm), fft.irfft2(z, norm=norm),
                     fft.hfft(z[0, 0], norm=norm)), z)


def test_gradients_of_fourier_transforms():
    fft, x = torch.fft, array(2, 4, 6)
    agree(lambda x: fft.fft2(x).real, x, gradients=True)
    agree(lambda x, w: fft.irfft2(fft.rfft2(x, norm="ortho") * w, s=(4, 6), norm="ortho"), x, numbers(4, 4),
          gradients=True)
    agree(lambda x: torch.stft(x, 16, hop_length=4, window=torch.hann_window(16), return_complex=True).abs(),
          array(2, 64), gradients=True)


def test_what_has_no_rule_for_complex_numbers_says_so():
    agree(lambda x: x.tan() + 1, numbers(3), fallbacks=["aten.tan.default"])
    assert torch_backend.FALLBACKS[0][1] == "of complex numbers it is not taken"


def test_gradient_of_a_product_with_a_number():
    """torch conjugates the number, which is none of its arrays."""
    angle = torch.rand(5)

    def run(function):
        x = angle.clone().requires_grad_()
        return torch.autograd.grad(torch.view_as_real(function(x)).square().cumsum(0).sum(), x)[0]

    torch_backend.FALLBACKS.clear()
    assert_same(run(compiled(lambda x: torch.exp(1j * x) * x)), run(lambda x: torch.exp(1j * x) * x))
    assert not torch_backend.FALLBACKS
