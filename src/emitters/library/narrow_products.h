// Products whose operands have narrower types than it seems, or types that libraries take in one form only.
#pragma once

#include "emitters/library/calls.h"
#include "machine/target.h"

namespace strata::emitters {

/// Products on the types that libraries multiply fastest without another result. An operand that is converted from a
/// narrower type which holds all its values is read as that type. Then
///
/// - f8 by f8, but two of f8e5m2 and those that are converted to f32 or f64 before: operands f8, result f32, f16 or
/// bf16;
/// - integers of at most 8 bits, signed or below 8 bits, fewer than 2^17 terms: operands s8, result s32, which cannot
///   overflow then;
/// - other integers of at most 8 bits whose sums stay within 2^24: operands bf16, result f32, which is exact;
/// - floats whose operands all bf16 (or all f16) has, as f32 converted from it and f8 by bf16: operands of that type;
/// - floats of which the module says that they may be rounded to bf16 or f16 (OperandPrecision): operands of that type;
/// - f32 by what is bf16 or converted from it, where the module asks for no precision (OperandPrecision::Default): both
///   f32, and may be rounded to TF32. That changes the other operand by less than what rounding the first one to the 8
///   bits of bf16 changed, and the first one not at all;
/// - other floats of two types, of 32 bits at most: operands and result f32.
///
/// The result is converted to the dot's type after it. Terms and columns of operands of one byte, and rows of
/// integers, are padded with zeros to what cuBLASLt takes (kByteAlignment), and results cut; not of s8 that the product
/// emitter takes, if `use` is WhereFaster and that is sooner by the models. Products of vectors, and those that a
/// kernel computes sooner (unless `use` asks for all), stay as they are.
hlo::Module with_narrow_products(const hlo::Module& module, const Target& target, LibraryUse use);

}  // namespace strata::emitters
