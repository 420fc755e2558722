// RUN: %strata --allow-unregistered-dialect --strata-simplify-indexing --cse %s | FileCheck %s

// A chain is one map: a position taken apart and put together again is itself.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: %[[B:.*]]: index {{.*}}, %[[T:.*]]: index
// CHECK: %[[P:.*]] = strata.apply_indexing <"(d0, d1) -> (d0 * 128 + d1), domain: d0 in [0, 7], d1 in [0, 127]">(%[[B]], %[[T]])
// CHECK-NEXT: return %[[P]]
func.func @chain(%b: index {strata.range = [0, 7]}, %t: index {strata.range = [0, 127]}) -> index {
  %p = strata.apply_indexing <"(d0, d1) -> (d0 * 128 + d1), domain: d0 in [0, 7], d1 in [0, 127]">(%b, %t)
  %i:2 = strata.apply_indexing <"(d0) -> (d0 floordiv 32, d0 mod 32), domain: d0 in [0, 1023]">(%p) : 2
  %q = strata.apply_indexing <"(d0, d1) -> (d0 * 32 + d1), domain: d0 in [0, 31], d1 in [0, 31]">(%i#0, %i#1)
  return %q : index
}

// Ranges come from arguments, loops and clamps.
// CHECK-LABEL: func.func @ranges
// CHECK: scf.for %[[I:.*]] =
// CHECK: "use"(%[[I]])
// CHECK: arith.minsi
// CHECK: %[[C:.*]] = arith.maxsi
// CHECK: "use"(%[[C]])
func.func @ranges(%x: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %m = strata.apply_indexing <"(d0) -> (d0 mod 8), domain: d0 in [0, 100]">(%i)
    "use"(%m) : (index) -> ()
  }
  %a = arith.minsi %x, %c7 : index
  %b = arith.maxsi %a, %c0 : index
  %m = strata.apply_indexing <"(d0) -> (d0 mod 8), domain: d0 in [0, 100]">(%b)
  "use"(%m) : (index) -> ()
  return
}

// Equal maps of equal values are one operation; dimensions that do not matter go.
// CHECK-LABEL: func.func @equal
// CHECK: %[[P:.*]] = strata.apply_indexing <"(d0) -> (d0 * 3), domain: d0 in [0, 9]">(%arg0)
// CHECK-NEXT: return %[[P]], %[[P]]
func.func @equal(%x: index, %y: index) -> (index, index) {
  %a = strata.apply_indexing <"(d0, d1) -> (d0 * 3 + d1 - d1), domain: d0 in [0, 9], d1 in [0, 9]">(%x, %y)
  %b = strata.apply_indexing <"(d0, d1) -> (d1 * 3), domain: d0 in [0, 9], d1 in [0, 9]">(%y, %x)
  return %a, %b : index, index
}
