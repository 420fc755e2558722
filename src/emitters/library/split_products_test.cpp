// Products of merged dimensions, as frontends write sums over several indices.
#include "emitters/library/split_products.h"

#include <gtest/gtest.h>

#include <numeric>

#include "emitters/library/test_library_calls.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

using Dimensions = std::vector<int64_t>;

/// Of dimensions by their names, which are numbers: batches, rows, columns and terms, two each and some of one element.
constexpr int64_t kSizes[] = {2, 6, 5, 8, 3, 16, 4, 10, 1};

Dimensions sizes_of(const Dimensions& names) {
  Dimensions sizes;
  for (const int64_t name : names) sizes.push_back(kSizes[name]);
  return sizes;
}

int64_t elements_of(const Dimensions& names) {
  int64_t elements = 1;
  for (const int64_t name : names) elements *= kSizes[name];
  return elements;
}

/// An operand: computed of a parameter, transposed, and its dimensions merged to three.
std::string operand_text(const std::string& name, const std::string& type, int number, const Dimensions& batch,
                         const Dimensions& second, const Dimensions& third, Random& random) {
  Dimensions to = batch;
  to.insert(to.end(), second.begin(), second.end());
  to.insert(to.end(), third.begin(), third.end());
  Dimensions order(to.size()), from(to.size());
  std::iota(order.begin(), order.end(), 0);
  if (random.below(4) != 0) order = shuffled(order, random);
  for (size_t i = 0; i < to.size(); ++i) from[static_cast<size_t>(order[i])] = to[i];
  return fmt::format(R"(  {0}p = {1}{2} parameter({3})
  {0}s = {1}{2} sine({0}p)
  {0}t = {1}{4} transpose({0}s), dimensions={5}
  {0} = {1}[{6},{7},{8}] reshape({0}t)
)",
                     name, type, dims(sizes_of(from)), number, dims(sizes_of(to)), list(order), elements_of(batch),
                     elements_of(second), elements_of(third));
}

/// The batches of one operand may be apart otherwise than the other's: one array of them, or in other parts.
std::string random_product(Random& random) {
  const std::string type = std::data({"f32", "bf16"})[random.below(2)];
  const Dimensions batch{0, 1, 2}, rows{3, 4}, columns{8, 5}, terms{6, 7};
  const bool terms_first = random.below(2) == 0;
  std::string text = "HloModule m\n\nENTRY e {\n" + operand_text("x", type, 0, batch, rows, terms, random);
  if (random.below(3) == 0) {
    text += fmt::format("  y = {}[60,40,16] parameter(1)\n", type);
  } else if (random.below(3) == 0) {  // 12 by 5
    text += fmt::format(
        "  yp = {0}[5,12,40,16] parameter(1)\n  yt = {0}[12,5,40,16] transpose(yp), dimensions={{1,0,2,3}}\n"
        "  y = {0}[60,40,16] reshape(yt)\n",
        type);
  } else if (random.below(3) == 0) {  // 15 by 4, which have no parts in common with 2 by 6 by 5
    text += fmt::format(
        "  yp = {0}[4,15,40,16] parameter(1)\n  yt = {0}[15,4,40,16] transpose(yp), dimensions={{1,0,2,3}}\n"
        "  y = {0}[60,40,16] reshape(yt)\n",
        type);
  } else if (terms_first) {
    text += operand_text("y", type, 1, batch, terms, columns, random);
  } else {
    text += operand_text("yy", type, 1, batch, columns, terms, random);
    text += fmt::format("  y = {}[60,40,16] transpose(yy), dimensions={{0,2,1}}\n", type);
  }
  text += fmt::format(R"(  d = {0}[60,24,16] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
)",
                      type);
  if (random.below(2) == 0) return text + fmt::format("  ROOT n = {}[60,24,16] negate(d)\n}}\n", type);
  return text + fmt::format(R"(  r = {0}[2,6,5,8,3,16] reshape(d)
  ROOT t = {0}[2,5,8,6,16,3] transpose(r), dimensions={{0,2,3,1,5,4}}
}}
)",
                            type);
}

class SplitProductsTest : public LibraryCallsTest {};

TEST_F(SplitProductsTest, RandomOnesAreThoseOfTheInterpreter) {
  int split = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(rounds(30)); ++seed) {
    Random random(seed);
    const std::string text = random_product(random);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_NE(module, nullptr);
    const hlo::Module made = with_split_products(*module, LibraryUse::WherePossible);
    split += hlo::print(made) != hlo::print(*module) ? 1 : 0;
    ASSERT_EQ(checked(*module, seed), "") << seed << "\n" << text << explained_;
  }
  EXPECT_GE(split, rounds(4));
  EXPECT_LT(split, rounds(27));
}

/// Heads and blocks are exchanged before the product and after it: all of it but one transpose of the result goes.
TEST_F(SplitProductsTest, BatchesAreTakenInTheOrderInWhichTheyLie) {
  const std::string work = explained_work(R"(HloModule m

ENTRY e {
  x = bf16[3,11,22,64,192] parameter(0)
  s = bf16[3,11,22,64,192] sine(x)
  v = bf16[3,11,22,192,64] parameter(1)
  xt = bf16[3,22,11,64,192] transpose(s), dimensions={0,2,1,3,4}
  xr = bf16[726,64,192] reshape(xt)
  vt = bf16[3,22,11,192,64] transpose(v), dimensions={0,2,1,3,4}
  vr = bf16[726,192,64] reshape(vt)
  d = bf16[726,64,64] dot(xr, vr), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_contracting_dims={1}
  r = bf16[3,22,11,64,64] reshape(d)
  ROOT o = bf16[3,22,64,11,64] transpose(r), dimensions={0,1,3,2,4}
}
)");
  EXPECT_EQ(work, "kernel; 726 of bf16 64×64×192, algorithm 0; kernel; ");
}

/// Batches that no one order has as one dimension in memory stay merged.
TEST_F(SplitProductsTest, BatchesThatLieApartStayMerged) {
  const hlo::ModulePtr module = parsed(R"(HloModule m

ENTRY e {
  q = bf16[4,128,6,64] parameter(0)
  k = bf16[4,128,6,64] parameter(1)
  qt = bf16[4,6,128,64] transpose(q), dimensions={0,2,1,3}
  kt = bf16[4,6,64,128] transpose(k), dimensions={0,2,3,1}
  qr = bf16[24,128,64] reshape(qt)
  kr = bf16[24,64,128] reshape(kt)
  ROOT d = bf16[24,128,128] dot(qr, kr), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_contracting_dims={1}
}
)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(hlo::print(with_split_products(*module, LibraryUse::WherePossible)), hlo::print(*module));
}

}  // namespace
}  // namespace strata::emitters
