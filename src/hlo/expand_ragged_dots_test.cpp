#include "hlo/expand_ragged_dots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/terms.h"
#include "hlo/text.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<int64_t>;

enum class Ragged { Rows, Terms, Batch };

/// Sizes of a product with a batch, and in which order its operands have their dimensions.
struct Sizes {
  int64_t batch, rows, terms, columns;
  Values groups;
  bool left_terms_first, right_terms_last;
};

std::string text_of(const Sizes& s, Ragged kind) {
  const auto groups = std::ssize(s.groups);
  // Left: batch, rows, terms; right: groups (of rows alone), batch, terms, columns.
  const std::string lhs = s.left_terms_first ? fmt::format("{},{},{}", s.batch, s.terms, s.rows)
                                             : fmt::format("{},{},{}", s.batch, s.rows, s.terms);
  const int lhs_terms = s.left_terms_first ? 1 : 2, first = kind == Ragged::Rows ? 1 : 0;
  const std::string leading = first == 1 ? fmt::format("{},", groups) : "";
  const std::string rhs = s.right_terms_last ? fmt::format("{}{},{},{}", leading, s.batch, s.columns, s.terms)
                                             : fmt::format("{}{},{},{}", leading, s.batch, s.terms, s.columns);
  const int rhs_terms = first + (s.right_terms_last ? 2 : 1);
  const int ragged = kind == Ragged::Batch ? 0 : kind == Ragged::Terms ? lhs_terms : 3 - lhs_terms;
  const std::string result = kind == Ragged::Terms ? fmt::format("{},", groups) : "";
  return fmt::format(
      "HloModule m\nENTRY e {{\n  x = s32[{}] parameter(0)\n  y = s32[{}] parameter(1)\n  sizes = s32[{}] "
      "parameter(2)\n"
      "  ROOT r = s32[{}{},{},{}] ragged-dot(x, y, sizes), lhs_batch_dims={{0}}, rhs_batch_dims={{{}}}, "
      "lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}, lhs_ragged_dims={{{}}}{}\n}}\n",
      lhs, rhs, groups, result, s.batch, s.rows, s.columns, first, lhs_terms, rhs_terms, ragged,
      kind == Ragged::Rows ? ", rhs_group_dims={0}" : "");
}

/// Without a batch: rows may be two dimensions, of which either is ragged, and the groups' may stand anywhere.
struct RowsSizes {
  int64_t rows, others, terms, columns;
  Values groups;
  bool ragged_second, terms_first, groups_last;
  std::string type, sizes_type;
};

std::string text_of(const RowsSizes& s) {
  const int64_t groups = std::ssize(s.groups);
  const auto [m, o] = s.ragged_second ? std::pair(s.others, s.rows) : std::pair(s.rows, s.others);
  const std::string lhs =
      s.terms_first ? fmt::format("{},{},{}", s.terms, m, o) : fmt::format("{},{},{}", m, o, s.terms);
  const std::string rhs = s.groups_last ? fmt::format("{},{},{}", s.columns, s.terms, groups)
                                        : fmt::format("{},{},{}", groups, s.terms, s.columns);
  return fmt::format(
      "HloModule m\nENTRY e {{\n  x = {0}[{1}] parameter(0)\n  y = {0}[{2}] parameter(1)\n  sizes = {3}[{4}] "
      "parameter(2)\n  ROOT r = {0}[{5},{6},{7}] ragged-dot(x, y, sizes), lhs_contracting_dims={{{8}}}, "
      "rhs_contracting_dims={{1}}, lhs_ragged_dims={{{9}}}, rhs_group_dims={{{10}}}\n}}\n",
      s.type, lhs, rhs, s.sizes_type, groups, m, o, s.columns, s.terms_first ? 0 : 2,
      (s.terms_first ? 1 : 0) + (s.ragged_second ? 1 : 0), s.groups_last ? 2 : 0);
}

Values by_loops(const RowsSizes& s, const Values& x, const Values& y) {
  const int64_t groups = std::ssize(s.groups);
  Values result(static_cast<size_t>(s.rows * s.others * s.columns), 0);
  int64_t group = 0, left = groups > 0 ? s.groups[0] : 0;
  for (int64_t row = 0; row < s.rows; ++row, --left) {
    while (left == 0 && group < groups) left = ++group < groups ? s.groups[static_cast<size_t>(group)] : -1;
    if (group == groups) break;
    for (int64_t other = 0; other < s.others; ++other) {
      const int64_t at = s.ragged_second ? other * s.rows + row : row * s.others + other;
      for (int64_t n = 0; n < s.columns; ++n) {
        for (int64_t k = 0; k < s.terms; ++k) {
          const int64_t in_x = s.terms_first ? k * s.rows * s.others + at : at * s.terms + k;
          const int64_t in_y =
              s.groups_last ? (n * s.terms + k) * groups + group : (group * s.terms + k) * s.columns + n;
          result[static_cast<size_t>(at * s.columns + n)] +=
              x[static_cast<size_t>(in_x)] * y[static_cast<size_t>(in_y)];
        }
      }
    }
  }
  return result;
}

/// By loops over all elements, as the definition says.
Values by_loops(const Sizes& s, Ragged kind, const Values& x, const Values& y) {
  const auto groups = std::ssize(s.groups);
  const auto group_of = [&](int64_t at) {
    for (int64_t g = 0; g < groups; ++g) {
      at -= s.groups[static_cast<size_t>(g)];
      if (at < 0) return g;
    }
    return groups;
  };
  Values result(static_cast<size_t>((kind == Ragged::Terms ? groups : 1) * s.batch * s.rows * s.columns), 0);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t m = 0; m < s.rows; ++m) {
      for (int64_t k = 0; k < s.terms; ++k) {
        for (int64_t n = 0; n < s.columns; ++n) {
          const int64_t group = kind == Ragged::Rows ? group_of(m) : kind == Ragged::Terms ? group_of(k) : 0;
          if (group == groups) continue;
          const int64_t left = s.left_terms_first ? k * s.rows + m : m * s.terms + k;
          const int64_t right = s.right_terms_last ? n * s.terms + k : k * s.columns + n;
          const int64_t matrix = (kind == Ragged::Rows ? group * s.batch : 0) + b;
          const int64_t out = (kind == Ragged::Terms ? group * s.batch : 0) + b;
          result[static_cast<size_t>((out * s.rows + m) * s.columns + n)] +=
              x[static_cast<size_t>(b * s.rows * s.terms + left)] *
              y[static_cast<size_t>(matrix * s.terms * s.columns + right)];
        }
      }
    }
  }
  return result;
}

/// The interpreter's values of a ragged-dot of random whole numbers, beside those of loops over its definition.
void check(const std::string& text, const Values& groups, int64_t terms, Random& random,
           const std::function<Values(const Values& x, const Values& y)>& by_definition) {
  SCOPED_TRACE(text);
  const auto module = parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  const Computation& entry = (*module)->entry_computation();
  std::vector<Values> arrays;
  for (const InstructionId id : {entry.parameters[0], entry.parameters[1]}) {
    Values& values = arrays.emplace_back(static_cast<size_t>(entry[id].shape.element_count()));
    for (int64_t& value : values) value = static_cast<int64_t>(random.below(19)) - 9;
  }
  const auto literal = [&](int number, const Values& values) {
    return literal_of<int64_t>(entry[entry.parameters[static_cast<size_t>(number)]].shape, values);
  };
  const auto value = evaluate(**module, std::vector{literal(0, arrays[0]), literal(1, arrays[1]), literal(2, groups)});
  ASSERT_TRUE(value) << value.error().to_string();
  const Literal expected = literal_of<int64_t>(entry.root_instruction().shape, by_definition(arrays[0], arrays[1]));
  EXPECT_TRUE(identical(*value, expected)) << fmt::format("groups of {}", groups);
  EXPECT_EQ(terms_of(entry, entry.root_instruction()), terms);
}

TEST(ExpandRaggedDots, ComputeWhatTheirDefinitionSays) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const auto up_to = [&](uint64_t n) { return static_cast<int64_t>(1 + random.below(n)); };
    const auto kind = static_cast<Ragged>(random.below(3));
    Sizes s{up_to(3),
            up_to(9),
            up_to(9),
            up_to(4),
            Values(static_cast<size_t>(up_to(4))),
            random.below(2) == 0,
            random.below(2) == 0};
    // Some are empty, and all together are fewer than there are, as many, or more.
    for (int64_t& size : s.groups) size = static_cast<int64_t>(random.below(5));
    check(text_of(s, kind), s.groups, s.terms, random,
          [&](const Values& x, const Values& y) { return by_loops(s, kind, x, y); });
  }
}

TEST(ExpandRaggedDots, ComputeRowsInBlocksOfOneGroup) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    const auto up_to = [&](uint64_t n) { return static_cast<int64_t>(1 + random.below(n)); };
    const auto coin = [&] { return random.below(2) == 0; };
    RowsSizes s{up_to(70),
                up_to(2),
                up_to(5),
                up_to(4),
                Values(static_cast<size_t>(up_to(6))),
                coin(),
                coin(),
                coin(),
                coin() ? "s32" : "s64",
                coin()   ? "s32"
                : coin() ? "u8"
                         : "s64"};
    for (int64_t& size : s.groups) size = coin() ? 0 : static_cast<int64_t>(random.below(40));
    if (seed % 5 == 0) s.rows = 300;  // more than a kernel of few rows multiplies
    check(text_of(s), s.groups, s.terms, random, [&](const Values& x, const Values& y) { return by_loops(s, x, y); });
  }
}

/// Sizes beyond all elements, and those whose sums their own type has not.
TEST(ExpandRaggedDots, SizesOfEachType) {
  const auto value_of = [](const std::string& type, const std::string& sizes, bool of_terms) {
    const auto module = parse_module(fmt::format(
        "HloModule m\nENTRY e {{\n  x = s32[300] iota(), iota_dimension=0\n  s = {}[3] constant({{{}}})\n"
        "  one = s32[] constant(1)\n  l = s32[300,1] reshape(x)\n  y = s32[{}] broadcast(one), dimensions={{}}\n"
        "  ROOT r = s32[{}] ragged-dot(l, y, s), lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}, "
        "lhs_ragged_dims={{0}}{}\n}}\n",
        type, sizes, of_terms ? "300,1" : "3,1,1", of_terms ? "3,1,1" : "300,1", of_terms ? 0 : 1, of_terms ? 0 : 1,
        of_terms ? "" : ", rhs_group_dims={0}"));
    EXPECT_TRUE(module) << module.error().to_string();
    const auto value = evaluate(**module, std::vector<Literal>{});
    EXPECT_TRUE(value) << value.error().to_string();
    return load_all<int64_t>(*value);
  };
  for (const std::string type : {"u8", "s16", "s32", "s64", "u64"}) {
    EXPECT_EQ(value_of(type, "100, 120, 60", true), (Values{4950, 19140, 14970})) << type;
    const Values rows = value_of(type, "100, 120, 60", false);
    EXPECT_EQ((std::vector{rows[0], rows[279], rows[280]}), (Values{0, 279, 0})) << type;
  }
  for (const auto& [type, far] : {std::pair("s32", "2147483647"), std::pair("u32", "4294967295"),
                                  std::pair("s64", "4294967299"), std::pair("u64", "18446744073709551615")}) {
    EXPECT_EQ(value_of(type, fmt::format("10, {}, 5", far), true), (Values{45, 44805, 0})) << type;
    EXPECT_EQ(value_of(type, fmt::format("10, {}, 5", far), false)[299], 299) << type;
  }
}

/// Blocks of few rows where groups have few; copies for a library where they have many; masks where a few groups
/// multiply their rows in the time of reading the weights.
TEST(ExpandRaggedDots, BlocksAreTheCheapest) {
  const auto batch_of = [](int64_t rows, int64_t groups, const std::string& type) {
    const auto module = parse_module(fmt::format(
        "HloModule m\nENTRY e {{\n  x = {0}[{1},64] parameter(0)\n  y = {0}[{2},64,32] parameter(1)\n  s = s32[{2}] "
        "parameter(2)\n  ROOT r = {0}[{1},32] ragged-dot(x, y, s), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{1}}, lhs_ragged_dims={{0}}, rhs_group_dims={{0}}\n}}\n",
        type, rows, groups));
    EXPECT_TRUE(module) << module.error().to_string();
    const auto made = expand_ragged_dots(**module);
    EXPECT_TRUE(made) << made.error().to_string();
    for (const Computation& computation : made->computations) {
      for (const Instruction& it : computation.instructions) {
        if (it.opcode == Opcode::Dot) return it.shape.dims;
      }
    }
    return Values{};
  };
  EXPECT_EQ(batch_of(8, 64, "bf16"), (Values{8, 8, 32}));
  EXPECT_EQ(batch_of(64, 64, "f32"), (Values{64, 8, 32}));
  EXPECT_EQ(batch_of(4096, 64, "bf16"), (Values{190, 32, 32}));
  EXPECT_GT(batch_of(65536, 8, "bf16")[1], 500);
  EXPECT_EQ(batch_of(4096, 1, "bf16"), (Values{4096, 32}));
  EXPECT_EQ(batch_of(64, 4, "bf16"), (Values{64, 32}));
}

/// Infinite matrices of other groups are not multiplied by zeros, in blocks.
TEST(ExpandRaggedDots, RowsDoNotSeeOtherGroups) {
  const auto module = parse_module(
      "HloModule m\nENTRY e {\n  x = f32[3,2] constant({{1,2},{3,4},{5,6}})\n  one = f32[] constant(1)\n"
      "  ones = f32[1,2,1] broadcast(one), dimensions={}\n  far = f32[] constant(inf)\n"
      "  others = f32[40,2,1] broadcast(far), dimensions={}\n  y = f32[41,2,1] concatenate(ones, others), "
      "dimensions={0}\n  two = s32[1] constant({2})\n  zero = s32[] constant(0)\n"
      "  zeros = s32[40] broadcast(zero), dimensions={}\n  s = s32[41] concatenate(two, zeros), dimensions={0}\n"
      "  ROOT r = f32[3,1] ragged-dot(x, y, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
      "lhs_ragged_dims={0}, rhs_group_dims={0}\n}\n");
  ASSERT_TRUE(module) << module.error().to_string();
  const auto value = evaluate(**module, std::vector<Literal>{});
  ASSERT_TRUE(value) << value.error().to_string();
  EXPECT_TRUE(identical(*value, literal_of<double>((*module)->entry_computation().root_instruction().shape,
                                                   std::vector<double>{3, 7, 0})));
}

TEST(ExpandRaggedDots, SayWhatIsWrong) {
  const auto error_of = [](const std::string& sizes, const std::string& attributes, const std::string& result) {
    const auto module = parse_module(
        fmt::format("HloModule m\nENTRY e {{\n  x = f32[6,4] parameter(0)\n  y = f32[3,4,5] parameter(1)\n  s = s32{} "
                    "parameter(2)\n  ROOT r = f32{} ragged-dot(x, y, s), {}\n}}\n",
                    sizes, result, attributes));
    if (!module) return module.error().to_string();
    const auto made = expand_ragged_dots(**module);
    return made ? std::string() : made.error().to_string();
  };
  const std::string terms = "lhs_contracting_dims={1}, rhs_contracting_dims={1}";
  EXPECT_EQ(error_of("[3]", terms + ", lhs_ragged_dims={0}, rhs_group_dims={0}", "[6,5]"), "");
  EXPECT_THAT(error_of("[3]", terms + ", lhs_ragged_dims={0}, rhs_group_dims={0}", "[6,4]"),
              HasSubstr("{6,5}, not {6,4}"));
  EXPECT_THAT(error_of("[4]", terms + ", lhs_ragged_dims={0}, rhs_group_dims={0}", "[6,5]"),
              HasSubstr(":6:8: error: ragged-dot has 4 sizes for 3 groups"));
  EXPECT_THAT(error_of("[2,3]", terms + ", lhs_ragged_dims={0}, rhs_group_dims={0}", "[6,5]"),
              HasSubstr("of one dimension"));
  EXPECT_THAT(error_of("[3]", terms + ", lhs_ragged_dims={0}", "[6,5]"), HasSubstr("0 dimensions of groups"));
  EXPECT_THAT(
      error_of("[3]", "lhs_contracting_dims={0}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, rhs_group_dims={0}",
               "[4,5]"),
      HasSubstr(":6:8: error: ragged-dot of f32[6,4]{1,0} and f32[3,4,5]{2,1,0}: dimensions 0 and 1 differ"));
  EXPECT_THAT(error_of("[4]", terms + ", lhs_ragged_dims={0}, rhs_group_dims={1}", "[6,3,5]"), HasSubstr("twice"));
  EXPECT_THAT(error_of("[3]", terms + ", lhs_ragged_dims={7}, rhs_group_dims={0}", "[6,5]"), HasSubstr("not there"));
  EXPECT_THAT(error_of("[3]", "lhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}", "[6,5]"),
              HasSubstr("on the left than on the right"));
  EXPECT_THAT(error_of("[3]", terms + ", lhs_ragged_dims={-1}, rhs_group_dims={0}", "[6,5]"),
              HasSubstr("list of dimensions"));
}

}  // namespace
}  // namespace strata::hlo
