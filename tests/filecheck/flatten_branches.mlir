// RUN: %strata --strata-flatten-branches %s | FileCheck %s

// Padding at the end of rows of 92: all elements read, at a place within the array, and 0 is chosen after that.
// CHECK-LABEL: func.func @padded
// CHECK: %[[AT:.*]] = strata.apply_indexing <"(d0) -> (d0 + 1), domain: d0 in [0, 99]">
// CHECK: %[[INTEGER:.*]] = arith.index_cast %[[AT]] : index to i32
// CHECK: %[[LAST:.*]] = arith.constant 92 : i32
// CHECK: %[[WITHIN:.*]] = arith.minui %[[INTEGER]], %[[LAST]] : i32
// CHECK: %[[PLACE:.*]] = arith.index_castui %[[WITHIN]]
// CHECK: tensor.extract %{{.*}}[%[[PLACE]]]
// CHECK-NOT: scf.if
// CHECK: arith.select
func.func @padded(%x: tensor<93xf32>, %i: index {strata.range = [0 : index, 99 : index]}) -> f32 {
  %c91 = arith.constant 91 : index
  %zero = arith.constant 0.0 : f32
  %inside = arith.cmpi sle, %i, %c91 : index
  %r = scf.if %inside -> (f32) {
    %at = strata.apply_indexing <"(d0) -> (d0 + 1), domain: d0 in [0, 91]">(%i)
    %v = tensor.extract %x[%at] : tensor<93xf32>
    %e = math.exp %v : f32
    scf.yield %e : f32
  } else {
    scf.yield %zero : f32
  } {strata.share = 9.200000e-01 : f64}
  return %r : f32
}

// Within the array for all elements: nothing is limited.
// CHECK-LABEL: func.func @within
// CHECK-NOT: minui
// CHECK: tensor.extract
// CHECK-NOT: scf.if
func.func @within(%x: tensor<100xf32>, %i: index {strata.range = [0 : index, 99 : index]}) -> f32 {
  %c91 = arith.constant 91 : index
  %zero = arith.constant 0.0 : f32
  %inside = arith.cmpi sle, %i, %c91 : index
  %r = scf.if %inside -> (f32) {
    %v = tensor.extract %x[%i] : tensor<100xf32>
    scf.yield %v : f32
  } else {
    scf.yield %zero : f32
  } {strata.share = 9.200000e-01 : f64}
  return %r : f32
}

// A side that few elements take, and that takes more than a load that is waited for.
// CHECK-LABEL: func.func @seldom
// CHECK: scf.if
func.func @seldom(%x: tensor<100xf32>, %i: index {strata.range = [0 : index, 99 : index]}) -> f32 {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %inside = arith.cmpi sle, %i, %c1 : index
  %r = scf.if %inside -> (f32) {
    %v = tensor.extract %x[%i] : tensor<100xf32>
    %a = math.exp %v : f32
    %b = math.exp %a : f32
    scf.yield %b : f32
  } else {
    scf.yield %zero : f32
  } {strata.share = 2.000000e-02 : f64}
  return %r : f32
}

// Branches that nothing is known of, that have effects, and integer quotients, which may have no value.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-3: scf.if
func.func @stays(%x: tensor<100xf32>, %n: tensor<100xi32>, %out: tensor<100xf32>,
                 %i: index {strata.range = [0 : index, 99 : index]}) -> (f32, i32, tensor<100xf32>) {
  %c91 = arith.constant 91 : index
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %inside = arith.cmpi sle, %i, %c91 : index
  %r = scf.if %inside -> (f32) {
    %v = tensor.extract %x[%i] : tensor<100xf32>
    scf.yield %v : f32
  } else {
    scf.yield %zero : f32
  }
  %q = scf.if %inside -> (i32) {
    %v = tensor.extract %n[%i] : tensor<100xi32>
    %d = arith.divsi %v, %v : i32
    scf.yield %d : i32
  } else {
    scf.yield %c0 : i32
  } {strata.share = 9.200000e-01 : f64}
  %w = scf.if %inside -> (tensor<100xf32>) {
    %v = tensor.extract %x[%i] : tensor<100xf32>
    %after = tensor.insert %v into %out[%i] : tensor<100xf32>
    scf.yield %after : tensor<100xf32>
  } else {
    scf.yield %out : tensor<100xf32>
  } {strata.share = 9.200000e-01 : f64}
  return %r, %q, %w : f32, i32, tensor<100xf32>
}
