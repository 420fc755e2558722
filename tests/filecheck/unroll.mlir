// RUN: %strata --allow-unregistered-dialect --strata-unroll --cse %s | FileCheck %s

// Few iterations: no loop is left.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: scf.for
// CHECK: "use"(%c0
// CHECK: "use"(%c2
// CHECK: "use"(%c4
// CHECK: return
func.func @whole() {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c6 = arith.constant 6 : index
  scf.for %i = %c0 to %c6 step %c2 {
    "use"(%i) : (index) -> ()
  }
  return
}

// Many: as many copies as keep half of the registers for loads, eight here.
// CHECK-LABEL: func.func @part
// CHECK: scf.for %[[I:[^ ]*]] = %c0{{.*}} to %c1024{{.*}} step %c8
// CHECK-COUNT-8: tensor.extract
// CHECK-NOT: tensor.extract
// CHECK: scf.yield
func.func @part(%t: tensor<1024xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c1024 = arith.constant 1024 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c1024 step %c1 iter_args(%a = %zero) -> (f32) {
    %v = tensor.extract %t[%i] : tensor<1024xf32>
    %n = arith.addf %a, %v : f32
    scf.yield %n : f32
  }
  return %r : f32
}

// Sixteen registers an iteration: two copies.
// CHECK-LABEL: func.func @wide
// CHECK: scf.for {{.*}} step %c2
// CHECK-COUNT-8: vector.transfer_read
// CHECK-NOT: vector.transfer_read
// CHECK: }
func.func @wide(%t: tensor<4096xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c64 step %c1 {
    %p = strata.apply_indexing <"(d0) -> (d0 * 16), domain: d0 in [0, 63]">(%i)
    %a = vector.transfer_read %t[%p], %zero {in_bounds = [true]} : tensor<4096xf32>, vector<4xf32>
    %q = strata.apply_indexing <"(d0) -> (d0 * 16 + 4), domain: d0 in [0, 63]">(%i)
    %b = vector.transfer_read %t[%q], %zero {in_bounds = [true]} : tensor<4096xf32>, vector<4xf32>
    %r = strata.apply_indexing <"(d0) -> (d0 * 16 + 8), domain: d0 in [0, 63]">(%i)
    %c = vector.transfer_read %t[%r], %zero {in_bounds = [true]} : tensor<4096xf32>, vector<4xf32>
    %s = strata.apply_indexing <"(d0) -> (d0 * 16 + 12), domain: d0 in [0, 63]">(%i)
    %d = vector.transfer_read %t[%s], %zero {in_bounds = [true]} : tensor<4096xf32>, vector<4xf32>
    "use"(%a, %b, %c, %d) : (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) -> ()
  }
  return
}

// An odd number of iterations: eight at a time, and those that are left.
// CHECK-LABEL: func.func @rest
// CHECK: scf.for %[[I:[^ ]*]] = %c0{{.*}} to %c32{{.*}} step %c8
// CHECK-COUNT-8: tensor.extract
// CHECK-NOT: tensor.extract
// CHECK: scf.yield
// CHECK-COUNT-7: tensor.extract
// CHECK-NOT: scf.for
// CHECK: return
func.func @rest(%t: tensor<39xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c39 = arith.constant 39 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c39 step %c1 iter_args(%a = %zero) -> (f32) {
    %v = tensor.extract %t[%i] : tensor<39xf32>
    %n = arith.addf %a, %v : f32
    scf.yield %n : f32
  }
  return %r : f32
}

// Sums of a thread's four rows are one vector: while a loop finds them by its variable, they are in no register. So it
// disappears, whatever its size (here, what its loads would keep waiting).
// CHECK-LABEL: func.func @rows
// CHECK-NOT: scf.for
// CHECK-COUNT-4: vector.insert
// CHECK-NOT: scf.for
// CHECK: return
func.func @rows(%t: tensor<4096xf32>, %sums: vector<4xf32>) -> vector<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%all = %sums) -> (vector<4xf32>) {
    %p = strata.apply_indexing <"(d0) -> (d0 * 32), domain: d0 in [0, 3]">(%i)
    %v = vector.transfer_read %t[%p], %zero {in_bounds = [true]} : tensor<4096xf32>, vector<32xf32>
    %x = vector.extract %v[0] : f32 from vector<32xf32>
    %old = vector.extract %all[%i] : f32 from vector<4xf32>
    %sum = arith.addf %old, %x : f32
    %next = vector.insert %sum, %all[%i] : f32 into vector<4xf32>
    "use"(%v) : (vector<32xf32>) -> ()
    scf.yield %next : vector<4xf32>
  }
  return %r : vector<4xf32>
}

// A vector that no place of the loop's is found in is nothing special.
// CHECK-LABEL: func.func @one_place
// CHECK: scf.for
// CHECK: return
func.func @one_place(%t: tensor<4096xf32>, %sums: vector<4xf32>, %k: index) -> vector<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%all = %sums) -> (vector<4xf32>) {
    %p = strata.apply_indexing <"(d0) -> (d0 * 32), domain: d0 in [0, 3]">(%i)
    %v = vector.transfer_read %t[%p], %zero {in_bounds = [true]} : tensor<4096xf32>, vector<32xf32>
    %x = vector.extract %v[0] : f32 from vector<32xf32>
    %next = vector.insert %x, %all[%k] : f32 into vector<4xf32>
    "use"(%v) : (vector<32xf32>) -> ()
    scf.yield %next : vector<4xf32>
  }
  return %r : vector<4xf32>
}
