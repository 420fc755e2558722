// Whole kernels from text to results.
#include <gtest/gtest.h>

#include "emitters/transforms/jit_testing.h"

namespace strata::emitters {
namespace {

/// out[i] = a[i] + b[i] over `size` elements, four a thread.
std::string add_kernel(int64_t size, const std::string& type) {
  constexpr int64_t kThreads = 32;
  const int64_t blocks = (size + 4 * kThreads - 1) / (4 * kThreads);
  const std::string tensor = fmt::format("tensor<{}x{}>", size, type);
  const std::string map = fmt::format(
      "(d0, d1)[s0] -> (d0 * 128 + d1 * 4 + s0), domain: d0 in [0, {}], d1 in [0, 31], s0 in [0, 3], "
      "d0 * 128 + d1 * 4 + s0 in [0, {}]",
      blocks - 1, size - 1);
  return fmt::format(R"(
func.func private @element(%a: {0}, %b: {0}, %i: index {{strata.range = [0, {2}]}}) -> {1} {{
  %x = tensor.extract %a[%i] : {0}
  %y = tensor.extract %b[%i] : {0}
  %z = arith.add{3} %x, %y : {1}
  return %z : {1}
}}
func.func @add(%a: {0} {{strata.input = 0}}, %b: {0} {{strata.input = 1}}, %out: {0} {{strata.output = 0}},
               %block: index {{strata.range = [0, {4}]}}, %thread: index {{strata.range = [0, 31]}}) -> {0}
    attributes {{strata.kernel}} {{
  %r = strata.loop (%block, %thread) in <"{5}"> iter_args(%o = %out) -> ({0})
      {{vector = 0 : i64}} do [%s] -> (%i) {{
    %v = strata.pure_call @element(%a, %b, %i) : ({0}, {0}, index) -> {1}
    %n = tensor.insert %v into %o[%i] : {0}
    strata.yield %n : {0}
  }}
  return %r : {0}
}})",
                     tensor, type, size - 1, type[0] == 'i' ? "i" : "f", blocks - 1, map);
}

template <class T>
void check_addition(int64_t size, const std::string& type) {
  SCOPED_TRACE(fmt::format("{} x {}", size, type));
  JitKernel kernel(add_kernel(size, type), "add");
  ASSERT_TRUE(kernel.ok());
  // Aligned as device memory is; one element more than is written.
  const auto count = static_cast<size_t>(size);
  alignas(256) static T a[4096], b[4096], out[4096];
  for (size_t i = 0; i < count; ++i) a[i] = static_cast<T>(3 * i), b[i] = static_cast<T>(i % 7);
  std::fill(out, out + count + 1, static_cast<T>(-1));
  kernel.run({a, b, out}, static_cast<int>((size + 127) / 128), 32);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], static_cast<T>(a[i] + b[i])) << i;
  EXPECT_EQ(out[count], static_cast<T>(-1));
}

TEST(Lowering, LoopsOfAllSizes) {
  for (const int64_t size : {1, 3, 4, 127, 128, 129, 1000, 1024, 2053}) {
    check_addition<float>(size, "f32");
    check_addition<int8_t>(size, "i8");
  }
  check_addition<double>(1000, "f64");
  check_addition<int16_t>(1000, "i16");
}

}  // namespace
}  // namespace strata::emitters
