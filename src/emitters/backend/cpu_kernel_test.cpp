#include "emitters/backend/cpu_kernel.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "emitters/backend/test_module.h"

namespace strata::emitters {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr const char* kDeclarations = R"(
declare void @strata_barrier()
declare i32 @strata_shuffle_down(i32, i32)
declare i32 @strata_shuffle_xor(i32, i32)
)";

CpuKernel compile(const std::string& text, const OptimizeOptions& options = {}) {
  TestModule test(kDeclarations + text);
  const std::vector<std::string> names{"k"};
  auto kernels = compile_for_cpu(*test.module, names, options);
  EXPECT_TRUE(kernels) << kernels.error().to_string();
  return kernels ? kernels->at(0) : CpuKernel();
}

std::string failure(const std::string& text, const OptimizeOptions& options = {}) {
  TestModule test(kDeclarations + text);
  const std::vector<std::string> names{"k"};
  const auto kernels = compile_for_cpu(*test.module, names, options);
  return kernels ? "no failure" : kernels.error().to_string();
}

/// Runs a kernel of one buffer of i32.
Result<void> run(const CpuKernel& kernel, std::vector<int>& values, int64_t blocks, int threads,
                 size_t shared_bytes = 0, const RunOptions& options = {}) {
  const std::vector<void*> buffers{values.data()};
  return kernel.run(buffers, blocks, threads, shared_bytes, options);
}

std::string run_failure(const std::string& body, int64_t blocks, int threads) {
  const CpuKernel kernel =
      compile("define void @k_block(ptr %out, i32 %block, i32 %thread, ptr %shared) {\n" + body + "  ret void\n}\n");
  std::vector<int> values(4096);
  const Result<void> result = run(kernel, values, blocks, threads, 4096);
  return result ? "no failure" : result.error().to_string();
}

/// out[block] = the sum of in's 256 values of the block: through shuffles in warps, then through shared memory.
constexpr const char* kBlockSum = R"(
define void @k_block(ptr noalias readonly align 16 %in, ptr noalias align 16 %out, i32 %block, i32 %thread,
                     ptr %shared) {
entry:
  %b = mul i32 %block, 256
  %i = add i32 %b, %thread
  %p = getelementptr i32, ptr %in, i32 %i
  %v = load i32, ptr %p
  br label %steps
steps:
  %distance = phi i32 [16, %entry], [%half, %steps]
  %sum = phi i32 [%v, %entry], [%next, %steps]
  %other = call i32 @strata_shuffle_down(i32 %sum, i32 %distance)
  %next = add i32 %sum, %other
  %half = lshr i32 %distance, 1
  %more = icmp ne i32 %half, 0
  br i1 %more, label %steps, label %summed
summed:
  %lane = and i32 %thread, 31
  %warp = lshr i32 %thread, 5
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %put, label %meet
put:
  %s = getelementptr i32, ptr %shared, i32 %warp
  store i32 %next, ptr %s
  br label %meet
meet:
  call void @strata_barrier()
  %zero = icmp eq i32 %thread, 0
  br i1 %zero, label %all, label %end
all:
  %w = phi i32 [0, %meet], [%w1, %all]
  %total = phi i32 [0, %meet], [%total1, %all]
  %t = getelementptr i32, ptr %shared, i32 %w
  %part = load i32, ptr %t
  %total1 = add i32 %total, %part
  %w1 = add i32 %w, 1
  %again = icmp ult i32 %w1, 8
  br i1 %again, label %all, label %write
write:
  %q = getelementptr i32, ptr %out, i32 %block
  store i32 %total1, ptr %q
  br label %end
end:
  ret void
}
)";

TEST(CpuKernel, BlockSumOfShufflesAndBarriers) {
  for (const int level : {1, 2, 3}) {
    const CpuKernel kernel = compile(kBlockSum, {.level = level});
    EXPECT_TRUE(kernel.uses_fibers());
    std::vector<int> in(256 * 7), expected(7);
    std::iota(in.begin(), in.end(), 3);
    for (int b = 0; b < 7; ++b) expected[b] = std::accumulate(&in[256 * b], &in[256 * b] + 256, 0);
    for (const ThreadOrder order : {ThreadOrder::Ascending, ThreadOrder::Descending}) {
      std::vector<int> out(7);
      const std::vector<void*> buffers{in.data(), out.data()};
      const Result<void> result = kernel.run(buffers, 7, 256, 32, {.order = order});
      ASSERT_TRUE(result) << result.error().to_string();
      EXPECT_EQ(out, expected);
    }
  }
}

TEST(CpuKernel, ShufflesTakeFiveBitsAndStayInTheWarp) {
  const auto shuffled = [](const std::string& function, int operand) {
    const CpuKernel kernel = compile(
        "define void @k_block(ptr %out, i32 %block, i32 %thread, ptr %shared) {\n"
        "  %v = call i32 @" +
        function + "(i32 %thread, i32 " + std::to_string(operand) +
        ")\n  %p = getelementptr i32, ptr %out, i32 %thread\n  store i32 %v, ptr %p\n"
        "  ret void\n}\n");
    std::vector<int> out(64);
    EXPECT_TRUE(run(kernel, out, 1, 64));
    return out;
  };
  const std::vector<int> down = shuffled("strata_shuffle_down", 3), exchanged = shuffled("strata_shuffle_xor", 5);
  const std::vector<int> far = shuffled("strata_shuffle_down", 35);
  for (int t = 0; t < 64; ++t) {
    EXPECT_EQ(down[t], t % 32 + 3 < 32 ? t + 3 : t);
    EXPECT_EQ(exchanged[t], t ^ 5);
    EXPECT_EQ(far[t], down[t]);
  }
}

TEST(CpuKernel, PlainKernelsAreLoops) {
  const CpuKernel kernel = compile(R"(
define void @k_block(ptr noalias %out, i32 %block, i32 %thread, ptr %shared) {
  %b = shl i32 %block, 7
  %i = add i32 %b, %thread
  %p = getelementptr i32, ptr %out, i32 %i
  %v = load i32, ptr %p
  %w = add i32 %v, %i
  store i32 %w, ptr %p
  ret void
}
)");
  EXPECT_FALSE(kernel.uses_fibers());
  constexpr int kBlocks = 100'000;
  std::vector<int> values(size_t{kBlocks} * 128, 1);
  ASSERT_TRUE(run(kernel, values, kBlocks, 128));
  for (size_t i = 0; i < values.size(); i += 997) ASSERT_EQ(values[i], static_cast<int>(i) + 1);
}

TEST(CpuKernel, SharedMemoryIsNanWhenABlockStarts) {
  // Reads, then writes: the next block must not see it.
  const std::string body = R"(
define void @k_block(ptr %out, i32 %block, i32 %thread, ptr %shared) {
  %v = load i32, ptr %shared
  %p = getelementptr i32, ptr %out, i32 %block
  store i32 %v, ptr %p
  store i32 5, ptr %shared
  ret void
}
)";
  std::vector<int> out(3);
  ASSERT_TRUE(run(compile(body), out, 3, 1, 64));
  EXPECT_THAT(out, Each(-1));
}

TEST(CpuKernel, WaitingInVainIsAnError) {
  EXPECT_THAT(run_failure(R"(
  %even = icmp ne i32 %thread, 5
  br i1 %even, label %yes, label %no
yes:
  call void @strata_barrier()
  br label %no
no:
)",
                          1, 8),
              HasSubstr("kernel k: thread 0 of block 0 waits in a barrier that thread 5 left"));
  EXPECT_THAT(run_failure(R"(
  %some = icmp ne i32 %thread, 37
  %last = icmp eq i32 %block, 2
  %both = and i1 %last, %some
  %first = icmp ult i32 %block, 2
  %in = or i1 %both, %first
  br i1 %in, label %yes, label %no
yes:
  %v = call i32 @strata_shuffle_xor(i32 1, i32 1)
  br label %no
no:
)",
                          3, 64),
              HasSubstr("thread 32 of block 2 waits in a shuffle xor, and thread 37 of its warp has left"));
  EXPECT_THAT(run_failure(R"(
  %low = icmp ult i32 %thread, 16
  br i1 %low, label %yes, label %no
yes:
  call void @strata_barrier()
  br label %end
no:
  %v = call i32 @strata_shuffle_down(i32 1, i32 1)
  br label %end
end:
)",
                          1, 32),
              HasSubstr("thread 16 of block 0 waits in a shuffle down, and thread 0 of its warp waits in a barrier"));
  EXPECT_THAT(run_failure("  %v = call i32 @strata_shuffle_down(i32 1, i32 1)\n", 1, 33),
              HasSubstr("thread 32 of block 0 waits in a shuffle down, which takes whole warps"));
}

TEST(CpuKernel, RunsAfterAnError) {
  const CpuKernel kernel = compile(R"(
define void @k_block(ptr %out, i32 %block, i32 %thread, ptr %shared) {
  %flag = load i32, ptr %out
  %odd = and i32 %thread, %flag
  %go = icmp eq i32 %odd, 0
  br i1 %go, label %yes, label %no
yes:
  call void @strata_barrier()
  %p = getelementptr i32, ptr %out, i32 %thread
  store i32 7, ptr %p
  br label %no
no:
  ret void
}
)");
  for (int i = 0; i < 3; ++i) {
    std::vector<int> values(64, 1);
    EXPECT_FALSE(run(kernel, values, 1, 64));
    EXPECT_THAT(values, Each(1));
    values.assign(64, 0);
    EXPECT_TRUE(run(kernel, values, 1, 64));
    EXPECT_THAT(values, Each(7));
  }
}

TEST(CpuKernel, AtomicsOfAllKinds) {
  const CpuKernel kernel = compile(R"(
define void @k_block(ptr %out, i32 %block, i32 %thread, ptr %shared) {
  %a = atomicrmw fadd ptr %out, <4 x float> <float 1.0, float 2.0, float 3.0, float 4.0> monotonic, align 16
  %p = getelementptr i8, ptr %out, i64 16
  %b = atomicrmw add ptr %p, i32 %thread syncscope("device") monotonic
  %q = getelementptr i8, ptr %out, i64 20
  %c = cmpxchg ptr %q, i32 %thread, i32 9 monotonic monotonic
  %r = getelementptr i8, ptr %out, i64 24
  %d = atomicrmw fadd ptr %r, <2 x half> <half 1.0, half 2.0> monotonic, align 4
  fence seq_cst
  ret void
}
)");
  alignas(16) std::byte memory[64] = {};
  const std::vector<void*> buffers{memory};
  ASSERT_TRUE(kernel.run(buffers, 2, 10, 0));
  float sums[4];
  int32_t words[3];
  std::memcpy(sums, memory, 16);
  std::memcpy(words, memory + 16, 12);
  EXPECT_THAT(sums, testing::ElementsAre(20.0f, 40.0f, 60.0f, 80.0f));
  EXPECT_EQ(words[0], 90);
  EXPECT_EQ(words[1], 9);
  EXPECT_EQ(words[2], 0x51004d00);  // halves 20 and 40
}

TEST(CpuKernel, ConvertsToHalfAndBfloat) {
  const CpuKernel kernel = compile(R"(
define void @k_block(ptr %out, i32 %block, i32 %thread, ptr %shared) {
  %f = load float, ptr %out
  %d = fpext float %f to double
  %b = fptrunc float %f to bfloat
  %h = fptrunc double %d to half
  %e = fadd double %d, 0x3E50000000000000
  %c = fptrunc double %e to bfloat
  store bfloat %b, ptr %out
  %p = getelementptr i8, ptr %out, i64 2
  store half %h, ptr %p
  %q = getelementptr i8, ptr %out, i64 4
  store bfloat %c, ptr %q
  ret void
}
)");
  const auto converted = [&](float value) {
    std::vector<uint16_t> memory(4);
    std::memcpy(memory.data(), &value, 4);
    const std::vector<void*> buffers{memory.data()};
    EXPECT_TRUE(kernel.run(buffers, 1, 1, 0));
    return memory;
  };
  // 1 + 2^-8 is half way between two bf16: to even, unless a little more (2^-26) is added.
  EXPECT_THAT(converted(1.00390625f), testing::ElementsAre(0x3f80, 0x3c04, 0x3f81, 0));
  EXPECT_THAT(converted(-3.0f), testing::ElementsAre(0xc040, 0xc200, 0xc040, 0));
  EXPECT_THAT(converted(INFINITY), testing::ElementsAre(0x7f80, 0x7c00, 0x7f80, 0));
  EXPECT_EQ(converted(NAN)[0] & 0x7fc0, 0x7fc0);
}

TEST(CpuKernel, LinksMathAndLibm) {
  TestModule math("define float @strata_twice_f32(float %x) {\n  %y = fadd float %x, %x\n  ret float %y\n}\n");
  const auto bitcode = math.bitcode();
  const CpuKernel kernel = compile(R"(
declare float @strata_twice_f32(float)
declare float @expf(float)
define void @k_block(ptr %out, i32 %block, i32 %thread, ptr %shared) {
  %f = load float, ptr %out
  %t = call float @strata_twice_f32(float %f)
  %e = call float @expf(float %t)
  store float %e, ptr %out
  ret void
}
)",
                                   {.math = bytes_of(bitcode)});
  float value = 0.5f;
  const std::vector<void*> buffers{&value};
  ASSERT_TRUE(kernel.run(buffers, 1, 1, 0));
  EXPECT_EQ(value, std::exp(1.0f));
}

TEST(CpuKernel, CompileErrors) {
  const std::string head = "define void @k_block(ptr %out, i32 %block, i32 %thread, ptr %shared) {\n";
  EXPECT_THAT(failure(""), HasSubstr("the module has no function k_block"));
  EXPECT_THAT(
      failure("declare void @nowhere_to_be_found()\n" + head + "  call void @nowhere_to_be_found()\n  ret void\n}\n"),
      HasSubstr("nowhere_to_be_found"));
  // Frames are known before a kernel runs, so that no stack overflows.
  EXPECT_THAT(failure(head + "  %a = alloca [200000 x i8]\n  %p = getelementptr i8, ptr %a, i32 %thread\n"
                             "  store volatile i8 1, ptr %p\n  ret void\n}\n"),
              HasSubstr("bytes of stack for a thread; expected at most 98304"));
  EXPECT_THAT(failure("define void @f(i32 %n, ptr %p) noinline {\n  store volatile i32 %n, ptr %p\n"
                      "  call void @f(i32 %n, ptr %p)\n  store volatile i32 %n, ptr %p\n  ret void\n}\n" +
                      head + "  call void @f(i32 %thread, ptr %out)\n  ret void\n}\n"),
              HasSubstr("f is recursive"));
  const LeaksOfLlvm leaks;
  EXPECT_THAT(failure(head + "  call void @llvm.nvvm.barrier0()\n  ret void\n}\ndeclare void @llvm.nvvm.barrier0()\n"),
              HasSubstr("LLVM"));
}

TEST(CpuKernel, LaunchErrors) {
  const CpuKernel kernel = compile(
      "define void @k_block(ptr align 16 %out, i32 %block, i32 %thread, ptr %shared) {\n"
      "  store <4 x i32> zeroinitializer, ptr %out, align 16\n  ret void\n}\n");
  alignas(16) std::byte memory[64];
  const std::vector<void*> good{memory}, odd{memory + 4};
  const auto message = [](const Result<void>& result) { return result ? "no failure" : result.error().to_string(); };
  EXPECT_TRUE(kernel.run(good, 0, 32, 0));
  EXPECT_THAT(message(kernel.run({}, 1, 32, 0)), HasSubstr("takes 1 buffers, not 0"));
  EXPECT_THAT(message(kernel.run(odd, 1, 32, 0)), HasSubstr("buffer 0 is not aligned to 16 bytes"));
  EXPECT_THAT(message(kernel.run(good, int64_t{1} << 31, 32, 0)), HasSubstr("expected at most 2^31-1"));
  EXPECT_THAT(message(kernel.run(good, 1, 1025, 0)), HasSubstr("1025 threads in a block"));
  EXPECT_THAT(message(kernel.run(good, 1, 32, size_t{1} << 30)), HasSubstr("bytes of shared memory"));
}

TEST(CpuKernel, StopsBetweenBlocks) {
  const CpuKernel kernel = compile(kBlockSum);
  std::vector<int> in(256), out(1);
  const std::vector<void*> buffers{in.data(), out.data()};
  std::stop_source stop;
  stop.request_stop();
  const Result<void> result = kernel.run(buffers, 1, 256, 32, {.stop = stop.get_token()});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::Interrupted);
}

TEST(CpuKernel, ThreadsCompileAndRunAtOnce) {
  std::atomic<int> right = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&right, t] {
      for (int round = 0; round < 3; ++round) {
        const CpuKernel kernel = compile(kBlockSum, {.level = 1});
        std::vector<int> in(256 * 20, t + round), out(20);
        const std::vector<void*> buffers{in.data(), out.data()};
        if (kernel.run(buffers, 20, 256, 32) && out == std::vector<int>(20, 256 * (t + round))) ++right;
      }
    });
  threads.clear();
  EXPECT_EQ(right, 12);
}

TEST(CpuKernel, SeveralKernelsOfAModuleShareTheirCode) {
  TestModule test(
      std::string(kDeclarations) + kBlockSum +
      "define void @two_block(ptr %out, i32 %b, i32 %t, ptr %s) {\n  store i32 2, ptr %out\n  ret void\n}\n");
  const std::vector<std::string> names{"two", "k"};
  auto kernels = compile_for_cpu(*test.module, names);
  ASSERT_TRUE(kernels) << kernels.error().to_string();
  EXPECT_FALSE(kernels->at(0).uses_fibers());
  EXPECT_TRUE(kernels->at(1).uses_fibers());
  kernels->pop_back();
  std::vector<int> out(1);
  ASSERT_TRUE(run(kernels->at(0), out, 1, 1));
  EXPECT_EQ(out[0], 2);
}

}  // namespace
}  // namespace strata::emitters
