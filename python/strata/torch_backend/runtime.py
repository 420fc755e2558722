"""Compiles FX graphs of ATen operators and runs them: parts by Strata's modules, the rest by torch."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

import strata
from strata import torch_operator

from .in_place import alias_text, arguments_written_over
from .options import Options
from .partition import Part, partition
from .places import log, report_fallbacks, report_graph
from .precision import has_rounded, rounds_convolutions
from .search_time import SearchTime
from .symbols import has_symbolic_sizes, is_run_time_number, numbers_as_arrays, with_sizes
from .writer import Layout, ModuleText, is_tensor, read_constants_as_they_are, write_module

Node = torch.fx.Node


class CompiledPart:
    """A module called with torch's tensors, whatever their strides. The results have the strides that the graph
    states. `written_over`: results that lie in the memory of inputs, by numbers."""

    def __init__(self, module, inputs: Sequence[Layout], outputs: Sequence[Layout], fakes: Sequence[torch.Tensor],
                 written_over: dict[int, int]):
        self.module = module
        self._written_over = written_over
        self._inputs = [None if layout.plain else layout.order for layout in inputs]
        self._outputs = [None if layout.plain else layout.inverse for layout in outputs]
        # Without arguments nothing says whose arrays the results are.
        self._empty = [] if inputs and not written_over else [
            functools.partial(torch.empty, [fake.shape[d] for d in layout.order], dtype=fake.dtype, device=fake.device)
            for layout, fake in zip(outputs, fakes, strict=True)]
        self._strides = [None if _has_strides(layout, fake) else (tuple(fake.shape), fake.stride())
                         for layout, fake in zip(outputs, fakes, strict=True)]

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        # Models have hundreds of weights, all as they should be: each look at one costs a call part of a microsecond.
        arrays = [tensor if order is None and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()
                  else _contiguous(tensor, order) for tensor, order in zip(tensors, self._inputs, strict=True)]
        for argument in self._written_over.values():
            arrays[argument] = arrays[argument].detach()
            if arrays[argument].data_ptr() % self.module.alignment:
                arrays[argument] = arrays[argument].clone()
        if self._empty:
            results = [arrays[self._written_over[i]] if i in self._written_over else empty()
                       for i, empty in enumerate(self._empty)]
            self.module.run(arrays, results)
        else:
            results = list(self.module.run(arrays))
        for i, (inverse, strides) in enumerate(zip(self._outputs, self._strides, strict=True)):
            if inverse is not None:
                results[i] = results[i].permute(inverse)
            if strides is not None:
                results[i] = with_strides(results[i], *strides)
        for result, argument in self._written_over.items():
            if results[result].data_ptr() != tensors[argument].data_ptr():
                tensors[argument].detach().copy_(results[result])
        return results


def _contiguous(tensor: torch.Tensor, order: Sequence[int] | None) -> torch.Tensor:
    tensor = tensor.detach() if order is None else tensor.detach().permute(order)
    return tensor.resolve_conj().resolve_neg().contiguous()


def _has_strides(layout: Layout, fake: torch.Tensor) -> bool:
    """Whether a dense array of this layout has the tensor's strides, but for dimensions of size 1."""
    step = 1
    for d in reversed(layout.order):
        if fake.shape[d] > 1 and fake.stride(d) != step:
            return fake.numel() == 0
        step *= fake.shape[d]
    return True


def with_strides(tensor: torch.Tensor, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """The same elements lying with other strides; those of 0 repeat elements, which must be equal."""
    repeated = [d for d, (n, s) in enumerate(zip(shape, strides)) if s == 0 and n > 1]
    for d in repeated:
        tensor = tensor.narrow(d, 0, 1)
    lying = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return lying.copy_(tensor).expand(shape)


class Program:
    """Steps over numbered slots. Slots are emptied after their last use, so that memory is free as early as in
    eager mode."""

    def __init__(self, inputs: int):
        self._count = inputs
        self._steps: list[tuple[Callable, list[int], list[int]]] = []  # what runs, its results, slots dead after it
        self._results: Any = ()
        self._constants: dict[int, Any] = {}

    def slot(self) -> int:
        self._count += 1
        return self._count - 1

    def constant(self, value: Any) -> int:
        slot = self.slot()
        self._constants[slot] = value
        return slot

    def step(self, run: Callable, results: list[int]) -> None:
        """Adds run(slots), which gives a list of as many results."""
        self._steps.append((run, results, []))

    def finish(self, reads: list[set[int]], results: list[Any]) -> None:
        """Ends with the slots (or plain values) that are returned; `reads` are those that each step reads."""
        kept = {r.number for r in results if isinstance(r, Slot)} | set(self._constants)
        last: dict[int, int] = {}
        for i, (read, step) in enumerate(zip(reads, self._steps, strict=True)):
            for slot in [*read, *step[1]]:
                last[slot] = i
        for slot, i in last.items():
            if slot not in kept:
                self._steps[i][2].append(slot)
        self._results = results

    def __call__(self, arguments: list[Any]) -> list[Any]:
        slots = [*arguments, *[None] * (self._count - len(arguments))]
        arguments.clear()
        for slot, value in self._constants.items():
            slots[slot] = value
        for run, results, dead in self._steps:
            for slot, value in zip(results, run(slots), strict=True):
                slots[slot] = value
            for slot in dead:
                slots[slot] = None
        return [slots[r.number] if isinstance(r, Slot) else r for r in self._results]


class Slot:
    """A place of a program's values among arguments."""

    def __init__(self, number: int):
        self.number = number


def _fill(template: Any, slots: list[Any]) -> Any:
    if isinstance(template, Slot):
        return slots[template.number]
    if isinstance(template, (list, tuple)):
        return type(template)(_fill(t, slots) for t in template)
    if isinstance(template, dict):
        return {k: _fill(t, slots) for k, t in template.items()}
    return template


def compile_graph(gm: torch.fx.GraphModule, search: SearchTime, name: str) -> Program:
    """The program of a graph whose sizes are known (each node's meta["val"] says them)."""
    refused: dict[Node, str] = {}
    compiled: dict[Any, CompiledPart] = {}
    not_in_place: set[Any] = set()
    while True:
        plan = partition(gm.graph, refused)
        parts = {part.key: part for part in plan.steps if isinstance(part, Part)}
        written_over, copies = arguments_written_over(gm.graph, plan, not_in_place)
        over: dict[int, int] = {}
        texts = [_text_of(part, f"{name}_{i}", written_over.get(key, {})) for i, (key, part) in enumerate(parts.items())]
        searched = sum(_has_product(text) for text in texts)
        try:
            for (key, part), text in zip(parts.items(), texts, strict=True):
                over = written_over.get(key, {})
                if (key, *over.items()) not in compiled:
                    compiled[(key, *over.items())] = _compile_part(part, text, search, searched, over)
            break
        except strata.Error as error:
            if over:  # it may be what is written over that is refused
                not_in_place.add(key)
                continue
            log.warning("Strata's compiler refuses a part of %d operators, which run in torch: %s", len(part.nodes),
                        " ".join(str(error).split()))
            refused |= {node: "the compiler refuses the part that it is in" for node in part.nodes}
    report_fallbacks({n: r for n, r in plan.reasons.items() if n not in refused and not _expected(n)})
    steps = [step for step in plan.steps if isinstance(step, Part) or step not in copies]
    return _program(gm, steps, [compiled[(key, *written_over.get(key, {}).items())] for key in parts])


_CHECKS = ("_assert_", "_functional_assert_", "_make_dep_token", "sym_constrain_", "_functional_sym_constrain_")


def _expected(node: Node) -> bool:
    """Operators of torch that say nothing about Strata: copies to arguments, results of other operators, numbers, and
    checks, which read what is computed and cut nothing; and what Strata compiled before, as torch_operator() has it."""
    name = getattr(node.target, "__name__", "")
    if isinstance(node.target, torch._ops.OpOverload) and torch_operator.is_registered(node.target._schema.name):
        return True
    return is_run_time_number(node) or name in ("getitem", "copy_.default") or name.startswith(_CHECKS)


def _text_of(part: Part, name: str, written_over: dict[int, int]) -> ModuleText:
    return write_module(name, part.nodes, part.inputs, part.outputs, alias_text(written_over))


def _has_product(text: ModuleText) -> bool:
    """Searches begin at products."""
    return " dot(" in text.text


def _device_of(part: Part) -> str:
    return part.outputs[0].meta["val"].device.type


def _compile_part(part: Part, text: ModuleText, search: SearchTime, searched: int,
                  written_over: dict[int, int]) -> CompiledPart:
    """`searched`: of how many modules this is one."""
    device = _device_of(part)
    seconds = search.seconds(device, searched) if _has_product(text) else 0.0
    with search.progress() as progress:
        module = strata.compile_hlo(text.text, target="gpu" if device == "cuda" else "cpu",
                                    search_seconds=seconds, progress=progress,
                                    gives_parameters=bool(written_over))
    return CompiledPart(module, text.inputs, text.outputs, [n.meta["val"] for n in part.outputs], written_over)


def _program(gm: torch.fx.GraphModule, steps: list[Part | Node], compiled: list[CompiledPart]) -> Program:
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    program = Program(len(placeholders))
    slots = {node: i for i, node in enumerate(placeholders)}
    reads: list[set[int]] = []

    def argument(node: Node):
        value = node.meta.get("val")
        if node.op != "placeholder" and isinstance(value, (int, float, bool)):
            return value
        if node.op == "get_attr" and node not in slots:
            slots[node] = program.constant(_attribute(gm, node.target))
        return Slot(slots[node])

    def add(run, nodes: list[Node], results: list[Node]) -> None:
        for node in results:
            slots[node] = program.slot()
        reads.append({slots[n] for n in nodes if n in slots})
        program.step(run, [slots[n] for n in results])

    parts = iter(compiled)
    for step in steps:
        if isinstance(step, Part):
            numbers = [argument(n).number for n in step.inputs]
            part = next(parts)
            add(lambda s, part=part, numbers=numbers: part(*[s[i] for i in numbers]), step.inputs, step.outputs)
        else:
            args, kwargs = map_arg(step.args, argument), map_arg(step.kwargs, argument)
            args, kwargs = _plain(args), _plain(kwargs)
            add(_torch_call(step, args, kwargs), step.all_input_nodes, [step])
    output = next(n for n in gm.graph.nodes if n.op == "output")
    results = output.args[0]
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    program.finish(reads, [argument(r) if isinstance(r, Node) else r for r in results])
    return program


def _torch_call(node: Node, args: Any, kwargs: Any) -> Callable[[list[Any]], list[Any]]:
    """An operator of torch. Some give other types than torch's fake tensors state (statistics of norms of 16-bit
    floats): results are converted to the stated ones, which the parts that read them expect."""
    target = node.target
    dtypes = [v.dtype if is_tensor(v) else None for v in pytree.tree_leaves(node.meta.get("val"))]

    def run(slots: list[Any]) -> list[Any]:
        result = target(*_fill(args, slots), **_fill(kwargs, slots))
        if is_tensor(result):
            return [result if result.dtype == dtypes[0] else result.to(dtypes[0])]
        if isinstance(result, (list, tuple)):
            return [[r.to(d) if is_tensor(r) and d not in (None, r.dtype) else r for r, d in zip(result, dtypes)]]
        return [result]

    return run


def _plain(arguments: Any) -> Any:
    """FX's own lists as Python's."""
    if isinstance(arguments, (list, tuple)):
        return (list if isinstance(arguments, list) else tuple)(_plain(a) for a in arguments)
    if isinstance(arguments, dict):
        return {k: _plain(a) for k, a in arguments.items()}
    return arguments


def _attribute(gm: torch.fx.GraphModule, target: str) -> Any:
    value = gm
    for part in target.split("."):
        value = getattr(value, part)
    return value


class GraphProgram:
    """A graph as a function of a list of arguments, which it empties. Graphs with symbolic sizes are compiled for
    each combination of sizes when it is met first, up to options.max_sizes: torch runs it for later ones, as a cache
    that grows by a row each step would be compiled at each step. Those whose numbers alone are symbols are compiled
    once. A graph that torch's precision of convolutions matters to is compiled again where that was changed: Dynamo
    does not look at it."""

    def __init__(self, gm: torch.fx.GraphModule, options: Options, name: str, search: SearchTime):
        self._gm, self._options, self._name, self._search = gm, options, name, search
        numbers_as_arrays(gm)
        read_constants_as_they_are(gm.graph)
        self._symbolic = has_symbolic_sizes(gm)
        self._rounded = has_rounded(gm)
        self._programs: dict[tuple[Any, bool], Program] = {}  # by sizes and by whether convolutions are rounded
        self._torch_runs: str | None = None  # why all of it does
        if not self._symbolic:
            self._compile(None, [])

    def __call__(self, arguments: list[Any]) -> list[Any]:
        sizes = None
        if self._symbolic:
            sizes = tuple((tuple(a.shape), a.stride()) if is_tensor(a) else a for a in arguments)
        key = (sizes, self._rounded and rounds_convolutions())
        if key not in self._programs:
            known = {sizes for sizes, _ in self._programs}
            if self._torch_runs is None and sizes not in known and len(known) >= self._options.max_sizes:
                self._leave_to_torch(
                    f"it has met more than max_sizes = {self._options.max_sizes} combinations of sizes")
            elif self._torch_runs is None or sizes in known:
                self._compile(sizes, arguments)
            if key not in self._programs:
                return self._run_in_torch(arguments)
        return self._programs[key](arguments)

    def _leave_to_torch(self, reason: str) -> None:
        self._torch_runs = reason
        report_graph(self._gm, reason)

    def _run_in_torch(self, arguments: list[Any]) -> list[Any]:
        given = list(arguments)
        arguments.clear()
        with torch.no_grad():
            return list(self._gm(*given))

    def _compile(self, sizes: Any, arguments: list[Any]) -> None:
        known = self._gm
        if self._symbolic:
            try:
                known = with_sizes(self._gm, arguments)
            except Exception as reason:  # torch has many: what runs depends on elements of an array
                said = str(reason).strip().splitlines() or [""]
                return self._leave_to_torch(f"its sizes are not known before it runs ({said[0]})")
        name = f"{self._name}_{len(self._programs)}" if self._symbolic or self._programs else self._name
        rounded = self._rounded and rounds_convolutions()
        self._programs[sizes, rounded] = compile_graph(known, self._search, name)
