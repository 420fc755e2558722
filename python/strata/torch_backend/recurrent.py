"""The lowering of a layer of an LSTM over all steps of a sequence, which torch has as one operator where nothing is
trained on a processor."""

from __future__ import annotations

from .control_flow import loop
from .hlo_builder import HloBuilder, Value
from .lowering import Lowering
from .registry import Unsupported, lowers
from .types import wide

_LSTM = 2  # of ideep's kinds


def _linear(c: Lowering, x: Value, w: Value, biases: list[Value]) -> Value:
    """x wᵀ plus biases, for x (steps, batch, n) and w (m, n)."""
    found = c.b.dot(x, w, ((), ()), ((2,), (1,)), x.dtype)
    for bias in biases:
        found = c.add(found, bias)
    return found


@lowers("aten.mkldnn_rnn_layer.default")
def lstm_layer(c, x, w_input, w_hidden, b_input, b_hidden, hidden, cell, reverse, batch_sizes, mode, hidden_size,
               num_layers, has_biases, bidirectional, batch_first, train):
    """(results of all steps, the last result, the last cell, nothing). Products with the input are one product."""
    if mode != _LSTM or num_layers != 1 or batch_sizes or bidirectional or batch_first or train:
        raise Unsupported("only one layer of an LSTM, in one direction, is taken")
    if x.shape[0] == 0:
        raise Unsupported("a sequence without steps is not taken")
    kind, n, shape = wide(x.dtype), hidden_size, (hidden.shape[1], hidden_size)
    x, w_input, w_hidden, h, state = (c.cast(v, kind) for v in (x, w_input, w_hidden, hidden, cell))
    biases = [c.cast(b, kind) for b in (b_input, b_hidden)] if has_biases else []
    gates = _linear(c, x, w_input, biases)
    steps, last = x.shape[0], x.shape[0] - 1
    size = (1, shape[0], 4 * n)

    def step(b: HloBuilder, values: list[Value]) -> list[Value]:
        at, h, state, gates, w, done = values
        zero = b.constant(0, "s32")
        place = b.binary("subtract", b.constant(last, "s32"), at) if reverse else at
        given = b.op("dynamic-slice", [gates, place, zero, zero], kind, size,
                     "dynamic_slice_sizes={" + ",".join(map(str, size)) + "}")
        sums = b.binary("add", b.reshape(given, size[1:]), b.dot(h, w, ((), ()), ((1,), (1,)), kind))
        of_input, forget, new, output = (b.slice(sums, [0, i * n], [shape[0], (i + 1) * n]) for i in range(4))
        of_input, forget, output = (b.unary("logistic", g) for g in (of_input, forget, output))
        state = b.binary("add", b.binary("multiply", forget, state),
                         b.binary("multiply", of_input, b.unary("tanh", new)))
        h = b.binary("multiply", output, b.unary("tanh", state))
        row = b.reshape(h, (1, *shape))
        done = b.op("dynamic-update-slice", [done, row, place, zero, zero], kind, done.shape)
        return [b.binary("add", at, b.constant(1, "s32")), h, state, gates, w, done]

    start = [c.b.constant(0, "s32"), c.b.reshape(h, shape), c.b.reshape(state, shape), gates, w_hidden,
             c.b.full(0, kind, (steps, *shape))]
    _, h, state, _, _, done = loop(c, start, lambda b, values: b.compare(values[0], b.constant(steps, "s32"), "LT"),
                                   step)
    h, state = (c.b.reshape(v, v_.shape) for v, v_ in ((h, hidden), (state, cell)))
    return [c.cast(done, c.dtype), c.cast(h, hidden.dtype), c.cast(state, cell.dtype), c.b.full(0, "u8", (0,))]
