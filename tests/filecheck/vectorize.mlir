// RUN: %strata --allow-unregistered-dialect --strata-vectorize %s | FileCheck %s
// RUN: %strata --allow-unregistered-dialect --strata-vectorize --strata-unroll --canonicalize --strata-lower-tensors %s | FileCheck %s --check-prefix=MEMORY

// CHECK-LABEL: func.func @copy
// CHECK: %[[READ:[^ ]*]] = vector.transfer_read %arg0[%{{.*}}], %{{.*}} {in_bounds = [true]} : tensor<1024xf32>, vector<4xf32>
// CHECK: %[[LOOP:.*]] = scf.for %[[S:[^ ]*]] = {{.*}} -> (vector<4xf32>)
// CHECK: vector.extract %[[READ]][%[[S]]]
// CHECK: vector.insert
// CHECK: vector.transfer_write %[[LOOP]], %arg1[%{{.*}}] {in_bounds = [true]} : vector<4xf32>, tensor<1024xf32>
// MEMORY-LABEL: func.func @copy
// MEMORY: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// MEMORY: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr
func.func @copy(%in: tensor<1024xf32>, %out: tensor<1024xf32>, %t: index {strata.range = [0, 255]}) -> tensor<1024xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.for %s = %c0 to %c4 step %c1 iter_args(%o = %out) -> (tensor<1024xf32>) {
    %i = strata.apply_indexing <"(d0, d1) -> (d0 * 4 + d1), domain: d0 in [0, 255], d1 in [0, 3]">(%t, %s)
    %v = tensor.extract %in[%i] : tensor<1024xf32>
    %n = tensor.insert %v into %o[%i] : tensor<1024xf32>
    scf.yield %n : tensor<1024xf32>
  } {strata.vector}
  return %r : tensor<1024xf32>
}

// Eight of four bytes are two accesses of 16; those of a byte are one of 8 bytes, pred too.
// CHECK-LABEL: func.func @widths
// CHECK-COUNT-2: vector.transfer_read %arg0{{.*}} vector<4xf32>
// CHECK: vector.shuffle
// CHECK: vector.transfer_read %arg1{{.*}} vector<8xi1>
// MEMORY-LABEL: func.func @widths
// MEMORY: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr -> vector<2xi32>
// MEMORY: arith.cmpi ne, {{.*}} : vector<8xi8>
func.func @widths(%in: tensor<2048xf32>, %if: tensor<2048xi1>, %t: index {strata.range = [0, 255]}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %s = %c0 to %c8 step %c1 {
    %i = strata.apply_indexing <"(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 255], d1 in [0, 7]">(%t, %s)
    %v = tensor.extract %in[%i] : tensor<2048xf32>
    %p = tensor.extract %if[%i] : tensor<2048xi1>
    "use"(%v, %p) : (f32, i1) -> ()
  } {strata.vector}
  return
}

// Not from a multiple of the width, not one after the other, or under a condition of the element: single elements.
// CHECK-LABEL: func.func @scalars
// CHECK-NOT: transfer_read
// CHECK: return
func.func @scalars(%in: tensor<2048xf32>, %c: tensor<2048xi1>, %t: index {strata.range = [0, 255]}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %s = %c0 to %c4 step %c1 {
    %i = strata.apply_indexing <"(d0, d1) -> (d0 * 4 + d1 + 1), domain: d0 in [0, 255], d1 in [0, 3]">(%t, %s)
    %v = tensor.extract %in[%i] : tensor<2048xf32>
    %j = strata.apply_indexing <"(d0, d1) -> (d0 + d1 * 256), domain: d0 in [0, 255], d1 in [0, 3]">(%t, %s)
    %w = tensor.extract %in[%j] : tensor<2048xf32>
    %if = tensor.extract %c[%j] : tensor<2048xi1>
    scf.if %if {
      %k = strata.apply_indexing <"(d0, d1) -> (d0 * 4 + d1), domain: d0 in [0, 255], d1 in [0, 3]">(%t, %s)
      %x = tensor.extract %in[%k] : tensor<2048xf32>
      "use"(%v, %w, %x) : (f32, f32, f32) -> ()
    }
  } {strata.vector}
  return
}

// In a tile whose rows are padded by one element no row but the first begins at a multiple of two; swizzled chunks stay
// together.
// CHECK-LABEL: func.func @tiles
// CHECK-NOT: transfer_read %{{.*}} tensor<32x32xf32, #strata.shared<padding = 1>>
// CHECK: transfer_read %{{.*}} : tensor<32x32xf32, #strata.shared<chunk = 4>>, vector<4xf32>
func.func @tiles(%t: index {strata.range = [0, 7]}, %row: index {strata.range = [0, 31]}) attributes {strata.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %padded = strata.allocate_shared : tensor<32x32xf32, #strata.shared<padding = 1>>
  %swizzled = strata.allocate_shared : tensor<32x32xf32, #strata.shared<chunk = 4>>
  scf.for %s = %c0 to %c4 step %c1 {
    %i = strata.apply_indexing <"(d0, d1) -> (d0 * 4 + d1), domain: d0 in [0, 7], d1 in [0, 3]">(%t, %s)
    %v = tensor.extract %padded[%row, %i] : tensor<32x32xf32, #strata.shared<padding = 1>>
    %w = tensor.extract %swizzled[%row, %i] : tensor<32x32xf32, #strata.shared<chunk = 4>>
    "use"(%v, %w) : (f32, f32) -> ()
  } {strata.vector}
  return
}

// Rows of a tile that do not depend on the loop's variable, though they are computed within the loop.
// CHECK-LABEL: func.func @rows_within
// CHECK: transfer_write %{{.*}} : vector<4xf32>, tensor<32x32xf32, #strata.shared<chunk = 4>>
func.func @rows_within(%t: index {strata.range = [0, 255]}, %in: tensor<1024xf32> {strata.input = 0})
    -> tensor<32x32xf32, #strata.shared<chunk = 4>> attributes {strata.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %tile = strata.allocate_shared : tensor<32x32xf32, #strata.shared<chunk = 4>>
  %r = scf.for %s = %c0 to %c4 step %c1 iter_args(%o = %tile) -> (tensor<32x32xf32, #strata.shared<chunk = 4>>) {
    %row = strata.apply_indexing <"(d0) -> (d0 floordiv 8), domain: d0 in [0, 255]">(%t)
    %column = strata.apply_indexing <"(d0, d1) -> ((d0 mod 8) * 4 + d1), domain: d0 in [0, 255], d1 in [0, 3]">(%t, %s)
    %i = strata.apply_indexing <"(d0, d1) -> (d0 * 4 + d1), domain: d0 in [0, 255], d1 in [0, 3]">(%t, %s)
    %v = tensor.extract %in[%i] : tensor<1024xf32>
    %n = tensor.insert %v into %o[%row, %column] : tensor<32x32xf32, #strata.shared<chunk = 4>>
    scf.yield %n : tensor<32x32xf32, #strata.shared<chunk = 4>>
  } {strata.vector}
  return %r : tensor<32x32xf32, #strata.shared<chunk = 4>>
}

// Sums of floats that the GPU adds by vectors; what has no instruction stays.
// CHECK-LABEL: func.func @atomics
// CHECK: scf.for
// CHECK: strata.atomic_rmw add %{{.*}} into %{{.*}} : vector<4xf32>, tensor<1024xf32>
// CHECK: scf.for
// CHECK: strata.atomic_rmw maxf %{{.*}} : f32, tensor<1024xf32>
// CHECK: scf.for
// CHECK: strata.atomic_rmw add %{{.*}} : f32, tensor<1024xf32>
func.func @atomics(%t: index {strata.range = [0, 255]}, %x: f32, %out: tensor<1024xf32> {strata.output = 0},
                   %max: tensor<1024xf32> {strata.output = 1}, %odd: tensor<1024xf32> {strata.output = 2})
    -> (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) attributes {strata.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %a = scf.for %s = %c0 to %c4 step %c1 iter_args(%o = %out) -> (tensor<1024xf32>) {
    %i = strata.apply_indexing <"(d0, d1) -> (d0 * 4 + d1), domain: d0 in [0, 255], d1 in [0, 3]">(%t, %s)
    %n = strata.atomic_rmw add %x into %o[%i] : f32, tensor<1024xf32>
    scf.yield %n : tensor<1024xf32>
  } {strata.vector}
  %b = scf.for %s = %c0 to %c4 step %c1 iter_args(%o = %max) -> (tensor<1024xf32>) {
    %i = strata.apply_indexing <"(d0, d1) -> (d0 * 4 + d1), domain: d0 in [0, 255], d1 in [0, 3]">(%t, %s)
    %n = strata.atomic_rmw maxf %x into %o[%i] : f32, tensor<1024xf32>
    scf.yield %n : tensor<1024xf32>
  } {strata.vector}
  %c = scf.for %s = %c0 to %c4 step %c1 iter_args(%o = %odd) -> (tensor<1024xf32>) {
    %i = strata.apply_indexing <"(d0, d1) -> (d0 * 3 + d1), domain: d0 in [0, 255], d1 in [0, 3]">(%t, %s)
    %n = strata.atomic_rmw add %x into %o[%i] : f32, tensor<1024xf32>
    scf.yield %n : tensor<1024xf32>
  } {strata.vector}
  return %a, %b, %c : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>
}

// Loads under conditions that are the same for all elements: what lies below 8 from a multiple of 4 on is one of them.
// CHECK-LABEL: func.func @conditional
// CHECK: %[[FIRST:.*]] = strata.apply_indexing <"(d0) -> (d0 * 4), domain: d0 in [0, 3]">(%arg0)
// CHECK: %[[BELOW:.*]] = arith.cmpi slt, %[[FIRST]]
// CHECK: scf.if %[[BELOW]] -> (vector<4xf32>)
// CHECK: vector.transfer_read %arg1
// CHECK: } else {
// CHECK-NEXT: arith.constant dense<0.000000e+00>
// CHECK: %[[NOT:.*]] = arith.xori %[[BELOW]]
// CHECK: scf.if %[[NOT]] -> (vector<4xf32>)
// CHECK: vector.transfer_read %arg2
// CHECK: scf.for
// CHECK-NOT: tensor.extract
// CHECK: vector.transfer_write
func.func @conditional(%t: index {strata.range = [0, 3]}, %a: tensor<8xf32> {strata.input = 0},
                       %b: tensor<8xf32> {strata.input = 1}, %out: tensor<16xf32> {strata.output = 0})
    -> tensor<16xf32> attributes {strata.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %r = scf.for %s = %c0 to %c4 step %c1 iter_args(%o = %out) -> (tensor<16xf32>) {
    %i = strata.apply_indexing <"(d0, d1) -> (d0 * 4 + d1), domain: d0 in [0, 3], d1 in [0, 3]">(%t, %s)
    %below = arith.cmpi slt, %i, %c8 : index
    %v = scf.if %below -> (f32) {
      %at = strata.apply_indexing <"(d0, d1) -> (d0 * 4 + d1), domain: d0 in [0, 1], d1 in [0, 3]">(%t, %s)
      %x = tensor.extract %a[%at] : tensor<8xf32>
      scf.yield %x : f32
    } else {
      %at = strata.apply_indexing <"(d0, d1) -> (d0 * 4 + d1 - 8), domain: d0 in [2, 3], d1 in [0, 3]">(%t, %s)
      %x = tensor.extract %b[%at] : tensor<8xf32>
      scf.yield %x : f32
    }
    %n = tensor.insert %v into %o[%i] : tensor<16xf32>
    scf.yield %n : tensor<16xf32>
  } {strata.vector}
  return %r : tensor<16xf32>
}

// A bound within a vector: the elements are on both sides.
// CHECK-LABEL: func.func @bound_within
// CHECK-NOT: transfer_read
// CHECK: tensor.extract
func.func @bound_within(%t: index {strata.range = [0, 3]}, %a: tensor<16xf32> {strata.input = 0},
                        %out: tensor<16xf32> {strata.output = 0}) -> tensor<16xf32> attributes {strata.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c9 = arith.constant 9 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %s = %c0 to %c4 step %c1 iter_args(%o = %out) -> (tensor<16xf32>) {
    %i = strata.apply_indexing <"(d0, d1) -> (d0 * 4 + d1), domain: d0 in [0, 3], d1 in [0, 3]">(%t, %s)
    %below = arith.cmpi slt, %i, %c9 : index
    %v = scf.if %below -> (f32) {
      %x = tensor.extract %a[%i] : tensor<16xf32>
      scf.yield %x : f32
    } else {
      scf.yield %zero : f32
    }
    %n = tensor.insert %v into %o[%i] : tensor<16xf32>
    scf.yield %n : tensor<16xf32>
  } {strata.vector}
  return %r : tensor<16xf32>
}
