// What random fusions read, against the interpreter: where changing an element of a parameter changes the result.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "hlo/evaluate.h"
#include "hlo/indexing/operand_maps.h"
#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "indexing/enumerate.h"
#include "support/test_rounds.h"

namespace strata::indexing {
namespace {

using hlo::Literal;

constexpr int64_t kMaxPoints = 50000;
constexpr int64_t kMaxElements = 20;  ///< of a parameter that are changed

int64_t position(const std::vector<int64_t>& index, const std::vector<int64_t>& dims) {
  int64_t result = 0;
  for (size_t i = 0; i < dims.size(); ++i) result = result * dims[i] + index[i];
  return result;
}

/// For each element that is read the elements of the result that may depend on it; nothing where there are too many.
std::optional<std::set<std::pair<int64_t, int64_t>>> may_depend(const Read& read, const std::vector<int64_t>& result,
                                                                const std::vector<int64_t>& operand) {
  std::set<std::pair<int64_t, int64_t>> pairs;
  if (read.unknown) return std::nullopt;
  for (const IndexingMap& map : read.maps) {
    // Whatever the runtime variables are: more than is read.
    if (box_size(map) > kMaxPoints) return std::nullopt;
    for_each_point(map, [&](const Point& point) {
      pairs.insert(
          {position(*evaluate(map, point), operand), position({point.dims.begin(), point.dims.end()}, result)});
      return true;
    });
  }
  return pairs;
}

bool same_element(const Literal& a, const Literal& b, int64_t i) {
  const auto width = static_cast<size_t>(hlo::byte_width(a.type()));
  const auto at = width * static_cast<size_t>(i);
  return std::memcmp(a.bytes() + at, b.bytes() + at, width) == 0;
}

/// Counts of what the test has looked at, so that it is seen to look at something.
struct Looked {
  int changes = 0;  ///< elements of results that an element of a parameter changed
  int skipped = 0;  ///< parameters whose reads are unknown or too many
  int pairs = 0;    ///< parameters and results
};

/// Changes elements of one parameter, and expects only those elements of a result to change that may.
void look(const hlo::Module& module, std::vector<Literal> arguments, size_t parameter, uint64_t seed, Looked& looked) {
  const hlo::Computation& entry = module.entry_computation();
  const hlo::Shape& shape = entry.root_instruction().shape;
  const auto before = hlo::evaluate(module, arguments);
  ASSERT_TRUE(before) << before.error().to_string();
  const Literal original = arguments[parameter];
  const Literal other = hlo::typical_arguments(entry, seed + 1000)[parameter];
  const int results = shape.is_tuple() ? static_cast<int>(shape.elements.size()) : 1;
  for (int r = 0; r < results; ++r) {
    const auto reads = computation_reads(module, module.entry, r);
    ASSERT_TRUE(reads) << reads.error().to_string();
    const hlo::Shape& of_result = element_shape(shape, r);
    if (!of_result.is_array()) continue;
    std::optional<std::set<std::pair<int64_t, int64_t>>> allowed{std::in_place};
    for (const Read& read : *reads) {
      if (read.operand == static_cast<int>(parameter)) {
        allowed = may_depend(read, of_result.dims, original.shape().dims);
      }
    }
    ++looked.pairs;
    if (!allowed) {
      ++looked.skipped;
      continue;
    }
    const int64_t step = std::max<int64_t>(original.size() / kMaxElements, 1);
    for (int64_t i = 0; i < original.size(); i += step) {
      arguments[parameter] = original;
      const auto width = static_cast<size_t>(hlo::byte_width(original.type()));
      std::memcpy(arguments[parameter].mutable_bytes() + width * static_cast<size_t>(i),
                  other.bytes() + width * static_cast<size_t>(i), width);
      const auto after = hlo::evaluate(module, arguments);
      ASSERT_TRUE(after);
      const Literal& a = shape.is_tuple() ? before->elements()[static_cast<size_t>(r)] : *before;
      const Literal& b = shape.is_tuple() ? after->elements()[static_cast<size_t>(r)] : *after;
      for (int64_t o = 0; o < a.size(); ++o) {
        if (same_element(a, b, o)) continue;
        ++looked.changes;
        ASSERT_TRUE(allowed->contains({i, o})) << "element " << o << " of result " << r << " depends on element " << i
                                               << " of parameter " << parameter << " of\n"
                                               << hlo::print(module);
      }
    }
  }
}

TEST(ComputationReads, RandomFusionsReadNoMoreThanTheMapsSay) {
  Looked looked;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(rounds(100)); ++seed) {
    const hlo::ModulePtr module = hlo::random_fusion(seed);
    const hlo::Computation& entry = module->entry_computation();
    const std::vector<Literal> arguments = hlo::typical_arguments(entry, seed);
    for (size_t p = 0; p < arguments.size(); ++p) {
      if (!arguments[p].shape().is_array()) continue;
      look(*module, arguments, p, seed, looked);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(looked.changes, rounds(3000));
  EXPECT_LT(looked.skipped, looked.pairs / 2);
  RecordProperty("changes", looked.changes);
  RecordProperty("skipped", looked.skipped);
  RecordProperty("pairs", looked.pairs);
}

// Would not end if each call were looked into: there are 2^150 paths.
TEST(ComputationReads, CallsOfCallsAreReadOnce) {
  std::string text = "f0 { p = f32[4] parameter(0) ROOT r = f32[4] reverse(p), dimensions={0} }\n";
  for (int i = 1; i <= 150; ++i) {
    text += fmt::format(
        "f{0} {{ p = f32[4] parameter(0) a = f32[4] call(p), to_apply=f{1} b = f32[4] call(a), to_apply=f{1} ROOT r = "
        "f32[4] add(b, p) }}\n",
        i, i - 1);
  }
  const auto module = hlo::parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  const auto reads = computation_reads(**module, (*module)->entry, 0);
  ASSERT_TRUE(reads) << reads.error().to_string();
  ASSERT_EQ(reads->size(), 1);
  EXPECT_FALSE((*reads)[0].unknown);
  EXPECT_EQ((*reads)[0].maps.size(), 1);
}

}  // namespace
}  // namespace strata::indexing
