"""Strata: a compiler for tensor programs.

    module = strata.compile_hlo(text)           # any HLO module, as a function of arrays
    kernel = strata.optimize(graph)             # the superoptimizer, for a strata.Graph or a program's text
    model = torch.compile(model, backend="strata")

docs/python.md of the sources is the guide.
"""

from strata._core import Error
from strata.module import ArraySpec, Module, compile_hlo

__all__ = ["ArraySpec", "Error", "Module", "compile_hlo"]
__version__ = "0.1.0"
