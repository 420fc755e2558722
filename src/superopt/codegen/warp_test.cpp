// What threads do together (device/strata_cuda.h), as the host plays it; that the same sources become cubins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/arithmetic.h"
#include "runtime/compile.h"
#include "superopt/codegen/emit.h"
#include "superopt/codegen/test_host.h"
#include "support/random.h"

namespace strata {
namespace {

/// One block that runs `body` over its inputs in_0, in_1, … and its output `out`, all of the given types.
GeneratedProgram program_of(const std::string& body, const std::vector<TensorType>& inputs, const TensorType& output,
                            int64_t threads, int64_t shared_bytes = 0) {
  GeneratedProgram program;
  KernelLaunch launch;
  launch.kernel = "probe_kernel";
  launch.function = "probe";
  launch.threads = threads;
  launch.shared_bytes = shared_bytes;
  std::string parameters;
  std::string arguments;
  for (const TensorType& type : inputs) {
    const std::string name = fmt::format("in_{}", program.inputs.size());
    program.inputs.push_back({name, type});
    launch.arguments.push_back(name);
    parameters += fmt::format("const {}* {}, ", storage_type(type.dtype), name);
    arguments += name + ", ";
  }
  program.outputs.push_back({"out", output});
  launch.arguments.push_back("out");
  parameters += storage_type(output.dtype) + "* out";
  program.launches.push_back(launch);
  program.source = fmt::format(
      "{}\n"
      "using namespace strata_device;\n"
      "static STRATA_DEVICE void probe({}, long long, long long, long long, [[maybe_unused]] unsigned char* shared) "
      "{{\n"
      "  [[maybe_unused]] const int t = static_cast<int>(thread());\n{}}}\n"
      "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)\n"
      "STRATA_KERNEL void probe_kernel({}) {{\n"
      "  extern __shared__ __align__(128) unsigned char memory[];\n"
      "  probe({}out, 0, 0, 0, memory);\n}}\n#endif\n",
      device_library(), parameters, body, parameters, arguments);
  return program;
}

/// Runs it in all orders, and compiles it for every target.
std::vector<double> result_of(const GeneratedProgram& program, const std::vector<Tensor<double>>& inputs = {}) {
  for (const Target& target : targets()) {
    const auto cubin = compile_cubin(program.source, target);
    EXPECT_TRUE(cubin) << cubin.error().to_string();
  }
  const auto outputs = run_on_host(program, inputs, kSanitizedHost);
  EXPECT_TRUE(outputs) << outputs.error().to_string();
  return outputs ? outputs->front().data : std::vector<double>{};
}

std::string error_of(const GeneratedProgram& program, const std::vector<Tensor<double>>& inputs = {}) {
  const auto outputs = run_on_host(program, inputs, kPlainHost);
  EXPECT_FALSE(outputs);
  return outputs ? "" : outputs.error().to_string();
}

Tensor<double> random_tensor(const TensorType& type, uint64_t seed) {
  Random random(seed);
  Tensor<double> tensor(type.shape);
  for (double& value : tensor.data) value = round_to(random.uniform(-1, 1), type.dtype);
  return tensor;
}

TEST(Warp, ShufflesMoveFourAndEightBytes) {
  const auto found = result_of(program_of(R"(
  struct Pair { float value; int index; };
  const Pair pair = shuffle_xor(Pair{t + 0.5f, 2 * t}, 5);
  const double wide = shuffle(static_cast<double>(t), t + 1);
  const float narrow = shuffle(static_cast<float>(t), 3);
  out[4 * t] = pair.value;
  out[4 * t + 1] = pair.index;
  out[4 * t + 2] = wide;
  out[4 * t + 3] = narrow;
)",
                                          {}, {DType::F64, {64, 4}}, 64));
  ASSERT_EQ(found.size(), 256u);
  for (size_t t = 0; t < 64; ++t) {
    const size_t first = t / 32 * 32;  // of the warp
    EXPECT_EQ(found[4 * t], static_cast<double>(t ^ 5) + 0.5);
    EXPECT_EQ(found[4 * t + 1], static_cast<double>(2 * (t ^ 5)));
    EXPECT_EQ(found[4 * t + 2], static_cast<double>(first + (t + 1) % 32));
    EXPECT_EQ(found[4 * t + 3], static_cast<double>(first + 3));
  }
}

/// A product of 16 × 16 by 16 × 8, with fragments made by ldmatrix from row-major tiles. Every lane also makes them
/// element by element, after the manual's tables, and says so where they differ.
constexpr const char* kProduct = R"(
  T* a = reinterpret_cast<T*>(shared);
  T* b = a + 256;
  for (int i = t; i < 256; i += 32) a[i] = in_0[i];
  for (int i = t; i < 128; i += 32) b[i] = in_1[i];
  warp_barrier();
  unsigned left[4], right[2], one[1], transposed[4];
  ldmatrix<4, false>(left, a + t % 16 * 16 + t / 16 * 8);
  ldmatrix<2, true>(right, b + t % 16 * 8);
  ldmatrix<1, false>(one, b + t % 8 * 8);
  ldmatrix<4, true>(transposed, a + (t % 8 + t / 16 * 8) * 16 + t / 8 % 2 * 8);
  bool same = true;
  for (int r = 0; r < 4; ++r) {
    const int row = t / 4 + r % 2 * 8, column = t % 4 * 2 + r / 2 * 8;
    same = same && left[r] == (bits_of(a[row * 16 + column]) | bits_of(a[row * 16 + column + 1]) << 16);
    same = same && transposed[r] == (bits_of(a[column * 16 + row]) | bits_of(a[(column + 1) * 16 + row]) << 16);
  }
  for (int r = 0; r < 2; ++r) {
    const int row = t % 4 * 2 + r * 8, column = t / 4;
    same = same && right[r] == (bits_of(b[row * 8 + column]) | bits_of(b[(row + 1) * 8 + column]) << 16);
  }
  same = same && one[0] == (bits_of(b[t / 4 * 8 + t % 4 * 2]) | bits_of(b[t / 4 * 8 + t % 4 * 2 + 1]) << 16);
  float d[4] = {1, 1, 1, 1};
  mma(d, left, right, T{});
  for (int r = 0; r < 4; ++r) out[(t / 4 + r / 2 * 8) * 8 + t % 4 * 2 + r % 2] = same ? d[r] : -100.0f;
)";

TEST(Warp, MatricesAreLoadedAndMultiplied) {
  for (const DType type : {DType::F16, DType::BF16}) {
    const TensorType a{type, {16, 16}};
    const TensorType b{type, {16, 8}};
    const std::string body = "  using T = " + storage_type(type) + ";\n" + kProduct;
    const std::vector<Tensor<double>> inputs{random_tensor(a, 1), random_tensor(b, 2)};
    const auto found = result_of(program_of(body, {a, b}, {DType::F32, {16, 8}}, 32, 768), inputs);
    ASSERT_EQ(found.size(), 128u);
    for (size_t i = 0; i < 16; ++i) {
      for (size_t j = 0; j < 8; ++j) {
        double sum = 1;
        for (size_t k = 0; k < 16; ++k) sum += inputs[0].data[i * 16 + k] * inputs[1].data[k * 8 + j];
        EXPECT_NEAR(found[i * 8 + j], sum, 1e-5);
      }
    }
  }
}

/// Two groups in flight: what is read too early is NaN, whatever the place held before.
constexpr const char* kCopies = R"(
  float* tile = reinterpret_cast<float*>(shared);
  for (int i = 0; i < 8; ++i) tile[8 * t + i] = 5;
  copy_async_16(tile + 8 * t, in_0 + 8 * t);
  commit_copies();
  copy_async<8>(tile + 8 * t + 4, in_0 + 8 * t + 4);
  copy_async<4>(tile + 8 * t + 6, in_0 + 8 * t + 6);
  commit_copies();
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  const bool late = true;
#else
  bool late = tile[8 * t] != tile[8 * t];
  wait_copies<2>();
  late = late && tile[8 * t] != tile[8 * t];
#endif
  wait_copies<1>();
  const float first = tile[8 * t + 3];
  wait_copies<0>();
  const float second = tile[8 * t + 4] + tile[8 * t + 6];
  barrier();
  out[3 * t] = late ? first : -1;
  out[3 * t + 1] = second;
  out[3 * t + 2] = tile[(8 * t + 8) % 256] + tile[8 * t + 7];
)";

TEST(Warp, CopiesArriveWhenTheyAreWaitedFor) {
  const TensorType type{DType::F32, {32, 8}};
  const std::vector<Tensor<double>> inputs{random_tensor(type, 3)};
  const auto found = result_of(program_of(kCopies, {type}, {DType::F32, {32, 3}}, 32, 1024), inputs);
  ASSERT_EQ(found.size(), 96u);
  const auto value = [&](size_t i) { return static_cast<float>(inputs[0].data[i % 256]); };
  for (size_t t = 0; t < 32; ++t) {
    EXPECT_EQ(found[3 * t], value(8 * t + 3));
    EXPECT_EQ(found[3 * t + 1], value(8 * t + 4) + value(8 * t + 6));
    EXPECT_EQ(found[3 * t + 2], value(8 * t + 8) + 5);
  }
}

/// A tile for the next iteration that is fetched while others still read it.
constexpr const char* kOverwrite = R"(
  float* tile = reinterpret_cast<float*>(shared);
  float sum = 0;
  for (int i = 0; i < 3; ++i) {
    copy_async<4>(tile + t, in_0 + 64 * i + t);
    commit_copies();
    wait_copies<0>();
    barrier();
    sum += tile[63 - t];
    barrier();
  }
  out[t] = sum;
)";

TEST(Warp, BothBarriersOfACopyAreNeeded) {
  const TensorType type{DType::F32, {3, 64}};
  const std::vector<Tensor<double>> inputs{random_tensor(type, 4)};
  const std::string body = kOverwrite;
  EXPECT_EQ(result_of(program_of(body, {type}, {DType::F32, {64}}, 64, 256), inputs).size(), 64u);
  const std::string barrier = "    barrier();\n";
  for (size_t at = 0; (at = body.find(barrier, at)) != std::string::npos; ++at) {
    std::string broken = body;
    broken.erase(at, barrier.size());
    EXPECT_THAT(error_of(program_of(broken, {type}, {DType::F32, {64}}, 64, 256), inputs),
                testing::HasSubstr("order of threads"));
  }
}

/// Two warps make what the two others use, at a barrier of these four and at one of each pair.
constexpr const char* kPairs = R"(
  float* values = reinterpret_cast<float*>(shared);
  const int pair = t / 64;
  if (t % 64 < 32) {
    values[t] = t * 0.5f;
    named_barrier(1 + pair, 64);
  } else {
    named_barrier(1 + pair, 64);
    values[t] = values[t - 32 ^ 7];
  }
  named_barrier(9, 128);
  out[t] = values[127 - t];
)";

TEST(Warp, NamedBarriersJoinSomeWarps) {
  const auto found = result_of(program_of(kPairs, {}, {DType::F32, {128}}, 128, 512));
  ASSERT_EQ(found.size(), 128u);
  for (int t = 0; t < 128; ++t) {
    const int from = 127 - t;
    EXPECT_EQ(found[static_cast<size_t>(t)], 0.5 * (from % 64 < 32 ? from : (from - 32) ^ 7));
  }
  for (const std::string barrier : {"    named_barrier(1 + pair, 64);\n", "  named_barrier(9, 128);\n"}) {
    std::string broken = kPairs;
    for (size_t at; (at = broken.find(barrier)) != std::string::npos;) broken.erase(at, barrier.size());
    EXPECT_THAT(error_of(program_of(broken, {}, {DType::F32, {128}}, 128, 512)),
                testing::HasSubstr("order of threads"));
  }
}

TEST(Warp, LanesNeedTheirBarrier) {
  const std::string body = R"(
  float* values = reinterpret_cast<float*>(shared);
  values[t] = t;
  warp_barrier();
  out[t] = values[t ^ 9];
)";
  EXPECT_EQ(result_of(program_of(body, {}, {DType::F32, {40}}, 40, 256)).size(), 40u);
  std::string broken = body;
  const std::string barrier = "warp_barrier();";
  broken.erase(broken.find(barrier), barrier.size());
  EXPECT_THAT(error_of(program_of(broken, {}, {DType::F32, {40}}, 40, 256)), testing::HasSubstr("order of threads"));
}

TEST(Warp, WhatNoGpuSurvivesIsSaid) {
  const auto error = [](const std::string& body, int64_t threads = 64) {
    return error_of(program_of("  out[t] = 0;\n" + body, {}, {DType::F32, {threads}}, threads, 64));
  };
  EXPECT_THAT(error("  if (t >= 32) barrier();\n"),
              testing::HasSubstr("threads 32-63 wait at barrier, 32 of 64. Threads 0-31 have returned."));
  EXPECT_THAT(error("  if (t < 32) named_barrier(3, 64); else named_barrier(4, 64);\n"),
              testing::HasSubstr("threads 0-31 wait at named_barrier, 32 of 64. threads 32-63 wait at"));
  EXPECT_THAT(error("  if (t % 32 == 7) warp_barrier(); else shuffle(1, 0);\n"),
              testing::HasSubstr("thread 7 executes warp_barrier for 32 threads while threads 0-6 wait at shuffle"));
  EXPECT_THAT(error("  shuffle(1, 0);\n", 40), testing::HasSubstr("shuffle in a warp of 8 lanes"));
  EXPECT_THAT(error("  named_barrier(16, 64);\n"), testing::HasSubstr("named_barrier 16"));
  EXPECT_THAT(error("  copy_async_16(shared + 4, out);\n"), testing::HasSubstr("misaligned"));
}

TEST(Warp, LanesTakeOneTurnAShuffle) {
  const GeneratedProgram program = program_of(R"(
  float value = t;
  for (int i = 0; i < 5000; ++i) value += shuffle_xor(value, i % 31 + 1) * 1e-3f;
  barrier();
  out[t] = t == 0 ? strata_host::team.switches() : value;
)",
                                              {}, {DType::F32, {128}}, 128);
  HostCompiler in_one_order = kPlainHost;
  in_one_order.orders = {"forward"};
  const auto outputs = run_on_host(program, {}, in_one_order);
  ASSERT_TRUE(outputs) << outputs.error().to_string();
  // Of 128 threads; each begins, and meets the others at the barrier.
  EXPECT_GE(outputs->front()[0], 128 * 5000 / 2);
  EXPECT_LE(outputs->front()[0], 128 * 5002);
}

}  // namespace
}  // namespace strata
