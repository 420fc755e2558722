#include "compiler/ptx_in_cuda.h"

#include <gmock/gmock.h>

namespace strata::compiler {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPtx = R"(//
.version 8.5
.target sm_90a
.address_size 64
	// .globl	k
.visible .entry k(
	.param .u64 .ptr .global .align 256 k_param_0,
	.param .u64 .ptr .global .align 256 k_param_1
)
.reqntid 128, 1, 1
{
	.reg .pred 	%p<2>;
	.reg .b64 	%rd<5>;

// %bb.0:
	ld.param.u64 	%rd1, [k_param_0];
	ld.param.u64 	%rd2, [k_param_1];
	mov.u32 	%r1, %ctaid.x;
	mov.u32 	%r2, %tid.x;
	@%p1 bra 	$L__BB0_2;
	.pragma "nounroll";
$L__BB0_2:
	ret;
}
)";

TEST(PtxInCuda, RegistersAndLabelsAreTheStatementsOwn) {
  const auto text = ptx_in_cuda(kPtx, "g_y", {"const float*", "float*"});
  ASSERT_TRUE(text) << text.error().to_string();
  EXPECT_THAT(
      *text,
      HasSubstr("template <class Team>\nstatic STRATA_DEVICE void g_y(const float* p0, float* p1, unsigned block, "
                "[[maybe_unused]] unsigned char* shared)"));
  // Operands are the compiler's registers, which may be called %rd1 too.
  EXPECT_THAT(*text, HasSubstr("mov.b64 %%strata_rd1, %0;"));
  EXPECT_THAT(*text, HasSubstr("mov.b64 %%strata_rd2, %1;"));
  EXPECT_THAT(*text, HasSubstr(".reg .b64 \t%%strata_rd<5>;"));
  EXPECT_THAT(*text, HasSubstr("@%%strata_p1 bra \tSTRATA_L__BB0_2;"));
  EXPECT_THAT(*text, HasSubstr("mov.u32 \t%%r1, %2;"));
  EXPECT_THAT(*text, HasSubstr("mov.u32 \t%%r2, %3;"));
  EXPECT_THAT(*text, HasSubstr("bra.uni STRATA_END;"));
  EXPECT_THAT(*text, HasSubstr(".pragma \\\"nounroll\\\";"));
  EXPECT_THAT(*text, AllOf(Not(HasSubstr("//")), Not(HasSubstr("k_param_")), Not(HasSubstr("$"))));
}

TEST(PtxInCuda, WhatIsMoreThanAKernelIsRefused) {
  for (const char* more :
       {".global .align 4 .b8 table[16];", ".extern .func (.param .b32 r) vprintf", ".visible .entry k2("}) {
    const auto text = ptx_in_cuda(std::string(more) + "\n" + kPtx, "k", {"float*", "float*"});
    ASSERT_FALSE(text) << more;
    EXPECT_EQ(text.error().code, ErrorCode::Unsupported);
  }
  EXPECT_FALSE(ptx_in_cuda(".version 8.5\n", "k", {}));
}

TEST(PtxInCuda, SharedMemoryAndBarriersAreTheTeams) {
  std::string ptx = kPtx;
  ptx.insert(ptx.find(".visible"), ".extern .shared .align 16 .b8 strata_shared[];\n");
  ptx.insert(ptx.find("\tret;"), "\tmov.u64 \t%rd4, strata_shared;\n\tbar.sync \t0;\n");
  const auto text = ptx_in_cuda(ptx, "g_y", {"const float*", "float*"});
  ASSERT_TRUE(text) << text.error().to_string();
  EXPECT_THAT(*text, HasSubstr(".reg .b64 strata_shared;"));
  EXPECT_THAT(*text, HasSubstr("mov.b64 strata_shared, %6;"));
  EXPECT_THAT(*text, HasSubstr("bar.sync %4, %5;"));
  EXPECT_THAT(*text, HasSubstr("\"n\"(Team::kBarrier), \"n\"(Team::kThreads)"));
  const std::string other = std::string(ptx).replace(ptx.find("bar.sync \t0;"), 12, "bar.sync \t1;");
  EXPECT_FALSE(ptx_in_cuda(other, "g_y", {"const float*", "float*"}));
}

}  // namespace
}  // namespace strata::compiler
