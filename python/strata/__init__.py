"""Strata: a compiler for tensor programs.

    module = strata.compile_hlo(text)           # any HLO module, as a function of arrays
    kernel = strata.optimize(graph)             # the superoptimizer, for a strata.Graph or a program's text
    model = torch.compile(model, backend="strata")
    decoder = strata.Decoder(model)             # tokens of a language model, by one persistent kernel

docs/python.md of the sources is the guide.
"""

import importlib

from strata._core import Error
from strata.arrays import ArraySpec
from strata.decoder import Decoder, Generation
from strata.graph import Graph, Value
from strata.kernel import Kernel, Proof, Report, load
from strata.kernel_table import KernelTable
from strata.module import Module, compile_hlo
from strata.optimize import optimize
from strata.sizes import Size

__all__ = [
    "ArraySpec", "Decoder", "Error", "Generation", "Graph", "Kernel", "KernelTable", "Module", "Proof", "Report", "Size",
    "Value", "compile_hlo", "load", "optimize",
]  # fmt: skip
__version__ = "0.1.0"

#: Modules that import a framework; they are read when they are named first.
_FRAMEWORK_MODULES = ("debug", "jax", "torch_backend")


def __getattr__(name: str):
    if name in _FRAMEWORK_MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'strata' has no attribute '{name}'")
