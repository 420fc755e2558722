#include "superopt/sized_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "interpret/interpret.h"
#include "interpret/typical_inputs.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "superopt/part_record.h"
#include "superopt/sized_parts.h"
#include "support/temporary_folder.h"

namespace strata {
namespace {

using testing::HasSubstr;

std::vector<Tensor<double>> run(const Graph& graph, const std::vector<Tensor<double>>& inputs) {
  Float64Arithmetic arithmetic{};
  return execute(graph, arithmetic, inputs).value();
}

/// What both compute on the same random inputs.
void expect_same(const GraphPtr& program, const GraphPtr& made) {
  const std::vector<Tensor<double>> inputs = typical_inputs(*program, 5);
  ASSERT_EQ(made->inputs().size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    ASSERT_EQ(made->tensor(made->inputs()[i]).name, program->tensor(program->inputs()[i]).name);
  const auto expected = run(*program, inputs);
  const auto found = run(*made, inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t o = 0; o < found.size(); ++o) {
    ASSERT_EQ(found[o].shape, expected[o].shape);
    for (int64_t e = 0; e < found[o].size(); ++e)
      ASSERT_NEAR(found[o][e], expected[o][e], 1e-7 * (1 + std::abs(expected[o][e])));
  }
}

class SizedRunTest : public testing::Test {
 protected:
  SizedRunTest() : folder_("strata_sizes") {
    cache_.emplace(folder_.path().string(), [](const std::string&) {});
    options_.search.target = find_target("sm_90a").value();
    options_.search.time_limit = 10;
    options_.search.threads = 2;
    options_.compile = false;
    options_.cache = &*cache_;
  }

  void read(const std::string& text) {
    auto program = parse_program(text);
    ASSERT_TRUE(program) << program.error().to_string();
    program_ = std::make_shared<const SizedProgram>(*program);
  }

  Superoptimized make(const DimSizes& sizes) {
    auto plan = plan_size(program_, sizes, options_);
    EXPECT_TRUE(plan) << (plan ? "" : plan.error().to_string());
    if (!plan) return {};
    plan_ = *plan;
    auto result = superoptimize(program_->at(plan->made).value(), options_);
    EXPECT_TRUE(result) << (result ? "" : result.error().to_string());
    if (!result) return {};
    keep_choice(*result, options_, "", "");
    const GraphPtr& best = result->candidates.front().graph;
    EXPECT_TRUE(validate(*best, *options_.search.target));
    EXPECT_TRUE(result->candidates.front().full_shape);
    expect_same(program_->at(plan->made).value(), best);
    return *result;
  }

  TemporaryFolder folder_;
  std::optional<ResultCache> cache_;
  SuperoptimizeOptions options_;
  std::shared_ptr<const SizedProgram> program_;
  SizePlan plan_;
};

const char* const kNorm = R"(graph norm {
  dim tokens = 16
  input X: f16[tokens, 64]
  input W: f16[64, 128]
  S = sum(X, dim=1)
  M = sqr(S)
  A = add_constant(M, value=1)
  Y = div(X, A)
  O = matmul(Y, W)
  output O
})";

TEST_F(SizedRunTest, OtherSizesAreMadeOfTheFirst) {
  read(kNorm);
  const Superoptimized first = make({});
  EXPECT_FALSE(is_made_of_known(first));
  EXPECT_LT(first.candidates.front().cost.kernels, 5);
  EXPECT_EQ(describe_origin(first, options_), "searched at tokens=16");
  for (const int64_t tokens : {1, 7, 64, 96, 512}) {
    const Superoptimized other = make({{"tokens", tokens}});
    EXPECT_TRUE(is_made_of_known(other)) << tokens << ": " << describe_origin(other, options_);
    EXPECT_EQ(other.statistics.generated, 0);
    EXPECT_LE(other.candidates.front().cost.kernels, first.candidates.front().cost.kernels);
    EXPECT_THAT(describe_origin(other, options_), HasSubstr("made of what was searched at tokens=16"));
    EXPECT_THAT(describe_measured(options_), HasSubstr("measured at no size"));
    // As it was searched there it comes from the cache, and of the size itself.
  }
  EXPECT_FALSE(is_made_of_known(make({{"tokens", 16}})));
}

TEST_F(SizedRunTest, OtherOptionsAndProgramsAreNotTaken) {
  read(kNorm);
  make({});
  options_.search.seed += 1;
  EXPECT_FALSE(is_made_of_known(make({{"tokens", 32}})));
  options_.search.seed -= 1;
  std::string other = kNorm;
  other.replace(other.find("value=1"), 7, "value=2");
  read(other);
  EXPECT_FALSE(is_made_of_known(make({{"tokens", 32}})));
}

TEST_F(SizedRunTest, ForgedEntriesAreNotBelieved) {
  read(kNorm);
  const Superoptimized first = make({});
  ASSERT_EQ(first.partition.parts.size(), 1U);
  // The same entry with another program's graphs: what is made of them is not proved.
  OptimizedPart forged = first.parts[0].optimized;
  for (Candidate& candidate : forged.candidates) {
    std::string graph = print(*candidate.graph);
    const size_t at = graph.find("value=1");
    if (at == std::string::npos) continue;
    graph.replace(at, 7, "value=3");
    candidate.graph = parse_graph(graph).value();
  }
  store_part_of_size(*first.partition.parts[0].graph, forged, kExhaustive, options_, false);
  const Superoptimized other = make({{"tokens", 32}});
  EXPECT_FALSE(is_made_of_known(other));
  EXPECT_THAT(describe_origin(other, options_), HasSubstr("is not proved at this size"));
}

TEST_F(SizedRunTest, SizesThatTilesDoNotDivideArePadded) {
  read(kNorm);
  options_.sized = SizedRun{program_, {{"tokens", 64}}};
  store_choice({{{"tokens", 64}}, "", "", "", {{"tokens", 16}}}, options_);
  const auto plan = [&](int64_t tokens) {
    const SizePlan made = plan_size(program_, {{"tokens", tokens}}, options_).value();
    return std::pair(made.made.at("tokens"), made.note);
  };
  EXPECT_EQ(plan(48), std::pair(int64_t{48}, std::string()));
  EXPECT_EQ(plan(41).first, 48);
  EXPECT_THAT(plan(41).second, HasSubstr("tokens=41 is padded to 48"));
  EXPECT_EQ(plan(7).first, 7);  // 16 is more than twice as much
  std::string reduced = kNorm;
  reduced.replace(reduced.find("output O"), 8, "L = reduce_max(O, dim=0)\n output L");
  read(reduced);
  options_.sized = SizedRun{program_, {{"tokens", 64}}};
  store_choice({{{"tokens", 64}}, "", "", "", {{"tokens", 16}}}, options_);
  EXPECT_EQ(plan(41).first, 41);
  EXPECT_THAT(plan(41).second, HasSubstr("'tokens' cannot be padded at"));
}

TEST_F(SizedRunTest, MeasuredChoicesArePreferredAndNamed) {
  read(kNorm);
  const Superoptimized first = make({});
  const std::string model = structure_of(*first.candidates.front().graph);
  const auto other_one = std::find_if(first.candidates.begin(), first.candidates.end(),
                                      [&](const Candidate& c) { return structure_of(*c.graph) != model; });
  ASSERT_NE(other_one, first.candidates.end());
  const std::string second = structure_of(*other_one->graph);
  options_.sized->sizes = {{"tokens", 16}};
  store_choice({{{"tokens", 16}}, second, "", "a GPU", {}}, options_);
  // One that was not measured does not replace it.
  store_choice({{{"tokens", 16}}, "other", "", "", {}}, options_);
  EXPECT_EQ(describe_measured(options_), "the choice was measured at tokens=16 on a GPU");
  const Superoptimized other = make({{"tokens", 16}});
  EXPECT_EQ(structure_of(*other.candidates.front().graph), second);
}

/// Chains of operators over [n, k], a product at the end of some.
std::string random_program(Random& random) {
  std::string text =
      "graph r {\n dim n = 16\n dim k = 64\n input X: f16[n, k]\n input G: f16[k]\n input W: f16[k, 128]\n";
  std::string last = "X";
  const auto let = [&](const std::string& value) {
    const std::string name = fmt::format("v{}", text.size());
    text += fmt::format(" {} = {}\n", name, value);
    last = name;
  };
  const size_t operators = 2 + random.below(3);
  for (size_t i = 0; i < operators; ++i) {
    const std::string x = last;
    switch (random.below(5)) {
      case 0:
        let(fmt::format("mul({}, G)", x));
        break;
      case 1:
        let(fmt::format("sqr({})", x));
        break;
      case 2:
        let(fmt::format("sum({}, dim=1)", x));
        let(fmt::format("scale({}, factor=1/k)", last));
        let(fmt::format("add({}, {})", x, last));
        break;
      case 3:
        let(fmt::format("add({}, X)", x));
        break;
      default:
        let(fmt::format("scale({}, factor=1/3)", x));
    }
  }
  if (random.below(2) == 0) let(fmt::format("matmul({}, W)", last));
  return text + " output " + last + "\n}\n";
}

TEST_F(SizedRunTest, RandomProgramsAtRandomSizes) {
  Random random(11);
  options_.search.time_limit = 3;
  int made = 0;
  for (int i = 0; i < 3; ++i) {
    read(random_program(random));
    make({});
    for (int s = 0; s < 2; ++s) {
      const int64_t n = 1 + static_cast<int64_t>(random.below(100));
      const int64_t k = 8 * (1 + static_cast<int64_t>(random.below(20)));
      made += is_made_of_known(make({{"n", n}, {"k", k}})) ? 1 : 0;
    }
  }
  EXPECT_GE(made, 3);
}

}  // namespace
}  // namespace strata
