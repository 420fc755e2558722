// RUN: %strata --strata-expand-floats %s | FileCheck %s
// RUN: %strata --strata-expand-floats-gpu %s | FileCheck %s --check-prefix=GPU

// CHECK-DAG: func.func private @strata_exp_f32(f32) -> f32
// CHECK-DAG: func.func private @strata_atan2_f64(f64, f64) -> f64
// CHECK-DAG: func.func private @strata_exp_c64(f32, f32, !llvm.ptr, !llvm.ptr)
// CHECK-DAG: func.func private @strata_acos_c128(f64, f64, !llvm.ptr, !llvm.ptr)
// CHECK-DAG: func.func private @strata_abs_c64(f32, f32) -> f32
func.func private @strata_acos_c128(complex<f64>) -> complex<f64>
func.func private @strata_logistic_f32(f32) -> f32

// What has an instruction stays.
// CHECK-LABEL: func.func @real
// CHECK: call @strata_exp_f32
// CHECK: math.sqrt
// CHECK: call @strata_atan2_f64
// CHECK: call @strata_remainder_f32
func.func @real(%x: f32, %y: f64) -> (f32, f32, f64, f32) {
  %a = math.exp %x : f32
  %b = math.sqrt %x : f32
  %c = math.atan2 %y, %y : f64
  %d = arith.remf %x, %b : f32
  return %a, %b, %c, %d : f32, f32, f64, f32
}

// Results that are rounded to 16 bits need no more.
// CHECK-LABEL: func.func @half
// CHECK: arith.shli
// CHECK: call @strata_exp_f32_half
// CHECK: call @strata_f32_to_bf16({{.*}}) : (f32) -> i16
// CHECK: call @strata_logistic_f32_half
// CHECK: call @strata_f32_to_f16
// GPU-LABEL: func.func @half
// GPU: arith.extf
// GPU: call @strata_exp_f32_half
// GPU: arith.truncf {{.*}} : f32 to bf16
func.func @half(%x: bf16) -> (bf16, f16) {
  %a = arith.extf %x : bf16 to f32
  %b = math.exp %a : f32
  %c = arith.truncf %b : f32 to bf16
  %d = call @strata_logistic_f32(%a) : (f32) -> f32
  %e = arith.truncf %d : f32 to f16
  return %c, %e : bf16, f16
}

// What the emitter has found out, through sums for one.
// CHECK-LABEL: func.func @found
// CHECK: call @strata_exp_f32_half
func.func @found(%x: f32) -> f32 {
  %a = math.exp %x {strata.rounded_to_half} : f32
  return %a : f32
}

// CHECK-LABEL: func.func @numbers
// CHECK-COUNT-4: llvm.alloca
// CHECK-NOT: llvm.alloca
// CHECK: complex.re
// CHECK: call @strata_exp_c64
// CHECK: llvm.load
// CHECK: complex.create
// CHECK: call @strata_log_c64
// CHECK: call @strata_abs_c64
// CHECK: call @strata_acos_c128
func.func @numbers(%z: complex<f32>, %w: complex<f64>) -> (complex<f32>, f32, complex<f64>) {
  %a = complex.exp %z : complex<f32>
  %b = complex.log %a : complex<f32>
  %c = complex.abs %b : complex<f32>
  %d = call @strata_acos_c128(%w) : (complex<f64>) -> complex<f64>
  return %b, %c, %d : complex<f32>, f32, complex<f64>
}

// Also after products and quotients; tanh of bf16 is an instruction.
// GPU-LABEL: func.func @products
// GPU: call @strata_exp_f32_half
// GPU: call @strata_divide_f32_half
// GPU: call @strata_tanh_f32_bf16
func.func @products(%x: f32, %y: f32) -> (bf16, bf16) {
  %a = math.exp %x : f32
  %b = arith.divf %a, %y : f32
  %c = arith.truncf %b : f32 to bf16
  %d = math.tanh %x : f32
  %e = arith.truncf %d : f32 to bf16
  return %c, %e : bf16, bf16
}

// Sums and products of 16 bits have instructions.
// GPU-LABEL: func.func @narrow
// GPU: %[[P:.*]] = arith.mulf %arg0, %arg1 : bf16
// GPU: %[[ONE:.*]] = arith.constant 1.000000e+00 : bf16
// GPU: arith.addf %[[P]], %[[ONE]] : bf16
// GPU-NOT: arith.truncf
func.func @narrow(%x: bf16, %y: bf16) -> bf16 {
  %one = arith.constant 1.0 : f32
  %a = arith.extf %x : bf16 to f32
  %b = arith.extf %y : bf16 to f32
  %c = arith.mulf %a, %b : f32
  %d = arith.truncf %c : f32 to bf16
  %e = arith.extf %d : bf16 to f32
  %f = arith.addf %e, %one : f32
  %g = arith.truncf %f : f32 to bf16
  return %g : bf16
}

// What is divided by twice has an inverse.
// GPU-LABEL: func.func @divisors
// GPU: %[[INVERSE:.*]] = call @strata_inverse_f32
// GPU-NOT: arith.divf
// GPU-COUNT-2: arith.mulf %{{.*}}, %[[INVERSE]] : f32
// GPU: return
// GPU-LABEL: func.func @quotient
// GPU: call @strata_divide_f32(%arg0, %arg1)
func.func @divisors(%x: f32, %y: f32, %z: f32) -> (f32, f32) {
  %a = arith.divf %x, %z : f32
  %b = arith.divf %y, %z : f32
  return %a, %b : f32, f32
}
func.func @quotient(%x: f32, %y: f32) -> f32 {
  %a = arith.divf %x, %y : f32
  return %a : f32
}

// Powers of two have exact inverses, unless these are subnormal.
// GPU-LABEL: func.func @power_of_two
// GPU-COUNT-2: call @strata_inverse_f32
// GPU: %[[EIGHTH:.*]] = arith.constant 1.250000e-01 : f32
// GPU: %[[QUOTIENT:.*]] = arith.mulf %arg0, %[[EIGHTH]] : f32
// GPU: return %[[QUOTIENT]],
func.func @power_of_two(%x: f32) -> (f32, f32, f32) {
  %eight = arith.constant 8.0 : f32
  %nine = arith.constant 9.0 : f32
  %large = arith.constant 0x7F000000 : f32
  %a = arith.divf %x, %eight : f32
  %b = arith.divf %x, %nine : f32
  %c = arith.divf %x, %large : f32
  return %a, %b, %c : f32, f32, f32
}

// So has one of two powers of two.
// GPU-LABEL: func.func @one_of_two
// GPU: %[[HALF:.*]] = arith.constant 5.000000e-01 : f32
// GPU: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// GPU: %[[FACTOR:.*]] = arith.select %arg1, %[[HALF]], %[[ONE]] : f32
// GPU: arith.mulf %arg0, %[[FACTOR]] : f32
// GPU: call @strata_divide_f32
func.func @one_of_two(%x: f32, %c: i1) -> (f32, f32) {
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %three = arith.constant 3.0 : f32
  %a = arith.select %c, %two, %one : f32
  %b = arith.select %c, %three, %one : f32
  %d = arith.divf %x, %a : f32
  %e = arith.divf %x, %b : f32
  return %d, %e : f32, f32
}

// Powers of quarters are roots and products.
// GPU-LABEL: func.func @powers
// GPU-DAG: %[[COUNT:.*]] = arith.constant -7 : i32
// GPU: call @strata_pow_quarters_f32(%arg0, %[[COUNT]])
// GPU: call @strata_pow_f32
func.func @powers(%x: f32) -> (f32, f32) {
  %c = arith.constant -1.75 : f32
  %d = arith.constant 0.45 : f32
  %a = math.powf %x, %c : f32
  %b = math.powf %x, %d : f32
  return %a, %b : f32, f32
}
