// RUN: %strata --allow-unregistered-dialect --strata-lower-loops %s | FileCheck %s

// The last range variable is innermost; conditions stand as far outside as they can.
// CHECK-LABEL: func.func @nest
// CHECK-SAME: %[[B:.*]]: index
// CHECK: %[[BLOCK:.*]] = arith.cmpi sle, %[[B]], %c5
// CHECK: scf.if %[[BLOCK]] -> (f32)
// CHECK: scf.for %[[I:[^ ]*]] = %c0{{.*}} to %c4{{.*}} iter_args
// CHECK: %[[SUM:.*]] = strata.apply_indexing <"(d0, d1) -> (d0 + d1), domain: d0 in [0, 7], d1 in [0, 3]">(%[[B]], %[[I]])
// CHECK: arith.cmpi sle, %[[SUM]], %c7
// CHECK: scf.if
// CHECK: scf.for %[[J:[^ ]*]] = %c0{{.*}} to %c2
// CHECK: strata.apply_indexing {{.*}}d0 * 8 + d1 * 2 + d2{{.*}}(%[[B]], %[[I]], %[[J]])
// CHECK: } {strata.vector}
// CHECK: else
// CHECK-NEXT: scf.yield
// CHECK: else
// CHECK-NEXT: scf.yield
func.func @nest(%b: index {strata.range = [0, 7]}, %x: f32) -> f32 {
  %r = strata.loop (%b) in <"(d0)[s0, s1] -> (d0 * 8 + s0 * 2 + s1), domain: d0 in [0, 5], s0 in [0, 3], s1 in [0, 1], d0 + s0 in [0, 7]"> iter_args(%a = %x) -> (f32) {vector = 1 : i64} do [%i, %j] -> (%p) {
    %n = "use"(%p, %a) : (index, f32) -> f32
    strata.yield %n : f32
  }
  return %r : f32
}

// What is never true leaves nothing; a range of one value no loop.
// CHECK-LABEL: func.func @points
// CHECK-NOT: scf.for
// CHECK: arith.constant 3
// CHECK: "one"(%c3{{.*}})
// CHECK-NOT: "none"
func.func @points() {
  strata.loop () in <"()[s0] -> (s0), domain: s0 in [3, 3]"> do [%s] -> (%i) {
    "one"(%i) : (index) -> ()
  }
  strata.loop () in <"()[s0] -> (s0), domain: s0 in [0, 3], s0 in [5, 6]"> do [%s] -> (%i) {
    "none"(%i) : (index) -> ()
  }
  return
}

// Where all indices below the sizes are safe, conditions inside the loops drop what the body gave. What depends on
// threads alone stays a branch around the loops, and so do conditions that few points satisfy.
// CHECK-LABEL: func.func @dropped
// CHECK: arith.cmpi sle, %{{.*}}, %c4
// CHECK: scf.if
// CHECK: scf.for
// CHECK: %[[HOLDS:.*]] = arith.cmpi sle
// CHECK-NOT: scf.if
// CHECK: %[[SAFE:.*]] = arith.minsi %{{.*}}, %c17
// CHECK: tensor.extract %{{.*}}[%[[SAFE]]]
// CHECK: strata.predicated_insert %{{.*}} into %{{.*}}[%[[SAFE]]] if %[[HOLDS]] {strata.late}
// CHECK: arith.select %[[HOLDS]]
// CHECK-LABEL: func.func @few
// CHECK: scf.for
// CHECK: scf.if
func.func @dropped(%b: index {strata.range = [0, 7]}, %x: f32, %in: tensor<20xf32>, %out: tensor<20xf32>) -> (tensor<20xf32>, f32) {
  %r:2 = strata.loop (%b) in <"(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 5], s0 in [0, 3], d0 * 4 + s0 in [0, 17]"> iter_args(%o = %out, %a = %x) -> (tensor<20xf32>, f32) {strata.within = array<i64: 18>} do [%i] -> (%p) {
    %e = tensor.extract %in[%p] : tensor<20xf32>
    %n = arith.addf %a, %e : f32
    %w = tensor.insert %e into %o[%p] : tensor<20xf32>
    strata.yield %w, %n : tensor<20xf32>, f32
  }
  return %r#0, %r#1 : tensor<20xf32>, f32
}
func.func @few(%b: index {strata.range = [0, 7]}, %x: f32, %in: tensor<20xf32>) -> f32 {
  %r = strata.loop (%b) in <"(d0)[s0] -> (d0 + s0), domain: d0 in [0, 7], s0 in [0, 7], (d0 + s0) mod 8 in [0, 2]"> iter_args(%a = %x) -> (f32) {strata.within = array<i64: 20>} do [%i] -> (%p) {
    %e = tensor.extract %in[%p] : tensor<20xf32>
    %n = arith.addf %a, %e : f32
    strata.yield %n : f32
  }
  return %r : f32
}

// What a body adds atomically, or writes under a condition, it may not do for points beyond.
// CHECK-LABEL: func.func @counted
// CHECK: scf.if
// CHECK: strata.atomic_fetch
func.func @counted(%b: index {strata.range = [0, 4]}, %x: i32, %out: tensor<20xi32>) -> tensor<20xi32> {
  %r = strata.loop (%b) in <"(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 4], s0 in [0, 3], d0 * 4 + s0 in [0, 17]"> iter_args(%o = %out) -> (tensor<20xi32>) {strata.within = array<i64: 20>} do [%i] -> (%p) {
    %old, %u = strata.atomic_fetch add %x into %o[%p] : i32, tensor<20xi32>
    strata.yield %u : tensor<20xi32>
  }
  return %r : tensor<20xi32>
}
// CHECK-LABEL: func.func @predicated
// CHECK: scf.if
// CHECK: strata.predicated_insert
func.func @predicated(%b: index {strata.range = [0, 4]}, %c: i1, %x: f32, %out: tensor<20xf32>) -> tensor<20xf32> {
  %r = strata.loop (%b) in <"(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 4], s0 in [0, 3], d0 * 4 + s0 in [0, 17]"> iter_args(%o = %out) -> (tensor<20xf32>) {strata.within = array<i64: 20>} do [%i] -> (%p) {
    %u = strata.predicated_insert %x into %o[%p] if %c : f32, tensor<20xf32>
    strata.yield %u : tensor<20xf32>
  }
  return %r : tensor<20xf32>
}
