// The scalar functions of strata_math.h as LLVM bitcode, for code generators to link into what they emit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace strata::emitters {

enum class MathTarget : uint8_t {
  Nvptx,  ///< nvptx64-nvidia-cuda, sm_80 or newer
  X86,    ///< x86_64-pc-linux-gnu, x86-64-v3 (AVX2 and FMA) or newer
};

/// A module that defines every function of strata_math.h and needs nothing but LLVM's intrinsics. Who links it into a
/// kernel's module makes its functions internal and optimises (O2 inlines the short ones). They name no CPU, so they
/// are compiled for the kernel's, which must be as new as the target says.
std::span<const std::byte> math_bitcode(MathTarget target);

/// How a function of the library is called; T is its type, f32 or f64 for a c64 or c128.
enum class MathShape : uint8_t {
  Unary,          ///< T(T)
  Binary,         ///< T(T, T)
  ComplexAbs,     ///< T(T re, T im)
  ComplexUnary,   ///< void(T re, T im, T* result_re, T* result_im)
  ComplexBinary,  ///< void(T re1, T im1, T re2, T im2, T* result_re, T* result_im)
};

/// What a result is rounded to, and so how exact it need be.
enum class MathPrecision : uint8_t {
  Full,  ///< its own type
  F16,   ///< f16: a relative error of 2^-13 does no harm
  Bf16,  ///< bf16: one of 2^-11
};

struct MathFunction {
  std::string symbol;
  MathShape shape = MathShape::Unary;
  /// Upper bound of the error in units in the last place, which tests check; for complex functions the bound is of the
  /// distance, in epsilons of T times the size of the result (docs/emitters-math.md).
  double max_ulp = 0;
};

/// The function that computes `name` (as in strata_math.def: "exp", "atan2", ...) for `type` ("f32", "f64", "c64" or
/// "c128"), or nothing where there is none. For results of f32 that are rounded to f16 or bf16 a faster one, if any.
std::optional<MathFunction> find_math_function(std::string_view name, std::string_view type,
                                               MathPrecision precision = MathPrecision::Full);

}  // namespace strata::emitters
