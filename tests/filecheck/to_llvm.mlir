// RUN: %strata --strata-to-llvm %s | FileCheck %s

// CHECK: llvm.func @strata_barrier() attributes {passthrough = ["nounwind", "convergent"]}
func.func private @strata_barrier()
// CHECK: llvm.func internal @helper(%{{.*}}: f32) -> f32 attributes {{.*}}"alwaysinline"
func.func private @helper(%x: f32) -> f32 {
  %r = arith.addf %x, %x : f32
  return %r : f32
}
// CHECK-LABEL: llvm.func @kernel
// CHECK-SAME: !llvm.ptr {llvm.align = 256 : i64}
// CHECK-NOT: strata.input
// CHECK: llvm.cond_br
// CHECK: llvm.call @helper
// CHECK: llvm.zext {{.*}} : i32 to i64
// CHECK: llvm.fmul {{.*}} : f32
func.func @kernel(%p: !llvm.ptr {llvm.align = 256 : i64, strata.input = 0}, %b: i32, %z: complex<f32>) -> complex<f32>
    attributes {strata.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %b step %c1 : i32 {
    %x = llvm.load %p : !llvm.ptr -> f32
    %r = strata.pure_call @helper(%x) : (f32) -> f32
    %j = arith.index_castui %i : i32 to index
    %k = arith.index_cast %j : index to i64
    %q = llvm.getelementptr %p[%k] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    llvm.store %r, %q : f32, !llvm.ptr
  }
  %w = complex.mul %z, %z : complex<f32>
  return %w : complex<f32>
}
