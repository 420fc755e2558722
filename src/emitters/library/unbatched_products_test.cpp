// Products of batches for which one operand is the same.
#include "emitters/library/unbatched_products.h"

#include <gtest/gtest.h>

#include "emitters/library/test_library_calls.h"

namespace strata::emitters {
namespace {

class UnbatchedProductsTest : public LibraryCallsTest {};

/// The sizes of the result of a module's first product; none where it has none.
std::vector<int64_t> product_of(const hlo::Module& module) {
  const std::vector<hlo::Instruction>& all = module.entry_computation().instructions;
  const auto dot = std::ranges::find(all, hlo::Opcode::Dot, &hlo::Instruction::opcode);
  return dot == all.end() ? std::vector<int64_t>() : dot->shape.dims;
}

/// As torch writes the product of an array whose batches are not first by a matrix: one product of all rows, which a
/// kernel puts into their order.
TEST_F(UnbatchedProductsTest, BatchesOfOneMatrixAreRows) {
  EXPECT_EQ(explained_work(R"(HloModule m

ENTRY e {
  x = bf16[7,499,1024] parameter(0)
  w = bf16[776,1024] parameter(1)
  t = bf16[499,7,1024] transpose(x), dimensions={1,0,2}
  wt = bf16[1024,776] transpose(w), dimensions={1,0}
  b = bf16[499,1024,776] broadcast(wt), dimensions={1,2}
  d = bf16[499,7,776] dot(t, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_contracting_dims={1}
  ROOT s = bf16[499,7,776] sine(d)
}
)"),
            "kernel; bf16 3493×776×1024, algorithm 0; kernel; ");
}

/// Both sides may repeat batches, each its own, and other dimensions too.
TEST_F(UnbatchedProductsTest, RandomOnesAreThoseOfTheInterpreter) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Random random(seed);
    // Sizes of batches, rows, terms and columns in an operand's own order; each batch is repeated by one of them.
    const bool first_is_left = random.below(2) == 0, second_is_left = random.below(2) == 0;
    const auto operand = [&](const std::string& name, int number, bool repeats_first, bool repeats_second,
                             int64_t size) {
      const std::vector<int64_t> all{3, 5, size, 16};  // as the dot wants them, before they are shuffled
      const std::vector<int64_t> order = shuffled({0, 1, 2, 3}, random);
      std::vector<int64_t> sizes, own, kept;
      for (size_t i = 0; i < order.size(); ++i) {
        const int64_t d = order[i];
        sizes.push_back(all[static_cast<size_t>(d)]);
        if ((d == 0 && repeats_first) || (d == 1 && repeats_second)) continue;
        own.push_back(sizes.back());
        kept.push_back(static_cast<int64_t>(i));
      }
      const std::string text = fmt::format(
          "  {0}p = f32{1} parameter({2})\n  {0} = f32{3} broadcast({0}p), "
          "dimensions={4}\n",
          name, dims(own), number, dims(sizes), list(kept));
      return std::pair(text, order);
    };
    const auto [left, l] = operand("x", 0, first_is_left, second_is_left, 20);
    const auto [right, r] = operand("y", 1, !first_is_left, !second_is_left, 24);
    const auto place = [](const std::vector<int64_t>& order, int64_t d) {
      return std::find(order.begin(), order.end(), d) - order.begin();
    };
    const std::string text =
        fmt::format(R"(HloModule m

ENTRY e {{
{}{}  d = f32[3,5,20,24] dot(x, y), lhs_batch_dims={{{},{}}}, rhs_batch_dims={{{},{}}}, lhs_contracting_dims={{{}}},
    rhs_contracting_dims={{{}}}
  ROOT n = f32[3,5,20,24] negate(d)
}}
)",
                    left, right, place(l, 0), place(l, 1), place(r, 0), place(r, 1), place(l, 3), place(r, 3));
    const hlo::ModulePtr module = parsed(text);
    ASSERT_NE(module, nullptr);
    EXPECT_NE(hlo::print(with_unbatched_products(*module, LibraryUse::WherePossible)), hlo::print(*module));
    ASSERT_EQ(checked(*module, seed), "") << seed << "\n" << text << explained_;
  }
}

/// Query heads that share keys are rows of one product for each head of the keys.
TEST_F(UnbatchedProductsTest, RowsLieBesideBatchesThatStay) {
  EXPECT_EQ(explained_work(R"(HloModule m

ENTRY e {
  q = bf16[8,4,64,128] parameter(0)
  k = bf16[8,128,1024] parameter(1)
  b = bf16[8,4,128,1024] broadcast(k), dimensions={0,2,3}
  ROOT d = bf16[8,4,64,1024] dot(q, b), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3},
    rhs_contracting_dims={2}
}
)"),
            "8 of bf16 256×1024×128, algorithm 0; ");
}

/// Beside batches that both have, in any order of them.
TEST_F(UnbatchedProductsTest, RandomOnesBesideOthersAreThoseOfTheInterpreter) {
  int undone = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    // Of three batches each operand has its own; all have the second or the last.
    const size_t stays = 1 + random.below(2);
    const std::vector<int64_t> sizes{5, 3, 2};
    std::vector<int64_t> kept[2], own[2];
    for (size_t i = 0; i < sizes.size(); ++i) {
      const size_t lacks = i == stays ? 2 : random.below(3);
      for (const size_t side : {0, 1}) {
        if (lacks == side) continue;
        kept[side].push_back(static_cast<int64_t>(i));
        own[side].push_back(sizes[i]);
      }
    }
    const std::vector<int64_t> matrices[2] = {{1, 16}, {16, 48}};
    std::string text = "HloModule m\n\nENTRY e {\n";
    for (const size_t side : {0, 1}) {
      std::vector<int64_t> whole = sizes;
      for (const int64_t d : {0, 1}) {
        kept[side].push_back(3 + d);
        own[side].push_back(matrices[side][static_cast<size_t>(d)]);
        whole.push_back(own[side].back());
      }
      text += fmt::format("  p{0} = f32{1} parameter({0})\n  b{0} = f32{2} broadcast(p{0}), dimensions={3}\n", side,
                          dims(own[side]), dims(whole), list(kept[side]));
    }
    text +=
        "  ROOT d = f32[5,3,2,1,48] dot(b0, b1), lhs_batch_dims={0,1,2}, rhs_batch_dims={0,1,2}, "
        "lhs_contracting_dims={4}, rhs_contracting_dims={3}\n}\n";
    const hlo::ModulePtr module = parsed(text);
    ASSERT_NE(module, nullptr) << text;
    undone += hlo::print(with_unbatched_products(*module, LibraryUse::WherePossible)) == hlo::print(*module) ? 0 : 1;
    ASSERT_EQ(checked(*module, seed), "") << seed << "\n" << text << explained_;
  }
  EXPECT_GE(undone, 4);
}

/// The scores and the values of queries of one place each, whose heads share keys: as Hugging Face's models write them
/// for torch, with one dimension of batches and heads.
TEST_F(UnbatchedProductsTest, HeadsThatShareKeysAreRowsThroughReshapes) {
  const std::string text = R"(HloModule m

ENTRY e {
  q = bf16[3,12,1,128] parameter(0)
  k = bf16[3,4,640,128] parameter(1)
  v = bf16[3,4,640,128] parameter(2)
  k5 = bf16[3,4,3,640,128] broadcast(k), dimensions={0,1,3,4}
  k4 = bf16[3,12,640,128] reshape(k5)
  kt = bf16[3,12,128,640] transpose(k4), dimensions={0,1,3,2}
  k3 = bf16[36,128,640] reshape(kt)
  q3 = bf16[36,1,128] reshape(q)
  s = bf16[36,1,640] dot(q3, k3), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_contracting_dims={1}
  p = bf16[36,1,640] tanh(s)
  v5 = bf16[3,4,3,640,128] broadcast(v), dimensions={0,1,3,4}
  v3 = bf16[36,640,128] reshape(v5)
  o = bf16[36,1,128] dot(p, v3), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_contracting_dims={1}
  ROOT r = bf16[3,12,1,128] reshape(o)
}
)";
  EXPECT_EQ(explained_work(text), "12 of bf16 3×640×128, algorithm 0; kernel; 12 of bf16 3×128×640, algorithm 0; ");
  const hlo::ModulePtr module = parsed(text);
  ASSERT_NE(module, nullptr);
  for (const LibraryUse use : {LibraryUse::WherePossible, LibraryUse::WhereFaster})
    EXPECT_EQ(checked(*module, 1, 4, use), "") << explained_;
}

/// Heads that are repeated after conversion, computing and appending to a cache, in groups that lie inside or outside
/// of the heads, with batches merged or not, and either operand first.
TEST_F(UnbatchedProductsTest, RandomOnesThroughOtherOperatorsAreThoseOfTheInterpreter) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const auto coin = [&] { return random.below(2) == 0; };
    const int64_t heads = 2 + static_cast<int64_t>(random.below(2)), groups = 2 + static_cast<int64_t>(random.below(3));
    const int64_t queries = coin() ? 1 : 3, keys = 70, size = coin() ? 16 : 72, all = heads * groups;
    const bool outside = coin(), merged = coin(), keys_first = coin(), converts = coin(), appends = coin();
    const char* type = converts ? "bf16" : "f32";
    std::string text =
        fmt::format("HloModule m\n\nENTRY e {{\n  q = f32[2,{},{},{}] parameter(0)\n", all, queries, size);
    if (appends) {
      text += fmt::format(
          "  c = {0}[2,{1},{2},{3}] parameter(1)\n  n = {0}[2,{1},1,{3}] parameter(2)\n"
          "  k = {0}[2,{1},{4},{3}] concatenate(c, n), dimensions={{2}}\n",
          type, heads, keys - 1, size, keys);
    } else {
      text += fmt::format("  k = {}[2,{},{},{}] parameter(1)\n", type, heads, keys, size);
    }
    const std::vector<int64_t> apart = outside ? std::vector{int64_t{2}, groups, heads, keys, size}
                                               : std::vector{int64_t{2}, heads, groups, keys, size};
    text += fmt::format("  k5 = {}{} broadcast(k), dimensions={{0,{},3,4}}\n", type, dims(apart), outside ? 2 : 1);
    text += fmt::format("  k4 = {}[2,{},{},{}] reshape(k5)\n", type, all, keys, size);
    text += fmt::format(
        "  kf = f32[2,{0},{1},{2}] convert(k4)\n  two = f32[] constant(2)\n  f = f32[2,{0},{1},{2}] "
        "broadcast(two), dimensions={{}}\n  ks = f32[2,{0},{1},{2}] multiply(kf, f)\n",
        all, keys, size);
    const std::vector<int64_t> lead = merged ? std::vector{2 * all} : std::vector{int64_t{2}, all};
    const auto with = [&](int64_t rows, int64_t columns) {
      std::vector<int64_t> sizes = lead;
      sizes.push_back(rows);
      sizes.push_back(columns);
      return dims(sizes);
    };
    const std::string batch = merged ? "{0}" : "{0,1}";
    const std::string last = merged ? "{2}" : "{3}";
    text += fmt::format("  a = f32{} reshape(q)\n  b = f32{} reshape(ks)\n", with(queries, size), with(keys, size));
    text += fmt::format(
        "  ROOT d = f32{0} dot({1}), lhs_batch_dims={2}, rhs_batch_dims={2}, lhs_contracting_dims={3}, "
        "rhs_contracting_dims={3}\n}}\n",
        keys_first ? with(keys, queries) : with(queries, keys), keys_first ? "b, a" : "a, b", batch, last);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_NE(module, nullptr) << text;
    // Where it changes, batches are those of the keys, and all queries of a group are rows (or columns).
    const hlo::Module rewritten = with_unbatched_products(*module, LibraryUse::WherePossible);
    for (const hlo::Instruction& it : rewritten.entry_computation().instructions) {
      if (it.opcode != hlo::Opcode::Dot) continue;
      int64_t batches = 1;
      for (const int64_t d : it.as<hlo::DotAttributes>().lhs_batch)
        batches *= rewritten.entry_computation().operand_shape(it, 0).dim(d);
      if (batches == 2 * all) continue;
      ++changed;
      EXPECT_EQ(batches, 2 * heads) << text;
    }
    for (const LibraryUse use : {LibraryUse::WherePossible, LibraryUse::WhereFaster})
      ASSERT_EQ(checked(*module, seed, 8, use), "") << seed << "\n" << text << explained_;
  }
  EXPECT_GE(changed, 30);
}

/// Eight queries of each of eight heads are two products of 32 rows for each head of keys, and not one of 64.
TEST_F(UnbatchedProductsTest, RowsOfFewStayFew) {
  const hlo::ModulePtr module = parsed(R"(HloModule m

ENTRY e {
  q = bf16[2,24,8,128] parameter(0)
  k = bf16[2,3,640,128] parameter(1)
  k5 = bf16[2,3,8,640,128] broadcast(k), dimensions={0,1,3,4}
  k4 = bf16[2,24,640,128] reshape(k5)
  ROOT d = bf16[2,24,8,640] dot(q, k4), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3},
    rhs_contracting_dims={3}
}
)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(product_of(with_unbatched_products(*module, LibraryUse::WherePossible)),
            (std::vector<int64_t>{2, 6, 4, 8, 640}));
  EXPECT_EQ(checked(*module, 3, 4, LibraryUse::WhereFaster), "") << explained_;
}

/// An operand that is repeated is written and read again, as what changes its order is: the smaller of both.
TEST_F(UnbatchedProductsTest, BatchesBeforeOthersBecomeRowsWhereThatMovesLess) {
  const hlo::ModulePtr module = parsed(R"(HloModule m

ENTRY e {
  x = f32[6,5,40,100] parameter(0)
  y = f32[5,100,100] parameter(1)
  b = f32[6,5,100,100] broadcast(y), dimensions={1,2,3}
  ROOT d = f32[6,5,40,100] dot(x, b), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3},
    rhs_contracting_dims={2}
}
)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(product_of(with_unbatched_products(*module, LibraryUse::WherePossible)),
            (std::vector<int64_t>{5, 6, 40, 100}));
  EXPECT_EQ(checked(*module, 3, 4, LibraryUse::WherePossible), "") << explained_;
}

/// Not where both the operand and the result would change their order, which are larger than what is repeated.
TEST_F(UnbatchedProductsTest, BatchesBeforeOthersStay) {
  const hlo::ModulePtr module = parsed(R"(HloModule m

ENTRY e {
  x = f32[3,5,20,16] parameter(0)
  y = f32[5,16,24] parameter(1)
  b = f32[3,5,16,24] broadcast(y), dimensions={1,2,3}
  ROOT d = f32[3,5,20,24] dot(x, b), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3},
    rhs_contracting_dims={2}
}
)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(hlo::print(with_unbatched_products(*module, LibraryUse::WherePossible)), hlo::print(*module));
}

}  // namespace
}  // namespace strata::emitters
