// Where elements lie and how they are updated, run on this machine.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "emitters/transforms/jit_testing.h"
#include "indexing/memory_access.h"

namespace strata::emitters {
namespace {

/// Thread t writes t into element (t / columns, t mod columns) of a tile.
std::string tile_kernel(const indexing::SharedTile& tile, int64_t threads) {
  std::string layout;
  if (tile.padding > 0) layout = fmt::format(", #strata.shared<padding = {}>", tile.padding);
  if (tile.swizzle_chunk > 0) {
    layout = fmt::format(", #strata.shared<padding = {}, chunk = {}>", tile.padding, tile.swizzle_chunk);
  }
  const std::string type = fmt::format("tensor<{}x{}xi32{}>", tile.shape[0], tile.shape[1], layout);
  return fmt::format(R"(
func.func @tile(%out: tensor<1xi32> {{strata.output = 0}}, %block: index {{strata.range = [0, 0]}},
                %thread: index {{strata.range = [0, {1}]}}) -> tensor<1xi32> attributes {{strata.kernel}} {{
  %tile = strata.allocate_shared : {0}
  %i:2 = strata.apply_indexing <"(d0) -> (d0 floordiv {2}, d0 mod {2}), domain: d0 in [0, {1}]">(%thread) : 2
  %v = arith.index_cast %thread : index to i32
  %t = tensor.insert %v into %tile[%i#0, %i#1] : {0}
  %s = strata.sync_threads %t : {0}
  %w = tensor.extract %s[%i#0, %i#1] : {0}
  %c0 = arith.constant 0 : index
  %o = tensor.insert %w into %out[%c0] : tensor<1xi32>
  return %o : tensor<1xi32>
}})",
                     type, threads - 1, tile.shape[1]);
}

TEST(Memory, TilesLieAsSharedTileSays) {
  const indexing::SharedTile tiles[] = {
      {.shape = {4, 8}},
      {.shape = {8, 33}, .padding = 1},
      {.shape = {16, 32}, .swizzle_chunk = 1},
      {.shape = {16, 32}, .swizzle_chunk = 4},
      {.shape = {8, 16}, .padding = 4, .swizzle_chunk = 2},
  };
  for (const indexing::SharedTile& tile : tiles) {
    const int64_t threads = tile.shape[0] * tile.shape[1];
    JitKernel kernel(tile_kernel(tile, threads), "tile");
    ASSERT_TRUE(kernel.ok());
    EXPECT_EQ(kernel.shared().size(), static_cast<size_t>((tile.bytes() + 15) / 16 * 16));
    int32_t last = -1;
    kernel.run({&last}, 1, static_cast<int>(threads));
    EXPECT_EQ(last, threads - 1);
    for (int64_t i = 0; i < threads; ++i) {
      const int64_t address = tile.address({i / tile.shape[1], i % tile.shape[1]});
      int32_t value = 0;
      std::memcpy(&value, kernel.shared().data() + 4 * address, sizeof value);
      ASSERT_EQ(value, i);
    }
  }
}

/// Element t mod 8 of `out` is combined with element t of `in`, for 1024 threads.
std::string atomic_kernel(const std::string& type, const std::string& combiner, const std::string& body = "") {
  return fmt::format(R"(
func.func @update(%in: tensor<1024x{0}> {{strata.input = 0}}, %out: tensor<8x{0}> {{strata.output = 0}},
                  %block: index {{strata.range = [0, 0]}}, %thread: index {{strata.range = [0, 1023]}}) -> tensor<8x{0}>
    attributes {{strata.kernel}} {{
  %v = tensor.extract %in[%thread] : tensor<1024x{0}>
  %i = strata.apply_indexing <"(d0) -> (d0 mod 8), domain: d0 in [0, 1023]">(%thread)
  %o = strata.atomic_rmw {1} %v into %out[%i] : {0}, tensor<8x{0}> {2}
  return %o : tensor<8x{0}>
}})",
                     type, combiner, body);
}

/// Compares the result of the updates, from four threads of this machine at once, with those by `combine` in order.
template <class T, class Combine>
void check_atomic(const std::string& type, const std::string& combiner, const Combine& combine,
                  const std::vector<T>& values, T start, const std::string& body = "") {
  SCOPED_TRACE(type + " " + combiner);
  JitKernel kernel(atomic_kernel(type, combiner, body), "update");
  ASSERT_TRUE(kernel.ok());
  alignas(256) static T in[1024];
  alignas(256) T out[8];
  T expected[8];
  std::mt19937 random(7);
  for (T& one : in) one = values[random() % values.size()];
  std::fill(out, out + 8, start);
  std::fill(expected, expected + 8, start);
  for (int i = 0; i < 1024; ++i) expected[i % 8] = combine(expected[i % 8], in[i]);
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 4; ++worker) {
    workers.emplace_back([&, worker] {
      for (int i = worker; i < 1024; i += 4) kernel.call({in, out}, 0, i);
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (int i = 0; i < 8; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(out[i])) << i;
        continue;
      }
    }
    ASSERT_EQ(out[i], expected[i]) << i;
  }
}

template <class T>
void check_integers(const std::string& type) {
  using Unsigned = std::make_unsigned_t<T>;
  const std::vector<T> values{0, 1, 2, -1, -7, 100, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  const auto check = [&](const std::string& combiner, auto combine, T start) {
    check_atomic<T>(type, combiner, combine, values, start);
  };
  check(
      "add", [](T a, T b) { return static_cast<T>(Unsigned(a) + Unsigned(b)); }, T(3));
  check(
      "mul", [](T a, T b) { return static_cast<T>(uint64_t(a) * uint64_t(b)); }, T(3));
  check(
      "mins", [](T a, T b) { return std::min(a, b); }, T(3));
  check(
      "maxs", [](T a, T b) { return std::max(a, b); }, T(-100));
  check(
      "minu", [](T a, T b) { return static_cast<T>(std::min(Unsigned(a), Unsigned(b))); }, T(-3));
  check(
      "maxu", [](T a, T b) { return static_cast<T>(std::max(Unsigned(a), Unsigned(b))); }, T(3));
  check(
      "and", [](T a, T b) { return static_cast<T>(a & b); }, T(-1));
  check(
      "or", [](T a, T b) { return static_cast<T>(a | b); }, T(0));
  check(
      "xor", [](T a, T b) { return static_cast<T>(a ^ b); }, T(3));
}

TEST(Memory, AtomicUpdatesOfIntegers) {
  check_integers<int8_t>("i8");
  check_integers<int16_t>("i16");
  check_integers<int32_t>("i32");
  check_integers<int64_t>("i64");
}

template <class T>
void check_floats(const std::string& type) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const auto least = [](T a, T b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b); };
  const auto greatest = [](T a, T b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b); };
  const std::vector<T> values{T(1), T(-2), T(0.5), T(100), T(-1000), kInfinity, -kInfinity};
  const std::vector<T> small{T(1), T(-2), T(3), T(0.5)};  // sums of which are exact
  check_atomic<T>(
      type, "add", [](T a, T b) { return a + b; }, small, T(0));
  for (const T start : {T(0), T(-5), T(5), kInfinity, nan, -nan}) {
    check_atomic<T>(type, "minf", least, values, start);
    check_atomic<T>(type, "maxf", greatest, values, start);
    check_atomic<T>(type, "maxf", greatest, {T(-1), T(-2), T(-3)}, start);
    check_atomic<T>(type, "minf", least, {T(1), T(2), T(3)}, start);
  }
  check_atomic<T>(type, "minf", least, {T(1), nan, -nan}, T(0));
  check_atomic<T>(type, "maxf", greatest, {T(-1), nan, -nan}, T(0));
}

TEST(Memory, AtomicUpdatesOfFloats) {
  check_floats<float>("f32");
  check_floats<double>("f64");
}

TEST(Memory, AtomicUpdatesByAnyComputation) {
  const auto body = [](const std::string& type) {
    return fmt::format("{{\n^bb0(%a: {0}, %b: {0}):\n  %c = arith.addi %a, %b : {0}\n  strata.yield %c : {0}\n}}",
                       type);
  };
  check_atomic<int8_t>(
      "i8", "custom", [](int8_t a, int8_t b) { return static_cast<int8_t>(a + b); }, {1, 2, -3}, 5, body("i8"));
  check_atomic<int64_t>(
      "i64", "custom", [](int64_t a, int64_t b) { return a + b; }, {1, 2, -3}, 5, body("i64"));
}

TEST(Memory, AtomicUpdatesOfPred) {
  check_atomic<uint8_t>(
      "i1", "or", [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a | b); }, {0, 1}, 0);
  check_atomic<uint8_t>(
      "i1", "and", [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a & b); }, {0, 1}, 1);
  check_atomic<uint8_t>(
      "i1", "xor", [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a ^ b); }, {0, 1}, 0);
}

TEST(Memory, ConditionsAndSmallElements) {
  JitKernel kernel(R"(
func.func @small(%in: tensor<16xi4> {strata.input = 0}, %if: tensor<16xi1> {strata.input = 1},
                 %out: tensor<16xi4> {strata.output = 0}, %block: index {strata.range = [0, 0]},
                 %thread: index {strata.range = [0, 31]}) -> tensor<16xi4> attributes {strata.kernel} {
  %c16 = arith.constant 16 : index
  %inside = arith.cmpi slt, %thread, %c16 : index
  %seven = arith.constant 7 : i4
  %false = arith.constant false
  %x = strata.predicated_extract %in[%thread] if %inside else %seven : i4, tensor<16xi4>
  %p = strata.predicated_extract %if[%thread] if %inside else %false : i1, tensor<16xi1>
  %y = arith.addi %x, %x : i4
  %o = strata.predicated_insert %y into %out[%thread] if %p : i4, tensor<16xi4>
  return %o : tensor<16xi4>
})",
                   "small");
  ASSERT_TRUE(kernel.ok());
  alignas(256) uint8_t in[16], condition[16], out[32];
  for (int i = 0; i < 16; ++i) in[i] = static_cast<uint8_t>(i | 0x50), condition[i] = static_cast<uint8_t>(i % 3 * 2);
  std::fill(out, out + 32, uint8_t{0xee});
  kernel.run({in, condition, out}, 1, 32);
  for (int i = 0; i < 32; ++i) {
    // Only the low bits of an element count; any bit of a pred does.
    EXPECT_EQ(out[i], i < 16 && i % 3 != 0 ? (2 * i) & 15 : 0xee) << i;
  }
}

TEST(Memory, ShufflesOfAllWidths) {
  // The neighbour's word is one's own plus the distance (jit_testing.h).
  JitKernel kernel(R"(
func.func private @second(%a: i64, %b: i16, %c: i64, %d: i16) -> (i64, i16) { return %c, %d : i64, i16 }
func.func @move(%wide: tensor<1xi64> {strata.output = 0}, %narrow: tensor<1xi16> {strata.output = 1},
                %block: index {strata.range = [0, 0]}, %thread: index {strata.range = [0, 0]})
    -> (tensor<1xi64>, tensor<1xi16>) attributes {strata.kernel} {
  %x = tensor.extract %wide[%thread] : tensor<1xi64>
  %y = tensor.extract %narrow[%thread] : tensor<1xi16>
  %r:2 = strata.shuffle_reduce(%x, %y) to 2 combiner = @second : i64, i16
  %w = tensor.insert %r#0 into %wide[%thread] : tensor<1xi64>
  %n = tensor.insert %r#1 into %narrow[%thread] : tensor<1xi16>
  return %w, %n : tensor<1xi64>, tensor<1xi16>
})",
                   "move");
  ASSERT_TRUE(kernel.ok());
  int64_t wide = 0x100000001000;
  int16_t narrow = 40;
  kernel.run({&wide, &narrow}, 1, 1);
  EXPECT_EQ(wide, 0x100300001003);  // both words, by 2 and by 1
  EXPECT_EQ(narrow, 43);
}

}  // namespace
}  // namespace strata::emitters
