// What parts cost around them: by example, and that surroundings hold their part wherever it stands.
#include "emitters/lax/surroundings.h"

#include "emitters/lax/test_parts.h"
#include "hlo/text.h"

namespace strata::emitters {
namespace {

double around(const std::string& text) {
  const hlo::Module module = flat(text);
  const std::vector<LaxPart> parts = find_lax_parts(module);
  EXPECT_EQ(parts.size(), 1U);
  if (parts.size() != 1) return 0;
  return microseconds_around(surroundings_of(module, parts[0]), default_target(), LibraryUse::WhereFaster);
}

TEST(LaxSurroundings, OfAWholeModuleAreNothing) {
  EXPECT_NEAR(around(R"(HloModule m
ENTRY e {
  x = f16[64,512] parameter(0)
  w = f16[512,256] parameter(1)
  b = f16[256] parameter(2)
  p = f16[64,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bs = f16[64,256] broadcast(b), dimensions={1}
  ROOT a = f16[64,256] add(p, bs)
})"),
              0, 1e-9);
}

TEST(LaxSurroundings, WhatAProductReadsOnItsWayIsWritten) {
  // A kernel of one row computes the weights where it reads them; a call reads an array.
  const std::string text = R"(HloModule m
ENTRY e {
  x = f16[1,1024] parameter(0)
  v = f16[8192,1024] parameter(1)
  u = f16[8192,1024] parameter(2)
  b = f16[8192] parameter(3)
  a = f16[8192,1024] atan2(v, u)
  p = f16[1,8192] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  bs = f16[1,8192] broadcast(b), dimensions={1}
  ROOT s = f16[1,8192] add(p, bs)
})";
  const double bytes = 2.0 * 8192 * 1024 * 2;  // written and read
  EXPECT_GT(around(text), 0.4e6 * bytes / default_target().rates.copy_bandwidth);
}

TEST(LaxSurroundings, AReaderIsAKernelMore) {
  EXPECT_GT(around(R"(HloModule m
ENTRY e {
  x = f16[256,64] parameter(0)
  w = f16[64,256] parameter(1)
  p = f16[256,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f16[] constant(0.125)
  cs = f16[256,256] broadcast(c), dimensions={}
  s = f16[256,256] multiply(p, cs)
  ROOT t = f16[256,256] tanh(s)
})"),
            1e6 * default_target().kernel_seconds() / 2);
}

TEST(LaxSurroundings, HoldThePartOfRandomModules) {
  int parts_seen = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = RandomText(seed, seed % 2 == 0 ? "f16" : "f32").text();
    const hlo::Module module = flat(text);
    for (const LaxPart& part : find_lax_parts(module)) {
      const Surroundings made = surroundings_of(module, part);
      ++parts_seen;
      const auto right = hlo::verify(made.module);
      ASSERT_TRUE(right) << right.error().to_string() << "\n" << text;
      EXPECT_EQ(difference_of_calls(made.module, {made.part}, 16), "") << seed << "\n" << text;
      EXPECT_EQ(surroundings_of(made.module, made.part).part.members.size(), part.members.size());
    }
  }
  EXPECT_GT(parts_seen, 20);
}

TEST(LaxSurroundings, EqualOnesHaveEqualTexts) {
  std::string text = "HloModule m\nENTRY e {\n  x0 = f16[16,64] parameter(0)\n";
  for (int layer = 0; layer < 4; ++layer)
    text += fmt::format(R"(  w{0} = f16[64,64] parameter({1})
  b{0} = f16[64] parameter({2})
  p{0} = f16[16,64] dot(x{0}, w{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  q{0} = f16[16,64] broadcast(b{0}), dimensions={{1}}
  m{0} = f16[16,64] add(p{0}, q{0})
  {3}x{4} = f16[16,64] tanh(m{0})
)",
                        layer, 2 * layer + 1, 2 * layer + 2, layer == 3 ? "ROOT " : "", layer + 1);
  const hlo::Module module = flat(text + "}\n");
  const std::vector<LaxPart> parts = find_lax_parts(module);
  ASSERT_EQ(parts.size(), 4U);
  const auto text_of = [&](size_t i) { return hlo::print(surroundings_of(module, parts[i]).module); };
  EXPECT_EQ(text_of(1), text_of(2));
  EXPECT_NE(text_of(0), text_of(1));  // nothing is before the first
}

}  // namespace
}  // namespace strata::emitters
