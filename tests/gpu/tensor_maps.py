"""Tensors as the tensor memory accelerator sees them: the parameters of a kernel behind its pointers."""
import ctypes


def tensor_map(cuda, entry, address):
    """A CUtensorMap for an entry of a launch's "tensor_maps", of the tensor at `address`."""
    memory = ctypes.create_string_buffer(128 + 64)
    place = -ctypes.addressof(memory) % 64
    encoded = (ctypes.c_char * 128).from_buffer(memory, place)
    rank = len(entry["sizes"])
    status = cuda.cuTensorMapEncodeTiled(
        ctypes.byref(encoded), {2: 1, 4: 2}[entry["element_bytes"]], rank, ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*entry["sizes"]), (ctypes.c_uint64 * max(1, rank - 1))(*entry["strides"][1:]),
        (ctypes.c_uint32 * rank)(*entry["box"]), (ctypes.c_uint32 * rank)(*[1] * rank), 0,
        {0: 0, 32: 1, 64: 2, 128: 3}[entry["swizzle"]], 3, 0)
    if status != 0:
        raise RuntimeError(f"describing a tensor to TMA: CUDA error {status}: {entry}")
    return encoded


def arguments_of(cuda, kernel, addresses):
    """The parameters of a launch, and what must live until it is done."""
    pointers = [ctypes.c_void_p(addresses[name]) for name in kernel["arguments"]]
    maps = [tensor_map(cuda, entry, addresses[kernel["arguments"][entry["argument"]]])
            for entry in kernel.get("tensor_maps", [])]
    everything = pointers + maps
    return (ctypes.c_void_p * len(everything))(*[ctypes.addressof(one) for one in everything]), everything
