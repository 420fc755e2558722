"""Errors of long sums, scans and norms against float64: at most twice eager mode's, or one unit in the last place."""

import pytest
import torch
import torch.nn.functional as F
from torch_helpers import compiled

from strata.debug import RATIO, UNITS, error


def positive(*shape):
    return torch.rand(shape)


def far_from_zero(*shape):
    return torch.randn(shape) + 1000


def agrees(function, make, *shape, trains=False, runs=3):
    """In the mean of several runs: the error of one number alone says little."""
    errors = []
    run = compiled(function, dynamic=False)
    for seed in range(runs):
        torch.manual_seed(seed)
        x = make(*shape)

        def result(of, x):
            x = x.clone().requires_grad_(trains)
            y = of(x)
            return torch.autograd.grad(y.sum(), x)[0] if trains else y

        exact = result(function, x.double())
        errors.append([error(result(of, x), exact) ** 2 for of in (function, run)])
    eager, ours = ((sum(some) / runs) ** 0.5 for some in zip(*errors))
    bar = max(RATIO * eager, UNITS * torch.finfo(torch.float32).eps)
    assert ours <= bar, f"{ours:.2e}, eager {eager:.2e}"


@pytest.mark.parametrize("make", [positive, far_from_zero])
def test_sums_of_millions(make):
    agrees(lambda x: x.sum(), make, 4, 1_000_000)
    agrees(lambda x: x.mean(1), make, 3, 300_001)
    agrees(lambda x: x.square().mean(), make, 2_000_000)


def test_norms_of_long_rows():
    agrees(lambda x: F.layer_norm(x, x.shape[1:]), far_from_zero, 4, 100_003)
    agrees(lambda x: F.rms_norm(x, x.shape[1:]), positive, 4, 100_003)
    agrees(lambda x: torch.std(x, 1), far_from_zero, 4, 100_003, trains=True)


def test_long_scans():
    agrees(lambda x: x.logcumsumexp(0), positive, 20_000, trains=True, runs=2)
    agrees(lambda x: x.logcumsumexp(0), far_from_zero, 20_000, runs=2)
    agrees(lambda x: x.cumsum(0), far_from_zero, 20_000, runs=2)
