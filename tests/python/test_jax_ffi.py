"""Modules of strata.jax as custom calls of XLA: under jit, in loops and threads, and XLA's interface."""

import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax", reason="jax is not installed: its front end is not tested")

import jax.experimental  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from rounds import in_rounds  # noqa: E402

import strata  # noqa: E402
import strata.jax  # noqa: E402
from strata import _core, xla  # noqa: E402

SOURCE = pathlib.Path(__file__).parents[2] / "src" / "python"


@strata.jax.jit
def polynomial(x, y):
    return {"sum": x * 2 + y, "any": (x > y).any(), "count": jnp.sum(x > 0, dtype=jnp.int32)}


def wanted(x, y):
    return {"sum": x * 2 + y, "any": (x > y).any(), "count": jnp.sum(x > 0, dtype=jnp.int32)}


def arrays(shape=(5, 7)):
    x = np.random.default_rng(2).standard_normal((2, *shape)).astype(np.float32)
    return jnp.asarray(x[0]), jnp.asarray(x[1])


def same(got, expected):
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_call_is_xlas():
    x, y = arrays()
    lowered = jax.jit(polynomial).lower(x, y).as_text()
    assert "strata_call" in lowered and "callback" not in lowered
    same(jax.jit(polynomial)(x, y), wanted(x, y))
    # Arrays that begin anywhere: XLA gives parts of others.
    same(jax.jit(lambda x, y: polynomial(x[1:, :3], y[1:, :3]))(x, y), wanted(x[1:, :3], y[1:, :3]))
    same(jax.jit(lambda x, y: polynomial(x.T, y.T))(x, y), wanted(x.T, y.T))
    empty = jnp.zeros((0, 3))
    same(jax.jit(polynomial)(empty, empty), wanted(empty, empty))


def test_loops_and_transformations():
    x, y = arrays()
    same(jax.lax.fori_loop(0, 4, lambda _, v: polynomial(v, y)["sum"], x), x * 16 + y * 15)
    same(jax.jit(jax.vmap(polynomial))(x, y), jax.vmap(wanted)(x, y))
    gradient = jax.jit(jax.grad(lambda x: (polynomial(x, y)["sum"] ** 2).sum()))(x)
    same(gradient, 4 * (2 * x + y))


def test_threads():
    x, y = arrays((64, 64))
    run, failed = jax.jit(polynomial), []

    def work():
        try:
            for _ in range(20):
                same(run(x, y), wanted(x, y))
        except Exception as error:  # noqa: BLE001: it is told to the test
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed


@pytest.mark.parametrize("name", in_rounds("float4_e2m1fn", "int4", "uint4", "int2", "uint2"))
def test_elements_below_8_bits(name):
    """XLA packs them and a module does not: on each way in and out they have the values that JAX gives."""
    values = jnp.arange(1001) % 2 if name.endswith("2") else jnp.arange(1001) % 5
    x = jnp.where(jnp.arange(1001) % 3, values, 0 if name.startswith("u") else -values).astype(name).reshape(7, 143)
    wide = x.astype(jnp.float32)

    def plain(x, y):
        return x.T, (x.astype(jnp.float32) * y).sum(-1), (jnp.floor(y) % 2).astype(name)

    f, y = strata.jax.jit(plain), jnp.arange(1001.0).reshape(7, 143) / 7
    for wrapped in (lambda f: f, jax.jit, jax.vmap, lambda f: jax.jit(jax.vmap(f))):
        for one, other in zip(wrapped(f)(x, y), wrapped(plain)(x, y), strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            np.testing.assert_allclose(one.astype(jnp.float32), other.astype(jnp.float32), rtol=1e-5)
    for wrapped in (lambda f: f, jax.jit):
        gradient = wrapped(jax.grad(lambda y: f(x, y)[1].sum()))(y)
        np.testing.assert_array_equal(gradient, wide)
    total = jax.lax.scan(lambda c, row: (c + f(row[None], y[:1])[1][0], f(row[None], y[:1])[0]), 0.0, x)
    np.testing.assert_allclose(total[0], (wide * y[:1]).sum(), rtol=1e-4)
    np.testing.assert_array_equal(total[1][..., 0].astype(jnp.float32), wide)


def test_what_a_call_refuses():
    """A program that names no function of this process, and one with other arrays: errors, not crashes."""
    x, y = arrays()
    jax.jit(polynomial)(x, y)
    result = jax.ShapeDtypeStruct((5, 7), jnp.float32)
    for attributes, why in (({}, "names no function"), ({"function": np.int64(1)}, "compiled in another process"),
                            ({"function": np.float32(1)}, "names no function")):
        call = jax.ffi.ffi_call(xla._TARGET, result)
        with pytest.raises(Exception, match=why):
            jax.block_until_ready(jax.jit(lambda x: call(x, **attributes))(x))  # noqa: B023
    module = strata.compile_hlo("HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] add(x, x)\n}\n",
                                target="cpu")
    module.publish(77)
    for given, results, why in ((x, result, r"argument 0 is not f32\[2\]"), (jnp.ones(2), result, "result 0 is not"),
                                (jnp.ones(2), [result, result], "2 results, and the function has 1")):
        call = jax.ffi.ffi_call(xla._TARGET, results)
        with pytest.raises(Exception, match=why):
            jax.block_until_ready(jax.jit(lambda x: call(x, function=np.int64(77)))(given))  # noqa: B023


#: The fake driver runs nothing: this is about what JAX lowers to, and that the module is compiled for the GPU.
LOWERED_FOR_CUDA = """
import jax, jax.numpy as jnp, strata.jax
double = strata.jax.jit(lambda x: x * 2 + 1)
on_cpu = strata.jax.jit(lambda x: x * 3, target="cpu")
x = jnp.ones((4, 8))
def text(f, *platforms):
    return jax.jit(f).trace(x).lower(lowering_platforms=platforms).as_text()
def is_xlas(text):
    return "@strata_call" in text and "callback" not in text
gradient = jax.grad(lambda x: double(x).sum())
looped = lambda x: jax.lax.scan(lambda c, _: (double(c), None), x, None, 3)[0]
for f in (double, jax.vmap(double), gradient, looped, lambda x: double(x[1:, :3])):
    assert is_xlas(text(f, "cuda")), text(f, "cuda")
both = text(double, "cpu", "cuda")
assert is_xlas(both), both
numbers = {line.split("function = ")[1].split(" ")[0] for line in both.splitlines() if "function = " in line}
assert len(numbers) == 2, both  # two modules
assert is_xlas(text(on_cpu, "cpu"))
assert jnp.allclose(jax.jit(double)(x), x * 2 + 1)  # here, on the processor
print("lowered")
"""


def test_lowered_for_cuda(tmp_path):
    package = pathlib.Path(strata.__file__).parents[1]
    (tmp_path / "script").write_text("log /dev/null\n")
    environment = {**os.environ, "PYTHONPATH": str(package), "STRATA_FAKE_CUDA_SCRIPT": str(tmp_path / "script"),
                   "STRATA_CUDA_DRIVER": str(package.parent / "lib" / "libfake_cuda.so")}  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", LOWERED_FOR_CUDA], env=environment, text=True, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "lowered\n"


def test_lowering_for_cuda_needs_a_gpu(monkeypatch):
    monkeypatch.setenv("STRATA_CUDA_DRIVER", "/nowhere/libcuda.so")
    f = strata.jax.jit(lambda x: x * 5)
    with pytest.raises(strata.Error, match="CUDA"):
        jax.jit(f).trace(jnp.ones(3)).lower(lowering_platforms=("cuda",))
    same(jax.jit(f)(jnp.ones(3)), jnp.full(3, 5.0))


def test_functions_without_arguments_or_results():
    same(jax.jit(lambda x: x + strata.jax.jit(lambda: jnp.arange(3.0))())(jnp.ones(3)), jnp.arange(3.0) + 1)
    assert jax.jit(lambda x: (strata.jax.jit(lambda x: ())(x), x)[0])(jnp.ones(3)) == ()


def test_a_call_is_an_operator_of_jax():
    """What evaluates a traced program step by step, without compiling it, has it, too."""
    x, y = arrays()
    with jax.disable_jit():
        same(polynomial(x, y), wanted(x, y))
    program = jax.make_jaxpr(polynomial)(x, y)
    same(jax.core.eval_jaxpr(program.jaxpr, program.consts, x, y), jax.tree.leaves(wanted(x, y)))


def test_callbacks_are_named():
    def host(x):
        return np.sin(x)

    def result(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    for function, kind in ((lambda x: jax.pure_callback(host, result(x), x), "pure_callback of host at .*test_jax_ffi"),
                           (lambda x: jax.experimental.io_callback(host, result(x), x), "io_callback of host at"),
                           (lambda x: (jax.debug.print("{}", x), x)[1], r"debug_\w+.* at"),
                           (lambda x: jax.lax.fori_loop(0, 2, lambda _, v: jax.pure_callback(host, result(v), v), x),
                            "pure_callback of host at")):
        with pytest.raises(strata.Error, match=f"{kind}[\\s\\S]*calls back to Python[\\s\\S]*outside of the function"):
            strata.jax.jit(function)(jnp.ones(3))


#: Structs of src/python/xla_interface.h and of jaxlib's header, and fields of both.
STRUCTS = {
    "Extension": ("XLA_FFI_Extension_Base", "XLA_FFI_InternalExtension",
                  {"struct_size": "struct_size", "type": "type", "next": "next"}),
    "Version": ("XLA_FFI_Api_Version", {"major_version": "major_version", "minor_version": "minor_version"}),
    "ErrorArguments": ("XLA_FFI_Error_Create_Args", {"message": "message", "code": "errc"}),
    "StreamArguments": ("XLA_FFI_Stream_Get_Args", {"extension_start": "extension_start", "context": "ctx",
                                                    "stream": "stream"}),
    "AllocateArguments": ("XLA_FFI_DeviceMemory_Allocate_Args", {"context": "ctx", "size": "size",
                                                                 "alignment": "alignment", "data": "data"}),
    "FreeArguments": ("XLA_FFI_DeviceMemory_Free_Args", {"context": "ctx", "size": "size", "data": "data"}),
    "Api": ("XLA_FFI_Api", {"version": "api_version", "make_error": "XLA_FFI_Error_Create",
                            "stream": "XLA_FFI_Stream_Get", "allocate": "XLA_FFI_DeviceMemory_Allocate",
                            "free": "XLA_FFI_DeviceMemory_Free"}),
    "Buffer": ("XLA_FFI_Buffer", {"type": "dtype", "data": "data", "rank": "rank", "sizes": "dims"}),
    "Buffers": ("XLA_FFI_Args", {"count": "size", "types": "types", "buffers": "args"}),
    "Bytes": ("XLA_FFI_ByteSpan", {"data": "ptr", "size": "len"}),
    "Scalar": ("XLA_FFI_Scalar", {"type": "dtype", "value": "value"}),
    "Attributes": ("XLA_FFI_Attrs", {"count": "size", "types": "types", "names": "names", "values": "attrs"}),
    "Call": ("XLA_FFI_CallFrame", {"extension_start": "extension_start", "api": "api", "context": "ctx",
                                   "stage": "stage", "arguments": "args", "results": "rets", "attributes": "attrs"}),
    "Metadata": ("XLA_FFI_Metadata", {"version": "api_version", "traits": "traits"}),
    "MetadataExtension": ("XLA_FFI_Metadata_Extension", {"metadata": "metadata"}),
}
CONSTANTS = {"kExecute": "XLA_FFI_ExecutionStage_EXECUTE", "kMetadata": "XLA_FFI_Extension_Metadata",
             "kScalar": "XLA_FFI_AttrType_SCALAR", "kInvalidArgument": "XLA_FFI_Error_Code_INVALID_ARGUMENT",
             "kFailedPrecondition": "XLA_FFI_Error_Code_FAILED_PRECONDITION", "kS64": "XLA_FFI_DataType_S64",
             "kInternal": "XLA_FFI_Error_Code_INTERNAL", "0": "XLA_FFI_API_MAJOR"}  # fmt: skip


def test_interface_is_that_of_jaxlib(tmp_path):
    ours = (SOURCE / "xla_interface.h").read_text(encoding="utf-8")
    header = pathlib.Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    theirs = header.read_text(encoding="utf-8")
    declared = set(re.findall(r"^struct (\w+) \{", ours, re.MULTILINE))
    assert declared == set(STRUCTS)
    lines = ["#include <cstddef>", f'#include "{header}"', f'#include "{SOURCE / "xla_interface.h"}"',
             "using namespace strata::python::xla;"]
    for name, (*others, fields) in STRUCTS.items():
        (other,) = [one for one in others if re.search(rf"\b{one}\b", theirs)]
        for field, of_other in fields.items():
            lines.append(f"static_assert(offsetof({name}, {field}) == offsetof({other}, {of_other}));")
        if name.endswith("Arguments"):  # XLA checks the sizes of what it is given
            lines.append(f"static_assert(sizeof({name}) == sizeof({other}));")
    lines += [f"static_assert(static_cast<int>({name}) == static_cast<int>({other}));"
              for name, other in CONSTANTS.items()]
    (tmp_path / "same.cpp").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof", tmp_path / "same.cpp"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(lines) > 40 and _core.xla_handler() is not None
