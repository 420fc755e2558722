#!/usr/bin/env python3
"""One kernel that calls an emitted and a generated block function from a switch: check_switch.py STRATA [--link-only]

The emitters' function (MLIR, LLVM, PTX) is a transpose through shared memory and a sum; the generated one (CUDA C++) is
rows with a reduction. `strata` makes both texts here. NVRTC compiles the generated one, with the kernel around it, as a
relocatable cubin; nvJitLink links it with the other, whose .entry has become a .func. The kernel's blocks take tasks of
both kinds from a list in random order, several each. Results are compared with NumPy's, and each must be computed once.

Needs NumPy, the driver, and CUDA 13's NVRTC with its headers and nvJitLink; no LLVM but what `strata` has.
--link-only: without a GPU.
"""
import argparse
import ctypes
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cuda_library import open_cuda_library  # noqa: E402

ROWS = """graph rows {
  input X: f16[256, 128]
  S = sqr(X)
  T = sum(S, dim=1)
  Y = div(X, T)
  output Y
}
"""
FUSION = """HloModule fused
ENTRY e {
  x = f32[512,256] parameter(0)
  y = f32[256,512] parameter(1)
  t = f32[256,512] transpose(x), dimensions={1,0}
  ROOT r = f32[256,512] add(t, y)
}
"""
ARCH = "sm_90a"
BLOCKS = 13                     # of the launch: none of the numbers of tasks is a multiple
PTX, CUBIN = 2, 1               # nvJitLinkInputType
POINTER = ctypes.c_void_p


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def check(status, what, log=""):
    if status != 0:
        sys.exit(f"{what}: error {status}\n{log}")


def only_launch(path):
    launches = [step for step in json.loads(path.read_text())["steps"] if "grid" in step]
    assert len(launches) == 1, f"{path}: {len(launches)} launches, expected one"
    return launches[0]


class Emitted:
    """The fusion's kernel as a function: parameters are the kernel's, then the number of the block."""

    def __init__(self, strata, folder):
        (folder / "fusion.hlo").write_text(FUSION)
        run(strata, "emit", folder / "fusion.hlo", "--no-cache", "--target", ARCH, "--output", folder / "emitted")
        launch = only_launch(folder / "emitted" / "program.json")
        ptx = run(strata, "emit", folder / "fusion.hlo", "--no-cache", "--target", ARCH, "--emit=ptx")
        self.name = launch["name"] + "_block"
        self.blocks, self.threads, self.shared_bytes = launch["grid"][0], launch["threads"], launch["shared_bytes"]
        self.arguments = len(launch["arguments"])
        self.ptx = self.as_function(ptx, launch["name"])

    def as_function(self, ptx, kernel):
        header = re.search(rf"\.visible \.entry {kernel}\((.*?)\)(.*?)\n\{{", ptx, re.S)
        assert header, f"no kernel {kernel} in\n{ptx}"
        block = f"{self.name}_param_{self.arguments}"
        parameters = [f".param .b64 {self.name}_param_{i}" for i in range(self.arguments)] + [f".param .b32 {block}"]
        text = ptx[:header.start()] + f".visible .func {self.name}({', '.join(parameters)})\n{{" + ptx[header.end():]
        text = text.replace(f"{kernel}_param_", f"{self.name}_param_")
        # A function's caller has waited for the kernel before; the block is the one that it says.
        text = re.sub(r"^\tgriddepcontrol\..*\n", "", text, flags=re.M)
        text, count = re.subn(r"mov\.u32( *\t?)(%r\d+), %ctaid\.x;", rf"ld.param.u32\1\2, [{block}];", text)
        assert count == 1 and "ctaid" not in text, f"the kernel takes its block in an unknown way:\n{text}"
        return text


class Generated:
    """The device library and the block function, without their kernel."""

    def __init__(self, strata, folder):
        (folder / "rows.strata").write_text(ROWS)
        run(strata, "optimize", folder / "rows.strata", "--target", ARCH, "--time-limit", 20, "--no-cache", "--threads",
            1, "--disable-pass", "emission", "--disable-pass", "libraries", "-o", folder / "generated")
        self.source = (folder / "generated" / "best.cu").read_text()
        launch = only_launch(folder / "generated" / "best.launch.json")
        self.blocks, self.threads, self.shared_bytes = launch["grid"][0], launch["threads"], launch["shared_bytes"]
        call = re.search(r"^  (\w+)<strata_device::BlockTeam<(\d+)>(.*?)>\((.*?), blockIdx\.x,", self.source, re.M)
        assert call and int(call[2]) == self.threads, "the kernel calls its block function in an unknown way"
        assert call[4] == "X, Y", f"arguments are {call[4]}"
        # Its threads are the block's first, and meet at a barrier of their own.
        team = f"strata_device::BlockTeam<{self.threads}, 0, 1>"
        self.call = f"{call[1]}<{team}{call[3]}>(X, Y, task.block, 0, 0, memory)"


def source_of(generated, emitted):
    return generated.source + f"""
extern "C" __device__ void {emitted.name}(const float*, const float*, float*, unsigned block);
struct Task {{ unsigned function, block; }};
extern "C" __global__ void __launch_bounds__({emitted.threads})
    tasks(const Task* list, unsigned count, const strata_device::f16* X, strata_device::f16* Y, const float* x,
          const float* y, float* r, unsigned* runs) {{
  extern __shared__ __align__(1024) unsigned char memory[];
  for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {{
    const Task task = list[i];
    switch (task.function) {{
      case 0:
        if (threadIdx.x < {generated.threads}) {generated.call};
        break;
      case 1:
        {emitted.name}(x, y, r, task.block);
        break;
    }}
    if (threadIdx.x == 0) atomicAdd(&runs[i], 1);
    __syncthreads();  // the next task has the shared memory
  }}
}}
"""


def compile_relocatable(source):
    nvrtc = open_cuda_library("STRATA_NVRTC", ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"])
    near = pathlib.Path(nvrtc._name).resolve().parents
    roots = [folder / "include" for folder in [*near, pathlib.Path("/usr/local/cuda")]]
    includes = [folder for folder in roots if (folder / "cuda_fp16.h").exists()]
    if not includes:
        sys.exit(f"cuda_fp16.h is not beside {nvrtc._name}: set STRATA_CUDA_ROOT to a toolkit")
    program = POINTER()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"tasks.cu", 0, None, None), "NVRTC")
    options = [f"-arch={ARCH}", "-std=c++20", "-default-device", "-rdc=true", f"-I{includes[0]}"]
    status = nvrtc.nvrtcCompileProgram(program, len(options),
                                       (ctypes.c_char_p * len(options))(*(one.encode() for one in options)))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(max(1, size.value))
    nvrtc.nvrtcGetProgramLog(program, log)
    check(status, "NVRTC", log.value.decode())
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "size of NVRTC's cubin")
    cubin = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, cubin), "NVRTC's cubin")
    return cubin.raw


def link(cubin, ptx):
    library = open_cuda_library("STRATA_NVJITLINK", ["libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"])
    handle, option = POINTER(), ctypes.c_char_p(f"-arch={ARCH}".encode())
    check(library.nvJitLinkCreate(ctypes.byref(handle), 1, ctypes.byref(option)), "nvJitLink")

    def log():
        size = ctypes.c_size_t()
        library.nvJitLinkGetErrorLogSize(handle, ctypes.byref(size))
        text = ctypes.create_string_buffer(max(1, size.value))
        library.nvJitLinkGetErrorLog(handle, text)
        return text.value.decode()

    for kind, data, name in ((CUBIN, cubin, b"tasks.cubin"), (PTX, ptx.encode() + b"\0", b"emitted.ptx")):
        check(library.nvJitLinkAddData(handle, kind, data, ctypes.c_size_t(len(data)), name), name.decode(), log())
    status = library.nvJitLinkComplete(handle)
    check(status, "nvJitLink", log() if status else "")
    size = ctypes.c_size_t()
    check(library.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size)), "size of the linked cubin")
    linked = ctypes.create_string_buffer(size.value)
    check(library.nvJitLinkGetLinkedCubin(handle, linked), "the linked cubin")
    return linked.raw


class Device:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        check(self.cuda.cuInit(0), "cuInit")
        device, context = ctypes.c_int(), POINTER()
        check(self.cuda.cuDeviceGet(ctypes.byref(device), 0), "device")
        check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "context")
        check(self.cuda.cuCtxSetCurrent(context), "context")

    def upload(self, array):
        pointer = ctypes.c_uint64()
        check(self.cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(array.nbytes)), "memory")
        check(self.cuda.cuMemcpyHtoD_v2(pointer, array.ctypes.data_as(POINTER), ctypes.c_size_t(array.nbytes)), "copy")
        return pointer

    def download(self, pointer, like):
        array = numpy.empty_like(like)
        check(self.cuda.cuMemcpyDtoH_v2(array.ctypes.data_as(POINTER), pointer, ctypes.c_size_t(array.nbytes)), "copy")
        return array

    def launch(self, cubin, name, blocks, threads, shared_bytes, arguments):
        module, function = POINTER(), POINTER()
        check(self.cuda.cuModuleLoadData(ctypes.byref(module), cubin), "module")
        check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, name), "kernel")
        if shared_bytes > 48 * 1024:  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(self.cuda.cuFuncSetAttribute(function, 8, shared_bytes), "shared memory")
        pointers = (POINTER * len(arguments))(*(ctypes.cast(ctypes.byref(one), POINTER) for one in arguments))
        check(self.cuda.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared_bytes, None, pointers, None),
              "launch")
        check(self.cuda.cuCtxSynchronize(), "kernel")


def run_tasks(cubin, generated, emitted):
    random = numpy.random.default_rng(7)
    tasks = numpy.array([(0, block) for block in range(generated.blocks)] +
                        [(1, block) for block in range(emitted.blocks)], numpy.uint32)
    random.shuffle(tasks)
    X = random.uniform(0.5, 1, (256, 128)).astype(numpy.float16)
    x, y = (random.standard_normal(shape, dtype=numpy.float32) for shape in ((512, 256), (256, 512)))
    wrong = numpy.float16(numpy.nan)
    Y, r, runs = numpy.full_like(X, wrong), numpy.full_like(y, numpy.nan), numpy.zeros(len(tasks), numpy.uint32)
    device = Device()
    of = {name: device.upload(array) for name, array in
          (("tasks", tasks), ("X", X), ("Y", Y), ("x", x), ("y", y), ("r", r), ("runs", runs))}
    shared_bytes = max(generated.shared_bytes, emitted.shared_bytes)
    device.launch(cubin, b"tasks", BLOCKS, emitted.threads, shared_bytes,
                  [of["tasks"], ctypes.c_uint(len(tasks)), *(of[name] for name in ("X", "Y", "x", "y", "r", "runs"))])
    assert (device.download(of["runs"], runs) == 1).all(), "tasks did not run once each"
    wide = X.astype(numpy.float64)
    expected = wide / (wide ** 2).sum(axis=1, keepdims=True)
    error = numpy.abs(device.download(of["Y"], Y).astype(numpy.float64) - expected).max() / expected.max()
    print(f"generated: relative error {error:.1e}; {generated.blocks} tasks of {generated.threads} threads")
    assert error < 1e-3, "the generated function is wrong"
    assert (device.download(of["r"], r) == x.T + y).all(), "the emitted function is wrong"
    print(f"emitted: equal; {emitted.blocks} tasks of {emitted.threads} threads")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata", type=pathlib.Path)
    parser.add_argument("--link-only", action="store_true", help="without a GPU")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        generated, emitted = Generated(options.strata, folder), Emitted(options.strata, folder)
        assert generated.threads <= emitted.threads and emitted.threads % 32 == 0
        cubin = link(compile_relocatable(source_of(generated, emitted)), emitted.ptx)
        assert b"tasks" in cubin and cubin[:4] == b"\x7fELF"
        print(f"linked: {len(cubin)} bytes, {emitted.name} and {generated.call.split('<')[0]} in one kernel")
        if options.link_only:
            return
        run_tasks(cubin, generated, emitted)


if __name__ == "__main__":
    main()
