// RUN: %strata --strata-split-loops %s | FileCheck %s
// RUN: %strata --strata-split-loops --strata-lower-loops %s | FileCheck %s --check-prefix=LOWERED

// All blocks but the last are whole: the loop over them has no constraints.
// CHECK-LABEL: func.func @last_block
// CHECK: %[[IN:.*]] = strata.loop {{.*}} domain: d0 in [0, 6], d1 in [0, 127], s0 in [0, 3]"> iter_args(%{{.*}} = %[[OUT:.*]]) ->
// CHECK: strata.loop {{.*}} domain: d0 in [7, 7], {{.*}} iter_args(%{{.*}} = %[[IN]]) ->
// LOWERED-LABEL: func.func @last_block
// LOWERED: scf.if
// LOWERED-NOT: scf.if
// LOWERED: scf.for
// LOWERED-NOT: scf.if
// LOWERED: tensor.insert
// LOWERED: else
// LOWERED: scf.if
// LOWERED-NOT: scf.if
// LOWERED: scf.for
// LOWERED-NOT: scf.if
// LOWERED: tensor.insert
func.func @last_block(%v: f32, %out: tensor<4000xf32>, %b: index {strata.range = [0, 7]},
                      %t: index {strata.range = [0, 127]}) -> tensor<4000xf32> {
  %r = strata.loop (%b, %t) in <"(d0, d1)[s0] -> (d0 * 512 + d1 * 4 + s0), domain: d0 in [0, 7], d1 in [0, 127], s0 in [0, 3], d0 * 512 + d1 * 4 + s0 in [0, 3999]"> iter_args(%o = %out) -> (tensor<4000xf32>) do [%s] -> (%i) {
    %n = tensor.insert %v into %o[%i] : tensor<4000xf32>
    strata.yield %n : tensor<4000xf32>
  }
  return %r : tensor<4000xf32>
}

// A loop with a barrier in it is not copied: all threads must come to the same one.
// CHECK-LABEL: func.func @barrier
// CHECK-COUNT-1: strata.loop
// CHECK-NOT: strata.loop
func.func @barrier(%b: index {strata.range = [0, 7]}, %t: tensor<8xf32>) {
  strata.loop (%b) in <"(d0)[s0] -> (d0 * 512 + s0), domain: d0 in [0, 7], s0 in [0, 511], d0 * 512 + s0 in [0, 3999]"> do [%s] -> (%i) {
    %s1 = strata.sync_threads %t : tensor<8xf32>
  }
  return
}
