// RUN: %strata --allow-unregistered-dialect --strata-lower-indexing --canonicalize --cse %s | FileCheck %s

// 32 bits where the ranges allow it; what is known not to be negative is divided as unsigned.
// CHECK-LABEL: func.func @narrow
// CHECK-SAME: (%[[B:.*]]: i32 {{.*}}, %[[T:.*]]: i32
// CHECK: %[[SCALED:.*]] = arith.muli %[[B]], %c128_i32 overflow<nsw, nuw>
// CHECK: %[[SUM:.*]] = arith.addi %[[SCALED]], %[[T]] overflow<nsw, nuw>
// CHECK: arith.divui %[[SUM]], %c96_i32
// CHECK: arith.remui %[[SUM]], %c96_i32
// CHECK: arith.index_castui {{.*}} : i32 to index
func.func @narrow(%b: index {strata.range = [0, 7]}, %t: index {strata.range = [0, 127]}) attributes {strata.kernel} {
  %i:2 = strata.apply_indexing <"(d0, d1) -> ((d0 * 128 + d1) floordiv 96, (d0 * 128 + d1) mod 96), domain: d0 in [0, 7], d1 in [0, 127]">(%b, %t) : 2
  "use"(%i#0, %i#1) : (index, index) -> ()
  return
}

// 64 where they do not.
// CHECK-LABEL: func.func @wide
// CHECK: arith.muli {{.*}} : i64
func.func @wide(%b: index {strata.range = [0, 100000000]}) attributes {strata.kernel} {
  %i = strata.apply_indexing <"(d0) -> (d0 * 1000), domain: d0 in [0, 100000000]">(%b)
  "use"(%i) : (index) -> ()
  return
}

// Negative ones are rounded down: by shifts and masks, or by hand.
// CHECK-LABEL: func.func @negative
// CHECK: arith.shrsi
// CHECK: arith.andi
// CHECK: arith.remsi
// CHECK: arith.select
func.func @negative(%x: index {strata.range = [-8, 8]}) {
  %i:3 = strata.apply_indexing <"(d0) -> (d0 floordiv 4, d0 mod 4, d0 mod 3), domain: d0 in [-8, 8]">(%x) : 3
  "use"(%i#0, %i#1, %i#2) : (index, index, index) -> ()
  return
}

// Beyond one end by less than the divisor: no division.
// CHECK-LABEL: func.func @around
// CHECK-NOT: arith.div
// CHECK-NOT: arith.rem
// CHECK: %[[MOVED:.*]] = arith.addi {{.*}}, %c98_i32
// CHECK: arith.select {{.*}}, %[[MOVED]]
func.func @around(%x: index {strata.range = [0, 90]}) {
  %i:2 = strata.apply_indexing <"(d0) -> ((d0 - 3) floordiv 101, (d0 - 3) mod 101), domain: d0 in [0, 90]">(%x) : 2
  "use"(%i#0, %i#1) : (index, index) -> ()
  return
}

// CHECK-LABEL: func.func @around_once
// CHECK-NOT: arith.div
// CHECK-NOT: arith.rem
// CHECK: arith.cmpi uge, {{.*}}, %c101_i32
// CHECK: arith.minui
func.func @around_once(%x: index {strata.range = [0, 190]}) {
  %i:2 = strata.apply_indexing <"(d0) -> ((d0 + 3) floordiv 101, (d0 + 3) mod 101), domain: d0 in [0, 190]">(%x) : 2
  "use"(%i#0, %i#1) : (index, index) -> ()
  return
}

// Twice around, it is one.
// CHECK-LABEL: func.func @around_twice
// CHECK: arith.remui
func.func @around_twice(%x: index {strata.range = [0, 202]}) {
  %i = strata.apply_indexing <"(d0) -> (d0 mod 101), domain: d0 in [0, 202]">(%x)
  "use"(%i) : (index) -> ()
  return
}

// Loops count in 32 bits, and functions take them.
// CHECK-LABEL: func.func @loops
// CHECK: scf.for %{{.*}} = %c0_i32 to %c10_i32 step %c1_i32 : i32
// CHECK: strata.pure_call @callee({{.*}}) : (i32) -> f32
// CHECK: func.func private @callee(%{{.*}}: i32 {{.*}}) -> f32
func.func @loops() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c10 = arith.constant 10 : index
  scf.for %i = %c0 to %c10 step %c1 {
    %r = strata.pure_call @callee(%i) : (index) -> f32
    "use"(%r) : (f32) -> ()
  }
  return
}
func.func private @callee(%i: index {strata.range = [0, 9]}) -> f32 {
  %r = "make"(%i) : (index) -> f32
  return %r : f32
}
