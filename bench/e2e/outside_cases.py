"""What the models of odd_models.py --families outside are written with.

The files outside_*.py hold 100 models by two authors who had not read the compiler: modules as users write them, at odd
sizes. A case is a function of s, which gives the first of two sizes for --small and the second otherwise, and returns a
module and its inputs. Outputs are tensors, or tuples and lists of them.
"""

import torch
from torch import nn

from odd_families import Entry, tensors_of, wide

MODELS = {}
# Results of long sums, gradients above all, differ by this much in f32 between two orders of the terms.
UNITS = 16


def case(train=False, f32=False, tol=1):
    """Registers a case by its name.

    train: it runs forward and backward, with gradients of its inputs too; f32: it is of float32, others of bfloat16;
    tol: its results, of sums that nearly cancel, may be so many times as far off as those of other cases.
    """

    def register(make):
        def builder(small):
            model, inputs = make((lambda tiny, full: tiny) if small else (lambda tiny, full: full))
            if not train:
                return model, inputs
            return WithLoss(model), [x.requires_grad_() if x.is_floating_point() else x for x in inputs]

        MODELS[make.__name__] = Entry(builder, torch.float32 if f32 else torch.bfloat16, train, UNITS * tol)
        return make

    return register


def R(*shape, scale=1.0):
    """Random numbers of a normal distribution."""
    return torch.randn(*shape) * scale


def I(high, *shape):
    """Random whole numbers below high."""
    return torch.randint(0, high, shape)


class Fn(nn.Module):
    """A module of a function and what it takes by name: modules, parameters and, of whole numbers, buffers."""

    def __init__(self, fn, **named):
        super().__init__()
        self.fn = fn
        for name, value in named.items():
            if isinstance(value, nn.Module):
                setattr(self, name, value)
            elif value.is_floating_point():
                setattr(self, name, nn.Parameter(value))
            else:
                self.register_buffer(name, value)

    def forward(self, *inputs):
        return self.fn(self, *inputs)


class WithLoss(nn.Module):
    """What a training step compiles: a loss of all that a model gives, and what it gives, detached.

    Outputs that are numbers are losses; of others it is the mean of the squares, weighted along the last axis so that
    the sum of a softmax has a gradient.
    """

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        outputs = tensors_of(self.model(*inputs))
        loss = 0.0
        for output in outputs:
            if output.is_floating_point() and output.requires_grad:
                term = wide(output)
                if term.ndim:
                    weights = torch.linspace(0.5, 1.5, term.shape[-1], device=term.device, dtype=term.dtype)
                    term = (term * weights).square().mean()
                loss = loss + term
        return loss, [output.detach() for output in outputs]
