#include "emitters/backend/ptx.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>

#include "emitters/backend/test_module.h"
#include "runtime/nv_jit_link.h"

namespace strata::emitters {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

PtxOptions options_for(const std::string& arch) {
  PtxOptions options;
  options.arch = arch;
  options.kernels = {{.name = "k", .threads = 128}};
  return options;
}

/// The PTX of a module; nvJitLink, where there is one, takes it.
std::string ptx_of(const std::string& text, const PtxOptions& options) {
  TestModule test(text);
  const auto ptx = to_ptx(*test.module, options);
  EXPECT_TRUE(ptx) << ptx.error().to_string();
  if (!ptx) return "";
  if (nv_jit_link_version()) {
    const auto cubin = link_ptx(*ptx, options.arch);
    EXPECT_TRUE(cubin) << cubin.error().to_string() << *ptx;
  }
  return *ptx;
}

std::string ptx_of(const std::string& text, const std::string& arch = "sm_90a") {
  return ptx_of(text, options_for(arch));
}

/// A block function of two buffers, the first read only, with an index %i of its thread.
std::string block(const std::string& body, const std::string& declarations = "") {
  return declarations + R"(
define void @k_block(ptr noalias readonly align 16 %in, ptr noalias align 16 %out, i32 %block, i32 %thread,
                     ptr addrspace(3) %shared) {
  %first = mul nsw nuw i32 %block, 128
  %i = add nsw nuw i32 %first, %thread
)" + body +
         "  ret void\n}\n!0 = !{}\n";
}

std::string failure(const std::string& text, const PtxOptions& options) {
  TestModule test(text);
  const auto ptx = to_ptx(*test.module, options);
  return ptx ? "no failure" : ptx.error().to_string();
}

TEST(Ptx, KernelCallsTheInlinedBlockFunction) {
  const std::string ptx = ptx_of(block(R"(
  %p = getelementptr inbounds float, ptr %in, i32 %i
  %v = load float, ptr %p, !invariant.load !0
  %q = getelementptr inbounds float, ptr %out, i32 %i
  store float %v, ptr %q
)"));
  EXPECT_THAT(ptx, AllOf(HasSubstr(".version 8.5"), HasSubstr(".target sm_90a"), HasSubstr(".visible .entry k("),
                         HasSubstr(".reqntid 128, 1, 1")));
  EXPECT_THAT(ptx, AllOf(HasSubstr("%ctaid.x"), HasSubstr("%tid.x"), HasSubstr("ld.global.nc.f32"),
                         HasSubstr("st.global.f32")));
  EXPECT_THAT(ptx, AllOf(Not(HasSubstr("k_block")), Not(HasSubstr("call")), Not(HasSubstr("cvta"))));
}

TEST(Ptx, VectorLoadsAreWhole) {
  const std::string body = R"(
  %p = getelementptr inbounds <VECTOR>, ptr %in, i32 %i
  %v = load <VECTOR>, ptr %p, align 16
  %q = getelementptr inbounds <VECTOR>, ptr %out, i32 %i
  store <VECTOR> %v, ptr %q, align 16
)";
  const auto with = [&](const std::string& vector) {
    std::string text = body;
    for (size_t at; (at = text.find("VECTOR")) != std::string::npos;) text.replace(at, 6, vector);
    return ptx_of(block(text));
  };
  // Read-only and without aliases: that suffices for the path of loads that never change.
  EXPECT_THAT(with("4 x float"), AllOf(HasSubstr("ld.global.nc.v4.f32"), HasSubstr("st.global.v4.f32")));
  EXPECT_THAT(with("2 x double"), AllOf(HasSubstr("ld.global.nc.v2.f64"), HasSubstr("st.global.v2.f64")));
  EXPECT_THAT(with("8 x half"), AllOf(ContainsRegex("ld.global.nc.v4.[ub]32"), HasSubstr("st.global.v4.b32")));
  EXPECT_THAT(with("8 x bfloat"), AllOf(ContainsRegex("ld.global.nc.v4.[ub]32"), HasSubstr("st.global.v4.b32")));
  EXPECT_THAT(with("16 x i8"), AllOf(ContainsRegex("ld.global.nc.v4.[ub]32"), ContainsRegex("st.global.v4.[ub]32")));
  EXPECT_THAT(with("8 x i8"), ContainsRegex("ld.global.nc.[ub]64"));
}

TEST(Ptx, WrittenBuffersAreReadAsUsual) {
  const std::string ptx = ptx_of(block(R"(
  %q = getelementptr inbounds float, ptr %out, i32 %i
  %v = load float, ptr %q
  %w = fadd float %v, 1.0
  store float %w, ptr %q
)"));
  EXPECT_THAT(ptx, AllOf(HasSubstr("ld.global.f32"), Not(HasSubstr(".nc."))));
}

TEST(Ptx, SharedMemoryBarriersAndShuffles) {
  const std::string ptx = ptx_of(block(R"(
  %s = getelementptr inbounds i32, ptr addrspace(3) %shared, i32 %thread
  store i32 %i, ptr addrspace(3) %s
  call void @strata_barrier()
  %t = getelementptr inbounds i32, ptr addrspace(3) %shared, i32 5
  %v = load i32, ptr addrspace(3) %t
  %d = call i32 @strata_shuffle_down(i32 %v, i32 8)
  %x = call i32 @strata_shuffle_xor(i32 %d, i32 1)
  %q = getelementptr inbounds i32, ptr %out, i32 %i
  store i32 %x, ptr %q
)",
                                       R"(
declare void @strata_barrier()
declare i32 @strata_shuffle_down(i32, i32)
declare i32 @strata_shuffle_xor(i32, i32)
)"));
  EXPECT_THAT(ptx, AllOf(HasSubstr(".extern .shared .align 16 .b8 strata_shared[]"), HasSubstr("st.shared.u32"),
                         HasSubstr("bar.sync"), HasSubstr("ld.shared.u32"),
                         ContainsRegex("shfl.sync.down.b32[^\n]*, 8, 31, -1"),
                         ContainsRegex("shfl.sync.bfly.b32[^\n]*, 1, 31, -1"), Not(HasSubstr("call"))));
}

TEST(Ptx, NoAliasIsNoLeaveToReadBeforeABarrier) {
  // What another thread writes to the buffer before the barrier is read after it.
  const std::string ptx = ptx_of(block(R"(
  %q = getelementptr inbounds i32, ptr %out, i32 %thread
  store i32 %i, ptr %q
  call void @strata_barrier()
  %r = getelementptr inbounds i32, ptr %out, i32 %thread
  %v = load i32, ptr %r
  %w = add i32 %v, 1
  store i32 %w, ptr %r
)",
                                       "declare void @strata_barrier()\n"));
  const size_t barrier = ptx.find("bar.sync");
  ASSERT_NE(barrier, std::string::npos);
  EXPECT_LT(ptx.find("st.global"), barrier);
  EXPECT_NE(ptx.find("ld.global", barrier), std::string::npos) << ptx;
}

TEST(Ptx, ScalarAtomics) {
  const std::string ptx = ptx_of(block(R"(
  %f = sitofp i32 %i to float
  %a = atomicrmw fadd ptr %out, float %f syncscope("device") monotonic
  %p1 = getelementptr i8, ptr %out, i64 8
  %b = atomicrmw min ptr %p1, i32 %i syncscope("device") monotonic
  %p2 = getelementptr i8, ptr %out, i64 16
  %c = atomicrmw umax ptr %p2, i32 %i syncscope("device") monotonic
  %p3 = getelementptr i8, ptr %out, i64 24
  %d = cmpxchg ptr %p3, i32 %i, i32 7 syncscope("device") monotonic monotonic
  %p4 = getelementptr i8, ptr %out, i64 32
  %h = fptrunc float %f to half
  %e = atomicrmw fadd ptr %p4, half %h syncscope("device") monotonic
)"));
  EXPECT_THAT(
      ptx, AllOf(HasSubstr("atom.global.add.f32"), HasSubstr("atom.global.min.s32"), HasSubstr("atom.global.max.u32"),
                 HasSubstr("atom.global.cas.b32"), HasSubstr("atom.global.add.noftz.f16")));
}

std::string vector_atomic(const std::string& type, int align, const std::string& arch, bool use = false) {
  return ptx_of(block("  %v = load " + type + ", ptr %in, align 16\n  %a = atomicrmw fadd ptr %out, " + type +
                      " %v syncscope(\"device\") monotonic, align " + std::to_string(align) + "\n" +
                      (use ? "  %q = getelementptr i8, ptr %out, i64 64\n  store " + type + " %a, ptr %q\n" : "")),
                arch);
}

TEST(Ptx, VectorAtomicsAreSingleInstructions) {
  EXPECT_THAT(vector_atomic("<4 x float>", 16, "sm_90a"), HasSubstr("red.relaxed.gpu.global.add.v4.f32"));
  EXPECT_THAT(vector_atomic("<2 x float>", 8, "sm_90a"), HasSubstr("red.relaxed.gpu.global.add.v2.f32"));
  EXPECT_THAT(vector_atomic("<8 x half>", 16, "sm_90a"), HasSubstr("red.relaxed.gpu.global.add.noftz.v4.f16x2"));
  EXPECT_THAT(vector_atomic("<4 x bfloat>", 8, "sm_90a"), HasSubstr("red.relaxed.gpu.global.add.noftz.v2.bf16x2"));
  EXPECT_THAT(vector_atomic("<2 x bfloat>", 4, "sm_90a"), HasSubstr("red.relaxed.gpu.global.add.noftz.bf16x2"));
  EXPECT_THAT(vector_atomic("<2 x half>", 4, "sm_80"), HasSubstr("red.relaxed.gpu.global.add.noftz.f16x2"));
  EXPECT_THAT(vector_atomic("<4 x float>", 16, "sm_90a", true), HasSubstr("atom.relaxed.gpu.global.add.v4.f32"));
  EXPECT_THAT(vector_atomic("<2 x half>", 4, "sm_90a", true), HasSubstr("atom.relaxed.gpu.global.add.noftz.f16x2"));
}

TEST(Ptx, VectorAtomicsThatNoInstructionTakesAreSplit) {
  const std::string unaligned = vector_atomic("<4 x float>", 4, "sm_90a");
  EXPECT_THAT(unaligned, AllOf(HasSubstr("atom.global.add.f32"), Not(HasSubstr("red.relaxed"))));
  EXPECT_THAT(vector_atomic("<4 x float>", 16, "sm_80"), HasSubstr("atom.global.add.f32"));
  EXPECT_THAT(vector_atomic("<4 x half>", 8, "sm_80"), HasSubstr("red.relaxed.gpu.global.add.noftz.f16x2"));
  EXPECT_THAT(vector_atomic("<4 x bfloat>", 8, "sm_80"), HasSubstr("atom.global.cas.b32"));
  EXPECT_THAT(vector_atomic("<2 x double>", 16, "sm_80", true), HasSubstr("atom.global.add.f64"));
}

constexpr const char* kArithmetic = R"(
  %v = load <2 x half>, ptr %in
  %h = fmul <2 x half> %v, %v
  store <2 x half> %h, ptr %out
  %p = getelementptr i8, ptr %in, i64 4
  %w = load <2 x bfloat>, ptr %p
  %b = fadd <2 x bfloat> %w, %w
  %q = getelementptr i8, ptr %out, i64 4
  store <2 x bfloat> %b, ptr %q
  %r = getelementptr i8, ptr %in, i64 16
  %f = load float, ptr %r
  %e = call float @llvm.nvvm.ex2.approx.f(float %f)
  %m = fmul float %f, %e
  %a = fadd float %m, 3.0
  %mc = fmul contract float %f, %f
  %ac = fadd contract float %mc, 5.0
  %s = fadd float %a, %ac
  %t = getelementptr i8, ptr %out, i64 16
  store float %s, ptr %t
)";

TEST(Ptx, ArithmeticIsWhatTheModuleSays) {
  const std::string text = block(kArithmetic, "declare float @llvm.nvvm.ex2.approx.f(float)\n");
  EXPECT_THAT(ptx_of(text), AllOf(HasSubstr("mul.rn.f16x2"), HasSubstr("add.rn.bf16x2"), HasSubstr("ex2.approx.f32"),
                                  HasSubstr("mul.rn.f32"), HasSubstr("fma.rn.f32")));
  // sm_80 has no additions of bf16.
  EXPECT_THAT(ptx_of(text, "sm_80"), AllOf(HasSubstr("mul.rn.f16x2"), HasSubstr("cvt.rn.bf16.f32")));
}

TEST(Ptx, BitsOfHalfAndBfloatAreEachOthers) {
  // LLVM 19 selects nothing for these casts, in whatever way they come to be.
  const std::string ptx = ptx_of(block(R"(
  %h = load half, ptr %in
  %b = bitcast half %h to bfloat
  %d = fadd bfloat %b, %b
  %p = getelementptr i8, ptr %in, i64 8
  %v = load <4 x bfloat>, ptr %p
  %w = bitcast <4 x bfloat> %v to <4 x half>
  %x = fadd <4 x half> %w, %w
  store bfloat %d, ptr %out
  %q = getelementptr i8, ptr %out, i64 8
  store <4 x half> %x, ptr %q
)"));
  EXPECT_THAT(ptx, AllOf(HasSubstr("add.rn.bf16"), HasSubstr("add.rn.f16x2")));
}

TEST(Ptx, LinksTheMathItNeeds) {
  TestModule math(R"(
define float @strata_exp_f32(float %x) "target-cpu"="sm_70" {
  %y = call float @llvm.nvvm.ex2.approx.f(float %x)
  ret float %y
}
define float @strata_sin_f32(float %x) {
  ret float 0.0
}
declare float @llvm.nvvm.ex2.approx.f(float)
)");
  const auto bitcode = math.bitcode();
  PtxOptions options = options_for("sm_80");
  options.optimize.math = bytes_of(bitcode);
  const std::string ptx = ptx_of(block(R"(
  %f = load float, ptr %in
  %e = call float @strata_exp_f32(float %f)
  store float %e, ptr %out
)",
                                       "declare float @strata_exp_f32(float)\n"),
                                 options);
  EXPECT_THAT(ptx, AllOf(HasSubstr("ex2.approx.f32"), Not(HasSubstr("strata_exp_f32")), Not(HasSubstr("strata_sin"))));
}

TEST(Ptx, LaunchLimitsAndRanges) {
  PtxOptions options = options_for("sm_90a");
  options.kernels[0].blocks = 10;
  options.kernels[0].min_blocks = 4;
  const std::string body = block(R"(
  %c = icmp ult i32 %i, 1280
  br i1 %c, label %yes, label %no
yes:
  store i32 1, ptr %out
  br label %no
no:
)");
  // 10 blocks of 128 threads: the test is always true.
  EXPECT_THAT(ptx_of(body, options), AllOf(HasSubstr(".minnctapersm 4"), Not(HasSubstr("setp"))));
  options.kernels[0] = {.name = "k", .threads = 128};
  options.max_registers = 64;
  EXPECT_THAT(ptx_of(body, options), AllOf(HasSubstr(".maxnreg 64"), HasSubstr("setp")));
  options.kernels[0].min_blocks = 4;
  EXPECT_THAT(failure(body, options), HasSubstr("either the least number of blocks or the most registers"));
}

TEST(Ptx, SeveralKernelsOfAModule) {
  PtxOptions options = options_for("sm_80");
  options.kernels.push_back({.name = "other", .threads = 32});
  const std::string ptx = ptx_of(block("  store i32 %i, ptr %out\n") +
                                     "define void @other_block(ptr %out, i32 %b, i32 %t, ptr addrspace(3) %s) {\n"
                                     "  store i32 %b, ptr %out\n  ret void\n}\n",
                                 options);
  EXPECT_THAT(ptx, AllOf(HasSubstr(".entry k("), HasSubstr(".entry other("), HasSubstr(".reqntid 32")));
}

TEST(Ptx, KernelsThatOverlapWaitBeforeTheyRead) {
  PtxOptions options = options_for("sm_90a");
  options.kernels.push_back({.name = "other", .threads = 32});
  options.overlap = true;
  const std::string text = block(R"(
  %p = getelementptr inbounds float, ptr %in, i32 %i
  %v = load float, ptr %p, !invariant.load !0
  store float %v, ptr %out
)") + "define void @other_block(ptr %out, i32 %b, i32 %t, ptr addrspace(3) %s) {\n"
      "  store i32 %b, ptr %out\n  ret void\n}\n";
  const std::string ptx = ptx_of(text, options);
  for (const char* name : {".entry k(", ".entry other("}) {
    const size_t entry = ptx.find(name);
    ASSERT_NE(entry, std::string::npos);
    const size_t wait = ptx.find("griddepcontrol.wait;", entry);
    EXPECT_LT(ptx.find("griddepcontrol.launch_dependents;", entry), wait);
    EXPECT_LT(wait, ptx.find("ld.", entry)) << ptx;
    EXPECT_LT(wait, ptx.find("st.", entry)) << ptx;
  }
  EXPECT_THAT(ptx, AllOf(HasSubstr("ld.global.f32"), Not(HasSubstr(".nc."))));
  options.overlap = false;
  EXPECT_THAT(ptx_of(text, options), AllOf(HasSubstr("ld.global.nc.f32"), Not(HasSubstr("griddepcontrol"))));
}

/// Loads and stores of a kernel in their order: L and S for those of device memory, B for barriers.
std::string order_of(const std::string& ptx) {
  std::string order;
  std::istringstream lines(ptx);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("ld.global") != std::string::npos) order += 'L';
    if (line.find("st.global") != std::string::npos) order += 'S';
    if (line.find("bar.sync") != std::string::npos) order += 'B';
  }
  return order;
}

/// Two copies of a loop's body, which read what is FROM, with BETWEEN between them.
std::string two_copies(const std::string& between, const std::string& from) {
  std::string text = block(R"(
  %p = getelementptr inbounds float, ptr FROM, i32 %i
  %v = load float, ptr %p
  %q = getelementptr inbounds float, ptr %out, i32 %i
  %w = fmul float %v, 2.0
  store float %w, ptr %q
BETWEEN
  %j = add nsw nuw i32 %i, %block
  %p2 = getelementptr inbounds float, ptr FROM, i32 %j
  %v2 = load float, ptr %p2
  %q2 = getelementptr inbounds float, ptr %out, i32 %j
  %w2 = fmul float %v2, 3.0
  store float %w2, ptr %q2
)",
                           "declare void @strata_barrier()\n");
  for (const auto& [what, with] : {std::pair<std::string, std::string>("BETWEEN", between), {"FROM", from}})
    for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), with);
  return text;
}

TEST(Ptx, LoadsDoNotWaitForStoresToOtherArrays) {
  PtxOptions options = options_for("sm_90a");
  options.overlap = true;
  EXPECT_EQ(order_of(ptx_of(two_copies("", "%in"), options)), "LLSS");
  // What is stored may be what is loaded then.
  EXPECT_EQ(order_of(ptx_of(two_copies("", "%out"), options)), "LSLS");
  // Other threads wait for it.
  EXPECT_EQ(order_of(ptx_of(two_copies("  call void @strata_barrier()", "%in"), options)), "LSBLS");
}

TEST(Ptx, StoresWaitAsFarAsRegistersReach) {
  std::string body;
  for (int i = 0; i < 40; ++i) {
    body += fmt::format(
        "  %i{0} = mul i32 %i, {1}\n  %p{0} = getelementptr float, ptr %in, i32 %i{0}\n  %v{0} = load float, ptr "
        "%p{0}\n"
        "  %q{0} = getelementptr float, ptr %out, i32 %i{0}\n  store float %v{0}, ptr %q{0}\n",
        i, 3 * i + 1);
  }
  const auto of = [&](int threads) {
    PtxOptions options = options_for("sm_90a");
    options.kernels[0].threads = threads;
    return order_of(ptx_of(block(body), options));
  };
  const std::string loads(16, 'L'), stores(16, 'S');
  // Of 64 registers, 16 for stores: 16 at a time, the 17th comes behind its own load.
  EXPECT_EQ(of(1024).substr(0, 33), loads + 'L' + stores);
  EXPECT_EQ(of(256), std::string(40, 'L') + std::string(40, 'S'));
}

/// Of two elements: (x + k) + 5, x being rotated before.
std::string sums_of_elements(const std::string& second_key) {
  return block(fmt::format(R"(
  %k = load i32, ptr %in
  %p2 = getelementptr inbounds i32, ptr %in, i32 1
  %k2 = load i32, ptr %p2
  %j = xor i32 %i, -1
  %x = call i32 @llvm.fshl.i32(i32 %i, i32 %i, i32 7)
  %y = call i32 @llvm.fshl.i32(i32 %j, i32 %j, i32 7)
  %xk = add i32 %x, %k
  %xkc = add i32 %xk, 5
  %yk = add i32 %y, {}
  %ykc = add i32 %yk, 5
  %q = getelementptr inbounds i32, ptr %out, i32 %i
  store i32 %xkc, ptr %q
  %q2 = getelementptr inbounds i32, ptr %q, i32 1000
  store i32 %ykc, ptr %q2
)",
                           second_key),
               "declare i32 @llvm.fshl.i32(i32, i32, i32)\n");
}

/// How many operands of additions are the number 5.
int fives(const std::string& ptx) {
  int count = 0;
  for (size_t at = ptx.find(", 5;"); at != std::string::npos; at = ptx.find(", 5;", at + 1)) ++count;
  return count;
}

TEST(Ptx, WhatElementsShareIsAddedUpOnce) {
  EXPECT_EQ(fives(ptx_of(sums_of_elements("%k"))), 1);
  EXPECT_EQ(fives(ptx_of(sums_of_elements("%k2"))), 2);
}

TEST(Ptx, RoundsOfALoopAddOnce) {
  // What one round makes of the counter's sum and of a rotation, the next one uses.
  std::string body = R"(
  %k = load i32, ptr %in
  br label %loop
loop:
  %n = phi i32 [ 0, %0 ], [ %next, %loop ]
  %at = add nuw nsw i32 %n, %i
  %x0 = add i32 %at, %k
  %y0 = xor i32 %at, %k
)";
  constexpr int kRounds = 12;
  for (int i = 0; i < kRounds; ++i) {
    body += fmt::format(R"(
  %x{1} = add i32 %x{0}, %y{0}
  %r{1} = call i32 @llvm.fshl.i32(i32 %y{0}, i32 %y{0}, i32 {2})
  %y{1} = xor i32 %x{1}, %r{1}
)",
                        i, i + 1, 5 + i);
  }
  body += fmt::format(R"(
  %q = getelementptr inbounds i32, ptr %out, i32 %at
  store i32 %y{}, ptr %q
  %next = add nuw nsw i32 %n, 4096
  %more = icmp ult i32 %next, 262144
  br i1 %more, label %loop, label %end
end:
)",
                      kRounds);
  const std::string ptx = ptx_of(block(body, "declare i32 @llvm.fshl.i32(i32, i32, i32)\n"));
  int additions = 0;
  for (size_t at = ptx.find("add.s32"); at != std::string::npos; at = ptx.find("add.s32", at + 1)) ++additions;
  EXPECT_LT(additions, kRounds + 8) << ptx;
}

TEST(Ptx, CubinIsAnElfFile) {
  if (!nv_jit_link_version()) GTEST_SKIP() << "no nvJitLink";
  TestModule test(block("  store i32 %i, ptr %out\n"));
  const auto cubin = to_cubin(*test.module, options_for("sm_90a"));
  ASSERT_TRUE(cubin) << cubin.error().to_string();
  EXPECT_EQ(std::string(cubin->data() + 1, 3), "ELF");
}

TEST(Ptx, Errors) {
  const PtxOptions options = options_for("sm_80");
  EXPECT_THAT(failure("", options), HasSubstr("the module has no function k_block"));
  EXPECT_THAT(failure("define void @k_block(ptr %a, i32 %b, ptr %s) {\n  ret void\n}\n", options),
              HasSubstr("k_block has the type void (ptr, i32, ptr); expected"));
  EXPECT_THAT(failure(block("  call void @strata_barrier(i32 1)\n", "declare void @strata_barrier(i32)\n"), options),
              HasSubstr("strata_barrier is not declared as void ()"));
  EXPECT_THAT(failure(block("  %f = load ptr, ptr %in\n  call void %f()\n"), options),
              HasSubstr("k_block calls through a pointer"));
  EXPECT_THAT(failure(block(""), options_for("sm_99")), HasSubstr("unknown target 'sm_99'"));
  PtxOptions named = options;
  named.kernels[0].name = "a.b";
  EXPECT_THAT(failure(block(""), named), HasSubstr("'a.b' is no name for a kernel in PTX"));
  PtxOptions wide = options;
  wide.kernels[0].threads = 2048;
  EXPECT_THAT(failure(block(""), wide), HasSubstr("2048 threads in a block; expected 1 to 1024"));
  PtxOptions ragged = options;
  ragged.kernels[0].threads = 33;
  EXPECT_THAT(failure(block("  %v = call i32 @strata_shuffle_xor(i32 1, i32 1)\n",
                            "declare i32 @strata_shuffle_xor(i32, i32)\n"),
                      ragged),
              HasSubstr("kernel k: shuffles take whole warps, and a block has 33 threads"));
  PtxOptions garbled = options;
  const std::string garbage = "no bitcode at all";
  garbled.optimize.math = std::as_bytes(std::span(garbage.data(), garbage.size()));
  EXPECT_THAT(failure(block(""), garbled), HasSubstr("the math library is no bitcode"));
}

TEST(Ptx, CallsOfNothingAreErrors) {
  const std::string call =
      "  %f = load float, ptr %in\n  %e = call float @expf(float %f)\n  store float %e, ptr %out\n";
  EXPECT_THAT(failure(block(call, "declare float @expf(float)\n"), options_for("sm_80")),
              HasSubstr("a kernel calls expf, which neither"));
  // LLVM makes a call of its library's of this.
  EXPECT_THAT(failure(block("  %c = cmpxchg ptr %out, i128 1, i128 2 monotonic monotonic\n"), options_for("sm_80")),
              HasSubstr("a kernel calls __atomic_compare_exchange_16, which neither"));
}

TEST(Ptx, WhatLlvmCannotSelectIsAnError) {
  // LLVM's own answer is to end the process.
  const LeaksOfLlvm leaks;
  EXPECT_THAT(failure(block("  call void @llvm.x86.sse2.pause()\n", "declare void @llvm.x86.sse2.pause()\n"),
                      options_for("sm_80")),
              HasSubstr("LLVM gives up: Cannot select"));
}

TEST(Ptx, DumpsStages) {
  std::vector<std::string> stages;
  PtxOptions options = options_for("sm_80");
  options.optimize.dump = [&](std::string_view stage, const llvm::Module& module) {
    stages.emplace_back(stage);
    EXPECT_EQ(module.getFunction("k") != nullptr, stage != "input");
  };
  ptx_of(block("  store i32 %i, ptr %out\n"), options);
  EXPECT_THAT(stages, testing::ElementsAre("input", "linked", "optimized", "lowered"));
}

}  // namespace
}  // namespace strata::emitters
