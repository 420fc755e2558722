"""Programs for the superoptimizer, written in Python."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import operator
from fractions import Fraction
from typing import Any, Callable, Sequence, Union

from strata import _core, arguments
from strata._core import Error
from strata.arguments import at_the_users_line as _error, users_frame
from strata.sizes import Ratio, Size, plain, same, sized

_DTYPES = {"float16": "f16", "half": "f16", "bfloat16": "bf16", "float32": "f32", "float": "f32", "float64": "f64",
           "double": "f64"}  # fmt: skip

_MASKED = -65504  # the least number of f16: the exponential of its distance to any score is 0
Number = Union[int, float, Fraction]


def _place() -> _core.Place:
    """The innermost statement that is not this package's."""
    frame = users_frame()
    column = 0
    if hasattr(frame.f_code, "co_positions") and frame.f_lasti >= 0:
        at = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
        column = 0 if at is None or at[2] is None else at[2]
    return _core.Place(frame.f_code.co_filename, frame.f_lineno, column + 1)


def _checked(check: Callable, what: str, value: Any):
    """check(what, value), whose error gets the line in the user's file."""
    try:
        return check(what, value)
    except Error as error:
        raise _error(str(error)) from None


def _dtype_name(dtype: Any) -> str:
    """ "f16" of "f16", "float16", torch.float16 or numpy.float16."""
    name = getattr(dtype, "__name__", None) or str(dtype)
    name = name.removeprefix("torch.")
    return _DTYPES.get(name, name)


def _number(value: Number) -> str:
    """Exactly, as programs write it: a float is the decimal number that Python prints for it."""
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    return repr(int(value)) if isinstance(value, int) else repr(float(value))


@functools.cache
def _operators() -> dict[str, tuple[int, list[tuple[str, bool, str]], str]]:
    return {name: (arity, attributes, meaning) for name, arity, attributes, meaning in _core.operators()}


class Value:
    """A tensor of a Graph. +, -, *, /, @, >, >=, ** 2, ** 0.5, ** -0.5 and slices make new ones; so do the graph's methods.
    Shapes broadcast as NumPy's do."""

    __slots__ = ("graph", "id", "name", "dtype", "shape")
    __array_ufunc__ = None  # numbers of NumPy leave the operators to this class

    def __init__(self, graph: "Graph", number: int):
        self.graph, self.id = graph, number
        self.name, self.dtype, shape, named = graph._builder.tensor(number)
        self.shape = tuple(map(sized, shape, named)) if named else shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __reduce__(self):
        return operator.getitem, (self.graph, self.name)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]>"

    def __add__(self, other):
        return self.graph.add(self, other)

    __radd__ = __add__

    def __sub__(self, other):
        return self.graph.sub(self, other)

    def __rsub__(self, other):
        return self.graph.add(self.graph.scale(self, factor=-1), other)

    def __mul__(self, other):
        return self.graph.mul(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self.graph.div(self, other)

    def __rtruediv__(self, other):
        raise _error("a number divided by a tensor is no operator\n  divide an input that holds the number")

    def __iter__(self):
        raise _error(f"'{self.name}' is not a sequence\n  its parts are slices, such as x[0] or x[:, 4:8]")

    def __neg__(self):
        return self.graph.scale(self, factor=-1)

    def __matmul__(self, other):
        return self.graph.matmul(self, other)

    def _equal(self, other):
        if not isinstance(other, (Value, int, float, Fraction, Size, Ratio)):
            return NotImplemented
        raise _error("== and != are no operators of programs\n  1 where tensors are equal, else 0, is "
                     "(x >= y) * (x <= y); whether both are one tensor is `x is y`, and whether it is one of several "
                     "is any(x is y for y in several)")

    __eq__ = __ne__ = _equal
    __hash__ = object.__hash__

    def __gt__(self, other):
        return self.graph.greater(self, other)

    def __lt__(self, other):
        return self.graph.greater(other, self)

    def __ge__(self, other):
        return 1 - (self < other)

    def __le__(self, other):
        return 1 - (self > other)

    def __pow__(self, exponent):
        powers = {2: self.graph.sqr, 0.5: self.graph.sqrt, -0.5: self.graph.rsqrt}
        if isinstance(exponent, (Size, Ratio)) or exponent not in powers:
            raise _error(f"** {exponent} is no operator of programs; ** takes 2, 0.5 and -0.5\n  multiply x by itself")
        return powers[exponent](self)

    def __bool__(self):
        raise _error(f"'{self.name}' has no value while the program is written\n  use select(condition, x, y)")

    @property
    def T(self) -> "Value":
        """With the last two dimensions swapped."""
        if self.ndim < 2:
            raise _error(
                f"'{self.name}' of shape {self.shape} has no two dimensions to swap\n  reshape it to two or more"
            )
        order = list(range(self.ndim))
        order[-2:] = order[:-3:-1]
        return self.graph.transpose(self, perm=order)

    def reshape(self, *shape: int | Sequence[int]) -> "Value":
        """The same elements in row-major order under another shape, of which one size may be -1."""
        sizes = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, Size)) else shape)
        if sizes.count(-1) == 1:
            rest = math.prod(size for size in sizes if size != -1)
            sizes[sizes.index(-1)] = math.prod(self.shape) // max(rest, 1)
        return self.graph.reshape(self, shape=sizes)

    def __getitem__(self, index) -> "Value":
        """Numbers and slices of step 1: x[0], x[:, 4:8], x[..., -1]."""
        parts = list(index if isinstance(index, tuple) else (index,))
        all_others = [at for at, part in enumerate(parts) if part is Ellipsis]  # arrays have no single ==
        if len(all_others) == 1:
            at = all_others[0]
            parts[at : at + 1] = [slice(None)] * (self.ndim - len(parts) + 1)
        if len(parts) > self.ndim:
            raise _error(
                f"{len(parts)} indices for '{self.name}', which has {self.ndim} dimensions\n  write at most so many"
            )
        value, shape = self, []
        for dim, size in enumerate(self.shape):
            part = parts[dim] if dim < len(parts) else slice(None)
            if isinstance(part, slice):
                start, stop = _bounds(part, size)
                shape.append(stop - start)
            else:
                part = _whole_number(part)
                if part is None:
                    raise _error(f"{_shown(parts[dim])} is no index of '{self.name}': indices are whole numbers and slices\n"
                                 "  x.reshape(…) adds dimensions of size 1")
                start = part + size if part < 0 else part
                stop = start + 1
            if not (start == 0 and same(stop, size)):
                value = self.graph.slice(value, dim=dim, start=start, size=stop - start)
        return value if len(shape) == self.ndim else value.reshape(shape)


def _whole_number(part: Any) -> int | Size | None:
    """Where an index is one; None where it is not, as an array of several."""
    if isinstance(part, Size):
        return part
    try:
        return None if isinstance(part, bool) else operator.index(part)
    except TypeError:
        return None


def _shown(value: Any) -> str:
    """A value in a message: as Python writes it where that is short, else what it is."""
    is_short = isinstance(value, (int, float, Fraction, str, tuple, list, type(None)))
    text = repr(value) if is_short else ""
    return text if 0 < len(text) <= 40 else f"{type(value).__name__}"


def _bounds(part: slice, size: int) -> tuple[int, int]:
    """Where a slice begins and ends."""
    if part.step not in (None, 1):
        raise _error(f"slices have step 1; got {part.step}\n  reshape, and slice the dimension that this makes")
    if not any(isinstance(one, Size) for one in (part.start, part.stop, size)):
        return part.indices(size)[:2]
    # Of sizes with names: nothing is cut off at the end, which may lie elsewhere at other sizes.
    start = 0 if part.start is None else part.start + size if part.start < 0 else part.start
    stop = size if part.stop is None else part.stop + size if part.stop < 0 else part.stop
    return start, stop


def _refuse_array(value: Any) -> None:
    """Raises Error for an array where a number is wanted."""
    if not isinstance(value, Value) and getattr(value, "shape", ()):
        raise _error(f"an array of type {type(value).__name__} is no tensor of the program\n"
                     "  make it an input, g.input(name, shape), and give it where the kernel is called")


class Graph:
    """A program: tensors and operators on them, checked as they are added.

        g = strata.Graph("normed")
        x = g.input("X", (16, 1024), "f16")
        w = g.input("W", (1024, 4096), "f16")
        g.output(g.matmul(g.rms_norm(x, eps=1e-6), w))

    Each operator of `strata ops` is a method: operands come first, attributes by name, `name=` names the result. Beside
    them are those that are made of several. str(g) is the program's text, Graph.from_text reads one. What is wrong
    raises Error with the line in the user's file."""

    def __init__(self, name: str = "program"):
        self._builder = _core.Builder(_checked(arguments.name, "the program's name", name))
        self._values: dict[int, Value] = {}

    @classmethod
    def from_text(cls, text: str, file: str = "<text>") -> "Graph":
        """The program or µGraph that a text holds, to go on from or to optimize. `file` is what errors call it."""
        made = cls.__new__(cls)
        made._builder = _core.Builder.read(_checked(arguments.text, "the program", text), file)
        made._values = {}
        return made

    @property
    def name(self) -> str:
        return self._builder.name

    @property
    def inputs(self) -> list[Value]:
        return [self._value(one) for one in self._builder.inputs]

    @property
    def outputs(self) -> list[Value]:
        return [self._value(one) for one in self._builder.outputs]

    def __getitem__(self, name: str) -> Value:
        """A tensor by its name."""
        for number in range(self._builder.tensor_count):
            if self._builder.tensor(number)[0] == name:
                return self._value(number)
        raise _error(f"the program has no tensor '{name}'\n  print(graph) shows the names")

    def __str__(self) -> str:
        return self._builder.text()

    def __reduce__(self):
        """Pickled and copied as its text. Error where it has no output yet, since such a text is no program."""
        if not self.outputs:
            raise _error("a program without outputs cannot be pickled or copied\n  name them first, by output()")
        return Graph.from_text, (str(self),)

    def __repr__(self) -> str:
        return f"<strata.Graph {self.name}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"

    def dim(self, name: str, size: int) -> Size:
        """A name for a size, before inputs and operators: shapes and attributes may have it, and what is computed of it
        (2 * tokens, tokens * heads, 1 / tokens). The program is written, and searched, for `size`; `optimize` makes
        kernels for others of what it found."""
        _checked(arguments.name, "a dim's name", name)
        number = _checked(arguments.sizes, "the size", [size])[0]
        return Size(number, self._builder.dim(name, number, _place()))

    @property
    def dims(self) -> dict[str, int]:
        """The names of sizes, and the sizes for which the program is written."""
        return dict(self._builder.dims)

    def input(self, name: str, shape: Sequence[int], dtype: Any = "f16") -> Value:
        """A new input: its sizes from the outermost on, and "f16", "bf16", "f32", "f64" or torch's or NumPy's type."""
        _checked(arguments.name, "an input's name", name)
        numbers = _checked(arguments.sizes, "the shape", shape)
        sizes = [plain(one) if isinstance(one, Size) else number for one, number in zip(shape, numbers)]
        return self._value(self._builder.input(name, _dtype_name(dtype), sizes, _place()))

    def iota(self, shape: Sequence[int], dim: int = 0, *, start: Number = 0, step: int = 1, dtype: Any = "f16",
             name: str = "") -> Value:  # fmt: skip
        """Elements that are known: start + step · index along one dimension, the same along all others. Integers below
        2^24 in magnitude; with step=0 a constant, and start may be a fraction. Nobody gives them and they lie nowhere
        in memory: a kernel computes what it reads. Elementwise operators alone read them. Comparisons make masks:

            i, j = g.iota((queries, 1), 0), g.iota((1, keys), 1)
            scores = g.select(j > i, -65504, scores)
        """
        if name:
            _checked(arguments.name, "an iota's name", name)
        numbers = _checked(arguments.sizes, "the shape", shape)
        sizes = [plain(one) if isinstance(one, Size) else number for one, number in zip(shape, numbers)]
        for what, number in {"dim": dim, "step": step}.items():
            if not isinstance(number, int) or isinstance(number, (bool, Size)):
                raise _error(f"{what}={number!r} is no integer\n  give one, as {what}=1")
        if isinstance(start, (Size, Ratio)):
            raise _error("an iota's start depends on dims\n  write a number")
        along = dim + len(sizes) if dim < 0 else dim
        return self._value(self._builder.iota(name, _dtype_name(dtype), sizes, along, _number(start), step, _place()))

    def output(self, *values: Value) -> None:
        """Makes these outputs, in this order and behind those there are."""
        for value in values:
            self._builder.output(self._operand(value), _place())

    # Operators of the table whose other operand may be a number.

    def add(self, x: Value | Number, y: Value | Number, *, name: str = "") -> Value:
        """x + y."""
        x, y = (y, x) if isinstance(y, Value) and not isinstance(x, Value) else (x, y)
        if isinstance(y, Value):
            return self._apply("add", (x, y), {}, name)
        return self._apply("add_constant", (x,), {"value": y}, name)

    def sub(self, x: Value, y: Value | Number, *, name: str = "") -> Value:
        """x − y."""
        if isinstance(y, Value):
            return self._apply("sub", (x, y), {}, name)
        _refuse_array(y)
        return self._apply("add_constant", (x,), {"value": -y}, name)

    def mul(self, x: Value | Number, y: Value | Number, *, name: str = "") -> Value:
        """x · y."""
        x, y = (y, x) if isinstance(y, Value) and not isinstance(x, Value) else (x, y)
        if isinstance(y, Value):
            return self._apply("mul", (x, y), {}, name)
        return self._apply("scale", (x,), {"factor": y}, name)

    def div(self, x: Value, y: Value | Number, *, name: str = "") -> Value:
        """x / y."""
        if isinstance(y, Value):
            return self._apply("div", (x, y), {}, name)
        _refuse_array(y)
        if not y:
            raise _error(f"division of '{x.name}' by 0\n  divide by another number")
        factor = 1 / (y if isinstance(y, (Size, Ratio)) else Fraction(_number(y)))
        return self._apply("scale", (x,), {"factor": factor}, name)

    def greater(self, x: Value | Number, y: Value | Number, *, name: str = "") -> Value:
        """1 where x > y, else 0."""
        x, y = self._beside(x, y)
        return self._apply("greater", (x, y), {}, name)

    def select(self, condition: Value, x: Value | Number, y: Value | Number, *, name: str = "") -> Value:
        """x where the condition is not 0, else y."""
        if not isinstance(x, Value) and not isinstance(y, Value):
            x = self._constant(x, condition)
        x, y = self._beside(x, y)
        return self._apply("select", (condition, x, y), {}, name)

    # Operators of several of the table's.

    def sum(self, x: Value, dim: int = -1, *, keepdim: bool = True, every: int | None = None, name: str = "") -> Value:
        """Sums along one dimension, which stays with size 1 unless keepdim is False; `every`: of groups of so many
        elements each."""
        return self._reduced("sum", x, dim, keepdim, every, name)

    def reduce_max(self, x: Value, dim: int = -1, *, keepdim: bool = True, every: int | None = None,
                   name: str = "") -> Value:  # fmt: skip
        """The largest along one dimension, as sum."""
        return self._reduced("reduce_max", x, dim, keepdim, every, name)

    def mean(self, x: Value, dim: int = -1, *, keepdim: bool = True, name: str = "") -> Value:
        """The mean along one dimension, as sum."""
        total = self.sum(x, dim)
        size = x.shape[dim]
        factor = 1 / size if isinstance(size, Size) else Fraction(1, size)
        mean = self.scale(total, factor=factor, name=name if keepdim else "")
        return mean if keepdim else self._without(mean, dim, name)

    def softmax(self, x: Value, dim: int = -1, *, name: str = "") -> Value:
        """exp(x − m) / Σ exp(x − m) along one dimension, m the largest there."""
        e = self.exp(self.sub(x, self.reduce_max(x, dim)))
        return self.div(e, self.sum(e, dim), name=name)

    def rms_norm(self, x: Value, *, weight: Value | None = None, eps: float = 0, dim: int = -1,
                 name: str = "") -> Value:  # fmt: skip
        """x · weight / √(mean(x²) + eps) along one dimension; `weight` broadcasts to x."""
        mean = self.mean(self.sqr(x), dim)
        root = self.sqrt(self.add(mean, eps) if eps else mean)
        return self.div(x if weight is None else self.mul(x, weight), root, name=name)

    def layer_norm(self, x: Value, *, weight: Value | None = None, bias: Value | None = None, eps: float = 0,
                   dim: int = -1, name: str = "") -> Value:  # fmt: skip
        """(x − mean) / √(variance + eps) · weight + bias along one dimension."""
        centred = self.sub(x, self.mean(x, dim))
        variance = self.mean(self.sqr(centred), dim)
        root = self.sqrt(self.add(variance, eps) if eps else variance)
        last = "" if bias is not None else name
        scaled = centred if weight is None else self.mul(centred, weight)
        normed = self.div(scaled, root, name=last)
        return normed if bias is None else self.add(normed, bias, name=name)

    def linear(self, x: Value, weight: Value, bias: Value | None = None, *, name: str = "") -> Value:
        """x · weightᵀ + bias, as torch.nn.functional.linear: weight is (outputs, inputs)."""
        product = self.matmul(x, weight.T, name="" if bias is not None else name)
        return product if bias is None else self.add(product, bias, name=name)

    def swiglu(self, gate: Value, up: Value, *, name: str = "") -> Value:
        """silu(gate) · up."""
        return self.mul(self.silu(gate), up, name=name)

    def attention(self, q: Value, k: Value, v: Value, *, mask: Value | None = None, causal: bool = False,
                  scale: float | None = None, name: str = "") -> Value:  # fmt: skip
        """softmax(scale · q · kᵀ + mask) · v. q is (…, queries, size), k and v are (…, keys, size); scale is 1/√size
        unless it is given; mask is added to the scores and broadcasts to them. `causal`: a query sees the keys up to
        its own place alone, both counted from 0; the scores of others are the least number of f16."""
        if scale is None and isinstance(q.shape[-1], Size):
            raise _error(f"1/√size is no constant where the size is {q.shape[-1]!r}\n  give scale=")
        scores = self.matmul(q, k.T)
        scores = self.scale(scores, factor=1 / math.sqrt(q.shape[-1]) if scale is None else scale)
        if mask is not None:
            scores = self.add(scores, mask)
        if causal:
            queries, keys = scores.shape[-2:]
            query = self.iota((queries, 1), 0, dtype=scores.dtype)
            key = self.iota((1, keys), 1, dtype=scores.dtype)
            scores = self.select(key > query, _MASKED, scores)
        return self.matmul(self.softmax(scores), v, name=name)

    # The rest of the table.

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name.startswith("_") or name not in _operators():
            raise AttributeError(f"Graph has no operator '{name}'; `python -m strata ops` lists all")
        arity, attributes, meaning = _operators()[name]

        def operator(*operands: Value, name: str = "", **given: Any) -> Value:
            return self._apply(operator.__name__, operands, given, name)

        operator.__name__ = name
        operator.__doc__ = meaning + "".join(f"\n\n{a}: {text}" for a, _, text in attributes)
        operator.__signature__ = _signature(arity, attributes)
        return operator

    def __dir__(self):
        return sorted({*super().__dir__(), *_operators()})

    def _apply(self, operator: str, operands: Sequence[Any], attributes: dict[str, Any], name: str) -> Value:
        self._check_operands(operator, operands, attributes)
        numbers = [self._operand(one) for one in operands]
        given = {
            key: _number(value) if isinstance(value, (float, Fraction)) else plain(value)
            for key, value in attributes.items()
            if value is not None
        }
        for key in ("dim",):
            if isinstance(given.get(key), int) and given[key] < 0 and operands:
                given[key] += operands[0].ndim
        return self._value(self._builder.add(operator, numbers, given, name, _place()))

    def _check_operands(self, operator: str, operands: Sequence[Any], attributes: dict[str, Any]) -> None:
        """Raises Error for what stands where it does not belong: attributes among operands, arrays among attributes."""
        arity, known, _ = _operators()[operator]
        extra = operands[arity] if 0 <= arity < len(operands) else None
        _refuse_array(extra)
        free = [one for one, required, _ in known if one not in attributes]
        if extra is not None and not isinstance(extra, Value) and free:
            tensors = "1 tensor" if arity == 1 else f"{arity} tensors"
            raise _error(f"{operator} takes {tensors}, and attributes by name\n  write {free[0]}={_shown(extra)}")
        for one in operands:
            if isinstance(one, (list, tuple)) and any(isinstance(part, Value) for part in one):
                raise _error(f"{operator} takes its tensors one by one, not in a {type(one).__name__}\n"
                             f"  write {operator}(x, y, …)")
        for value in attributes.values():
            _refuse_array(value)

    def _constant(self, number: Number, like: Value) -> Value:
        """A number as a tensor that broadcasts to another: an iota that does not count."""
        if not isinstance(number, (int, float, Fraction, Size, Ratio)):
            self._operand(number)
        if not like.ndim:
            raise _error(f"'{like.name}' has no dimension, and a number no place beside it\n  reshape it to (1,) first")
        return self.iota((1,), start=number, step=0, dtype=like.dtype)

    def _beside(self, x: Value | Number, y: Value | Number) -> tuple[Value, Value]:
        """Both as tensors, of which one may be a number."""
        if isinstance(x, Value) and not isinstance(y, Value):
            return x, self._constant(y, x)
        if isinstance(y, Value) and not isinstance(x, Value):
            return self._constant(x, y), y
        return x, y

    def _reduced(self, operator: str, x: Value, dim: int, keepdim: bool, every: int | None, name: str) -> Value:
        result = self._apply(operator, (x,), {"dim": dim, "every": every}, name if keepdim else "")
        return result if keepdim else self._without(result, dim, name)

    def _without(self, x: Value, dim: int, name: str) -> Value:
        sizes = list(x.shape)
        if sizes[dim] != 1:
            raise _error(
                f"keepdim=False drops a dimension of size 1; this one has {sizes[dim]}\n"
                "  leave out every=, or keepdim=False"
            )
        del sizes[dim]
        return self.reshape(x, shape=sizes, name=name)

    def _operand(self, value: Any) -> int:
        if not isinstance(value, Value):
            raise _error(
                f"an operand is of type {type(value).__name__}, not a tensor of the program\n"
                "  make an array an input; numbers go to scale and add_constant"
            )
        if value.graph is not self:
            raise _error(
                f"'{value.name}' is a tensor of another Graph, '{value.graph.name}'\n"
                "  write one program with one Graph"
            )
        return value.id

    def _value(self, number: int) -> Value:
        if number not in self._values:
            self._values[number] = Value(self, number)
        return self._values[number]


def _signature(arity: int, attributes: list[tuple[str, bool, str]]) -> inspect.Signature:
    kinds = inspect.Parameter
    names = ["x", "y", "z", "w"][: max(arity, 0)]
    parameters = [kinds(one, kinds.POSITIONAL_ONLY) for one in names]
    if arity < 0:
        parameters = [kinds("tensors", kinds.VAR_POSITIONAL)]
    for name, required, _ in attributes:
        parameters.append(kinds(name, kinds.KEYWORD_ONLY, default=kinds.empty if required else None))
    parameters.append(kinds("name", kinds.KEYWORD_ONLY, default=""))
    return inspect.Signature(parameters)
