// Scans written as recursions: which are found, and that the windows that stand for them compute the same.
#include "hlo/associative_scans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/inline_calls.h"
#include "hlo/optional_combiner.h"
#include "hlo/scan_recursion.h"
#include "hlo/scan_window.h"
#include "hlo/terms.h"
#include "hlo/test_associative_scan.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

using testing::HasSubstr;

const IsAssociative kAlways = [](const Computation&) { return true; };

Module parsed(const std::string& text) {
  const auto module = parse_module(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string()) << text;
  return module ? inline_calls(**module) : Module{};
}

std::vector<ScanRecursion> found_in(const TestScan& scan) {
  return find_scan_recursions(parsed(text_of(scan)).entry_computation());
}

int64_t windows(const Module& module) {
  const Computation& entry = module.entry_computation();
  return std::count_if(entry.instructions.begin(), entry.instructions.end(),
                       [&](const Instruction& it) { return scan_window(entry, it).has_value(); });
}

/// Checks that the windows give what the recursion does.
void expect_same(const TestScan& scan, int64_t expected_windows = 1) {
  const Module before = parsed(text_of(scan));
  const Module after = fold_associative_scans(before, kAlways);
  EXPECT_EQ(windows(after), expected_windows) << text_of(scan);
  const auto again = parse_module(print(after));
  ASSERT_TRUE(again) << again.error().to_string();
  Random random(7);
  std::vector<Literal> arguments;
  for (const InstructionId id : before.entry_computation().parameters)
    arguments.push_back(typical_literal(before.entry_computation()[id].shape, random));
  const auto expected = evaluate(before, arguments), actual = evaluate(**again, arguments);
  ASSERT_TRUE(expected && actual) << (expected ? actual : expected).error().to_string();
  for (size_t i = 0; i < expected->elements().size(); ++i) {
    EXPECT_EQ(difference(actual->elements()[i], expected->elements()[i], 32).value_or(""), "") << text_of(scan);
  }
}

TEST(HloAssociativeScans, AreFoundAtEveryLength) {
  for (int64_t n = 1; n <= 70; ++n) {
    for (const size_t axis : {0, 1}) {
      std::vector<int64_t> dims{3, 2};
      dims[axis] = n;
      const std::vector<ScanRecursion> found = found_in(recurrence(dims, axis));
      ASSERT_EQ(found.size(), n < 16 ? 0U : 1U) << n;
      if (found.empty()) continue;
      EXPECT_EQ(found[0].length, n);
      EXPECT_EQ(found[0].dimension, static_cast<int64_t>(axis));
      EXPECT_EQ(found[0].inputs.size(), 2U);
      EXPECT_EQ(std::count(found[0].results.begin(), found[0].results.end(), -1), 1);
    }
  }
}

TEST(HloAssociativeScans, ComputeTheSame) {
  for (const int64_t n : {1, 2, 3, 15, 16, 17, 18, 19, 23, 31, 32, 33, 47, 64, 70}) {
    for (const bool reverse : {false, true}) {
      expect_same(recurrence({2, n, 3}, 1, reverse), n < 16 ? 0 : 1);
      expect_same(recurrence({n}, 0, reverse, {0, 1}), n < 16 ? 0 : 1);
    }
  }
}

TEST(HloAssociativeScans, OfOneOperatorHaveItsNeutralValue) {
  for (const char* op : {"add", "multiply", "maximum", "minimum"}) {
    for (const char* type : {"f32", "s32"}) {
      const std::string line = fmt::format("r0 = {}{{0}} {}({{a0}}, {{b0}})", type, op);
      expect_same({{type}, {2, 21}, 1, false, {}, {line}});
    }
  }
  for (const char* op : {"and", "or", "xor"}) {
    for (const char* type : {"pred", "s32"}) {
      const std::string line = fmt::format("r0 = {}{{0}} {}({{a0}}, {{b0}})", type, op);
      const TestScan scan{{type}, {37}, 0, true, {}, {line}};
      expect_same(scan);
      const Module after = fold_associative_scans(parsed(text_of(scan)), kAlways);
      EXPECT_THAT(print(after), testing::Not(HasSubstr("select")));
    }
  }
}

TEST(HloAssociativeScans, MayReadAllArraysForEachResult) {
  // Products of 2 × 2 matrices: every result depends on both sides' arrays.
  TestScan scan{{"f32", "f32", "f32", "f32"}, {3, 19}, 1, false, {1}, {}};
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const int r = 2 * i + j;
      scan.combine.push_back(fmt::format("s{} = f32{{0}} multiply({{a{}}}, {{b{}}})", r, 2 * i, j));
      scan.combine.push_back(fmt::format("t{} = f32{{0}} multiply({{a{}}}, {{b{}}})", r, 2 * i + 1, 2 + j));
      scan.combine.push_back(fmt::format("r{0} = f32{{0}} add(s{0}, t{0})", r));
    }
  }
  expect_same(scan);
  scan.results = {0, 3};
  expect_same(scan);
  scan.reverse = true;
  expect_same(scan);
}

TEST(HloAssociativeScans, MayHaveConstantsAndFlags) {
  // Sums that begin again where a flag is.
  expect_same({{"pred", "f32"},
               {4, 33},
               1,
               false,
               {1},
               {"r0 = pred{0} or({a0}, {b0})", "s0 = f32{0} add({a1}, {b1})", "r1 = f32{0} select({b0}, {b1}, s0)"}});
  // a + b + 2.
  expect_same({{"f32"},
               {20},
               0,
               false,
               {},
               {"t0 = f32{0} broadcast(k0), dimensions={}", "s0 = f32{0} add({a0}, {b0})", "r0 = f32{0} add(s0, t0)"},
               {},
               {"k0 = f32[] constant(2)"}});
}

TEST(HloAssociativeScans, MayRepeatArraysOfFewerDimensions) {
  TestScan scan{{"f32", "f32"},
                {2, 21, 3},
                1,
                false,
                {1},
                {"r0 = f32{1} multiply({a0}, {b0})", "w0 = f32{0} broadcast({b0}), dimensions={0,1}",
                 "t0 = f32{0} multiply({a1}, w0)", "r1 = f32{0} add(t0, {b1})"},
                {0}};
  for (const int64_t n : {16, 21, 32, 37}) {
    scan.dims[1] = n;
    for (const bool reverse : {false, true}) {
      scan.reverse = reverse;
      scan.results = {1};
      expect_same(scan);
      scan.results = {0, 1};  // the first one is a scan of its own
      expect_same(scan, 2);
    }
  }
}

TEST(HloAssociativeScans, StayWhereTheyAreNotKnownToBeAssociative) {
  const TestScan scan{{"f32"}, {24}, 0, false, {}, {"r0 = f32{0} subtract({a0}, {b0})"}};
  const Module module = parsed(text_of(scan));
  const Module after = fold_associative_scans(module, [](const Computation&) { return false; });
  EXPECT_EQ(print(after), print(module));
}

TEST(HloAssociativeScans, HaveOneCombinerAtAllLevels) {
  const std::string text = text_of(recurrence({40}, 0));
  const std::string same = print(parsed(text));
  const std::vector<std::pair<std::string, std::string>> changes{
      {" multiply(", " divide("}, {"_t0, ", ";"}, {"[2:", "[1:"}};
  for (const auto& [what, with] : changes) {
    size_t tried = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
      std::string other = text;
      if (with.back() == ';') {
        other.replace(other.rfind(" add(", at), 5, " maximum(");
      } else {
        other.replace(at, what.size(), with);
      }
      const auto module = parse_module(other);
      if (!module) continue;
      const Module flat = inline_calls(**module);
      if (print(flat) == same) continue;  // what nothing reads
      ++tried;
      EXPECT_TRUE(find_scan_recursions(flat.entry_computation()).empty())
          << what << " of " << other.substr(other.rfind("\n", at), 80);
    }
    // Most changes of slices are no module.
    EXPECT_TRUE(what[0] == '[' || tried > 0) << what;
  }
}

TEST(HloAssociativeScans, OptionalCombinersAreKnown) {
  const std::vector<ScanRecursion> found = found_in(recurrence({2, 16}, 1));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(is_optional_combiner(found[0].combiner));
  EXPECT_TRUE(is_optional_combiner(optional_combiner(found[0].combiner)));
}

}  // namespace
}  // namespace strata::hlo
