// RUN: %strata --strata-lower-shuffles %s | FileCheck %s

func.func private @add(f32, f32) -> f32
func.func private @argmax(f16, i64, f16, i64) -> (f16, i64)
func.func private @or(i1, i1) -> i1
// CHECK: func.func private @strata_shuffle_down(i32, i32) -> i32

// CHECK-LABEL: func.func @sum
// CHECK: %[[TWO:.*]] = arith.constant 2 : i32
// CHECK: %[[BITS:.*]] = llvm.bitcast %arg0 : f32 to i32
// CHECK: %[[MOVED:.*]] = call @strata_shuffle_down(%[[BITS]], %[[TWO]])
// CHECK: %[[OTHER:.*]] = llvm.bitcast %[[MOVED]] : i32 to f32
// CHECK: %[[HALF:.*]] = strata.pure_call @add(%arg0, %[[OTHER]])
// CHECK: %[[ONE:.*]] = arith.constant 1 : i32
// CHECK: call @strata_shuffle_down(%{{.*}}, %[[ONE]])
// CHECK: %[[WHOLE:.*]] = strata.pure_call @add(%[[HALF]], %{{.*}})
// CHECK: return %[[WHOLE]]
func.func @sum(%x: f32) -> f32 {
  %r = strata.shuffle_reduce(%x) to 2 combiner = @add : f32
  return %r : f32
}

// Narrow values are widened, wide ones go word by word; the lower lane's values come first.
// CHECK-LABEL: func.func @variadic
// CHECK: arith.extui %{{.*}} : i16 to i32
// CHECK-COUNT-3: call @strata_shuffle_down
// CHECK: strata.pure_call @argmax(%arg0, %arg1, %{{.*}}, %{{.*}}) : (f16, i64, f16, i64) -> (f16, i64)
func.func @variadic(%x: f16, %i: i64) -> (f16, i64) {
  %r:2 = strata.shuffle_reduce(%x, %i) to 1 combiner = @argmax : f16, i64
  return %r#0, %r#1 : f16, i64
}

// CHECK-LABEL: func.func @pred
// CHECK: arith.extui %arg0 : i1 to i8
// CHECK: call @strata_shuffle_down
// CHECK: arith.cmpi ne
func.func @pred(%x: i1) -> i1 {
  %r = strata.shuffle_reduce(%x) to 1 combiner = @or : i1
  return %r : i1
}
