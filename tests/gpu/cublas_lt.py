"""Products that a launch manifest gives to cuBLASLt ("library": "cublasLt"), for what runs generated programs.

The same calls as src/runtime/matrix_product.cpp makes, so that what is timed here is what would run.
"""
import ctypes

from cuda_library import open_cuda_library

TYPES = {"f16": 2, "bf16": 14, "f32": 0, "f64": 1}
COMPUTE_F32, COMPUTE_F64 = 68, 70
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8
BATCH_COUNT, BATCH_STRIDE = 5, 6
MOST_WORKSPACE, REDUCTIONS, EXACT_REDUCTIONS = 1, 3, 3
LEAST_ALIGNMENT_A, LEAST_ALIGNMENT_B = 5, 6
BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
BIAS, ACTIVATIONS, NO_EPILOGUE = 4, {"none": 0, "relu": 2, "gelu": 32}, 1
MOST_ALGORITHMS = 8


class Heuristic(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace_bytes", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


def check(status, what):
    if status != 0:
        raise RuntimeError(f"{what}: cuBLASLt: error {status}")


class Library:
    """cuBLASLt in the current context."""

    def __init__(self):
        self.functions = open_cuda_library("STRATA_CUBLAS_LT", ["libcublasLt.so.13", "libcublasLt.so.12"])
        self.handle = ctypes.c_void_p()
        check(self.functions.cublasLtCreate(ctypes.byref(self.handle)), "starting")


_library = None


def library():
    global _library
    if _library is None:
        _library = Library()
    return _library


class Product:
    """One launch of the manifest. The library sees column-major matrices, so it computes Cᵀ = Bᵀ·Aᵀ."""

    def __init__(self, launch):
        self.library = library()
        self.product = p = launch["product"]
        self.workspace_bytes = launch["workspace_bytes"]
        lt = self.library.functions
        wide = p["type"] == "f64"
        number = ctypes.c_double if wide else ctypes.c_float
        self.one, self.kept = number(1), number(1 if p.get("accumulates") else 0)
        self.operation = ctypes.c_void_p()
        check(lt.cublasLtMatmulDescCreate(ctypes.byref(self.operation), COMPUTE_F64 if wide else COMPUTE_F32,
                                          TYPES["f64" if wide else "f32"]), "describing a product")
        self.set(TRANSPOSE_A, ctypes.c_int32(p["b"]["transposed"]))
        self.set(TRANSPOSE_B, ctypes.c_int32(p["a"]["transposed"]))
        epilogue = ACTIVATIONS[p["activation"]] | (BIAS if p["bias"] else 0)
        self.set(EPILOGUE, ctypes.c_uint32(epilogue or NO_EPILOGUE))
        self.a = self.layout(p["m"], p["k"], p["a"])
        self.b = self.layout(p["k"], p["n"], p["b"])
        stride = 0 if p["batch"] == 1 else p["m"] * p["n"]
        self.c = self.layout(p["m"], p["n"], {"transposed": False, "leading": p["n"], "batch_stride": stride})
        self.algorithm = self.choose(launch["name"])

    def set(self, attribute, value):
        size = ctypes.c_size_t(ctypes.sizeof(value))
        set_attribute = self.library.functions.cublasLtMatmulDescSetAttribute
        check(set_attribute(self.operation, attribute, ctypes.byref(value), size), "describing a product")

    def layout(self, rows, columns, operand):
        if operand["transposed"]:
            rows, columns = columns, rows
        lt, made = self.library.functions, ctypes.c_void_p()
        check(lt.cublasLtMatrixLayoutCreate(ctypes.byref(made), TYPES[self.product["type"]], ctypes.c_uint64(columns),
                                            ctypes.c_uint64(rows), ctypes.c_int64(operand["leading"])), "a matrix")
        for attribute, value in ((BATCH_COUNT, ctypes.c_int32(self.product["batch"])),
                                 (BATCH_STRIDE, ctypes.c_int64(operand["batch_stride"]))):
            check(lt.cublasLtMatrixLayoutSetAttribute(made, attribute, ctypes.byref(value),
                                                      ctypes.c_size_t(ctypes.sizeof(value))), "a batch")
        return made

    def choose(self, name):
        lt, preference = self.library.functions, ctypes.c_void_p()
        check(lt.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)), "choosing an algorithm")
        for attribute, value in ((MOST_WORKSPACE, ctypes.c_uint64(self.workspace_bytes)),
                                 (REDUCTIONS, ctypes.c_uint32(EXACT_REDUCTIONS))):
            check(lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, ctypes.byref(value),
                                                          ctypes.c_size_t(ctypes.sizeof(value))), "a preference")
        for attribute, operand in ((LEAST_ALIGNMENT_A, "b"), (LEAST_ALIGNMENT_B, "a")):  # the library's A is our B
            offset = self.offset(operand)
            if offset:
                check(lt.cublasLtMatmulPreferenceSetAttribute(
                    preference, attribute, ctypes.byref(ctypes.c_uint32(min(offset & -offset, 256))),
                    ctypes.c_size_t(4)), "a preference")
        offered, count = (Heuristic * MOST_ALGORITHMS)(), ctypes.c_int()
        check(lt.cublasLtMatmulAlgoGetHeuristic(self.library.handle, self.operation, self.b, self.a, self.c, self.c,
                                                preference, MOST_ALGORITHMS, offered, ctypes.byref(count)), name)
        lt.cublasLtMatmulPreferenceDestroy(preference)
        usable = [h for h in offered[:count.value] if h.state == 0 and h.workspace_bytes <= self.workspace_bytes]
        if self.product["algorithm"] >= len(usable):
            raise RuntimeError(f"{name}: cuBLASLt has {len(usable)} algorithms, not {self.product['algorithm'] + 1}")
        return usable[self.product["algorithm"]]

    def offset(self, operand):
        """Bytes before the first matrix of an operand."""
        return self.product[operand].get("offset", 0) * BYTES[self.product["type"]]

    def run(self, pointers, workspace, stream):
        """Device addresses: A, B, the bias if there is one, C; then the workspace's and the stream."""
        if self.product["bias"]:
            self.set(BIAS_POINTER, ctypes.c_void_p(pointers[2]))
        c = ctypes.c_void_p(pointers[-1])
        check(self.library.functions.cublasLtMatmul(
            self.library.handle, self.operation, ctypes.byref(self.one),
            ctypes.c_void_p(pointers[1] + self.offset("b")), self.b, ctypes.c_void_p(pointers[0] + self.offset("a")),
            self.a, ctypes.byref(self.kept), c, self.c, c, self.c, ctypes.byref(self.algorithm),
            ctypes.c_void_p(workspace), ctypes.c_size_t(self.workspace_bytes), ctypes.c_void_p(stream)), "multiplying")
