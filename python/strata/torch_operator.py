"""Compiled functions as operators of torch: torch.compile and torch.export keep them as one call in their graphs.

Used by way of Kernel.torch_operator and Module.torch_operator. An operator is defined by torch.library directly, with
a fake function that gives its results' types and sizes, and a formula for gradients or one that says there is none."""

from __future__ import annotations

import hashlib
import re
import threading
from typing import Any, Callable

from strata import arguments
from strata._core import Error
from strata.arrays import ArraySpec, TorchArrays

_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)::([A-Za-z_][A-Za-z0-9_]*)")
#: What torch keeps for itself.
_RESERVED = ("aten", "prim", "prims", "strata_internal")

#: By name: what was registered, and its operator. They live as long as the process, as torch's registry does.
_registered: dict[str, tuple[tuple[Any, ...], Any]] = {}
#: The handles of torch's registry; an operator goes with its own.
_libraries: list[Any] = []
_lock = threading.Lock()


def register(
    function: Any, identity: str, stem: str, name: str | None, backward: Any, devices: tuple[str, ...]
) -> Any:
    """The operator of a function of arrays.

    function: it has `inputs` and `outputs`, is called with tensors and returns a list of them.
    identity: text that tells its results from those of other functions.
    stem: what an automatic name begins with.
    name: "namespace::name"; None: strata::, the stem and a digest of the identity, the same in each process.
    backward: None, or a function of the inputs and of one gradient for each output, that returns a gradient for each
        floating-point input, or is one with `inputs` and `outputs`, which are then checked.
    devices: torch's keys of the devices that it runs on.

    Asked for again, it is the one that was registered. Raises Error where the name is none, or another's."""
    digest = hashlib.sha256(identity.encode()).hexdigest()
    if name is None:
        name = f"strata::{re.sub(r'[^A-Za-z0-9_]', '_', stem)}_{digest[:12]}"
    found = _NAME.fullmatch(arguments.text("the operator's name", name))
    if not found or found[1] in _RESERVED:
        raise Error(f"{name!r} is no name of an operator\n  write \"namespace::name\", in a namespace of your own")
    if not function.inputs:
        raise Error(
            "a function without inputs is no operator of torch: nothing says on which device it runs\n"
            "  call it as it is, or give it an input"
        )
    dtypes = TorchArrays(function.inputs, function.outputs, False, 1).dtypes
    floating = [i for i, dtype in enumerate(dtypes[0]) if dtype.is_floating_point]
    call = _backward_call(function, backward, floating)
    key = (digest, devices, call)
    with _lock:
        known = _registered.get(name)
        if known is None:
            gradient = _gradient(name, call, floating)
            known = _registered[name] = (key, _define(function, name, found[1], found[2], gradient, dtypes, devices))
    if known[0] != key:
        raise Error(f"the operator {name} is registered, with another function or backward\n  choose another name")
    return known[1]


def is_registered(name: str) -> bool:
    """Whether "namespace::name" is an operator that register made."""
    return name in _registered


def _define(function, name: str, namespace: str, plain: str, gradient, dtypes, devices) -> Any:
    import torch

    if hasattr(getattr(torch.ops, namespace), plain):
        raise Error(f"the operator {name} exists in torch already\n  choose another name")
    single = len(function.outputs) == 1
    takes = ", ".join(f"Tensor {one}" for one in _parameter_names(function.inputs))
    gives = "Tensor" if single else f"({', '.join(['Tensor'] * len(function.outputs))})"
    library = torch.library.Library(namespace, "FRAGMENT")
    library.define(f"{plain}({takes}) -> {gives}", tags=(torch.Tag.pt2_compliant_tag,))

    def run(*tensors):
        results = function.run(tensors)
        return results[0] if single else tuple(results)

    for device in devices:
        library.impl(plain, run, device)

    def fake(*tensors):
        for index, (tensor, spec, dtype) in enumerate(zip(tensors, function.inputs, dtypes[0])):
            # Each comparison of a symbolic size is a guard: programs have fixed sizes.
            if tensor.dtype != dtype or tuple(tensor.shape) != spec.shape:
                sizes = ",".join(map(str, tensor.shape))
                raise Error(
                    f"{name}: input {index} ('{spec.name}') is {spec}; got {tensor.dtype}[{sizes}]\n"
                    "  convert the tensor, or make the program for its type and sizes"
                )
        results = [
            torch.empty_strided(spec.shape, spec.strides, dtype=dtype, device=tensors[0].device)
            for spec, dtype in zip(function.outputs, dtypes[1])
        ]
        return results[0] if single else tuple(results)

    torch.library.register_fake(name, fake, lib=library)

    operator = getattr(getattr(torch.ops, namespace), plain).default

    class Differentiable(torch.autograd.Function):
        @staticmethod
        def forward(*tensors):
            with torch._C._AutoDispatchBelowAutograd():
                return operator(*tensors)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, *gradients):
            return gradient(ctx.saved_tensors, gradients)

        @staticmethod
        def jvp(ctx, *tangents):
            raise Error(f"the operator {name} has no derivative in forward mode\n  use reverse mode: backward(), grad")

    def differentiable(*tensors):
        if torch._C._are_functorch_transforms_active():
            raise Error(
                f"the operator {name} is not differentiated by torch.func\n  use backward() or torch.autograd.grad"
            )
        return Differentiable.apply(*tensors)

    # Not torch.library.register_autograd: in forward mode its derivatives are zeros, without a word.
    library.impl(plain, differentiable, "Autograd")
    _libraries.append(library)
    return operator


def _parameter_names(specs: list[ArraySpec]) -> list[str]:
    """Names of a schema's parameters: those of the inputs where these are names, and different ones."""
    names = [one.name for one in specs]
    fit = all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", one) and one != "self" for one in names)
    return names if fit and len(set(names)) == len(names) else [f"input{i}" for i in range(len(specs))]


def _backward_call(function, backward: Any, floating: list[int]) -> Any:
    """What computes gradients: an operator for what is one, a function, or None."""
    if backward is None or not hasattr(backward, "torch_operator"):
        if backward is not None and not callable(backward):
            raise Error(f"backward is {type(backward).__name__}\n  give a Kernel, or a function of tensors")
        return backward
    _check_backward(function, backward, floating)
    return backward.torch_operator()


def _gradient(name: str, call: Any, floating: list[int]) -> Callable:
    """(inputs, gradients of the outputs) → a gradient for each input, or None."""

    def refuse(tensors, gradients):
        # An operator raises, when a gradient is asked for: graphs with a backward half can be made. It takes the
        # results' gradient because what does not depend on it is moved to the forward half.
        stand_in = _no_gradient()
        return tuple(stand_in(one, gradients[0], name) if i in floating else None for i, one in enumerate(tensors))

    def run(tensors, gradients):
        found = call(*tensors, *(one.contiguous() for one in gradients))
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        if len(found) != len(floating):
            raise Error(
                f"{name}: backward gave {len(found)} gradients, and {len(floating)} inputs have one\n"
                "  give one for each floating-point input, in order"
            )
        whole: list[Any] = [None] * len(tensors)
        for place, one in zip(floating, found):
            whole[place] = one
        return tuple(whole)

    return refuse if call is None else run


def _check_backward(function, backward, floating: list[int]) -> None:
    takes = [*function.inputs, *function.outputs]
    gives = [function.inputs[i] for i in floating]
    if list(map(str, backward.inputs)) != list(map(str, takes)) or list(map(str, backward.outputs)) != list(
        map(str, gives)
    ):
        raise Error(
            f"backward takes ({', '.join(map(str, backward.inputs))}) and gives "
            f"({', '.join(map(str, backward.outputs))})\n  it must take the inputs, then a gradient for each output, "
            f"({', '.join(map(str, takes))}), and give one for each floating-point input, "
            f"({', '.join(map(str, gives))})"
        )


def _no_gradient() -> Any:
    """The operator that stands for a gradient that there is not: it raises when it runs."""
    import torch

    with _lock:
        if not hasattr(torch.ops.strata_internal, "no_gradient"):
            library = torch.library.Library("strata_internal", "FRAGMENT")
            schema = "no_gradient(Tensor of, Tensor gradient, str name) -> Tensor"
            library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))

            def run(of, gradient, name):
                raise Error(
                    f"the operator {name} has no gradient\n"
                    "  give torch_operator(backward=…) a Kernel that computes it, or call it under torch.no_grad()"
                )

            library.impl("no_gradient", run, "CompositeExplicitAutograd")
            torch.library.register_fake(
                "strata_internal::no_gradient", lambda of, gradient, name: torch.empty_like(of), lib=library
            )
            _libraries.append(library)
    return torch.ops.strata_internal.no_gradient.default
