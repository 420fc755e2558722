// Products in the order in which their operands lie and their results are read.
#include "emitters/library/ordered_products.h"

#include <gtest/gtest.h>

#include <numeric>

#include "emitters/library/test_library_calls.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

using Dimensions = std::vector<int64_t>;

/// Of dimensions by their names, which are numbers.
constexpr int64_t kSizes[] = {2, 3, 20, 24, 5, 6, 7, 4, 1};
constexpr int64_t kOne = 8;  ///< the name of one of one element

Dimensions sizes_of(const Dimensions& names) {
  Dimensions sizes;
  for (const int64_t name : names) sizes.push_back(kSizes[name]);
  return sizes;
}

/// A dot of two arrays whose dimensions have these names, and the names of its result's.
std::string dot_text(const std::string& name, const std::string& type, const std::string& a, const Dimensions& left,
                     const std::string& b, const Dimensions& right, const Dimensions& terms, Dimensions& result) {
  Dimensions lhs_batch, rhs_batch, lhs_terms, rhs_terms;
  const auto place = [](const Dimensions& in, int64_t one) {
    return std::find(in.begin(), in.end(), one) - in.begin();
  };
  const auto has = [&](const Dimensions& in, int64_t one) { return place(in, one) < std::ssize(in); };
  for (const int64_t one : left) {
    if (!has(right, one)) continue;
    const bool is_term = has(terms, one);
    (is_term ? lhs_terms : lhs_batch).push_back(place(left, one));
    (is_term ? rhs_terms : rhs_batch).push_back(place(right, one));
    if (!is_term) result.push_back(one);
  }
  for (const Dimensions* side : {&left, &right}) {
    for (const int64_t one : *side) {
      if (!has(side == &left ? right : left, one)) result.push_back(one);
    }
  }
  return fmt::format(
      "  {} = {}{} dot({}, {}), lhs_batch_dims={}, rhs_batch_dims={}, lhs_contracting_dims={}, "
      "rhs_contracting_dims={}\n",
      name, type, dims(sizes_of(result)), a, b, list(lhs_batch), list(rhs_batch), list(lhs_terms), list(rhs_terms));
}

std::string transpose_text(const std::string& name, const std::string& type, const std::string& of, Dimensions& names,
                           Random& random) {
  Dimensions order(names.size()), moved;
  std::iota(order.begin(), order.end(), 0);
  order = shuffled(order, random);
  for (const int64_t d : order) moved.push_back(names[static_cast<size_t>(d)]);
  names = moved;
  return fmt::format("  {} = {}{} transpose({}), dimensions={}\n", name, type, dims(sizes_of(names)), of, list(order));
}

/// x · y and perhaps · z, with transposes and what computes elements around them.
std::string random_products(Random& random) {
  const std::string type = std::data({"f32", "bf16"})[random.below(2)];
  // 0 and 1: perhaps batches; 2 and 3: of x and y alone; 4: terms; 5: terms of the second product.
  Dimensions x{2, 4, 5}, y{3, 4}, z{5, 7};
  if (random.below(2) == 0) x.push_back(kOne);
  for (const int64_t one : {0, 1}) {
    const auto where = random.below(4);
    if (where != 1) x.push_back(one);
    if (where == 1 || where == 2) y.push_back(one);
  }
  std::string text = "HloModule m\n\nENTRY e {\n";
  x = shuffled(x, random), y = shuffled(y, random), z = shuffled(z, random);
  text +=
      fmt::format("  x = {0}{1} parameter(0)\n  y = {0}{2} parameter(1)\n", type, dims(sizes_of(x)), dims(sizes_of(y)));
  std::string left = "x", last = "d";
  if (random.below(2) == 0) {
    text += transpose_text("xt", type, "x", x, random);
    left = "xt";
  }
  Dimensions names;
  text += dot_text("d", type, left, x, "y", y, {4}, names);
  const auto compute = [&](const std::string& prefix) {
    if (random.below(2) == 0) {
      const std::string array = type + dims(sizes_of(names));
      const auto one = std::find(names.begin(), names.end(), kOne);
      const bool is_list = one != names.end() && random.below(2) == 0;  // a number is an array of one element
      text += fmt::format("  {0}c = {1}{2} constant({3})\n  {0}b = {4} broadcast({0}c), dimensions={{{5}}}\n", prefix,
                          type, is_list ? "[1]" : "[]", is_list ? "{0.5}" : "0.5", array,
                          is_list ? std::to_string(one - names.begin()) : "");
      text += fmt::format("  {0}m = {1} multiply({0}b, {2})\n", prefix, array, last);
      last = prefix + "m";
    }
    if (random.below(2) == 0) {
      text += transpose_text(prefix + "t", type, last, names, random);
      last = prefix + "t";
    }
  };
  compute("p");
  if (random.below(2) == 0) {
    text += fmt::format("  z = {}{} parameter(2)\n", type, dims(sizes_of(z)));
    Dimensions after;
    text += random.below(2) == 0 ? dot_text("f", type, last, names, "z", z, {5}, after)
                                 : dot_text("f", type, "z", z, last, names, {5}, after);
    names = after;
    last = "f";
    compute("q");
  }
  const std::string array = type + dims(sizes_of(names));
  if (random.below(3) == 0) {  // read in two orders
    Dimensions other = names;
    text += transpose_text("o", type, last, other, random);
    return text + fmt::format("  n = {0} negate({1})\n  ROOT r = ({0}, {2}{3}) tuple(n, o)\n}}\n", array, last, type,
                              dims(sizes_of(other)));
  }
  return text + fmt::format("  ROOT n = {} negate({})\n}}\n", array, last);
}

class OrderedProductsTest : public LibraryCallsTest {};

TEST_F(OrderedProductsTest, RandomOnesAreThoseOfTheInterpreter) {
  int libraries = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(rounds(60)); ++seed) {
    Random random(seed);
    const std::string text = random_products(random);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_NE(module, nullptr);
    ASSERT_EQ(checked(*module, seed), "") << seed << "\n" << text << explained_;
    libraries += libraries_;
  }
  EXPECT_GT(libraries, rounds(60));
}

/// Interpolation along two dimensions, as JAX writes it: no array is transposed.
TEST_F(OrderedProductsTest, OuterDimensionsBecomeBatches) {
  EXPECT_EQ(explained_work(R"(HloModule m

ENTRY e {
  x = bf16[5,97,131,64] parameter(0)
  w = bf16[131,304] parameter(1)
  v = bf16[97,200] parameter(2)
  d = bf16[304,5,97,64] dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={2}
  f = bf16[304,5,64,200] dot(d, v), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  ROOT t = bf16[5,200,304,64] transpose(f), dimensions={1,3,0,2}
}
)"),
            "485 of bf16 304×64×131, algorithm 0; 5 of bf16 200×19456×97, algorithm 0; ");
}

/// Scores of queries in groups, whose result is read with the keys' positions side by side, and a gradient by them.
TEST_F(OrderedProductsTest, ResultsLieAsTheyAreRead) {
  const std::string work = explained_work(R"(HloModule m

ENTRY e {
  k = bf16[2,3,1000,64] parameter(0)
  q = bf16[2,3,8,1000,64] parameter(1)
  s = f32[2,3,1000,8,1000] dot(k, q), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3},
    rhs_contracting_dims={4}
  half = f32[] constant(0.5)
  halves = f32[2,3,1000,8,1000] broadcast(half), dimensions={}
  m = f32[2,3,1000,8,1000] multiply(s, halves)
  t = f32[2,3,8,1000,1000] transpose(m), dimensions={0,1,3,4,2}
  e = f32[2,3,8,1000,1000] exponential(t)
  b = bf16[2,3,8,1000,1000] convert(e)
  u = bf16[2,3,1000,1000,8] transpose(b), dimensions={0,1,4,3,2}
  ROOT o = bf16[2,3,1000,8,64] dot(u, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={2},
    rhs_contracting_dims={2}
}
)");
  EXPECT_EQ(work, "6 of bf16 to f32 8000×1000×64, algorithm 0; kernel; 6 of bf16 8000×64×1000, algorithm 0; kernel; ");
}

}  // namespace
}  // namespace strata::emitters
