"""An evaluator of the text format that shares no code with the program, and the reader of files of pairs.

Numbers are float64, NumPy's long double, or decimals of any precision (with exponents beyond those of a double).
"""

import decimal
import re
from fractions import Fraction

import numpy as np

TOKEN = re.compile(r"-?\d[\d.]*(?:[eE][+-]?\d+)?(?:/\d+)?|[A-Za-z_]\w*|[(){}\[\],=:]|#[^\n]*")


class Graph:
    """inputs: (name, shape) pairs; statements: (results, operator, operands, attributes, body or None)."""

    def __init__(self):
        self.inputs, self.statements, self.outputs = [], [], []


class Parser:
    def __init__(self, text):
        self.tokens = [t for t in TOKEN.findall(text) if not t.startswith("#")]
        self.at = 0

    def peek(self):
        return self.tokens[self.at]

    def next(self, expected=None):
        token = self.tokens[self.at]
        if expected is not None and token != expected:
            raise ValueError(f"expected {expected}, got {token} near {' '.join(self.tokens[self.at - 8:self.at + 3])}")
        self.at += 1
        return token

    def graph(self):
        self.next("graph")
        self.next()
        self.next("{")
        graph = self.body()
        if self.at != len(self.tokens):
            raise ValueError(f"text behind the graph: {self.peek()}")
        return graph

    def names(self):
        result = [self.next()]
        while self.at < len(self.tokens) and self.peek() == ",":
            self.next()
            result.append(self.next())
        return result

    def value(self):
        if self.peek() != "[":
            return self.next()
        self.next("[")
        result = []
        while self.peek() != "]":
            token = self.next()
            if token != ",":
                result.append(None if token == "_" else int(token))
        self.next("]")
        return result

    def type(self):
        self.next(":")
        self.next()
        return tuple(self.value())

    def body(self):
        graph = Graph()
        while self.peek() != "}":
            if self.peek() == "input":
                self.next()
                name = self.next()
                graph.inputs.append((name, self.type()))
            elif self.peek() == "output":
                self.next()
                graph.outputs = self.names()
            else:
                self.statement(graph)
        self.next("}")
        return graph

    def statement(self, graph):
        results = self.names()
        self.next("=")
        operator = self.next()
        operands, attributes, body = [], {}, None
        self.next("(")
        while self.peek() != ")":
            token = self.next()
            if token == ",":
                continue
            if self.peek() != "=":
                operands.append((token, token))
                continue
            self.next("=")
            value = self.value()
            if operator in ("block", "thread") and token not in ("grid", "loop", "threads"):
                operands.append((token, value))
            else:
                attributes[token] = value
        self.next(")")
        if operator in ("block", "thread"):
            self.next("{")
            body = self.body()
        elif self.peek() == ":":
            shape = self.type()
            if operator == "iota":
                attributes["shape"] = shape
        graph.statements.append((results, operator, operands, attributes, body))


def parse(text):
    return Parser(text).graph()


class Numbers:
    """float64 ("f8"), long double ("g") or decimals of so many digits (an int)."""

    def __init__(self, kind):
        self.kind = kind
        self.decimals = isinstance(kind, int)
        if self.decimals:
            context = decimal.Context(prec=kind, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])
            decimal.setcontext(context)

    def array(self, values):
        """Of decimals, ints, fractions or floats."""
        if not self.decimals:
            return np.asarray(values, dtype=self.kind)
        return np.vectorize(self.exact, otypes=[object])(np.asarray(values, dtype=object))

    def exact(self, value):
        if isinstance(value, Fraction):
            return decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator)
        return decimal.Decimal(value if isinstance(value, (int, decimal.Decimal)) else float(value))

    def constant(self, text):
        value = Fraction(text)
        if self.decimals:
            return self.exact(value)
        kind = np.dtype(self.kind).type
        return kind(str(value.numerator)) / kind(str(value.denominator))

    def function(self, name, x):
        if not self.decimals:
            return getattr(np, name)(x)
        return np.vectorize(lambda v: getattr(v, name)(), otypes=[object])(x) if x.size else x

    def finite(self, x):
        if not self.decimals:
            return np.isfinite(x)
        return np.vectorize(lambda v: v.is_finite(), otypes=[bool])(x)


def divide(n, a, b):
    if not n.decimals:
        return a / b
    zero = decimal.Decimal(0)
    return np.vectorize(lambda x, y: decimal.Decimal("NaN") if y == zero else x / y, otypes=[object])(a, b)


def where_defined(n, result, *operands):
    """Comparisons of what is undefined are undefined."""
    defined = np.ones(result.shape, dtype=bool)
    for operand in operands:
        defined &= np.broadcast_to(n.finite(operand), result.shape)
    return np.where(defined, result, n.array(float("nan")))


def groups(x, attributes):
    dim = int(attributes["dim"])
    every = int(attributes.get("every", x.shape[dim]))
    return x.reshape(x.shape[:dim] + (x.shape[dim] // every, every) + x.shape[dim + 1:]), dim + 1


def conv2d(n, x, w, attributes):
    stride, padding = int(attributes.get("stride", 1)), int(attributes.get("padding", 0))
    padded = np.zeros(x.shape[:2] + (x.shape[2] + 2 * padding, x.shape[3] + 2 * padding), dtype=x.dtype)
    padded = n.array(padded)
    padded[:, :, padding:padding + x.shape[2], padding:padding + x.shape[3]] = x
    rows = (padded.shape[2] - w.shape[2]) // stride + 1
    columns = (padded.shape[3] - w.shape[3]) // stride + 1
    result = None
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            part = padded[:, :, i:i + (rows - 1) * stride + 1:stride, j:j + (columns - 1) * stride + 1:stride]
            term = np.moveaxis(np.tensordot(part, w[:, :, i, j], axes=([1], [1])), 3, 1)
            result = term if result is None else result + term
    return result


def sigmoid(n, x, exponent):
    return divide(n, x, n.array(1) + n.function("exp", exponent))


def iota(n, attributes):
    """start + step · index along one dimension; start may be a fraction."""
    shape, dim = attributes["shape"], int(attributes["dim"])
    index = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
    start, step = Fraction(attributes.get("start", "0")), int(attributes.get("step", "1"))
    counted = n.array(index * step) + n.constant(start)
    return np.broadcast_to(counted, shape)


def apply(n, operator, x, attributes):
    if operator == "iota":
        return iota(n, attributes)
    if operator == "matmul":
        return np.matmul(x[0], x[1])
    if operator == "concat_matmul":
        return np.matmul(x[0], x[2]) + np.matmul(x[1], x[3])
    if operator == "conv2d":
        return conv2d(n, x[0], x[1], attributes)
    if operator in ("sum", "reduce_max"):
        grouped, axis = groups(x[0], attributes)
        return grouped.sum(axis=axis) if operator == "sum" else np.maximum.reduce(grouped, axis=axis)
    if operator in ("add", "sub", "mul"):
        return {"add": np.add, "sub": np.subtract, "mul": np.multiply}[operator](x[0], x[1])
    if operator == "div":
        return divide(n, x[0], x[1])
    if operator == "max":
        return np.maximum(x[0], x[1])
    if operator == "greater":
        one, zero = n.array(1), n.array(0)
        return where_defined(n, np.where(x[0] > x[1], one, zero), x[0], x[1])
    if operator == "select":
        return where_defined(n, np.where(x[0] != n.array(0), x[1], x[2]), x[0])
    if operator == "exp":
        return n.function("exp", x[0])
    if operator == "sqr":
        return x[0] * x[0]
    if operator == "sqrt":
        return n.function("sqrt", x[0])
    if operator == "rsqrt":
        return divide(n, n.array(1), n.function("sqrt", x[0]))
    if operator == "silu":
        return sigmoid(n, x[0], -x[0])
    if operator == "relu":
        return np.maximum(x[0], n.array(0))
    if operator == "gelu":
        z = x[0] + n.constant("8943/200000") * x[0] * x[0] * x[0]
        return sigmoid(n, x[0], n.constant("-123637/77478") * z)
    if operator == "scale":
        return x[0] * n.constant(attributes["factor"])
    if operator == "add_constant":
        return x[0] + n.constant(attributes["value"])
    if operator == "repeat":
        dim = int(attributes["dim"])
        return np.concatenate([x[0]] * int(attributes["times"]), axis=dim)
    if operator == "reshape":
        return x[0].reshape(attributes["shape"])
    if operator == "transpose":
        return x[0].transpose(attributes["perm"])
    if operator == "concat":
        return np.concatenate(x, axis=int(attributes["dim"]))
    if operator == "slice":
        start = int(attributes["start"])
        return np.moveaxis(np.moveaxis(x[0], int(attributes["dim"]), 0)[start:start + int(attributes["size"])], 0,
                           int(attributes["dim"]))
    raise ValueError(f"unknown operator {operator}")


def tile(x, grid, point, imap, fmap, loop, iteration):
    counts, position = [1] * x.ndim, [0] * x.ndim
    for g, p, d in zip(grid, point, imap):
        if d is not None:
            counts[d], position[d] = counts[d] * g, position[d] * g + p
    if fmap is not None:
        counts[fmap], position[fmap] = counts[fmap] * loop, position[fmap] * loop + iteration
    cut = []
    for size, count, at in zip(x.shape, counts, position):
        assert size % count == 0
        cut.append(slice(size // count * at, size // count * (at + 1)))
    return x[tuple(cut)]


def accumulate(n, operator, state, x, attributes):
    """`state` is None in the first iteration. Of accum_rescale it is the sum and the largest reference."""
    if operator == "accum_rescale":
        if state is None:
            return x[0], x[1]
        total, largest = state
        now = np.maximum(largest, x[1])
        return total * n.function("exp", largest - now) + x[0] * n.function("exp", x[1] - now), now
    if state is None:
        return x[0]
    if attributes["kind"] == "concat":
        return np.concatenate([state, x[0]], axis=int(attributes["dim"]))
    return state + x[0] if attributes["kind"] == "sum" else np.maximum(state, x[0])


def run_thread(n, body, values):
    inner = {}
    for results, operator, operands, attributes, _ in body.statements:
        if operator == "in_iter":
            inner[results[0]] = values[operands[0][0]]
        elif operator == "out_saver":
            inner["out " + results[0]] = inner[operands[0][0]]
        else:
            inner[results[0]] = apply(n, operator, [inner[o] for o, _ in operands], attributes)
    return inner


def run_block(n, body, values, grid, loop):
    outputs = {}
    for point in np.ndindex(*grid):
        states, local = {}, {}
        for iteration in range(loop):
            local = {}
            late = set()
            last = iteration == loop - 1
            for results, operator, operands, attributes, inner in body.statements:
                sources = [outside for _, outside in operands]
                if any(s in late for s in sources) and not last:
                    late.update(results)
                    continue
                if operator == "in_iter":
                    fmap = attributes.get("fmap")
                    fmap = None if fmap in (None, "_") else int(fmap)
                    local[results[0]] = tile(values[sources[0]], grid, point, attributes["imap"], fmap, loop, iteration)
                elif operator in ("accum", "accum_rescale"):
                    x = [local[s] for s in sources]
                    states[results[0]] = accumulate(n, operator, states.get(results[0]), x, attributes)
                    state = states[results[0]]
                    local[results[0]] = state[0] if operator == "accum_rescale" else state
                    if not last:
                        late.add(results[0])
                elif operator == "out_saver":
                    if last:
                        place(outputs, results[0], local[sources[0]], grid, point, attributes["omap"])
                elif operator == "thread":
                    found = run_thread(n, inner, {i: local[o] for i, o in operands})
                    local.update({r: found["out " + r] for r in results})
                else:
                    local[results[0]] = apply(n, operator, [local[s] for s in sources], attributes)
    return outputs


def place(outputs, name, part, grid, point, omap):
    counts, position = [1] * part.ndim, [0] * part.ndim
    for g, p, d in zip(grid, point, omap):
        if d is not None:
            counts[d], position[d] = counts[d] * g, position[d] * g + p
    if name not in outputs:
        outputs[name] = np.empty([s * c for s, c in zip(part.shape, counts)], dtype=part.dtype)
    outputs[name][tuple(slice(s * p, s * (p + 1)) for s, p in zip(part.shape, position))] = part


def evaluate(graph, n, inputs):
    """The outputs by name. `inputs`: arrays of `n` by name."""
    values = dict(inputs)
    for results, operator, operands, attributes, body in graph.statements:
        if operator == "block":
            inside = {i: values[o] for i, o in operands}
            found = run_block(n, body, inside, attributes["grid"], int(attributes.get("loop", 1)))
            values.update({r: found[r] for r in results})
        else:
            values[results[0]] = np.asarray(apply(n, operator, [values[o] for o, _ in operands], attributes))
    return {name: values[name] for name in graph.outputs}


class Pair:
    """`points` are the assignments of `# at` lines; `digits` the precision that is needed, 0 for long double."""

    def __init__(self, name, reason, first, second):
        self.name, self.reason, self.first, self.second = name, reason, first, second
        self.points = re.findall(r"^# at (.*)$", first, re.M)
        found = re.search(r"^# digits (\d+)$", first, re.M)
        self.digits = int(found.group(1)) if found else 0


def read_pairs(path):
    pairs = []
    for part in re.split(r"^== ", path.read_text(), flags=re.M)[1:]:
        header, text = part.split("\n", 1)
        name, reason = header.split(": ", 1)
        first, second = re.split(r"^--\n", text, flags=re.M)
        pairs.append(Pair(name, reason, first, second))
    return pairs
