// Random legal block graphs: what is generated for them agrees with the interpreter. Values stay positive and bounded,
// so that every element can be compared with a tolerance close to the rounding of the program's type.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ir/validate.h"
#include "runtime/compile.h"
#include "superopt/codegen/test_host.h"
#include "superopt/codegen/test_random_graphs.h"
#include "support/test_rounds.h"

namespace strata {
namespace {

/// Chosen so that the four graphs together draw every operator; the last test holds it.
constexpr uint64_t kFirstSeed = 2;

struct Case {
  DType type;
  double tolerance;  ///< relative, for every element: the type's rounding of the result, and a little arithmetic
};

class RandomGraphs : public testing::TestWithParam<Case> {};

TEST_P(RandomGraphs, AgreeWithTheInterpreter) {
  const GraphPtr graph = random_program(kFirstSeed + static_cast<uint64_t>(GetParam().type), GetParam().type);
  const auto valid = validate(*graph, targets().front());
  ASSERT_TRUE(valid) << valid.error().to_string() << "\n" << print(*graph);
  // With registers, with every value in shared memory, and in as few launches as can be.
  const Passes ways[] = {{.grouping = false}, {.registers = false, .grouping = false}, {}};
  for (size_t way = 0; way < std::size(ways); ++way) {
    // Each type in a way of its own; of the rounds, all in all.
    if (rounds(3) != 3 && way != static_cast<size_t>(GetParam().type) % std::size(ways)) continue;
    const Passes& passes = ways[way];
    const auto program = generate_cuda(*graph, targets().front(), {}, passes);
    ASSERT_TRUE(program) << program.error().to_string();
    const auto [found, expected] = host_outputs(*graph, *program, uniform_inputs(*graph, 0.5, 1.5, 3), kSanitizedHost);
    for (size_t n = 0; n < expected.size(); ++n) {
      const TensorInfo& output = graph->tensor(graph->outputs()[n]);
      for (int64_t i = 0; i < expected[n].size(); ++i) {
        const double wanted = expected[n][i];
        const double got = found[n][i];
        // Written so that NaN fails.
        ASSERT_TRUE(std::fabs(got - wanted) <= GetParam().tolerance * std::fabs(wanted))
            << output.name << "[" << i << "] is " << got << ", expected " << wanted << " in\n"
            << print(*graph);
      }
    }
  }
}

TEST_P(RandomGraphs, BecomeCubins) {
  const GraphPtr graph = random_program(kFirstSeed + static_cast<uint64_t>(GetParam().type), GetParam().type);
  // Each type for a target of its own; of the rounds, all for all.
  const size_t own = static_cast<size_t>(GetParam().type) % targets().size();
  std::vector<const Target*> chosen;
  for (size_t i = 0; i < targets().size(); ++i)
    if (rounds(2) == 2 || i == own) chosen.push_back(&targets()[i]);
  for (const Target* const each : chosen) {
    const Target& target = *each;
    const auto program = generate_cuda(*graph, target);
    ASSERT_TRUE(program) << program.error().to_string();
    const auto cubin = compile_cubin(program->source, target);
    ASSERT_TRUE(cubin) << cubin.error().to_string();
    EXPECT_EQ(std::string(cubin->data() + 1, 3), "ELF");
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RandomGraphs,
                         testing::Values(Case{DType::F16, 1e-3}, Case{DType::BF16, 8e-3}, Case{DType::F32, 1e-5},
                                         Case{DType::F64, 1e-13}),
                         [](const auto& test) { return std::string(name_of(test.param.type)); });

/// What the property above is worth: the graphs contain every block operator that it means to test.
TEST(RandomGraphsCover, EveryOperatorDrawn) {
  std::set<OpKind> found;
  int thread_graphs = 0;
  int loops = 0;
  for (DType type : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    const GraphPtr graph = random_program(kFirstSeed + static_cast<uint64_t>(type), type);
    for (const Operation& op : graph->operations()) {
      loops += op.body->launch().loop > 1 ? 1 : 0;
      for (const Operation& inner : op.body->operations()) {
        found.insert(inner.kind);
        if (inner.body) ++thread_graphs;
      }
    }
  }
  for (OpKind kind : kElementwise) EXPECT_TRUE(found.count(kind)) << op_def(kind).traits.name;
  for (OpKind kind : kOthers) EXPECT_TRUE(found.count(kind)) << op_def(kind).traits.name;
  EXPECT_TRUE(found.count(OpKind::Accum));
  EXPECT_GE(thread_graphs, 10);
  EXPECT_GE(loops, 10);
}

}  // namespace
}  // namespace strata
