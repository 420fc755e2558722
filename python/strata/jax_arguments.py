"""Arguments of functions that strata.jax.jit compiles: which are static or donated, and what each is called."""

from __future__ import annotations

import inspect
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np


def check_function(f: Any) -> None:
    """Raises TypeError for what cannot be called."""
    if not callable(f):
        raise TypeError(f"strata.jax.jit takes a function, and {f!r} is {type(f).__name__}")


def name_of(f: Callable) -> str:
    return getattr(f, "__name__", type(f).__name__)


def chosen_arguments(f: Callable, kind: str, numbers, names) -> tuple[set[int], set[str]]:
    """Places and names of static arguments or of donated ones (`kind`: "static", "donate"). As in jax.jit, either gives
    the other where f has a signature and only one is stated. Raises ValueError for those that f does not have."""
    both = numbers is not None and names is not None
    numbers = () if numbers is None else numbers
    numbers = {operator.index(n) for n in (numbers if isinstance(numbers, Iterable) else (numbers,))}
    names = {names} if isinstance(names, str) else set(names or ())
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return numbers, names
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    beyond = sorted(n for n in numbers if not -len(plain) <= n < len(plain))
    if beyond and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise ValueError(f"strata.jax.jit: {kind}_argnums has {beyond[0]}, but {name_of(f)} takes {len(plain)} "
                         f"positional argument{'s' if len(plain) != 1 else ''}")
    unknown = sorted(names - {p.name for p in parameters})
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise ValueError(f"strata.jax.jit: {kind}_argnames has {unknown[0]!r}, but {name_of(f)} has no argument "
                         f"{unknown[0]!r}")
    if both:
        return numbers, names
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        by_number = {plain[n] for n in numbers if 0 <= n < len(plain)}
        return numbers | {plain.index(name) for name in names if name in plain}, names | by_number
    numbers = {n % len(plain) for n in numbers}
    return numbers | {plain.index(name) for name in names if name in plain}, names | {plain[n] for n in numbers}


def check_static(f: Callable, which: int | str, value: Any) -> None:
    try:
        hash(value)
    except TypeError as error:
        raise ValueError(f"strata.jax.jit: static arguments must be hashable, and argument {which} of {name_of(f)} is "
                         f"{type(value).__name__}: {error}") from error


def kind_of(value: Any) -> Any:
    """What tells static arguments apart that are equal: 1, True and 1.0 are different programs."""
    return (type(value), *map(kind_of, value)) if isinstance(value, tuple) else type(value)


def leaf_names(f: Callable, places: list[int], free: list[Any], named: Mapping[str, Any]) -> list[str]:
    """What each leaf of the arguments that are not static is called: "x", "params['w'][0]". `places`: of `free`."""
    try:
        of_places = [p.name for p in inspect.signature(f).parameters.values()
                     if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        of_places = []
    paths, _ = jax.tree_util.tree_flatten_with_path((free, named))
    names = []
    for (which, one, *rest), _ in paths:
        if which.idx == 0:
            place = places[one.idx]
            name = of_places[place] if place < len(of_places) else f"args[{place}]"
        else:
            name = one.key
        names.append(name + jax.tree_util.keystr(tuple(rest)))
    return names


def check_leaves(f: Callable, places: list[int], free: list[Any], named: Mapping[str, Any], leaves: list[Any]) -> None:
    """Raises TypeError that names the first leaf that no module takes."""
    for index, leaf in enumerate(leaves):
        if _is_array(leaf):
            continue
        name = leaf_names(f, places, free, named)[index]
        what = f"strata.jax.jit: argument {name} of {name_of(f)} is"
        dtype = getattr(leaf, "dtype", None)
        if dtype is None:
            remedy = (f"static_argnames={name!r} makes it a constant" if name.isidentifier() else
                      "give it as an argument of its own, and make that static")
            raise TypeError(f"{what} of type {type(leaf).__name__}, neither an array nor static\n  {remedy}")
        if _is_jaxs(dtype) and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
            raise TypeError(f"{what} a typed random key: typed random keys are not taken\n  pass "
                            "jax.random.key_data(key) and wrap it inside by jax.random.wrap_key_data")
        raise TypeError(f"{what} an array of {dtype}, which JAX does not have\n  give numbers")


def _is_array(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        return isinstance(leaf, (int, float, complex, bool))
    if isinstance(dtype, np.dtype):
        return dtype.kind not in "OSUMm"  # objects, texts and times
    return _is_jaxs(dtype) and not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def _is_jaxs(dtype: Any) -> bool:
    """Whether JAX has elements of the type, which may be another package's."""
    try:
        return jax.dtypes.issubdtype(dtype, np.generic) or jax.dtypes.issubdtype(dtype, jax.dtypes.extended)
    except TypeError:
        return False


def flat(f: Callable, constants, constant_names, tree, names: list[str]) -> Callable:
    """f as a function of its free leaves, which are called so: JAX's errors name the user's function and arguments."""
    def function(*leaves):
        free, named = jax.tree.unflatten(tree, leaves)
        arguments = list(free)
        for place, value in constants:
            arguments.insert(place, value)
        return f(*arguments, **named, **dict(constant_names))

    plain: list[str] = []
    for name in names:
        word = re.sub(r"\W+", "_", name).strip("_")
        word = word if word.isidentifier() else f"args_{word}"
        free = (f"{word}_{count}" if count else word for count in itertools.count())
        plain.append(next(one for one in free if one not in plain))
    kinds = inspect.Parameter
    function.__name__, function.__wrapped__ = name_of(f), f
    function.__signature__ = inspect.Signature([kinds(one, kinds.POSITIONAL_ONLY) for one in plain])
    return function
