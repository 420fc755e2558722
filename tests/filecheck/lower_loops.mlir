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
