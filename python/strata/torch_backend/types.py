"""torch's types as HLO's, and back."""

from __future__ import annotations

import torch

from .hlo_builder import HALVES
from .registry import Unsupported

HLO_NAMES = {
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.bool: "pred",
    torch.complex64: "c64", torch.complex128: "c128", torch.int8: "s8", torch.int16: "s16", torch.int32: "s32",
    torch.int64: "s64", torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e5m2: "f8e5m2", torch.float8_e4m3fnuz: "f8e4m3fnuz",
    torch.float8_e5m2fnuz: "f8e5m2fnuz",
}
TORCH_TYPES = {name: dtype for dtype, name in HLO_NAMES.items()}


def hlo_type(dtype: torch.dtype) -> str:
    """HLO's name of a type of torch. Raises Unsupported for quantised and other types."""
    if dtype not in HLO_NAMES:
        raise Unsupported(f"arrays of {str(dtype).removeprefix('torch.')} are not taken")
    return HLO_NAMES[dtype]


def wide(dtype: str) -> str:
    """The type in which formulas of several operators are computed, as torch does: f32 for 16-bit floats."""
    return "f32" if dtype in HALVES else dtype
