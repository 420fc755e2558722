// Conversions that LLVM calls by names of the compiler's library, which Debian 12's does not have. Folder-internal.
#pragma once

namespace strata::emitters {

extern "C" {
/// Round to nearest even. The result is the bits of a bf16: both types of 16 bits are returned in the same register.
_Float16 strata_cpu_float_to_bf16(float value);
_Float16 strata_cpu_double_to_bf16(double value);
}

}  // namespace strata::emitters
