"""Large arrays that a function of JAX closes over, as arguments: modules are texts, in which an array's elements take
long to write and to read, and each derivative, batch and shape has a text of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jax.extend.source_info_util import user_context

#: Elements of an array that is an argument. What smaller ones hold helps compilation: masks, indices, factors.
LARGE = 1 << 14

_CALLS = {"jit", "pjit"}


def separate(traced: Any) -> tuple[Callable, list[Any]] | None:
    """A traced program as a function whose first arguments are the large arrays that it closes over, and these arrays;
    None where there are none. Those within loops and branches stay, unless they are closed over by these, too."""
    constants: dict[int, Any] = {}
    _find(traced.jaxpr, constants)
    if not constants:
        return None
    places = {one: place for place, one in enumerate(constants)}

    def function(arrays, *leaves):
        return _replay(traced.jaxpr, {one: arrays[place] for one, place in places.items()}, leaves)

    return function, list(constants.values())


def _is_large(constant: Any) -> bool:
    dtype = getattr(constant, "dtype", None)
    if dtype is None or isinstance(constant, jax.core.Tracer) or jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        return False
    sub_byte = not jax.dtypes.issubdtype(dtype, np.bool_) and jax.dtypes.itemsize_bits(dtype) < 8
    return not sub_byte and math.prod(np.shape(constant)) >= LARGE


def _calls_with_large(equation: Any) -> bool:
    return equation.primitive.name in _CALLS and _find(equation.params["jaxpr"], {})


def _find(program: Any, constants: dict[int, Any]) -> bool:
    """Adds the large arrays of a closed program of JAX and of the functions that it calls."""
    found = {id(one): one for one in program.consts if _is_large(one)}
    constants.update(found)
    return any([bool(found), *(_find(equation.params["jaxpr"], constants) for equation in program.jaxpr.eqns
                               if equation.primitive.name in _CALLS)])


def _replay(program: Any, arrays: dict[int, Any], leaves: Sequence[Any]) -> list[Any]:
    """The program's results, with the arrays in place of its large constants, by their identity. What it calls that has
    such constants, too, becomes part of it."""
    jaxpr = program.jaxpr
    constants = [arrays.get(id(one), one) for one in program.consts]
    if not any(map(_calls_with_large, jaxpr.eqns)):
        return jaxpr_as_fun(ClosedJaxpr(jaxpr, constants))(*leaves)
    values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *leaves]))

    def read(one):
        return one.val if isinstance(one, Literal) else values[one]

    for equation in jaxpr.eqns:
        operands = list(map(read, equation.invars))
        if _calls_with_large(equation):
            results = _replay(equation.params["jaxpr"], arrays, operands)
        else:
            parameters = equation.primitive.get_bind_params(equation.params)
            functions, parameters = parameters if isinstance(parameters, tuple) else ((), parameters)
            with user_context(equation.source_info.traceback), equation.ctx.manager:
                results = equation.primitive.bind(*functions, *operands, **parameters)
            results = results if equation.primitive.multiple_results else [results]
        values.update(zip(equation.outvars, results))
    return list(map(read, jaxpr.outvars))
