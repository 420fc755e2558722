"""Lowerings of matrix products and convolutions."""

from __future__ import annotations

from .hlo_builder import COMPLEX, Value, Window
from .lowering import Lowering
from .precision import is_rounded, rounds_convolutions
from .registry import Unsupported, lowers, require_one_type
from .types import wide

# Rows of a group, in the mean, up to which a kernel that reads each weight once multiplies them while it waits for these.
MOST_ROWS_OF_GROUP = 8


def _product(c: Lowering, x: Value, y: Value, dtype: str) -> Value:
    """x @ y of matrices, or of batches of them, with the result in dtype."""
    batch = tuple(range(x.rank - 2))
    return c.b.dot(x, y, (batch, batch), ((x.rank - 1,), (y.rank - 2,)), dtype)


@lowers("aten.mm.default", "aten.bmm.default", "aten.mm.dtype", "aten.bmm.dtype", of_complex=True)
def mm(c, x, y, out_dtype=None):
    require_one_type(x, y)
    return _product(c, x, y, c.dtype)


@lowers("aten.mv.default", of_complex=True)
def mv(c, x, y):
    require_one_type(x, y)
    return c.b.dot(x, y, ((), ()), ((1,), (0,)), c.dtype)


@lowers("aten.dot.default", "aten.vdot.default", of_complex=True)
def dot(c, x, y):
    require_one_type(x, y)
    if x.dtype in COMPLEX and c.node.target._opname == "vdot":
        real, imag = c.parts(x)
        x = c.complex(real, c.unary("negate", imag))
    if c.is_long(x.shape[0], 1):
        products = c.mul(c.in_f64(x), c.in_f64(y))
        return c.cast(c.b.reduce("add", products, [0]), c.dtype)
    return c.b.dot(x, y, ((), ()), ((0,), (0,)), c.dtype)


@lowers("aten.addmm.default", "aten.baddbmm.default", of_complex=True)
def addmm(c, bias, x, y, beta=1, alpha=1):
    require_one_type(bias, x, y)
    # On CPUs 16-bit floats are added in f32 and rounded once. On GPUs the library's product adds a bias before it
    # rounds, and looks for the sum in the operands' type.
    sum_type = c.dtype if c.on_gpu and alpha == beta == 1 else wide(c.dtype)
    product = _product(c, x, y, sum_type)
    if alpha != 1:
        product = c.mul(product, alpha)
    if beta == 0:
        return c.cast(product, c.dtype)
    bias = c.cast(bias, sum_type)
    return c.cast(c.add(product, c.mul(bias, beta) if beta != 1 else bias), c.dtype)


@lowers("aten._int_mm.default")
def int_mm(c, x, y):
    return c.b.dot(c.cast(x, "s32"), c.cast(y, "s32"), ((), ()), ((1,), (0,)), "s32")


# Convolutions. Spatial dimensions are 0, 1, 2 … in the labels.

def _labels(lhs: str, rhs: str, out: str, spatial: int) -> str:
    """dim_labels from the order of batch and feature (b, f, i, o) before the spatial dimensions."""
    places = "".join(map(str, range(spatial)))
    return f"{lhs}{places}_{rhs}{places}->{out}{places}"


def sizes_of(numbers, spatial: int) -> list[int]:
    numbers = list(numbers)
    return numbers * spatial if len(numbers) == 1 else numbers


def _convolved(c: Lowering, x: Value, w: Value, window: Window, labels: str, shape, **groups: int) -> Value:
    """As exactly as torch is set to now."""
    return c.b.convolution(x, w, window, labels, shape, tf32=is_rounded(c.node) and rounds_convolutions(), **groups)


def _forward(c: Lowering, x: Value, w: Value, stride, padding, dilation, groups: int) -> Value:
    n = x.rank - 2
    window = Window(w.shape[2:], stride, [(p, p) for p in padding], rhs_dilate=dilation)
    shape = (x.shape[0], w.shape[0], *window.results(x.shape[2:]))
    return _convolved(c, x, w, window, _labels("bf", "oi", "bf", n), shape, feature_groups=groups)


def _transposed(c: Lowering, x: Value, w: Value, stride, padding, dilation, groups: int, spatial: tuple) -> Value:
    """The gradient of a convolution's input, of sizes `spatial`: w is (features of x, results / groups, …)."""
    n = x.rank - 2
    results = w.shape[1] * groups
    w = c.b.reverse(w, list(range(2, w.rank)))
    if groups > 1:  # from (groups, in / groups, out / groups, …) to (in / groups, out, …)
        grouped = c.b.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:]))
        order = [1, 0, *range(2, grouped.rank)]
        w = c.b.reshape(c.b.transpose(grouped, order), (w.shape[0] // groups, results, *w.shape[2:]))
    pad = []
    for i in range(n):
        low = dilation[i] * (w.shape[2 + i] - 1) - padding[i]
        spread = (x.shape[2 + i] - 1) * stride[i] + 1
        pad.append((low, spatial[i] + dilation[i] * (w.shape[2 + i] - 1) - spread - low))
    window = Window(w.shape[2:], None, pad, lhs_dilate=stride, rhs_dilate=dilation)
    shape = (x.shape[0], results, *spatial)
    return _convolved(c, x, w, window, _labels("bf", "io", "bf", n), shape, feature_groups=groups)


def _weight_gradient(c: Lowering, x: Value, grad: Value, shape: tuple, stride, padding, dilation, groups: int) -> Value:
    """The gradient of weights of `shape` (results, features / groups, …): images take part as features."""
    n = x.rank - 2
    pad = []
    for i in range(n):
        span = dilation[i] * (shape[2 + i] - 1) + (grad.shape[2 + i] - 1) * stride[i] + 1
        pad.append((padding[i], span - x.shape[2 + i] - padding[i]))
    window = Window(grad.shape[2:], dilation, pad, rhs_dilate=stride)
    return _convolved(c, x, grad, window, _labels("fb", "io", "fb", n), shape, batch_groups=groups)


def _empty(*values: Value) -> bool:
    return any(v.size == 0 for v in values)


@lowers("aten.convolution.default")
def convolution(c, x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = x.rank - 2
    if _empty(x, w):
        raise Unsupported(f"a convolution of {x.shape} by {w.shape} has no elements")
    if n not in (1, 2, 3):
        raise Unsupported(f"a convolution of {x.shape} is not taken: it has one to three spatial dimensions")
    stride, padding, dilation = (sizes_of(v, n) for v in (stride, padding, dilation))
    dtype = wide(c.dtype) if bias is not None and not c.on_gpu else c.dtype
    if dtype != x.dtype:
        x, w = c.cast(x, dtype), c.cast(w, dtype)
    if transposed:
        y = _transposed(c, x, w, stride, padding, dilation, groups, c.shape[2:])
    else:
        y = _forward(c, x, w, stride, padding, dilation, groups)
    if bias is not None:
        y = c.add(y, c.b.reshape(c.cast(bias, dtype), (bias.shape[0], *[1] * n)))
    return c.cast(y, c.dtype)


@lowers("aten.convolution_backward.default")
def convolution_backward(c, grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
                         mask):
    n = x.rank - 2
    if n not in (1, 2, 3) or _empty(grad, x, w):
        raise Unsupported(f"gradients of a convolution of {x.shape} are not taken")
    stride, padding, dilation = (sizes_of(v, n) for v in (stride, padding, dilation))
    of_x = of_w = of_bias = None
    if transposed:
        if mask[0]:
            of_x = _forward(c, grad, w, stride, padding, dilation, groups)
            of_x = c.b.slice(of_x, [0] * x.rank, x.shape)
        if mask[1]:
            of_w = _weight_gradient(c, grad, x, w.shape, stride, padding, dilation, groups)
    else:
        if mask[0]:
            of_x = _transposed(c, grad, w, stride, padding, dilation, groups, x.shape[2:])
        if mask[1]:
            of_w = _weight_gradient(c, x, grad, w.shape, stride, padding, dilation, groups)
    if mask[2]:
        of_bias = c.cast(c.reduce("add", grad, [0, *range(2, grad.rank)]), grad.dtype)
    return [of_x, of_w, of_bias]


@lowers("aten.linalg_cholesky_ex.default", "aten.cholesky_solve.default", "aten.linalg_inv_ex.default",
        "aten._linalg_solve_ex.default", "aten.linalg_solve_triangular.default", "aten.triangular_solve.default",
        "aten.linalg_lu.default", "aten.linalg_lu_factor_ex.default", "aten.linalg_lu_solve.default",
        "aten.lu_unpack.default", "aten._linalg_det.default", "aten._linalg_slogdet.default",
        "aten.linalg_matrix_exp.default", "aten.linalg_pinv.atol_rtol_tensor", "aten.linalg_qr.default",
        "aten._linalg_svd.default", "aten._linalg_eigh.default", "aten.linalg_eig.default")
def linear_algebra(c, *_, **__):
    raise Unsupported("of linear algebra, only products are compiled")


@lowers("aten._scaled_mm.default", of_float8=True)
def scaled_mm(c, *_, **__):
    raise Unsupported("scaled products are left to torch's own kernels")


@lowers("aten._grouped_mm.default")
def grouped_mm(c, x, y, offs=None, bias=None, out_dtype=None):
    """Products of groups of rows of x, whose ends offs has, where groups have few rows: those of a step of decoding.
    Rows after the last group are zeros, where torch leaves them as they are in memory. torch's own kernel is faster
    for many rows (measured: docs/benchmarks-models.md), and multiplies groups of columns and of terms, too."""
    if not c.on_gpu:
        raise Unsupported("on a processor grouped products are left to torch")
    if offs is None:
        product = _product(c, x, y, c.dtype)
    else:
        ends = c.cast(offs, "s32")
        groups = ends.shape[0]
        if not (x.rank == 2 and y.rank == 3 and x.shape[0] <= MOST_ROWS_OF_GROUP * groups):
            raise Unsupported(f"grouped products are compiled where groups of rows have {MOST_ROWS_OF_GROUP} or fewer "
                              "in the mean; others are left to torch's own kernels")
        before = c.b.pad(c.b.slice(ends, [0], [groups - 1]), c.b.constant(0, "s32"), [(1, 0, 0)])
        product = c.b.ragged_dot(x, y, c.sub(ends, before), ((1,), (1,)), ragged=0, group=0, dtype=c.dtype)
    return product if bias is None else c.cast(c.add(product, bias), c.dtype)
