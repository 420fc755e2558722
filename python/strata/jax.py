"""JAX functions compiled by Strata.

    import strata.jax

    @strata.jax.jit
    def f(x, w): return jax.nn.relu(x @ w)

    f(x, w)                                      # by Strata
    jax.grad(lambda w: f(x, w).sum())(w)         # backward by Strata, too
    jax.vmap(f, (0, None))(xs, w)                # as one module for the whole batch
    jax.jit(lambda x: f(x, w) + 1)(x)            # inside another jit: a custom call of XLA
"""

from __future__ import annotations

from strata.arguments import need_emitters

need_emitters("strata.jax")  # before JAX is looked for

import functools
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.dlpack
import jax.extend.source_info_util
import numpy as np
from jax.custom_batching import custom_vmap
from jax.extend.core.primitives import convert_element_type_p

import strata
from strata import arrays as arrays_of, jax_arguments, jax_constants, xla

_state = threading.local()

# No line of this package is the user's.
jax.extend.source_info_util.register_exclusion(os.path.join(os.path.dirname(__file__), ""))


def jit(f: Callable | None = None, *, static_argnums: int | Iterable[int] | None = None,
        static_argnames: str | Iterable[str] | None = None, donate_argnums: int | Iterable[int] | None = None,
        donate_argnames: str | Iterable[str] | None = None, target: str = "auto",
        search_seconds: float | None = None) -> Callable:
    """f as a function that Strata compiles: once for each combination of shapes, types and static arguments.

    f: as for jax.jit: pure, of pytrees of arrays and numbers. Without f, a decorator.
    static_argnums, static_argnames: arguments that are hashable constants, as jax.jit has them: places may be negative,
        and where f has a signature and only one of the two is given, a place stands for its name, too, and a name for
        its place.
    donate_argnums, donate_argnames: arguments that the caller does not use again, as jax.jit has them. Each of their
        arrays of JAX that has the shape and type of a result is deleted after the call, which frees its memory; a
        warning names the others, once. Results have memory of their own. Under other transformations none is deleted.
    target, search_seconds: as for strata.compile_hlo.

    Gradients in reverse mode (of any order) and vmap give functions that are compiled by Strata, too. Called on plain
    arrays, f runs at once, on them, without a copy.

    Not possible: forward mode (jax.jvp, jax.jacfwd, jax.linearize, jax.hessian's outer half: JAX's custom_vjp has none;
    jax.jacrev(jax.jacrev(f)) is a Hessian, and jax.jit(f) has forward mode), which raises strata.Error, or JAX's
    TypeError under jax.jit and jax.linearize; typed random keys (pass jax.random.key_data(key)); side effects; arrays
    sharded over several devices, or on another GPU than the first. Under jax.jit, scan and the like, the call is a
    custom call of XLA: on the processor, or on the GPU on XLA's stream, without waiting (docs/python.md). The module is
    compiled for what JAX lowers the program for, and stays in memory as long as the process. On a GPU with target="cpu"
    the call is jax.pure_callback: it runs on the processor, and its arrays go through the host's memory. Called outside
    of jit, arrays on a GPU are handed over by torch, which must be installed, without copies.

    Large arrays that f closes over are arguments of the modules. The result has no lower, trace or clear_cache:
    jax.jit(f) has JAX's, and jax.jit of the result lowers it.

    Raises ValueError for places and names that f does not have, for arguments that are both static and donated, for
    static arguments that cannot be hashed, and for an array that is donated and given twice; TypeError for arguments
    that are neither arrays nor static; strata.Error for operators that Strata does not take, with their name.
    """
    if f is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames,
                                 donate_argnums=donate_argnums, donate_argnames=donate_argnames, target=target,
                                 search_seconds=search_seconds)
    jax_arguments.check_function(f)
    fixed_places, fixed_names = jax_arguments.chosen_arguments(f, "static", static_argnums, static_argnames)
    given_places, given_names = jax_arguments.chosen_arguments(f, "donate", donate_argnums, donate_argnames)
    if both := sorted(map(str, (fixed_places & given_places) | (fixed_names & given_names))):
        raise ValueError(f"strata.jax.jit: argument {both[-1]} of {jax_arguments.name_of(f)} is static and donated; a "
                         "constant has no memory to give away")
    options = {"target": target, "search_seconds": search_seconds}
    programs: dict[Any, _Program] = {}

    @functools.wraps(f)
    def call(*arguments, **named):
        count = len(arguments)
        places = {p % count if p < 0 else p for p in fixed_places if -count <= p < count}
        constants = tuple((i, arguments[i]) for i in sorted(places))
        constant_names = tuple((name, named[name]) for name in sorted(fixed_names & named.keys()))
        kinds = tuple(jax_arguments.kind_of(value) for _, value in constants + constant_names)
        free = [a for i, a in enumerate(arguments) if i not in places]
        free_names = {name: a for name, a in named.items() if name not in fixed_names}
        free_places = [i for i in range(count) if i not in places]
        leaves, tree = jax.tree.flatten((free, free_names))
        jax_arguments.check_leaves(f, free_places, free, free_names, leaves)
        for which, value in constants + constant_names:
            jax_arguments.check_static(f, which, value)
        key = (constants, constant_names, kinds, tree, _settings())
        program = programs.get(key)
        if program is None:
            names = jax_arguments.leaf_names(f, free_places, free, free_names)
            program = programs[key] = _Program(jax_arguments.flat(f, constants, constant_names, tree, names), options)
        if not given_places and not given_names:
            return program.tree_call(leaves)
        given = {p % count if p < 0 else p for p in given_places if -count <= p < count}
        donated = jax.tree.leaves([[a for i, a in enumerate(arguments) if i in given],
                                   [a for name, a in named.items() if name in given_names]])
        return program.call_and_delete(leaves, donated)

    return call


#: Options of JAX that change what a function is traced to.
_SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion",
             "jax_default_prng_impl", "jax_threefry_partitionable")


def _settings() -> tuple:
    return tuple(getattr(jax.config, name, None) for name in _SETTINGS)


def _spec(leaf: Any) -> Any:
    """What a leaf is to tracing: its shape and type; numbers stay numbers, so that they stay weak."""
    if isinstance(leaf, (bool, int, float, complex)) and not isinstance(leaf, np.generic):
        if hasattr(leaf, "dtype"):  # JAX's own numbers, in what is kept for a gradient
            return jax.ShapeDtypeStruct((), leaf.dtype, weak_type=True)
        return type(leaf)(0)
    weak = bool(getattr(getattr(leaf, "aval", None), "weak_type", False))
    return jax.ShapeDtypeStruct(np.shape(leaf), jax.dtypes.canonicalize_dtype(leaf.dtype), weak_type=weak)


def _key(spec: Any) -> Any:
    if isinstance(spec, jax.ShapeDtypeStruct):
        return spec.shape, str(spec.dtype), spec.weak_type
    return type(spec)


def _bytes_of(dtype) -> Any:
    """The type of 8 bits that holds all values of one of fewer; else the type itself. XLA and GPUs pack elements below
    8 bits, each in its own way, and modules have one in a byte: they cross from one to the other in this type."""
    if jax.dtypes.issubdtype(dtype, np.bool_) or jax.dtypes.itemsize_bits(dtype) >= 8:
        return dtype
    if jax.dtypes.issubdtype(dtype, np.inexact):
        return np.dtype(jax.numpy.float8_e4m3fn)
    return np.dtype(np.uint8 if jax.dtypes.issubdtype(dtype, np.unsignedinteger) else np.int8)


def _in_bytes(spec: Any) -> Any:
    """A spec as a module takes and gives it."""
    dtype = getattr(spec, "dtype", None)
    return spec if dtype is None or _bytes_of(dtype) == dtype else spec.update(dtype=_bytes_of(dtype))


def _to(specs: Iterable, arrays: Iterable) -> list[Any]:
    """Arrays as the specs have them: their types differ in bits alone. Numbers stay numbers."""
    def as_in(spec, array):
        same = not hasattr(spec, "dtype") or not hasattr(array, "dtype") or spec.dtype == array.dtype
        return array if same else array.astype(spec.dtype)

    return list(map(as_in, specs, arrays))


def _is_float(dtype) -> bool:
    return jax.dtypes.issubdtype(dtype, np.inexact)


class _Program:
    """A function of arrays whose results are flattened, its modules by shapes, and its derivatives."""

    def __init__(self, function: Callable, options: dict[str, Any]):
        self._function, self.options = function, options
        self.name = jax_arguments.name_of(function)
        self._programs: dict[Any, Any] = {}
        self._separated: dict[Any, tuple[Any, list[jax.Array]]] = {}
        self._constants: dict[Any, list[jax.Array]] = {}
        self._modules: dict[Any, Any] = {}
        self._results: dict[Any, Any] = {}
        self._weak: dict[Any, list[bool]] = {}
        self._derivatives: dict[Any, _Program] = {}
        self._batched: dict[Any, _Program] = {}
        self._traced: dict[Any, Callable] = {}
        self._warned: set[Any] = set()

    def tree_call(self, leaves: list[Any]) -> Any:
        """The function's own result for its leaves, under any transformation."""
        if getattr(_state, "compiling", False):
            return self._function(*leaves)
        specs = tuple(map(_spec, leaves))
        _, tree = self.results(specs)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            leaves = [leaf if isinstance(leaf, jax.core.Tracer) else _array(leaf, spec)
                      for leaf, spec in zip(leaves, specs)]
            found = self._reversible(specs, leaves)
        else:
            found = self.run(specs, leaves)
        weak = self._weak[tuple(map(_key, specs))]
        return jax.tree.unflatten(tree, [_weakly_typed(one) if is_weak else one for one, is_weak in zip(found, weak)])

    def _reversible(self, specs: tuple, leaves: list[Any]) -> list[Any]:
        """A call that can be differentiated backwards. Raises Error where JAX differentiates it forwards."""
        try:
            return self.differentiable(specs)(*leaves)
        except TypeError as error:
            if "forward-mode" not in str(error):
                raise
            raise strata.Error(
                f"strata.jax.jit: {self.name} is differentiated in forward mode (jax.jvp, jax.jacfwd, jax.hessian), "
                "and Strata's functions have derivatives in reverse mode alone\n"
                "  use jax.grad, jax.vjp or jax.jacrev (of jax.jacrev for a Hessian); or jax.jit in place of "
                "strata.jax.jit for the function that is differentiated forwards") from error

    def call_and_delete(self, leaves: list[Any], donated: list[Any]) -> Any:
        """tree_call, after which the donated arrays are deleted that could lie where a result does."""
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self.tree_call(leaves)
        arrays = [leaf for leaf in donated if isinstance(leaf, jax.Array)]
        for one in arrays:
            if sum(one is leaf for leaf in leaves) > 1:
                raise ValueError(f"strata.jax.jit: an array {one.dtype}{list(one.shape)} is donated and given twice; "
                                 "give a copy of it")
        specs = tuple(map(_spec, leaves))
        found = self.tree_call(leaves)
        free = [(s.shape, s.dtype) for s in self.results(specs)[0]]
        without = []
        for one in arrays:
            if (kind := (one.shape, one.dtype)) in free:
                free.remove(kind)
                one.delete()
            else:
                without.append(f"{one.dtype}{list(one.shape)}")
        if without and (key := (tuple(map(_key, specs)), tuple(without))) not in self._warned:
            self._warned.add(key)
            warnings.warn("strata.jax.jit: donated arrays are not deleted, since no result has their shape and type: "
                          + ", ".join(without), stacklevel=3)
        return found

    def results(self, specs: tuple) -> tuple[list[jax.ShapeDtypeStruct], Any]:
        """Shapes and types of the results, and their tree."""
        key = tuple(map(_key, specs))
        if key not in self._results:
            shapes, tree = jax.tree.flatten(jax.eval_shape(self._function, *specs))
            self._results[key] = ([jax.ShapeDtypeStruct(s.shape, s.dtype) for s in shapes], tree)
            self._weak[key] = [bool(getattr(s, "weak_type", False)) for s in shapes]
        return self._results[key]

    def module(self, specs: tuple, target: str):
        key = (*map(_key, specs), target)
        if key not in self._modules:
            traced, _ = self.separated(specs)
            self._modules[key] = _compile(traced, self.name, {**self.options, "target": target})
        return self._modules[key]

    def separated(self, specs: tuple) -> tuple[Any, list[jax.Array]]:
        """The program that modules are compiled of, and the arrays that are its first arguments: the large ones that
        the function closes over."""
        key = tuple(map(_key, specs))
        if key not in self._separated:
            traced = self.traced(specs)
            found, arrays = jax_constants.separate(traced), []
            if found is not None:
                function, constants = found
                function.__name__ = self.name
                with jax.ensure_compile_time_eval():  # of what the caller may write to there are copies
                    arrays = [one if isinstance(one, jax.Array) else jax.numpy.array(one) for one in constants]
                traced = jax.jit(function, keep_unused=True).trace([*map(_spec, arrays)], *map(_in_bytes, specs))
            self._separated[key] = traced, arrays
        return self._separated[key]

    def _closed_over(self, specs: tuple, target: str, arrays: list[jax.Array]) -> list[jax.Array]:
        """The module's first arguments, where its others lie."""
        key = (*map(_key, specs), target)
        if key not in self._constants:
            device = next(iter(arrays[0].devices())) if arrays and target == "gpu" else None
            self._constants[key] = [one if device is None else jax.device_put(one, device)
                                    for one in self.separated(specs)[1]]
            if target == "cpu":
                self._constants[key] = [*map(_on_processor, self._constants[key])]
        return self._constants[key]

    def traced(self, specs: tuple):
        """The program of JAX that modules are compiled of."""
        key = tuple(map(_key, specs))
        if key not in self._programs:
            def function(*leaves):
                results = jax.tree.leaves(self._function(*_to(specs, leaves)))
                return _to(map(_in_bytes, self.results(specs)[0]), results)

            function.__name__ = self.name
            self._programs[key] = _trace(function, tuple(map(_in_bytes, specs)))
        return self._programs[key]

    def run(self, specs: tuple, leaves: list[Any]) -> list[Any]:
        """On arrays that are there, where they lie."""
        arrays = _to(map(_in_bytes, specs), map(_array, leaves, specs))
        target = self.options["target"]
        if target == "auto":
            target = "gpu" if _platform(arrays) in ("gpu", "cuda") else "cpu"
        module = self.module(specs, target)
        arrays = [*self._closed_over(specs, target, arrays), *arrays]
        if target == "gpu":
            results = call_through_torch(module, arrays, "cuda")
        else:
            results = [jax.numpy.asarray(found) for found in module(*map(_on_processor, arrays))]
        return _to(self.results(specs)[0], results)

    def call(self, specs: tuple, leaves) -> list[Any]:
        """Under vmap and jit, without derivatives."""
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self.run(specs, list(leaves))
        key = tuple(map(_key, specs))
        if key not in self._traced:
            self._traced[key] = self._make_traced(specs)
        return self._traced[key](*leaves)

    def _make_traced(self, specs: tuple) -> Callable:
        shapes, _ = self.results(specs)
        taken, compiled = tuple(map(_in_bytes, specs)), _Compiled(self, specs)
        # What cannot be compiled is told at once, and JAX's options are those of now.
        _, constants = self.separated(specs)

        @custom_vmap
        def traced(*leaves):
            return _to(shapes, xla.call(compiled, *constants, *_to(taken, leaves)) if shapes else [])

        @traced.def_vmap
        def batched(size, is_batched, *leaves):
            axes = tuple(0 if b else None for b in is_batched)
            if axes not in self._batched:
                self._batched[axes] = _Program(jax.vmap(self._function, axes), self.options)
            program = self._batched[axes]
            return program.call(tuple(map(_spec, leaves)), leaves), [True] * len(shapes)

        return traced

    def differentiable(self, specs: tuple) -> Callable:
        """As a function that JAX can differentiate backwards."""
        shapes, _ = self.results(specs)
        moving = [i for i, s in enumerate(specs) if _is_float(getattr(s, "dtype", np.result_type(s)))]
        given = [i for i, s in enumerate(shapes) if _is_float(s.dtype)]

        @jax.custom_vjp
        def function(*leaves):
            return self.call(specs, leaves)

        def forward(*leaves):
            return function(*leaves), leaves  # so that it can be differentiated again

        def backward(leaves, cotangents):
            key = tuple(map(_key, specs))
            if key not in self._derivatives:
                self._derivatives[key] = _Program(_pullback(self._function, len(leaves), moving, given, shapes),
                                                  self.options)
            arguments = [*leaves, *(cotangents[i] for i in given)]
            found = self._derivatives[key].tree_call(arguments)
            gradients = [None] * len(leaves)
            for i, gradient in zip(moving, found):
                gradients[i] = gradient
            return tuple(gradients)

        function.defvjp(forward, backward)
        return function


class _Compiled:
    """A program at shapes, as a program of XLA calls it."""

    def __init__(self, program: _Program, specs: tuple):
        self._program, self._specs = program, specs
        self.name, self.target = program.name, program.options["target"]
        self.options = repr(sorted(program.options.items()))
        self.results = [*map(_in_bytes, program.results(specs)[0])]

    def module(self, target: str):
        return self._program.module(self._specs, target)

    def __repr__(self) -> str:
        return self.name


def _pullback(function: Callable, count: int, moving: list[int], given: list[int], shapes: list) -> Callable:
    """(leaves, cotangents of float results) → gradients of float leaves."""
    def pullback(*arguments):
        leaves, floats = list(arguments[:count]), dict(zip(given, arguments[count:]))

        def of_moving(*values):
            whole = list(leaves)
            for i, value in zip(moving, values):
                whole[i] = value
            return jax.tree.leaves(function(*whole))

        cotangents = [floats[i] if i in floats else np.zeros(s.shape, jax.dtypes.float0) for i, s in enumerate(shapes)]
        return list(jax.vjp(of_moving, *(leaves[i] for i in moving))[1](cotangents))
    return pullback


def _array(leaf: Any, spec: Any) -> jax.Array:
    """A leaf as an array of the type that it was traced with."""
    if isinstance(leaf, jax.Array):
        return leaf
    return jax.numpy.asarray(leaf, dtype=getattr(spec, "dtype", None))


def _weakly_typed(array: Any) -> Any:
    """The array with the type that JAX gives to numbers of Python: beside another array it takes that one's."""
    return convert_element_type_p.bind(array, new_dtype=array.dtype, weak_type=True, sharding=None)


def _platform(arrays: list[jax.Array]) -> str:
    """Where the arrays lie; JAX's default device where there are none."""
    return (next(iter(arrays[0].devices())) if arrays else jax.devices()[0]).platform


def _on_processor(array: jax.Array) -> jax.Array:
    return array if _platform([array]) == "cpu" else jax.device_put(array, jax.devices("cpu")[0])


def call_through_torch(module, arrays: list[jax.Array], device: str) -> list[jax.Array]:
    """Calls a module with JAX's arrays as torch's tensors on `device`, by DLPack and without copies where they lie
    there. JAX does not tell its stream: the call waits until the arguments are computed, and until the results are.

    Raises strata.Error where torch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise strata.Error("strata.jax: arrays on a GPU are handed over by torch, which is not installed\n"
                           "  pip install torch, or use target='cpu'") from error
    tensors = [torch.from_dlpack(array).to(device) for array in jax.block_until_ready(arrays)]
    if tensors:
        results = module(*tensors)
    else:
        kinds = [getattr(torch, arrays_of._TORCH[output.dtype]) for output in module.outputs]
        results = module(out=[torch.empty(o.shape, dtype=kind, device=device) for o, kind in zip(module.outputs, kinds)])
    if device == "cuda":
        torch.cuda.current_stream().synchronize()
    return [jax.dlpack.from_dlpack(result.contiguous()) for result in results]


def _trace(function: Callable, specs: tuple):
    """The function as JAX traces it. Raises strata.Error where it calls back to Python."""
    _state.compiling = True  # calls of other functions of Strata become part of this one
    try:
        traced = jax.jit(function, keep_unused=True).trace(*specs)
    finally:
        _state.compiling = False
    _check_callbacks(traced.jaxpr)
    return traced


def _compile(traced: Any, name: str, options: dict[str, Any]):
    """The module of a traced function. Where JAX lowers to calls of LAPACK, the lowering for CUDA is taken, whose calls
    are steps of libraries on a GPU, or that for TPUs, which has none."""
    try:
        text = traced.lower().as_text("hlo")
    except Exception as error:
        across = [(one, place) for one, place in _equations(traced.jaxpr) if _names_axes(one)]
        if not across:
            raise
        raise strata.Error(f"strata.jax.jit: {across[0][0].primitive.name} at {across[0][1]} goes across an axis "
                           "that has a name outside of the function\n  compile the function that names it: "
                           "strata.jax.jit(jax.vmap(f, axis_name=...))") from error
    calls = _library_calls(text)
    # Where fewest are refused: what Strata takes of one lowering is not what is in the way.
    left = {kind: target for kind, target in calls.items() if not _OF_LAPACK.fullmatch(target)}
    for platform in ("cuda", "tpu") if calls else ():
        try:
            other = traced.lower(lowering_platforms=(platform,)).as_text("hlo")
        except Exception:  # JAX has none: what is called is said below
            continue
        refused = _library_calls(other)
        if len(refused) < len(left) or not refused:
            text, left = other, refused
        if not left:
            break
    if left:
        kind = next((one for one in left if one in calls), next(iter(calls)))
        places = [place for one, place in _equations(traced.jaxpr) if one.primitive.name == kind and place]
        what = f"{kind} at {places[0]}" if places else f"{kind} of {name}"
        raise strata.Error(f"strata.jax.jit: JAX lowers {what} to {calls[kind]}, which Strata does not take\n"
                           "  compute it outside of the function")
    return strata.compile_hlo(_row_major(text), **options)


def _check_callbacks(program: Any) -> None:
    """Raises strata.Error that names the first call back to Python."""
    for equation, place in _equations(program):
        kind = equation.primitive.name
        if "callback" in kind or kind == "debug_print":
            function = equation.params.get("callback")
            function = getattr(function, "callback_func", function)
            name = f" of {function.__name__}" if hasattr(function, "__name__") else ""
            raise strata.Error(f"strata.jax.jit: {kind}{name} at {place} calls back to Python, which Strata does not "
                               "compile\n  call it outside of the function, or leave it out")


def _equations(program: Any, place: str = "") -> Iterable[tuple[Any, str]]:
    """Those of a program of JAX and of all within it, each with its place: the user's line, and function, that it is
    of. Within functions of JAX's own, which are traced once for all callers, that is the line of the call."""
    for equation in getattr(program, "jaxpr", program).eqns:
        own = jax.extend.source_info_util.summarize(equation.source_info) or place
        yield equation, own
        for value in equation.params.values():
            for one in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(one, "eqns") or hasattr(one, "jaxpr"):
                    yield from _equations(one, own)


def _names_axes(equation: Any) -> bool:
    axes = equation.params.get("axes", equation.params.get("axis_name", ()))
    return any(isinstance(one, str) for one in (axes if isinstance(axes, tuple) else (axes,)))


# Those of LAPACK that Strata has: of eigenvalues and singular values, of real numbers alone.
_OF_LAPACK = re.compile(r"lapack_(?:[sdcz](?:potrf|getrf|geqrf|trsm)|[sd]orgqr|[cz]ungqr|"
                        r"[sd](?:syevd|gesdd|gesvd))_ffi")
_OF_CUDA = {"TopK", "cusolver_potrf_ffi", "cusolver_getrf_ffi", "cusolver_geqrf_ffi", "cusolver_orgqr_ffi",
            "cu_lu_pivots_to_permutation"}
_OF_CUDA_IF_REAL = {"cusolver_syevd_ffi", "cusolver_gesvd_ffi", "cusolver_gesvdj_ffi", "cusolver_gesvdp_ffi"}


def _library_calls(text: str) -> dict[str, str]:
    """Custom calls but those of CUDA's libraries that Strata has: the operator of JAX that each is of, with which the
    instruction's name begins, and the target."""
    called = re.compile(r'%?([\w\-]+?)(?:\.\d+)? = (.*) custom-call\(.*custom_call_target="([^"]+)"')
    calls = [called.search(line) for line in text.split("\n") if " custom-call(" in line]
    return {kind: target for kind, shape, target in (call.groups() for call in calls if call)
            if target not in _OF_CUDA and (target not in _OF_CUDA_IF_REAL or re.search(r"\bc\d+\[", shape))}


def _row_major(text: str) -> str:
    """Without layouts: results lie as JAX's arrays do. (In text as lowered no operator's meaning depends on them.)"""
    shape = re.compile(r"(\b(?:pred|bf16|[a-z]\d\w*)\[[\d,]*\])\{[\d,]*\}")
    parts = (line.partition(" constant(") for line in text.split("\n"))  # whose elements may be many
    return "\n".join(shape.sub(r"\1", head) + constant + elements for head, constant, elements in parts)
