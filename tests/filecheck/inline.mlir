// RUN: %strata --strata-inline %s | FileCheck %s

// Called once: moved, whatever its size. Its callee comes first.
// CHECK-LABEL: func.func @kernel
// CHECK-NOT: pure_call
// CHECK: %[[A:.*]] = tensor.extract %{{.*}}[%{{.*}}]
// CHECK: %[[B:.*]] = arith.addf %[[A]], %[[A]]
// CHECK: arith.mulf %[[B]], %[[B]]
// CHECK-NOT: @once
func.func @kernel(%t: tensor<8xf32>, %i: index) -> f32 {
  %r = strata.pure_call @once(%t, %i) : (tensor<8xf32>, index) -> f32
  return %r : f32
}
func.func private @once(%t: tensor<8xf32>, %i: index) -> f32 {
  %a = strata.pure_call @inner(%t, %i) : (tensor<8xf32>, index) -> f32
  %b = arith.mulf %a, %a : f32
  return %b : f32
}
func.func private @inner(%t: tensor<8xf32>, %i: index) -> f32 {
  %a = tensor.extract %t[%i] : tensor<8xf32>
  %b = arith.addf %a, %a : f32
  return %b : f32
}

// Large and called twice: stays a call. Small: goes into both.
// CHECK-LABEL: func.func @twice
// CHECK: strata.pure_call @large
// CHECK: strata.pure_call @large
// CHECK-NOT: @small
// CHECK-LABEL: func.func private @large
// CHECK-NOT: func.func private @small
// CHECK: func.func private @external
func.func @twice(%x: f32) -> (f32, f32) {
  %a = strata.pure_call @large(%x) : (f32) -> f32
  %b = strata.pure_call @large(%a) : (f32) -> f32
  %c = strata.pure_call @small(%a) : (f32) -> f32
  %d = strata.pure_call @small(%b) : (f32) -> f32
  %e = strata.pure_call @external(%d) : (f32) -> f32
  return %c, %e : f32, f32
}
func.func private @large(%x: f32) -> f32 {
  %0 = arith.addf %x, %x : f32
  %1 = arith.mulf %0, %x : f32
  %2 = arith.addf %1, %x : f32
  %3 = arith.mulf %2, %x : f32
  %4 = arith.addf %3, %x : f32
  %5 = arith.mulf %4, %x : f32
  %6 = arith.addf %5, %x : f32
  %7 = arith.mulf %6, %x : f32
  %8 = arith.addf %7, %x : f32
  %9 = arith.mulf %8, %x : f32
  %10 = arith.addf %9, %x : f32
  %11 = arith.mulf %10, %x : f32
  %12 = arith.addf %11, %x : f32
  return %12 : f32
}
func.func private @small(%x: f32) -> f32 {
  %0 = arith.negf %x : f32
  return %0 : f32
}
func.func private @external(f32) -> f32

// Large and called by two functions, at one place: once these are in their caller, both calls are one, which goes in.
// CHECK-LABEL: func.func @shared
// CHECK-NOT: pure_call
// CHECK: tensor.extract
// CHECK-NOT: tensor.extract
// CHECK: return
// CHECK-NOT: @loaded
func.func @shared(%t: tensor<8xf32>, %i: index) -> (f32, f32) {
  %a = strata.pure_call @first(%t, %i) : (tensor<8xf32>, index) -> f32
  %b = strata.pure_call @second(%t, %i) : (tensor<8xf32>, index) -> f32
  return %a, %b : f32, f32
}
func.func private @first(%t: tensor<8xf32>, %i: index) -> f32 {
  %a = strata.pure_call @loaded(%t, %i) : (tensor<8xf32>, index) -> f32
  %b = arith.negf %a : f32
  return %b : f32
}
func.func private @second(%t: tensor<8xf32>, %i: index) -> f32 {
  %a = strata.pure_call @loaded(%t, %i) : (tensor<8xf32>, index) -> f32
  %b = arith.mulf %a, %a : f32
  return %b : f32
}
func.func private @loaded(%t: tensor<8xf32>, %i: index) -> f32 {
  %x = tensor.extract %t[%i] : tensor<8xf32>
  %0 = arith.addf %x, %x : f32
  %1 = arith.mulf %0, %x : f32
  %2 = arith.addf %1, %x : f32
  %3 = arith.mulf %2, %x : f32
  %4 = arith.addf %3, %x : f32
  %5 = arith.mulf %4, %x : f32
  %6 = arith.addf %5, %x : f32
  %7 = arith.mulf %6, %x : f32
  %8 = arith.addf %7, %x : f32
  %9 = arith.mulf %8, %x : f32
  %10 = arith.addf %9, %x : f32
  %11 = arith.mulf %10, %x : f32
  %12 = arith.addf %11, %x : f32
  return %12 : f32
}

// Large, called at two places, and reads an array: goes into both. At five places it stays.
// CHECK-LABEL: func.func @readers
// CHECK-NOT: pure_call @reader(
// CHECK-COUNT-5: pure_call @reader_of_many
// CHECK-NOT: func.func private @reader(
// CHECK: func.func private @reader_of_many
func.func @readers(%t: tensor<8xf32>, %i: index, %j: index, %k: index, %l: index, %m: index) -> (f32, f32, f32, f32, f32, f32, f32) {
  %a = strata.pure_call @reader(%t, %i) : (tensor<8xf32>, index) -> f32
  %b = strata.pure_call @reader(%t, %j) : (tensor<8xf32>, index) -> f32
  %c = strata.pure_call @reader_of_many(%t, %i) : (tensor<8xf32>, index) -> f32
  %d = strata.pure_call @reader_of_many(%t, %j) : (tensor<8xf32>, index) -> f32
  %e = strata.pure_call @reader_of_many(%t, %k) : (tensor<8xf32>, index) -> f32
  %f = strata.pure_call @reader_of_many(%t, %l) : (tensor<8xf32>, index) -> f32
  %g = strata.pure_call @reader_of_many(%t, %m) : (tensor<8xf32>, index) -> f32
  return %a, %b, %c, %d, %e, %f, %g : f32, f32, f32, f32, f32, f32, f32
}
func.func private @reader(%t: tensor<8xf32>, %i: index) -> f32 {
  %x = tensor.extract %t[%i] : tensor<8xf32>
  %0 = arith.addf %x, %x : f32
  %1 = arith.mulf %0, %x : f32
  %2 = arith.addf %1, %x : f32
  %3 = arith.mulf %2, %x : f32
  %4 = arith.addf %3, %x : f32
  %5 = arith.mulf %4, %x : f32
  %6 = arith.addf %5, %x : f32
  %7 = arith.mulf %6, %x : f32
  %8 = arith.addf %7, %x : f32
  %9 = arith.mulf %8, %x : f32
  %10 = arith.addf %9, %x : f32
  %11 = arith.mulf %10, %x : f32
  %12 = arith.addf %11, %x : f32
  %13 = arith.mulf %12, %x : f32
  return %13 : f32
}
func.func private @reader_of_many(%t: tensor<8xf32>, %i: index) -> f32 {
  %x = tensor.extract %t[%i] : tensor<8xf32>
  %0 = arith.addf %x, %x : f32
  %1 = arith.mulf %0, %x : f32
  %2 = arith.addf %1, %x : f32
  %3 = arith.mulf %2, %x : f32
  %4 = arith.addf %3, %x : f32
  %5 = arith.mulf %4, %x : f32
  %6 = arith.addf %5, %x : f32
  %7 = arith.mulf %6, %x : f32
  %8 = arith.addf %7, %x : f32
  %9 = arith.mulf %8, %x : f32
  %10 = arith.addf %9, %x : f32
  %11 = arith.mulf %10, %x : f32
  %12 = arith.addf %11, %x : f32
  %13 = arith.mulf %12, %x : f32
  return %13 : f32
}
