// RUN: %strata --split-input-file --verify-diagnostics %s -o /dev/null

func.func @ranges(%x: index) {
  // expected-error @+1 {{needs a map of dimensions only}}
  %p = strata.apply_indexing <"(d0)[s0] -> (d0 + s0), domain: d0 in [0, 7], s0 in [0, 7]">(%x)
  return
}
// -----
func.func @constraints(%x: index) {
  // expected-error @+1 {{needs a map without constraints}}
  %p = strata.apply_indexing <"(d0) -> (d0), domain: d0 in [0, 7], d0 mod 2 in [0, 0]">(%x)
  return
}
// -----
func.func @operands(%x: index) {
  // expected-error @+1 {{has 1 operands for 2 dimensions}}
  %p = strata.apply_indexing <"(d0, d1) -> (d0), domain: d0 in [0, 7], d1 in [0, 7]">(%x)
  return
}
// -----
func.func @results(%x: index) {
  // expected-error @+1 {{has 2 results for 1 of the map}}
  %p:2 = strata.apply_indexing <"(d0) -> (d0), domain: d0 in [0, 7]">(%x) : 2
  return
}
// -----
func.func @loop_dimensions(%x: index) {
  // expected-error @+1 {{has 1 operands for 0 dimensions}}
  strata.loop (%x) in <"()[s0] -> (s0), domain: s0 in [0, 7]"> do [%s] -> (%i) {
  }
  return
}
// -----
func.func @vector() {
  // expected-error @+1 {{has no range variable 1 to take as the vector}}
  strata.loop () in <"()[s0] -> (s0), domain: s0 in [0, 7]"> {vector = 1 : i64} do [%s] -> (%i) {
  }
  return
}
// -----
func.func @body() {
  // expected-error @+1 {{needs a body over range variables, results of the map and iteration arguments}}
  strata.loop () in <"()[s0] -> (s0), domain: s0 in [0, 7]"> do [%s] -> () {
  }
  return
}
// -----
func.func @yields(%x: f32) {
  // expected-error @+1 {{yields other types than its iteration arguments'}}
  %r = strata.loop () in <"()[s0] -> (s0), domain: s0 in [0, 7]"> iter_args(%a = %x) -> (f32) do [%s] -> (%i) {
    strata.yield %i : index
  }
  return
}
// -----
func.func @callee(%x: f32) {
  // expected-error @+1 {{which is no function}}
  %r = strata.pure_call @missing(%x) : (f32) -> f32
  return
}
// -----
func.func private @f(f32) -> f32
func.func @types(%x: f64) {
  // expected-error @+1 {{has other types than}}
  %r = strata.pure_call @f(%x) : (f64) -> f64
  return
}
// -----
func.func @rank(%t: tensor<8xf32>, %x: f32, %i: index, %p: i1) {
  // expected-error @+1 {{has 2 indices for a tensor of rank 1}}
  %r = strata.predicated_insert %x into %t[%i, %i] if %p : f32, tensor<8xf32>
  return
}
// -----
func.func @element(%t: tensor<8xf32>, %x: f64, %i: index, %p: i1) {
  // expected-error @+1 {{has a value of type 'f64' for elements of 'f32'}}
  %r = strata.predicated_extract %t[%i] if %p else %x : f64, tensor<8xf32>
  return
}
// -----
func.func @custom(%t: tensor<8xf32>, %x: f32, %i: index) {
  // expected-error @+1 {{has a region if and only if its combiner is custom}}
  %r = strata.atomic_rmw custom %x into %t[%i] : f32, tensor<8xf32>
  return
}
// -----
func.func @floats(%t: tensor<8xi32>, %x: i32, %i: index) {
  // expected-error @+1 {{needs floats for maxf}}
  %r = strata.atomic_rmw maxf %x into %t[%i] : i32, tensor<8xi32>
  return
}
// -----
func.func @integers(%t: tensor<8xf32>, %x: f32, %i: index) {
  // expected-error @+1 {{needs integers for and}}
  %r = strata.atomic_rmw and %x into %t[%i] : f32, tensor<8xf32>
  return
}
// -----
func.func @vectors(%t: tensor<8xi32>, %x: vector<4xi32>, %i: index) {
  // expected-error @+1 {{takes vectors of one dimension, of floats to be added}}
  %r = strata.atomic_rmw add %x into %t[%i] : vector<4xi32>, tensor<8xi32>
  return
}
// -----
func.func @region(%t: tensor<8xf32>, %x: f32, %i: index) {
  // expected-error @+1 {{needs a region from two values}}
  %r = strata.atomic_rmw custom %x into %t[%i] : f32, tensor<8xf32> {
  ^bb0(%old: f32):
    strata.yield %old : f32
  }
  return
}
// -----
func.func private @add(f32, f32) -> f32
func.func @distance(%x: f32) {
  // expected-error @+1 {{needs a power of two from 1 to 16 as distance, not 3}}
  %r = strata.shuffle_reduce(%x) to 3 combiner = @add : f32
  return
}
// -----
func.func private @add(f32) -> f32
func.func @combiner(%x: f32) {
  // expected-error @+1 {{needs a combiner of two times its values to its values}}
  %r = strata.shuffle_reduce(%x) to 2 combiner = @add : f32
  return
}
// -----
func.func @nothing(%x: f32) {
  // expected-error @+1 {{which is no function}}
  %r = strata.shuffle_reduce(%x) to 2 combiner = @add : f32
  return
}
// -----
func.func @text(%x: index) {
  // expected-error @+1 {{expected}}
  %p = strata.apply_indexing <"(d0) -> (d0 +), domain: d0 in [0, 7]">(%x)
  return
}
// -----
func.func @fetch(%t: tensor<8xi32>, %i: index, %x: i32) -> i32 {
  // expected-error @+1 {{has no instruction for mul}}
  %old, %u = strata.atomic_fetch mul %x into %t[%i] : i32, tensor<8xi32>
  return %old : i32
}
// -----
func.func @fetch_index(%t: tensor<8xi32>, %x: i32) -> i32 {
  // expected-error @+1 {{needs an index a dimension}}
  %old, %u = strata.atomic_fetch add %x into %t[] : i32, tensor<8xi32>
  return %old : i32
}
