#!/usr/bin/env python3
"""torch.compile with Strata: on the GPU where there is one, else on the processor.

    PYTHONPATH=build/release/python python examples/torch_compile.py
"""

import torch

from strata import torch_backend


class Block(torch.nn.Module):
    """A gated feed-forward layer over a normalised input, with a residual connection."""

    def __init__(self, width, hidden):
        super().__init__()
        self.norm = torch.nn.RMSNorm(width)
        self.gate = torch.nn.Linear(width, hidden, bias=False)
        self.up = torch.nn.Linear(width, hidden, bias=False)
        self.down = torch.nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        normed = self.norm(x)
        return x + self.down(torch.nn.functional.silu(self.gate(normed)) * self.up(normed))


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Block(64, 128).to(device).eval()
    x = torch.randn(16, 64, device=device)
    with torch.no_grad():
        # Where the package is installed by pip, backend="strata" is the same.
        found = torch.compile(model, backend=torch_backend.backend)(x)
        expected = model(x)
    error = float((found - expected).abs().max())
    print(f"{device}: largest difference from eager mode {error:.2g}")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
