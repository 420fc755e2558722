// RUN: %strata --strata-hoist-loops %s | FileCheck %s

// A sum of a row that each term of another sum is multiplied by: once, in front.
// CHECK-LABEL: func.func @row
// CHECK: %[[SUM:.*]] = scf.for
// CHECK: arith.addf
// CHECK: scf.for
// CHECK-NOT: scf.for
// CHECK: arith.mulf %{{.*}}, %[[SUM]]
func.func @row(%x: tensor<400xf32>, %row: index) -> f32 {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c40 = arith.constant 40 : index
  %r = scf.for %i = %c0 to %c40 step %c1 iter_args(%sum = %zero) -> (f32) {
    %first = arith.muli %row, %c40 : index
    %s = scf.for %k = %c0 to %c40 step %c1 iter_args(%inner = %zero) -> (f32) {
      %at = arith.addi %first, %k : index
      %v = tensor.extract %x[%at] : tensor<400xf32>
      %n = arith.addf %inner, %v : f32
      scf.yield %n : f32
    }
    %at = arith.addi %first, %i : index
    %v = tensor.extract %x[%at] : tensor<400xf32>
    %p = arith.mulf %v, %s : f32
    %n = arith.addf %sum, %p : f32
    scf.yield %n : f32
  }
  return %r : f32
}

// One that differs between the iterations stays, and so does one that writes.
// CHECK-LABEL: func.func @stays
// CHECK: scf.for
// CHECK: scf.for
// CHECK: tensor.extract
// CHECK: scf.for
// CHECK: tensor.insert
func.func @stays(%x: tensor<400xf32>, %out: tensor<40xf32>) -> (f32, tensor<40xf32>) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c40 = arith.constant 40 : index
  %r:2 = scf.for %i = %c0 to %c40 step %c1 iter_args(%sum = %zero, %o = %out) -> (f32, tensor<40xf32>) {
    %s = scf.for %k = %c0 to %c40 step %c1 iter_args(%inner = %zero) -> (f32) {
      %at = arith.addi %i, %k : index
      %v = tensor.extract %x[%at] : tensor<400xf32>
      %n = arith.addf %inner, %v : f32
      scf.yield %n : f32
    }
    %w = scf.for %k = %c0 to %c40 step %c1 iter_args(%a = %out) -> (tensor<40xf32>) {
      %n = tensor.insert %zero into %a[%k] : tensor<40xf32>
      scf.yield %n : tensor<40xf32>
    }
    %n = arith.addf %sum, %s : f32
    scf.yield %n, %w : f32, tensor<40xf32>
  }
  return %r#0, %r#1 : f32, tensor<40xf32>
}

// A loop that may have no iterations reads nothing before.
// CHECK-LABEL: func.func @perhaps
// CHECK: scf.for
// CHECK-NEXT: scf.for
func.func @perhaps(%x: tensor<400xf32>, %count: index) -> f32 {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c40 = arith.constant 40 : index
  %r = scf.for %i = %c0 to %count step %c1 iter_args(%sum = %zero) -> (f32) {
    %s = scf.for %k = %c0 to %c40 step %c1 iter_args(%inner = %zero) -> (f32) {
      %v = tensor.extract %x[%k] : tensor<400xf32>
      %n = arith.addf %inner, %v : f32
      scf.yield %n : f32
    }
    %n = arith.addf %sum, %s : f32
    scf.yield %n : f32
  }
  return %r : f32
}
