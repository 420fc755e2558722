#include "superopt/partition/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <limits>
#include <numeric>
#include <set>

#include "interpret/interpret.h"
#include "ir/text.h"
#include "superopt/verify/floats.h"
#include "superopt/verify/lax.h"
#include "support/random.h"
#include "test_paths.h"

namespace strata {
namespace {

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return *graph;
}

Partition parts_of(const GraphPtr& program, const PartitionLimits& limits = {}) {
  auto result = partition(program, limits);
  EXPECT_TRUE(result) << result.error().to_string();
  return *result;
}

std::string names(const Graph& program, const Part& part) {
  std::string text;
  for (int i : part.operations) {
    const Operation& op = program.operations()[static_cast<size_t>(i)];
    text += (text.empty() ? "" : " ") + program.tensor(op.results[0]).name;
  }
  return text;
}

std::vector<std::string> all_names(const GraphPtr& program, const PartitionLimits& limits = {}) {
  std::vector<std::string> result;
  const Partition parts = parts_of(program, limits);
  for (const Part& part : parts.parts) result.push_back((part.searchable() ? "" : "!") + names(*program, part));
  return result;
}

std::vector<std::string> reasons(const GraphPtr& program, const PartitionLimits& limits = {}) {
  std::vector<std::string> result;
  const Partition parts = parts_of(program, limits);
  for (const Cut& cut : parts.cuts) result.push_back(parts.name_of(cut) + ": " + cut.reason);
  return result;
}

using Names = std::vector<std::string>;

TEST(Partition, ProgramsOfTheBenchmarkAreOnePart) {
  for (const char* name : {"rmsnorm", "lora", "gated_mlp", "ntrans", "gqa", "qknorm"}) {
    auto program = load_graph(fmt::format("{}/programs/{}.strata", STRATA_SOURCE_DIR, name));
    ASSERT_TRUE(program);
    const Partition parts = parts_of(*program);
    ASSERT_EQ(parts.parts.size(), 1U) << name;
    EXPECT_TRUE(parts.parts[0].searchable());
    EXPECT_TRUE(parts.cuts.empty());
    EXPECT_EQ(parts.parts[0].graph->structural_hash(), (*program)->structural_hash()) << name;
  }
}

TEST(Partition, SecondExponentialOnAPath) {
  const GraphPtr program = parse("graph g {\n input A: f32[4, 4]\n B = exp(A)\n C = sqr(B)\n D = exp(C)\n output D\n}");
  EXPECT_EQ(all_names(program), (Names{"B C", "D"}));
  EXPECT_EQ(reasons(program), Names{"C: 'D' = exp: two exponentiations lie on one path"});
}

TEST(Partition, OutsideLaxAndRegrouping) {
  const GraphPtr program = parse(
      "graph g {\n input A: f32[4, 8]\n B = sqr(A)\n M = relu(B)\n C = sub(B, M)\n D = exp(C)\n"
      " E = reshape(D, shape=[8, 4])\n F = sqr(E)\n output F\n}");
  EXPECT_EQ(all_names(program), (Names{"B M C D", "!E", "F"}));  // the solver proves maxima
  const PartitionLimits lax{.outside_lax = false};
  EXPECT_EQ(all_names(program, lax), (Names{"B", "!M", "C D", "!E", "F"}));
  // B reaches C directly and through M: one part would depend on itself.
  EXPECT_EQ(reasons(program, lax),
            (Names{"B: 'M' = relu is outside the Lax fragment", "B: 'M' lies between the two on another path",
                   "M: 'M' = relu is outside the Lax fragment", "D: 'E' = reshape regroups dimensions",
                   "E: 'E' = reshape regroups dimensions"}));
}

TEST(Partition, MaximaOfSoftmaxStayWithIt) {
  const GraphPtr program = parse(
      "graph g {\n input A: f32[4, 8]\n M = reduce_max(A, dim=1)\n C = sub(A, M)\n D = exp(C)\n S = sum(D, dim=1)\n"
      " O = div(D, S)\n output O\n}");
  EXPECT_EQ(all_names(program), (Names{"M C D S O"}));
}

TEST(Partition, DiamondsAndSharedValuesAreOnePart) {
  const GraphPtr program = parse(
      "graph g {\n input X: f32[4, 4]\n input W: f32[4, 4]\n N = sqr(X)\n Q = matmul(N, W)\n K = exp(N)\n"
      " S = add(Q, K)\n output S, Q\n}");
  const Partition parts = parts_of(program);
  ASSERT_EQ(parts.parts.size(), 1U);
  EXPECT_EQ(parts.parts[0].graph->outputs().size(), 2U);
}

TEST(Partition, LongProgramsTakeTimeByTheirLength) {
  // A chain, and a value that many operators read.
  const auto seconds = [](int count) {
    std::string text = "graph g {\n input A: f32[4]\n t0 = exp(A)\n";
    for (int i = 1; i < count; ++i)
      text += fmt::format(" t{} = {}\n", i,
                          i % 3 == 0 ? fmt::format("mul(t{}, A)", i - 1) : fmt::format("sqrt(t{})", i - 1));
    const GraphPtr program = parse(text + fmt::format(" output t{}\n}}", count - 1));
    double least = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 2; ++round) {
      const std::clock_t start = std::clock();
      EXPECT_GT(parts_of(program).parts.size(), 2U);
      least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return least;
  };
  // Where each question walked over the program, four times the operators took 16 to 64 times as long.
  EXPECT_LT(seconds(4000), 9 * seconds(1000));
}

TEST(Partition, Limits) {
  const GraphPtr program = parse("graph g {\n input A: f32[4, 4]\n B = sqr(A)\n C = sqr(B)\n D = sqr(C)\n output D\n}");
  EXPECT_EQ(all_names(program, {.max_operators = 2}), (Names{"B C", "D"}));
  EXPECT_EQ(reasons(program, {.max_operators = 2}), Names{"C: limit of 2 operators in a part"});
  const GraphPtr wide = parse(
      "graph g {\n input A: f32[4]\n input B: f32[4]\n input C: f32[4]\n D = add(A, B)\n E = add(D, C)\n output E\n}");
  EXPECT_EQ(reasons(wide, {.max_inputs = 2}), Names{"D: limit of 2 inputs of a part"});
}

TEST(Partition, GivenPartsStayAndTheOthersAreCut) {
  const GraphPtr program = parse(
      "graph g {\n input A: f32[4, 4]\n B = sqr(A)\n C = sqr(B)\n D = sqr(C)\n E = sqr(D)\n F = sqr(E)\n output F\n}");
  EXPECT_EQ(all_names(program, {.max_operators = 2, .given = {-1, 5, 5, 5, -1}}), (Names{"B", "C D E", "F"}));
  EXPECT_EQ(reasons(program, {.max_operators = 2, .given = {-1, 5, 5, 5, -1}}),
            (Names{"B: the part of 'C' stays as it is", "E: the part of 'E' stays as it is"}));
  EXPECT_EQ(all_names(program, {.max_operators = 2, .given = {-1, -1, -1, 0, 0}}), (Names{"B C", "D", "E F"}));
}

TEST(Partition, ProductsThatEveryBlockWouldRepeat) {
  const GraphPtr program = parse(
      "graph g {\n input X: f16[8, 4096]\n input W: f16[4096, 4096]\n input R: f16[8, 4096]\n B = matmul(X, W)\n"
      " H = add(B, R)\n H2 = sqr(H)\n S = sum(H2, dim=1)\n output H, S\n}");
  // The square goes with its sum: H crosses, and nothing else.
  EXPECT_EQ(all_names(program), (Names{"B H", "H2 S"}));
  EXPECT_THAT(reasons(program)[0], testing::HasSubstr("'S' reduces over columns of the product 'B'"));
}

TEST(Partition, GraphDefinedOperatorsAreRefused) {
  auto fused = load_graph(STRATA_SOURCE_DIR "/tests/data/rmsnorm_fused.strata");
  ASSERT_TRUE(fused);
  EXPECT_FALSE(partition(*fused));
}

/// A random program over [4, 4] and [4, 1] values, in which anything may read anything.
GraphPtr random_program(uint64_t seed) {
  Random random(seed);
  GraphBuilder builder(Level::Kernel, "random");
  std::vector<TensorId> values;
  for (int i = 0; i < 3; ++i) values.push_back(builder.input(fmt::format("I{}", i), {DType::F64, {4, 4}}).value());
  std::set<TensorId> unread;
  const int count = 3 + static_cast<int>(random.below(24));
  for (int i = 0; i < count; ++i) {
    const TensorId a = values[random.below(values.size())];
    const TensorId b = values[random.below(values.size())];
    const auto add = [&](OpKind kind, std::vector<TensorId> operands, const Attributes& attributes = {}) {
      if (auto made = builder.add(kind, operands, attributes, fmt::format("V{}", i))) {
        for (TensorId id : operands) unread.erase(id);
        values.push_back(*made);
        unread.insert(*made);
      }
    };
    Attributes dim;
    dim.set("dim", int64_t{1});
    Attributes shape;
    shape.set("shape", std::vector<int64_t>{4, 4});
    Attributes perm;
    perm.set("perm", std::vector<int64_t>{1, 0});
    switch (random.below(10)) {
      case 0:
        add(OpKind::Matmul, {a, b});
        break;
      case 1:
        add(OpKind::Sum, {a}, dim);
        break;
      case 2:
        add(OpKind::ReduceMax, {a}, dim);
        break;
      case 3:
        add(OpKind::Exp, {a});
        break;
      case 4:
        add(OpKind::Max, {a, b});
        break;
      case 5:
        add(OpKind::Reshape, {a}, shape);
        break;
      case 6:
        add(OpKind::Transpose, {a}, perm);
        break;
      case 7:
        add(OpKind::Sub, {a, b});
        break;
      default:
        add(OpKind::Mul, {a, b});
    }
  }
  for (TensorId id : unread) EXPECT_TRUE(builder.output(id));
  if (unread.empty()) {
    EXPECT_TRUE(builder.output(values[0]));
  }
  return builder.finish().value();
}

std::vector<Tensor<double>> run(const Graph& graph, const std::vector<Tensor<double>>& inputs) {
  Float64Arithmetic arithmetic;
  auto results = execute(graph, arithmetic, inputs);
  EXPECT_TRUE(results);
  return *results;
}

void check(const GraphPtr& program, const PartitionLimits& limits) {
  const Partition parts = parts_of(program, limits);
  const auto given_part = [&](int i) { return limits.given.empty() ? -1 : limits.given[static_cast<size_t>(i)]; };
  std::set<int> covered;
  std::set<TensorId> known(program->inputs().begin(), program->inputs().end());
  for (const Part& part : parts.parts) {
    for (int i : part.operations) EXPECT_TRUE(covered.insert(i).second);
    // In order, and so without cycles: a part reads inputs and what earlier parts have made.
    for (TensorId id : part.inputs) EXPECT_TRUE(known.count(id)) << program->tensor(id).name;
    known.insert(part.outputs.begin(), part.outputs.end());
    if (!part.searchable()) {
      EXPECT_EQ(part.operations.size(), 1U);
      continue;
    }
    if (const int given = given_part(part.operations[0]); given >= 0) {
      EXPECT_EQ(std::count(limits.given.begin(), limits.given.end(), given), std::ssize(part.operations));
      for (int i : part.operations) EXPECT_EQ(given_part(i), given);
      continue;
    }
    for (int i : part.operations) EXPECT_EQ(given_part(i), -1);
    if (!limits.outside_lax) {
      EXPECT_FALSE(lax_violation(*part.graph));
    }
    EXPECT_LE(static_cast<int>(part.operations.size()), limits.max_operators);
    EXPECT_LE(static_cast<int>(part.inputs.size()), limits.max_inputs);
  }
  EXPECT_EQ(covered.size(), program->operations().size());
  const Partition again = parts_of(program, limits);
  ASSERT_EQ(parts.cuts.size(), again.cuts.size());
  for (size_t i = 0; i < parts.cuts.size(); ++i) EXPECT_EQ(parts.cuts[i].reason, again.cuts[i].reason);
  // Every value that crosses is reported.
  for (size_t p = 0; p < parts.parts.size(); ++p) {
    for (TensorId id : parts.parts[p].inputs) {
      if (program->tensor(id).producer < 0) continue;
      const auto reported = std::count_if(parts.cuts.begin(), parts.cuts.end(), [&](const Cut& cut) {
        return cut.tensor == id && cut.to == static_cast<int>(p) && !cut.reason.empty();
      });
      EXPECT_EQ(reported, 1);
    }
  }
  std::vector<GraphPtr> same;
  for (const Part& part : parts.parts) same.push_back(part.graph);
  auto composed = compose(parts, same);
  ASSERT_TRUE(composed) << composed.error().to_string();
  const auto inputs = random_inputs(*program, 7);
  const auto expected = run(*program, inputs);
  const auto found = run(**composed, inputs);
  ASSERT_EQ(expected.size(), found.size());
  for (size_t o = 0; o < expected.size(); ++o) {
    ASSERT_EQ(expected[o].shape, found[o].shape);
    for (int64_t i = 0; i < expected[o].size(); ++i) {
      // Exactly: the operators and their operands are the same. NaN is not equal to itself.
      EXPECT_TRUE(expected[o][i] == found[o][i] || (std::isnan(expected[o][i]) && std::isnan(found[o][i])));
    }
  }
}

TEST(Partition, RandomProgramsAreCoveredByPartsThatComposeToThem) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const GraphPtr program = random_program(seed);
    check(program, {});
    check(program, {.outside_lax = false});
    check(program, {.max_operators = 1 + static_cast<int>(seed % 5),
                    .max_inputs = 2 + static_cast<int>(seed % 3),
                    .outside_lax = false});
    // Some parts stay, the others are cut again.
    PartitionLimits pieces{.max_operators = 2, .given = std::vector<int>(program->operations().size(), -1)};
    const Partition whole = parts_of(program);
    for (size_t p = seed % 2; p < whole.parts.size(); p += 2) {
      for (int i : whole.parts[p].operations) pieces.given[static_cast<size_t>(i)] = static_cast<int>(p);
    }
    check(program, pieces);
    if (testing::Test::HasFailure()) FAIL() << print(*program);
  }
}

}  // namespace
}  // namespace strata
