// RUN: %strata --strata-lower-tensors --canonicalize %s | FileCheck %s
// RUN: %strata --strata-lower-tensors-gpu --canonicalize %s | FileCheck %s --check-prefix=GPU

// What hardware has an instruction for never becomes a loop.
// CHECK-LABEL: func.func @native
// CHECK-NOT: scf.while
// CHECK: llvm.atomicrmw fadd %{{.*}}, %{{.*}} monotonic : !llvm.ptr, f32
// CHECK: llvm.atomicrmw umax %{{.*}}, %{{.*}} monotonic : !llvm.ptr, i32
// CHECK: llvm.atomicrmw xchg %{{.*}}, %{{.*}} monotonic : !llvm.ptr, i32
func.func @native(%t: tensor<8xf32>, %u: tensor<8xi32>, %i: index, %x: f32, %y: i32) {
  %a = strata.atomic_rmw add %x into %t[%i] : f32, tensor<8xf32>
  %b = strata.atomic_rmw maxu %y into %u[%i] : i32, tensor<8xi32>
  %c = strata.atomic_rmw replace %x into %t[%i] : f32, tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @half
// CHECK: scf.while
// CHECK: llvm.cmpxchg
// GPU-LABEL: func.func @half
// GPU-NOT: scf.while
// GPU: llvm.atomicrmw fadd %{{.*}}, %{{.*}} monotonic : !llvm.ptr, bf16
func.func @half(%t: tensor<8xbf16>, %i: index, %x: bf16) {
  %a = strata.atomic_rmw add %x into %t[%i] : bf16, tensor<8xbf16>
  return
}

// CHECK-LABEL: func.func @maximum
// CHECK-NOT: scf.while
// CHECK: llvm.load volatile
// CHECK: llvm.atomicrmw max {{.*}} i32
// CHECK: llvm.atomicrmw umin {{.*}} i32
func.func @maximum(%t: tensor<8xf32>, %i: index, %x: f32) {
  %a = strata.atomic_rmw maxf %x into %t[%i] : f32, tensor<8xf32>
  return
}

// Bytes: bits in the word around them without a loop, the rest with one.
// CHECK-LABEL: func.func @bytes
// CHECK-NOT: scf.while
// CHECK: llvm.atomicrmw _or {{.*}} i32
// CHECK: llvm.atomicrmw _and {{.*}} i32
// CHECK: scf.while
// CHECK: llvm.cmpxchg {{.*}} monotonic monotonic : !llvm.ptr, i32
func.func @bytes(%t: tensor<8xi1>, %u: tensor<8xi8>, %i: index, %x: i1, %y: i8) {
  %a = strata.atomic_rmw or %x into %t[%i] : i1, tensor<8xi1>
  %b = strata.atomic_rmw and %x into %t[%i] : i1, tensor<8xi1>
  %c = strata.atomic_rmw add %y into %u[%i] : i8, tensor<8xi8>
  return
}

// Complex numbers: sums by parts, anything else in 64 bits.
// CHECK-LABEL: func.func @numbers
// CHECK-COUNT-2: llvm.atomicrmw fadd {{.*}} f32
// CHECK: scf.while
// CHECK: complex.mul
// CHECK: llvm.cmpxchg {{.*}} i64
// CHECK-COUNT-2: llvm.atomicrmw fadd {{.*}} f64
func.func @numbers(%t: tensor<8xcomplex<f32>>, %u: tensor<8xcomplex<f64>>, %i: index, %x: complex<f32>, %y: complex<f64>) {
  %a = strata.atomic_rmw add %x into %t[%i] : complex<f32>, tensor<8xcomplex<f32>>
  %b = strata.atomic_rmw custom %x into %t[%i] : complex<f32>, tensor<8xcomplex<f32>> {
  ^bb0(%old: complex<f32>, %new: complex<f32>):
    %m = complex.mul %old, %new : complex<f32>
    strata.yield %m : complex<f32>
  }
  %c = strata.atomic_rmw add %y into %u[%i] : complex<f64>, tensor<8xcomplex<f64>>
  return
}

// The element as it was before.
// CHECK-LABEL: func.func @fetch
// CHECK: %[[OLD:.*]] = llvm.atomicrmw add %{{.*}}, %{{.*}} monotonic : !llvm.ptr, i32
// CHECK: return %[[OLD]] : i32
func.func @fetch(%t: tensor<8xi32>, %i: index, %x: i32) -> i32 {
  %old, %u = strata.atomic_fetch add %x into %t[%i] : i32, tensor<8xi32>
  return %old : i32
}

// Vectors: one instruction, that MLIR does not have, or one after the other.
// CHECK-LABEL: func.func @vector
// CHECK-COUNT-4: llvm.atomicrmw fadd {{.*}} monotonic : !llvm.ptr, f32
// GPU-LABEL: func.func @vector
// GPU-NOT: llvm.atomicrmw
// GPU: call @strata_atomic_add_4xf32(%{{.*}}, %{{.*}}) : (!llvm.ptr, vector<4xf32>) -> ()
// GPU: call @strata_atomic_add_8xbf16(%{{.*}}, %{{.*}}) : (!llvm.ptr, vector<8xbf16>) -> ()
func.func @vector(%t: tensor<8xf32>, %u: tensor<8xbf16>, %i: index, %x: vector<4xf32>, %y: vector<8xbf16>) {
  %a = strata.atomic_rmw add %x into %t[%i] : vector<4xf32>, tensor<8xf32>
  %b = strata.atomic_rmw add %y into %u[%i] : vector<8xbf16>, tensor<8xbf16>
  return
}
