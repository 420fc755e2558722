// Scatters by rows, and in place: that both compute what the interpreter does, and which is chosen.
#include "emitters/kinds/scatter/rows.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emitters/kinds/scatter/testing.h"
#include "hlo/compute.h"
#include "support/random.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

using namespace scatter_testing;
using hlo::Literal;
using testing::HasSubstr;

/// How the results of an emitter's kernels differ from the interpreter's for arguments from these seeds; empty if they
/// do not.
std::string wrong_results(const hlo::Module& module, const std::string& emitter, const std::vector<uint64_t>& seeds,
                          const std::string& detail = "") {
  const auto program = emit_program(module, {.only = emitter});
  if (!program) return program.error().to_string();
  const std::string explained = explain(*program);
  if (program->steps.size() != 1 || !program->steps[0].fusion) return "not one fusion:\n" + explained;
  if (program->steps[0].fusion->decision().emitter != emitter) return "another emitter:\n" + explained;
  if (explained.find(detail) == std::string::npos) return "no " + detail + ":\n" + explained;
  for (const uint64_t seed : seeds) {
    const std::string difference = scatter_testing::wrong_results(module, *program, seed);
    if (!difference.empty()) return difference + "\n" + explained;
  }
  return "";
}

void check(const std::string& text, const std::string& detail = "") {
  SCOPED_TRACE(text);
  const hlo::ModulePtr module = parsed(text);
  ASSERT_TRUE(module);
  EXPECT_EQ(wrong_results(*module, "scatter rows", {1, 2}, detail), "");
}

TEST(ScatterRows, SumsOfAllTypes) {
  for (const char* type : {"f32", "f64", "s32", "s64", "c64", "c128", "u8", "s4", "bf16", "f16", "f8e5m2"}) {
    check(rows({type, function(type, "add"), 20, any_indices(20)}), "slots of each row");
  }
}

TEST(ScatterRows, OtherCombiners) {
  for (const char* op : {"minimum", "maximum", "multiply"}) {
    for (const char* type : {"f32", "bf16", "s8", "u64"}) check(rows({type, function(type, op), 20, any_indices(20)}));
  }
  for (const char* op : {"and", "or", "xor"}) check(rows({"pred", function("pred", op), 20, any_indices(20)}));
  check(rows({"c128", function("c128", "multiply"), 20, any_indices(20)}));
  const std::string mixed =
      "f {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  k = s32[] constant(3)\n  m = s32[] multiply(b, k)\n  "
      "ROOT c = s32[] add(a, m)\n}\n";
  check(rows({"s32", mixed, 50, any_indices(50)}), "one update after the other");
  check(rows({"s16", "f {\n  b = s16[] parameter(1)\n  ROOT a = s16[] parameter(0)\n}\n", 20, any_indices(20)}));
}

TEST(ScatterRows, IndexTypes) {
  for (const char* index : {"s8", "u8", "s16", "u32", "s64", "u64"}) {
    check(rows({"s32", function("s32", "add"), 20, any_indices(20, index)}));
  }
}

TEST(ScatterRows, LongListsAreCutIntoChunks) {
  // All windows to one row, or to a few, or to none.
  for (const int64_t divisor : {1000, 60, 17, 1}) {
    for (const char* type : {"bf16", "c64"}) {
      check(rows({type, function(type, "add"), 150, sorted_indices(150, divisor)}), "chunks");
    }
    check(rows({"f32", function("f32", "minimum"), 300, sorted_indices(300, divisor), "", "40,3", 3}), "chunks");
  }
}

TEST(ScatterRows, RowsWithMoreUpdatesThanSlots) {
  for (const char* type : {"f32", "bf16", "s32", "c64"}) {
    // A list, and a list of chunks; rows with two slots, with several, and with so many that they are cut.
    check(rows({type, function(type, "add"), 20, skewed_indices(20), "", "120,8"}), "2 a row");
    check(rows({type, function(type, "add"), 60, skewed_indices(60), "", "300,8"}), "2 a row");
    check(rows({type, function(type, "add"), 60, skewed_indices(60), "", "20,8"}), "8 a row");
    check(rows({type, function(type, "add"), 300, skewed_indices(300), "", "7,8"}), "56 a row");
  }
  const std::string mixed =
      "f {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  k = s32[] constant(3)\n  m = s32[] multiply(b, k)\n  "
      "ROOT c = s32[] add(a, m)\n}\n";
  check(rows({"s32", mixed, 60, skewed_indices(60), "", "300,8"}), "one update after the other");
}

TEST(ScatterRows, GroupsOfThreadsShareChunks) {
  for (const char* type : {"f32", "bf16", "s32"}) {
    check(rows({type, function(type, "add"), 900, skewed_indices(900), "", "9,128", 128}), "groups");
    check(rows({type, function(type, "maximum"), 90, any_indices(90), "", "2,64", 64}), "groups");
  }
}

TEST(ScatterRows, ThreadsWithSeveralWindows) {
  // Those of the order; and in crowded rows those of blocks that count in shared memory too.
  for (const char* dims : {"80000,1", "100,1"}) {
    check(rows({"s32", function("s32", "add"), 70000, skewed_indices(70000), "", dims, 1}), "slots");
  }
}

TEST(ScatterRows, SortedIndices) {
  for (const int64_t divisor : {100, 9, 4, 1}) {
    for (const char* type : {"f32", "bf16", "pred"}) {
      const std::string op = std::string(type) == "pred" ? "or" : "add";
      check(rows({type, function(type, op), 45, sorted_indices(45, divisor), ", indices_are_sorted=true"}),
            "runs of equal indices");
    }
  }
  check(rows({"f32", function("f32", "add"), 150, sorted_indices(150, 17), ", indices_are_sorted=true"}), "slots of");
  // Rows for all threads of the GPU.
  const hlo::ModulePtr module = parsed(rows(
      {"f32", function("f32", "add"), 45000, sorted_indices(45000, 9), ", indices_are_sorted=true", "5000,256", 256}));
  ASSERT_TRUE(module);
  EXPECT_EQ(wrong_results(*module, "scatter rows", {}, "runs of equal indices"), "");
}

TEST(ScatterRows, OneUpdateARow) {
  check(rows({"f32", second("f32"), 12, sorted_indices(12, 1)}), "one update a row");
  check(rows({"f32", function("f32", "add"), 12, sorted_indices(12, 1), ", unique_indices=true"}), "one update a row");
  check(rows({"bf16", function("bf16", "multiply"), 1, sorted_indices(1, 1), ", unique_indices=true"}));
}

TEST(ScatterRows, WindowsThatReachOverPartOfARow) {
  check(rows({"f32", function("f32", "add"), 30, any_indices(30), "", "9,12", 8}));
  check(rows({"f32", function("f32", "add"), 30, any_indices(30), "", "9,7", 5}));
}

TEST(ScatterRows, LayoutsAndDimensions) {
  // Rows in the middle of the operand's memory, windows that lie otherwise, an index of two entries.
  check(function("f32", "add") +
        "ENTRY e {\n  x = f32[4,5,6]{0,2,1} parameter(0)\n  i = s32[2,30] parameter(1)\n  u = f32[30,6]{0,1} "
        "parameter(2)\n  ROOT r = f32[4,5,6]{0,2,1} scatter(x, i, u), update_window_dims={1}, "
        "inserted_window_dims={0,1}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0, to_apply=f\n}\n");
  // Windows of one element along a scattered dimension.
  check(function("s32", "add") +
        "ENTRY e {\n  x = s32[7,8] parameter(0)\n  i = s32[5,4] parameter(1)\n  u = s32[1,5,4,8] parameter(2)\n  ROOT "
        "r = s32[7,8] scatter(x, i, u), update_window_dims={0,3}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=f\n}\n");
  // Batching dimensions, and scalars.
  check(with_batching("5", "2"));
  check(function("f32", "add") +
        "ENTRY e {\n  x = f32[13] parameter(0)\n  i = s32[50] parameter(1)\n  u = f32[50] parameter(2)\n  ROOT r = "
        "f32[13] scatter(x, i, u), " +
        kElements + ", to_apply=f\n}\n");
  // The whole dimension, if the start index is 0.
  check(function("f32", "add") +
        "ENTRY e {\n  x = f32[4,3] parameter(0)\n  i = s32[20,2] parameter(1)\n  u = f32[20,3] parameter(2)\n  ROOT r "
        "= f32[4,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=f\n}\n");
}

TEST(ScatterRows, SeveralArraysAndWhatIsComputed) {
  check(
      "f {\n  a = f32[] parameter(0)\n  b = s32[] parameter(1)\n  c = f32[] parameter(2)\n  d = s32[] parameter(3)\n  "
      "e = f32[] add(a, c)\n  g = s32[] maximum(b, d)\n  ROOT t = (f32[], s32[]) tuple(e, g)\n}\nENTRY e {\n  x = "
      "f32[9,8] parameter(0)\n  y = s32[9,8] parameter(1)\n  i = s32[20] parameter(2)\n  u = f32[20,8] parameter(3)\n  "
      "v = s32[20,8] parameter(4)\n  ROOT r = (f32[9,8], s32[9,8]) scatter(x, y, i, u, v), " +
      std::string(kRowsOfMatrix) + ", to_apply=f\n}\n");
  check(function("bf16", "add") +
        "ENTRY e {\n  p = bf16[9,8] parameter(0)\n  x = bf16[9,8] negate(p)\n  i = s32[20] parameter(1)\n  j = s32[20] "
        "abs(i)\n  q = f32[20,8] parameter(2)\n  u = bf16[20,8] convert(q)\n  ROOT r = bf16[9,8] scatter(x, j, u), " +
        kRowsOfMatrix + ", to_apply=f\n}\n");
}

TEST(ScatterRows, RefusesWindowsThatOverlap) {
  const hlo::ModulePtr module = parsed(
      function("f32", "add") +
      "ENTRY e {\n  x = f32[30] parameter(0)\n  i = s32[4,1] parameter(1)\n  u = f32[4,7] parameter(2)\n  ROOT r = "
      "f32[30] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
      "index_vector_dim=1, to_apply=f\n}\n");
  const auto fusion = emit_fusion(*module, module->entry, "k", {.only = "scatter rows"});
  ASSERT_FALSE(fusion);
  EXPECT_THAT(fusion.error().message, HasSubstr("windows may overlap"));
}

/// The sums of narrow floats are rounded once: all that goes to one row is exact here.
TEST(ScatterRows, SumsOfNarrowFloatsAreRoundedOnce) {
  const hlo::ModulePtr module = parsed(function("bf16", "add") +
                                       "ENTRY e {\n  z = bf16[] constant(0)\n  x = bf16[2,8] broadcast(z), "
                                       "dimensions={}\n  i = s32[1000] parameter(0)\n "
                                       " o = bf16[] constant(1)\n  u = bf16[1000,8] broadcast(o), dimensions={}\n  "
                                       "ROOT r = bf16[2,8] scatter(x, i, u), " +
                                       std::string(kRowsOfMatrix) + ", to_apply=f\n}\n");
  const auto program = emit_program(*module);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.back().fusion->decision().emitter, "scatter rows") << explain(*program);
  Literal indices(hlo::array_shape(hlo::ElementType::S32, {1000}));
  const auto result = run_on_cpu(*program, std::vector<Literal>{indices});
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_EQ(result->get<float>(0), 1000);
  EXPECT_EQ(result->get<float>(8), 0);
}

/// A scatter with random dimensions, windows, indices and computation.
class RandomScatter {
 public:
  explicit RandomScatter(uint64_t seed) : random_(seed) {}

  std::string text() {
    const int64_t rank = between(1, 3);
    std::vector<int64_t> scattered;
    for (int64_t d = 0; d < rank; ++d) {
      dims_.push_back(size());
      if (chance(0.5)) scattered.push_back(d);
    }
    if (scattered.empty()) scattered.push_back(between(0, rank - 1));
    const bool unique = chance(0.25);
    const bool sorted = chance(0.4);
    make_indices(scattered, unique, sorted);
    std::string window_dims, inserted;
    std::vector<int64_t> updates{static_cast<int64_t>(indices_.size())};
    for (int64_t d = 0; d < rank; ++d) {
      const bool starts = std::ranges::count(scattered, d) > 0;
      if (starts && chance(0.7)) {
        inserted += fmt::format("{}{}", inserted.empty() ? "" : ",", d);
        continue;
      }
      window_dims += fmt::format("{}{}", window_dims.empty() ? "" : ",", updates.size());
      const int64_t extent = dims_[static_cast<size_t>(d)];
      updates.push_back(starts ? 1 : chance(0.8) ? extent : between(1, extent));
    }
    const auto [type, op] = combiner(unique);
    const std::string called = op == "second" ? second(type) : function(type, op);
    const std::string array = fmt::format("{}[{}]{}", type, fmt::join(dims_, ","), layout(dims_.size()));
    return called +
           fmt::format(
               "ENTRY e {{\n  x = {0} parameter(0)\n  i = s32[{1},{2}] constant({{{3}}})\n  u = {4}[{5}]{6} "
               "parameter(1)\n  ROOT r = {0} scatter(x, i, u), update_window_dims={{{7}}}, "
               "inserted_window_dims={{{8}}}, scatter_dims_to_operand_dims={{{9}}}, index_vector_dim=1{10}{11}, "
               "to_apply=f\n}}\n",
               array, indices_.size(), scattered.size(), index_text(), type, fmt::join(updates, ","),
               layout(updates.size()), window_dims, inserted, fmt::join(scattered, ","),
               sorted ? ", indices_are_sorted=true" : "", unique ? ", unique_indices=true" : "");
  }

 private:
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_.below(static_cast<uint64_t>(high - low + 1)));
  }
  bool chance(double probability) { return random_.below(1000) < static_cast<uint64_t>(1000 * probability); }
  int64_t size() {
    constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 16};
    return kSizes[random_.below(std::size(kSizes))];
  }

  void make_indices(const std::vector<int64_t>& scattered, bool unique, bool sorted) {
    const int64_t wanted = chance(0.2) ? between(60, 120) : between(1, 30);
    const bool hot = chance(0.2);
    for (int64_t n = 0; n < wanted; ++n) {
      std::vector<int64_t> index;
      for (const int64_t d : scattered) {
        const int64_t extent = dims_[static_cast<size_t>(d)];
        index.push_back(hot && !chance(0.1) ? extent / 2 : between(-1, extent));
      }
      if (!unique || std::ranges::count(indices_, index) == 0) indices_.push_back(index);
    }
    if (sorted) std::ranges::sort(indices_);
  }

  std::string index_text() const {
    std::vector<std::string> all;
    for (const std::vector<int64_t>& index : indices_) all.push_back(fmt::format("{{{}}}", fmt::join(index, ",")));
    return fmt::format("{}", fmt::join(all, ","));
  }

  std::pair<std::string, std::string> combiner(bool unique) {
    constexpr std::pair<const char*, const char*> kAll[] = {
        {"f32", "add"}, {"f32", "maximum"}, {"s32", "add"},  {"s32", "multiply"}, {"s8", "minimum"}, {"pred", "or"},
        {"u16", "xor"}, {"f64", "add"},     {"bf16", "add"}, {"c64", "add"},      {"f32", "second"}};
    return kAll[random_.below(std::size(kAll) - (unique ? 0 : 1))];
  }

  std::string layout(size_t rank) {
    std::vector<size_t> order(rank);
    for (size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
    if (chance(0.3)) {
      for (size_t i = rank; i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
    }
    return fmt::format("{{{}}}", fmt::join(order, ","));
  }

  Random random_;
  std::vector<int64_t> dims_;
  std::vector<std::vector<int64_t>> indices_;
};

TEST(ScatterRows, RandomScattersAgreeWithTheInterpreterBothWays) {
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(80)); ++seed) {
    SCOPED_TRACE(seed);
    const std::string text = RandomScatter(seed).text();
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    for (const char* emitter : {"scatter rows", "scatter scan", "scatter"}) {
      EXPECT_EQ(wrong_results(*module, emitter, {seed}), "") << emitter << "\n" << text;
    }
  }
}

TEST(ScatterRows, IsChosenWhereItMovesFewerBytes) {
  const auto emitter = [](int64_t operand_rows, int64_t windows, int64_t width, const std::string& type) {
    const std::string text = rows({type, function(type, "add"), windows, any_indices(windows), "",
                                   fmt::format("{},{}", operand_rows, width), width});
    const hlo::ModulePtr module = parsed(text);
    const auto fusion = emit_fusion(*module, module->entry, "k");
    return fusion ? fusion->decision().emitter : fusion.error().to_string();
  };
  EXPECT_EQ(emitter(1 << 20, 1 << 18, 128, "f32"), "scatter rows");
  EXPECT_EQ(emitter(1 << 10, 1 << 19, 128, "f32"), "scatter rows");
  EXPECT_EQ(emitter(1 << 10, 1 << 8, 128, "f32"), "scatter");
  EXPECT_EQ(emitter(16, 100, 8, "bf16"), "scatter rows");
  EXPECT_EQ(emitter(1 << 24, 1 << 20, 1, "f32"), "scatter");
}

}  // namespace
}  // namespace strata::emitters
