// RUN: %strata --strata-lower-shuffles %s | FileCheck %s --check-prefix=CPU
// RUN: %strata --strata-lower-shuffles-gpu %s | FileCheck %s --check-prefix=GPU

// On a GPU a call of the instruction's function, with the matrices' words.
// GPU: func.func private @strata_warp_product_s8(i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32)
// GPU: func.func private @strata_warp_product_f16(i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
// GPU: func.func private @strata_warp_product_bf16(i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
// GPU-LABEL: func.func @product
// GPU: vector.bitcast %arg0 : vector<8xbf16> to vector<4xi32>
// GPU: vector.bitcast %arg1 : vector<4xbf16> to vector<2xi32>
// GPU: %[[SUMS:.*]]:4 = call @strata_warp_product_bf16
// GPU: vector.insert %[[SUMS]]#0
// GPU-NOT: strata_shuffle

// Elsewhere the words of four lanes with the lane's rows, and of four for each of its two columns.
// CPU-LABEL: func.func @product
// CPU-COUNT-32: call @strata_shuffle_index
// CPU-NOT: call
// CPU: return
func.func @product(%a: vector<8xbf16>, %b: vector<4xbf16>, %c: vector<4xf32>, %lane: index) -> vector<4xf32> {
  %s = strata.warp_product %a, %b into %c lane %lane : vector<8xbf16>, vector<4xbf16>, vector<4xf32>
  return %s : vector<4xf32>
}

// GPU-LABEL: func.func @halves
// GPU: call @strata_warp_product_f16
func.func @halves(%a: vector<8xf16>, %b: vector<4xf16>, %c: vector<4xf32>, %lane: index) -> vector<4xf32> {
  %s = strata.warp_product %a, %b into %c lane %lane : vector<8xf16>, vector<4xf16>, vector<4xf32>
  return %s : vector<4xf32>
}

// Of bytes four are in a word, which are signed.
// GPU-LABEL: func.func @bytes
// GPU: vector.bitcast %arg0 : vector<16xi8> to vector<4xi32>
// GPU: vector.bitcast %arg1 : vector<8xi8> to vector<2xi32>
// GPU: call @strata_warp_product_s8
// CPU-LABEL: func.func @bytes
// CPU-COUNT-32: call @strata_shuffle_index
// CPU-NOT: call
// CPU: arith.extsi
// CPU: arith.muli
// CPU: return
func.func @bytes(%a: vector<16xi8>, %b: vector<8xi8>, %c: vector<4xi32>, %lane: index) -> vector<4xi32> {
  %s = strata.warp_product %a, %b into %c lane %lane : vector<16xi8>, vector<8xi8>, vector<4xi32>
  return %s : vector<4xi32>
}
