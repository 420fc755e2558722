// RUN: %strata --allow-unregistered-dialect --strata-lower-tensors --canonicalize --cse %s | FileCheck %s
// RUN: %strata --allow-unregistered-dialect --strata-lower-tensors-gpu %s | FileCheck %s --check-prefix=GPU

// CHECK: llvm.mlir.global internal constant @[[TABLE:.*]](dense<[1, 0, 1]> : tensor<3xi8>) {{.*}}alignment = 256{{.*}} : !llvm.array<3 x i8>
// GPU: llvm.mlir.global internal constant @{{.*}}addr_space = 1

// Tensors vanish from loops and results; what inputs hold never changes. One over which an output is written is read
// where the output lies.
// CHECK-LABEL: func.func @kernel
// CHECK-SAME: (%[[IN:[^:]*]]: !llvm.ptr {llvm.align = 16 : i64, llvm.dereferenceable = 4096 : i64, llvm.noalias, llvm.nocapture, llvm.readonly}
// CHECK-SAME: !llvm.ptr {llvm.align = 16 : i64, llvm.dereferenceable = 4096 : i64, llvm.noalias, llvm.nocapture, llvm.readonly}
// CHECK-SAME: %[[OUT:[^:]*]]: !llvm.ptr {llvm.align = 16 : i64, llvm.dereferenceable = 4096 : i64, llvm.noalias, llvm.nocapture}
// CHECK-SAME: %[[SHARED:[^:]*]]: !llvm.ptr {llvm.align = 16 : i64, llvm.noalias})
// CHECK-SAME: strata.shared_bytes = 0
// GPU-LABEL: func.func @kernel
// GPU-SAME: !llvm.ptr<3>
// CHECK: scf.for %[[I:[^ ]*]] = %c0{{.*}} {
// CHECK: %[[P:.*]] = arith.index_castui %[[I]] : index to i64
// CHECK: %[[A:.*]] = llvm.getelementptr inbounds %[[IN]][%[[P]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK: llvm.load %[[A]] invariant {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK: %[[B:.*]] = llvm.getelementptr inbounds %[[OUT]][%[[P]]]
// CHECK: llvm.load %[[B]] {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK: scf.if
// CHECK: llvm.store %{{.*}}, %{{.*}} {alignment = 4 : i64} : f32, !llvm.ptr
// CHECK: return
// CHECK-NOT: tensor
func.func @kernel(%in: tensor<1024xf32> {strata.input = 0}, %old: tensor<1024xf32> {strata.input = 1},
                  %out: tensor<1024xf32> {strata.output = 0, strata.alias = 1},
                  %b: index {strata.range = [0, 0]}, %t: index {strata.range = [0, 0]}) -> tensor<1024xf32>
    attributes {strata.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c1024 = arith.constant 1024 : index
  %r = scf.for %i = %c0 to %c1024 step %c1 iter_args(%o = %out) -> (tensor<1024xf32>) {
    %a = tensor.extract %in[%i] : tensor<1024xf32>
    %x = tensor.extract %old[%i] : tensor<1024xf32>
    %s = arith.addf %a, %x : f32
    %p = arith.cmpf olt, %a, %x : f32
    %n = strata.predicated_insert %s into %o[%i] if %p : f32, tensor<1024xf32>
    scf.yield %n : tensor<1024xf32>
  }
  return %r : tensor<1024xf32>
}

// Tiles lie one after the other; pred and small integers take a byte, complex numbers two parts.
// CHECK-LABEL: func.func @elements
// CHECK-SAME: strata.shared_bytes = 4240
// CHECK: llvm.mlir.addressof @[[TABLE]]
// CHECK: %[[BYTE:.*]] = llvm.load {{.*}} invariant {alignment = 1 : i64} : !llvm.ptr -> i8
// CHECK: %[[TRUE:.*]] = arith.cmpi ne, %[[BYTE]]
// CHECK: scf.if %[[TRUE]] -> (complex<f32>)
// CHECK: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr -> vector<2xf32>
// CHECK: llvm.store %c5_i8, %{{.*}} {alignment = 1 : i64} : i8, !llvm.ptr
// CHECK: call @strata_barrier()
// CHECK: arith.trunci {{.*}} : i8 to i4
// GPU-LABEL: func.func @elements
// GPU: llvm.getelementptr inbounds %{{.*}}[4224] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
func.func @elements(%z: tensor<8xcomplex<f32>> {strata.output = 0}, %b: index {strata.range = [0, 2]},
                    %t: index {strata.range = [0, 7]}) -> tensor<8xcomplex<f32>> attributes {strata.kernel} {
  %table = arith.constant dense<[true, false, true]> : tensor<3xi1>
  %p = tensor.extract %table[%b] : tensor<3xi1>
  %zero = complex.constant [0.0 : f32, 0.0 : f32] : complex<f32>
  %c = strata.predicated_extract %z[%t] if %p else %zero : complex<f32>, tensor<8xcomplex<f32>>
  %big = strata.allocate_shared : tensor<32x32xf32, #strata.shared<padding = 1>>
  %small = strata.allocate_shared : tensor<3xi4>
  %x = arith.constant 1.0 : f32
  %y = arith.constant 5 : i4
  %big1 = tensor.insert %x into %big[%t, %b] : tensor<32x32xf32, #strata.shared<padding = 1>>
  %small1 = tensor.insert %y into %small[%b] : tensor<3xi4>
  %s:2 = strata.sync_threads %big1, %small1 : tensor<32x32xf32, #strata.shared<padding = 1>>, tensor<3xi4>
  %v = tensor.extract %s#1[%b] : tensor<3xi4>
  "use"(%v) : (i4) -> ()
  %n = tensor.insert %c into %z[%t] : tensor<8xcomplex<f32>>
  return %n : tensor<8xcomplex<f32>>
}

// Sixteen bytes are four words: no GPU accesses sixteen elements at a time.
// CHECK-LABEL: func.func @bytes
// CHECK: llvm.load {{.*}} : !llvm.ptr -> vector<4xi32>
// CHECK: llvm.store {{.*}} : vector<16xi8>, !llvm.ptr
// GPU-LABEL: func.func @bytes
// GPU: llvm.load {{.*}} : !llvm.ptr -> vector<4xi32>
// GPU-COUNT-4: llvm.call_intrinsic "llvm.nvvm.prmt"
// GPU: llvm.store {{.*}} : vector<4xi32>, !llvm.ptr
func.func @bytes(%in: tensor<256xi8> {strata.input = 0}, %out: tensor<256xi8> {strata.output = 0},
                 %b: index {strata.range = [0, 0]}, %t: index {strata.range = [0, 15]}) -> tensor<256xi8>
    attributes {strata.kernel} {
  %zero = arith.constant 0 : i8
  %i = strata.apply_indexing <"(d0) -> (d0 * 16), domain: d0 in [0, 15]">(%t)
  %v = vector.transfer_read %in[%i], %zero {in_bounds = [true]} : tensor<256xi8>, vector<16xi8>
  %n = arith.addi %v, %v : vector<16xi8>
  %w = vector.transfer_write %n, %out[%i] {in_bounds = [true]} : vector<16xi8>, tensor<256xi8>
  return %w : tensor<256xi8>
}
