// Some hundreds of random programs through the whole of superoptimize: each result is proved, means the same, and is no
// slower by the model than the program as given. tests/random_programs takes any number of them by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "interpret/work.h"
#include "superopt/codegen/test_host.h"
#include "superopt/test_optimized.h"
#include "superopt/verify/floats.h"

namespace strata {
namespace {

constexpr int kPrograms = 20;  ///< of one test
constexpr int kTests = 16;
constexpr int kHostRuns = 2;  ///< each takes a C++ compiler's seconds

TEST(RandomProgram, AreOfEveryOperatorTypeAndRank) {
  std::set<std::string_view> kinds;
  std::set<std::string_view> types;
  std::set<size_t> ranks;
  int several_outputs = 0;
  int outputs_of_inputs = 0;
  int chains = 0;
  for (uint64_t seed = 0; seed < uint64_t{kPrograms} * kTests; ++seed) {
    const RandomProgram program = random_program(seed);
    const Graph& graph = *program.graph;
    ASSERT_TRUE(validate(graph, targets().back())) << print(graph);
    EXPECT_EQ(print(*random_program(seed).graph), print(graph));
    int products = 0;
    for (const Operation& op : graph.operations()) {
      kinds.insert(op.name());
      products += op.kind == OpKind::Matmul ? 1 : 0;
    }
    for (const TensorInfo& tensor : graph.tensors()) {
      types.insert(name_of(tensor.type.dtype));
      ranks.insert(tensor.type.shape.size());
    }
    several_outputs += graph.outputs().size() > 1 ? 1 : 0;
    outputs_of_inputs += std::any_of(graph.outputs().begin(), graph.outputs().end(),
                                     [&](TensorId id) { return graph.tensor(id).producer < 0; })
                             ? 1
                             : 0;
    chains += products > 1 ? 1 : 0;
  }
  for (const OpDef* op : all_ops()) {
    EXPECT_TRUE(!op->traits.levels.kernel || kinds.count(op->traits.name) != 0) << op->traits.name;
  }
  EXPECT_EQ(types.size(), 4U);
  EXPECT_EQ(ranks.size(), size_t{kMaxRank} + 1);
  EXPECT_GT(several_outputs, 50);
  EXPECT_GT(outputs_of_inputs, 5);
  EXPECT_GT(chains, 50);
}

class RandomPrograms : public testing::TestWithParam<int> {};

TEST_P(RandomPrograms, BecomeProgramsThatMeanTheSame) {
  for (int i = 0; i < kPrograms; ++i) {
    const RandomProgram program = random_program(static_cast<uint64_t>(GetParam() * kPrograms + i));
    const auto result = superoptimize(program.graph, hasty_options(0.1));
    ASSERT_TRUE(result) << result.error().to_string() << "\n" << print(*program.graph);
    EXPECT_EQ(mistake(program, *result), "") << print(*program.graph);
  }
}

/// Outputs that are an input as it is, read by others and not, beside names that a search gives to what it adds.
TEST(RandomProgram, OutputsKeepTheirNames) {
  for (const uint64_t seed : {1003272, 1003947, 1007705}) {
    const RandomProgram program = random_program(seed);
    const auto result = superoptimize(program.graph, hasty_options(0.2));
    ASSERT_TRUE(result) << result.error().to_string() << "\n" << print(*program.graph);
    EXPECT_EQ(mistake(program, *result), "") << print(*program.graph);
  }
}

/// Masks of iotas are drawn as well.
RandomProgram masked_program(uint64_t seed) { return random_program(uint64_t{1} << 32 | seed, Iotas::With); }

/// The program with the n-th input's iota changed; null where the changed iota is none.
GraphPtr with_iota(const Graph& graph, TensorId changed, const Iota& iota) {
  GraphBuilder builder(Level::Kernel, graph.name());
  std::vector<TensorId> ids(graph.tensors().size(), -1);
  for (TensorId id : graph.inputs()) {
    TensorType type = graph.type(id);
    if (id == changed) type.iota = iota;
    const auto made = builder.input(graph.tensor(id).name, type);
    if (!made) return nullptr;
    ids[static_cast<size_t>(id)] = *made;
  }
  for (const Operation& op : graph.operations()) {
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    ids[static_cast<size_t>(op.results[0])] = builder.add(op.kind, operands, op.attributes).value();
  }
  for (TensorId id : graph.outputs()) EXPECT_TRUE(builder.output(ids[static_cast<size_t>(id)]));
  return builder.finish().value();
}

class MaskedPrograms : public testing::TestWithParam<int> {};

TEST_P(MaskedPrograms, BecomeProgramsThatMeanTheSame) {
  int iotas = 0;
  for (int i = 0; i < kPrograms; ++i) {
    const RandomProgram program = masked_program(static_cast<uint64_t>(GetParam() * kPrograms + i));
    iotas += program.graph->arguments().size() < program.graph->inputs().size() ? 1 : 0;
    const std::string text = print(*program.graph);
    const auto again = parse_graph(text);
    ASSERT_TRUE(again) << again.error().to_string() << "\n" << text;
    EXPECT_EQ(print(**again), text);
    EXPECT_TRUE(same_structure(**again, *program.graph)) << text;
    const auto result = superoptimize(program.graph, hasty_options(0.1));
    ASSERT_TRUE(result) << result.error().to_string() << "\n" << text;
    EXPECT_EQ(mistake(program, *result), "") << text;
  }
  EXPECT_GT(iotas, kPrograms / 3);
}

/// One of a program's iotas is off by one, counts by another step or along another dimension. Where float64 shows a
/// difference, the verifier must not say that the programs are equal; what it calls different, differs.
TEST(RandomProgram, IotasThatDifferAreToldApart) {
  int equal = 0, different = 0, same = 0, missed = 0;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const RandomProgram program = masked_program(seed);
    const Graph& graph = *program.graph;
    if (execution_work(graph) > 5e4) continue;
    for (TensorId id : graph.inputs()) {
      const bool read = std::any_of(graph.operations().begin(), graph.operations().end(), [&](const Operation& op) {
        return std::find(op.operands.begin(), op.operands.end(), id) != op.operands.end();
      });
      if (!read || !graph.type(id).iota) continue;
      for (int change = 0; change < 4; ++change) {
        Iota iota = *graph.type(id).iota;
        if (change == 0) iota.start.num += iota.start.den;
        if (change == 1) ++iota.step;
        if (change == 2) iota.dim = (iota.dim + 1) % std::ssize(graph.type(id).shape);
        if (change == 3) iota = {iota.dim, iota.at(0), iota.step};  // the same
        const GraphPtr other = with_iota(graph, id, iota);
        if (!other) continue;
        bool differs = false;
        for (uint64_t draw = 0; draw < 3; ++draw) {
          const auto inputs = program.draw_inputs(draw);
          Float64Arithmetic exact;
          differs = differs ||
                    !difference(execute(graph, exact, inputs).value(), execute(*other, exact, inputs).value()).empty();
        }
        const auto answer = verify(graph, *other, {.time_limit = 0.5});
        ASSERT_TRUE(answer) << answer.error().to_string();
        const std::string shown = fmt::format("{}with {} as {}: {}", print(graph), graph.tensor(id).name,
                                              to_string(other->type(id)), answer->argument);
        EXPECT_FALSE(differs && answer->verdict == Verdict::Equivalent) << shown;
        EXPECT_FALSE(change == 3 && answer->verdict == Verdict::Different) << shown;
        equal += answer->verdict == Verdict::Equivalent ? 1 : 0;
        different += answer->verdict == Verdict::Different ? 1 : 0;
        same += change == 3 ? 1 : 0;
        missed += change == 3 && answer->verdict != Verdict::Equivalent ? 1 : 0;
      }
    }
  }
  std::cout << fmt::format("{} equal, {} different; of {} the same {} undecided\n", equal, different, same, missed);
  EXPECT_GT(different, 20);
  EXPECT_GT(same - missed, 20);
}

/// What is generated for them, run on the host. Values of inputs are exact, so no rounding decides a mask.
TEST(RandomProgram, MasksAreGeneratedAsTheyAre) {
  int run = 0;
  for (uint64_t seed = 0; run < kHostRuns; ++seed) {
    const RandomProgram program = masked_program(seed);
    const Graph& graph = *program.graph;
    const bool single = std::all_of(graph.tensors().begin(), graph.tensors().end(),
                                    [](const TensorInfo& tensor) { return tensor.type.dtype == DType::F32; });
    if (!single || graph.arguments().size() == graph.inputs().size()) continue;
    SuperoptimizeOptions options = hasty_options(0.1);
    options.passes.libraries = false;  // the host has none
    const auto result = superoptimize(program.graph, options);
    ASSERT_TRUE(result) << result.error().to_string() << "\n" << print(graph);
    const auto [found, expected] = host_outputs(graph, result->code, program.draw_inputs(3), {"c++", {"-O1"}});
    EXPECT_LE(relative_error(expected, found), 1e-3) << print(graph) << print(*result->candidates.front().graph);
    ++run;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MaskedPrograms, testing::Range(0, 3));
INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Range(0, kTests));

}  // namespace
}  // namespace strata
