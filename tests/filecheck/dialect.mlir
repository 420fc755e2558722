// RUN: %strata --allow-unregistered-dialect %s | %strata --allow-unregistered-dialect | FileCheck %s
// RUN: %strata --allow-unregistered-dialect --mlir-print-op-generic %s | %strata --allow-unregistered-dialect | FileCheck %s

// Every operation is printed as it is read.
// CHECK-LABEL: func.func @indices
// CHECK: strata.apply_indexing <"(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 7], d1 in [0, 7]">(%arg0, %arg1)
// CHECK: %{{.*}}:2 = strata.apply_indexing <"(d0) -> (d0 floordiv 8, d0 mod 8), domain: d0 in [0, 63]">(%arg0) : 2
func.func @indices(%x: index, %y: index) -> (index, index, index) {
  %p = strata.apply_indexing <"(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 7], d1 in [0, 7]">(%x, %y)
  %i:2 = strata.apply_indexing <"(d0) -> (d0 floordiv 8, d0 mod 8), domain: d0 in [0, 63]">(%x) : 2
  return %p, %i#0, %i#1 : index, index, index
}

// CHECK-LABEL: func.func @loops
// CHECK: strata.loop (%arg0) in #strata.map<"(d0)[s0, s1] -> (d0 + s0 + s1), domain: d0 in [0, 7], s0 in [0, 3], s1 in [0, 3]"> iter_args(%[[A:.*]] = %arg1) -> (f32) {vector = 1 : i64} do [%{{.*}}, %{{.*}}] -> (%{{.*}}) {
// CHECK: strata.yield %[[A]] : f32
// CHECK: strata.loop () in #strata.map<"()[s0] -> (), domain: s0 in [0, 3]"> do [%{{.*}}] -> () {
func.func @loops(%x: index, %y: f32) -> f32 {
  %r = strata.loop (%x) in <"(d0)[s0, s1] -> (d0 + s0 + s1), domain: d0 in [0, 7], s0 in [0, 3], s1 in [0, 3]"> iter_args(%a = %y) -> (f32) {vector = 1 : i64} do [%s, %t] -> (%i) {
    strata.yield %a : f32
  }
  strata.loop () in <"()[s0] -> (), domain: s0 in [0, 3]"> do [%s] -> () {
    "use"(%s) : (index) -> ()
  }
  return %r : f32
}

// CHECK-LABEL: func.func @tensors
// CHECK: strata.allocate_shared : tensor<4x8xf32, #strata.shared<padding = 1>>
// CHECK: strata.allocate_shared : tensor<4x8xf32, #strata.shared<chunk = 4>>
// CHECK: strata.predicated_insert %{{.*}} into %{{.*}}[%arg0, %arg0] if %arg1 : f32, tensor<4x8xf32, #strata.shared<padding = 1>>
// CHECK: strata.sync_threads %{{.*}}, %{{.*}} : tensor<4x8xf32, #strata.shared<padding = 1>>, tensor<4x8xf32, #strata.shared<chunk = 4>>
// CHECK: strata.predicated_extract %{{.*}}[%arg0, %arg0] if %arg1 else %arg2 : f32, tensor<4x8xf32, #strata.shared<padding = 1>>
// CHECK: strata.atomic_rmw add %{{.*}} into %arg3[%arg0] : f32, tensor<8xf32>
// CHECK: strata.atomic_rmw custom %{{.*}} into %{{.*}}[%arg0] : f32, tensor<8xf32> {
// CHECK: strata.pure_call @combine
// CHECK: strata.shuffle_reduce(%{{.*}}) to 16 combiner = @combine : f32
func.func @tensors(%i: index, %p: i1, %x: f32, %t: tensor<8xf32>) -> (f32, tensor<8xf32>) {
  %a = strata.allocate_shared : tensor<4x8xf32, #strata.shared<padding = 1>>
  %b = strata.allocate_shared : tensor<4x8xf32, #strata.shared<chunk = 4>>
  %a1 = strata.predicated_insert %x into %a[%i, %i] if %p : f32, tensor<4x8xf32, #strata.shared<padding = 1>>
  %s:2 = strata.sync_threads %a1, %b : tensor<4x8xf32, #strata.shared<padding = 1>>, tensor<4x8xf32, #strata.shared<chunk = 4>>
  %e = strata.predicated_extract %s#0[%i, %i] if %p else %x : f32, tensor<4x8xf32, #strata.shared<padding = 1>>
  %t1 = strata.atomic_rmw add %e into %t[%i] : f32, tensor<8xf32>
  %t2 = strata.atomic_rmw custom %e into %t1[%i] : f32, tensor<8xf32> {
  ^bb0(%old: f32, %new: f32):
    %n = strata.pure_call @combine(%old, %new) : (f32, f32) -> f32
    strata.yield %n : f32
  }
  %r = strata.shuffle_reduce(%e) to 16 combiner = @combine : f32
  return %r, %t2 : f32, tensor<8xf32>
}
func.func private @combine(f32, f32) -> f32
