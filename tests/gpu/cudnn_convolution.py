"""Convolutions that a launch manifest gives to cuDNN ("library": "cudnn"), for what runs generated programs.

The same calls as src/runtime/convolution.cpp makes, so that what is timed here is what would run.
"""
import ctypes

from cuda_library import open_cuda_library

# Kinds of descriptors, types of attributes, attributes and values, as in src/runtime/cudnn.h.
POINTWISE, CONVOLUTION, ENGINE, ENGINE_CONFIG, ENGINE_HEURISTIC, PLAN = 0, 1, 2, 3, 4, 5
FORWARD, POINTWISE_OPERATION, GRAPH, ARGUMENTS, TENSOR = 10, 13, 15, 16, 17
HANDLE, DATA_TYPE, BOOLEAN, INT64, FLOAT, POINTER = 0, 1, 2, 3, 4, 6
CONVOLUTION_MODE, HEURISTIC_MODE, NOTE, POINTWISE_MODE, DESCRIPTOR = 7, 8, 11, 14, 15
TYPES = {"f32": 0, "f16": 2, "bf16": 9}
CROSS_CORRELATION, MODE_FALLBACK, MODE_A, RELU = 1, 2, 3, 100
TENSOR_CORES, CONVERTS_INPUTS, REDUCED_SUMS, WINOGRAD_6, WINOGRAD_13 = 0, 1, 2, 7, 8
MOST_ALGORITHMS, MOST_NOTES = 64, 32
X, W, Y, SUMS = 1, 2, 3, 4


def check(status, what):
    if status != 0:
        library().functions.cudnnGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(f"{what}: cuDNN: {library().functions.cudnnGetErrorString(status).decode()}")


class Library:
    """cuDNN in the current context."""

    def __init__(self):
        self.functions = open_cuda_library("STRATA_CUDNN", ["libcudnn.so.9"])
        self.functions.cudnnGetVersion.restype = ctypes.c_size_t
        self.handle = ctypes.c_void_p()
        if self.functions.cudnnCreate(ctypes.byref(self.handle)) != 0:
            raise RuntimeError("cuDNN does not start")


_library = None


def library():
    global _library
    if _library is None:
        _library = Library()
    return _library


class Descriptor:
    """`status` is the first error of what was done with it."""

    def __init__(self, kind):
        self.pointer = ctypes.c_void_p()
        self.status = library().functions.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.pointer))
        self.kept = []

    def set(self, attribute, kind, values):
        if kind == DESCRIPTOR:
            self.kept += values
            values = (ctypes.c_void_p * len(values))(*[v.pointer.value for v in values])
        else:
            of = {HANDLE: ctypes.c_void_p, POINTER: ctypes.c_void_p, INT64: ctypes.c_int64, FLOAT: ctypes.c_float,
                  BOOLEAN: ctypes.c_bool}
            values = (of.get(kind, ctypes.c_int) * len(values))(*values)
        if self.status == 0:
            self.status = library().functions.cudnnBackendSetAttribute(
                self.pointer, attribute, kind, ctypes.c_int64(len(values)), values)
        return self

    def get(self, attribute, kind, values):
        """How many were found; none where it fails."""
        found = ctypes.c_int64()
        status = library().functions.cudnnBackendGetAttribute(self.pointer, attribute, kind,
                                                              ctypes.c_int64(len(values)), ctypes.byref(found), values)
        return None if status != 0 else min(found.value, len(values))

    def finalize(self):
        if self.status == 0:
            self.status = library().functions.cudnnBackendFinalize(self.pointer)
        return self

    def __del__(self):
        library().functions.cudnnBackendDestroyDescriptor(self.pointer)


def tensor(name, dtype, sizes, channels_last, virtual=False):
    _, c, h, w = sizes
    strides = [c * h * w, 1, w * c, c] if channels_last else [c * h * w, h * w, w, 1]
    made = Descriptor(TENSOR)
    if virtual:
        made.set(907, BOOLEAN, [True])
    return (made.set(906, INT64, [name]).set(901, DATA_TYPE, [TYPES[dtype]]).set(900, INT64, [16])
            .set(902, INT64, sizes).set(903, INT64, strides).finalize())


class Convolution:
    """One launch of the manifest."""

    def __init__(self, launch):
        self.library = library()
        self.convolution = launch["convolution"]
        self.most_bytes = launch["workspace_bytes"]
        self.graph = self.describe(launch["name"])
        self.plan, self.workspace_bytes = self.choose(launch["name"])

    def describe(self, name):
        c = self.convolution
        rows, columns = ((c[size] + 2 * c["padding"] - c["filter_" + size]) // c["stride"] + 1
                         for size in ("height", "width"))
        last, result = c["channels_last"], [c["images"], c["filters"], rows, columns]
        x = tensor(X, c["type"], [c["images"], c["channels"], c["height"], c["width"]], last)
        w = tensor(W, c["type"], [c["filters"], c["channels"], c["filter_height"], c["filter_width"]], last)
        y = tensor(Y, c["type"], result, last)
        sums = tensor(SUMS, "f32", result, last, True) if c["relu"] else y
        convolution = (Descriptor(CONVOLUTION).set(106, INT64, [2]).set(100, DATA_TYPE, [TYPES["f32"]])
                       .set(101, CONVOLUTION_MODE, [CROSS_CORRELATION]).set(105, INT64, [c["padding"]] * 2)
                       .set(104, INT64, [c["padding"]] * 2).set(102, INT64, [1, 1]).set(103, INT64, [c["stride"]] * 2)
                       .finalize())
        operations = [Descriptor(FORWARD).set(704, DESCRIPTOR, [x]).set(703, DESCRIPTOR, [w])
                      .set(705, DESCRIPTOR, [sums]).set(702, DESCRIPTOR, [convolution]).set(700, FLOAT, [1.0])
                      .set(701, FLOAT, [0.0]).finalize()]
        if c["relu"]:
            relu = Descriptor(POINTWISE).set(0, POINTWISE_MODE, [RELU]).set(1, DATA_TYPE, [TYPES["f32"]]).finalize()
            operations.append(Descriptor(POINTWISE_OPERATION).set(750, DESCRIPTOR, [relu]).set(751, DESCRIPTOR, [sums])
                              .set(753, DESCRIPTOR, [y]).finalize())
        graph = (Descriptor(GRAPH).set(800, HANDLE, [self.library.handle.value]).set(801, DESCRIPTOR, operations)
                 .finalize())
        for each in (x, w, y, convolution, *operations, graph):
            check(each.status, f"describing {name}")
        return graph

    def is_allowed(self, config):
        engine, notes = Descriptor(ENGINE), (ctypes.c_int * MOST_NOTES)()
        place = (ctypes.c_void_p * 1)(engine.pointer.value)
        found = config.get(300, DESCRIPTOR, place) and engine.get(1303, NOTE, notes)
        rounding = {CONVERTS_INPUTS, REDUCED_SUMS, WINOGRAD_6, WINOGRAD_13}
        if self.convolution["type"] == "f32" and not self.convolution.get("tf32", False):
            rounding.add(TENSOR_CORES)
        return found is not None and not rounding & set(notes[:found])

    def choose(self, name):
        usable = 0
        for mode in (MODE_A, MODE_FALLBACK):
            heuristic = Descriptor(ENGINE_HEURISTIC).set(201, DESCRIPTOR, [self.graph]).set(200, HEURISTIC_MODE, [mode])
            if heuristic.finalize().status != 0:
                continue
            configs = [Descriptor(ENGINE_CONFIG) for _ in range(MOST_ALGORITHMS)]
            places = (ctypes.c_void_p * MOST_ALGORITHMS)(*[c.pointer.value for c in configs])
            for config in configs[:heuristic.get(202, DESCRIPTOR, places) or 0]:
                if not self.is_allowed(config):
                    continue
                plan = Descriptor(PLAN).set(400, HANDLE, [self.library.handle.value]).set(401, DESCRIPTOR, [config])
                size = (ctypes.c_int64 * 1)()
                if plan.finalize().status != 0 or plan.get(402, INT64, size) is None or size[0] > self.most_bytes:
                    continue
                if usable == self.convolution["algorithm"]:
                    return plan, size[0]
                usable += 1
        raise RuntimeError(f"{name}: cuDNN has {usable} algorithms, not {self.convolution['algorithm'] + 1}")

    def run(self, pointers, workspace, stream):
        """Device addresses: X, W, the result; then the workspace's and the stream."""
        pack = (Descriptor(ARGUMENTS).set(1000, INT64, [X, W, Y]).set(1001, POINTER, pointers)
                .set(1003, POINTER, [workspace]).finalize())
        check(pack.status, "naming the tensors")
        check(self.library.functions.cudnnSetStream(self.library.handle, ctypes.c_void_p(stream)), "using a stream")
        check(self.library.functions.cudnnBackendExecute(self.library.handle, self.plan.pointer, pack.pointer),
              "convolving")
