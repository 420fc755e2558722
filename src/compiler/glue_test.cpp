// Glue as HLO, run by HLO's interpreter, against the interpreter of graphs.
#include "compiler/glue.h"

#include <gmock/gmock.h>

#include "compiler/fusion_kernels.h"
#include "compiler/ptx_in_cuda.h"
#include "compiler/test_glue.h"
#include "interpret/interpret.h"
#include "ir/text.h"
#include "ir/views.h"
#include "runtime/compile.h"
#include "superopt/codegen/generate.h"
#include "support/random.h"

namespace strata::compiler {
namespace {

using testing::HasSubstr;

/// A program of random operators that are glue, of values on which they are defined.
std::string random_glue(Random& random) {
  std::string text =
      "graph g {\n  input A: f32[4, 6]\n  input B: f32[4, 6]\n  input C: f32[6]\n  input D: f32[4, 1]\n"
      "  I = iota(dim=0, start=-2, step=3) : f32[4, 1]\n  J = iota(dim=1) : f32[1, 6]\n"
      "  K = iota(dim=0, start=3/8, step=0) : f32[1]\n";
  struct Value {
    std::string name;
    Shape shape;
  };
  std::vector<Value> values = {{"A", {4, 6}}, {"B", {4, 6}}};
  const auto list = [](const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); };
  for (int i = 0; i < 10; ++i) {
    const Value of = values[random.below(values.size())];
    Value made{fmt::format("v{}", i), of.shape};
    std::string operation;
    const auto rank = static_cast<int64_t>(of.shape.size());
    const auto dim = static_cast<int64_t>(random.below(static_cast<uint64_t>(rank)));
    int64_t& size = made.shape[static_cast<size_t>(dim)];
    switch (random.below(10)) {
      case 0: {
        const int64_t start = static_cast<int64_t>(random.below(static_cast<uint64_t>(size)));
        size = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(size - start)));
        operation = fmt::format("slice({}, dim={}, start={}, size={})", of.name, dim, start, size);
        break;
      }
      case 1:
        size *= 2;
        operation = fmt::format("concat({0}, {0}, dim={1})", of.name, dim);
        break;
      case 2:
        size *= 3;
        operation = fmt::format("repeat({}, dim={}, times=3)", of.name, dim);
        break;
      case 3: {
        std::vector<int64_t> perm;
        for (int64_t d = rank; d-- > 0;) perm.push_back(d);
        for (size_t d = 0; d < perm.size(); ++d) made.shape[d] = of.shape[static_cast<size_t>(perm[d])];
        operation = fmt::format("transpose({}, perm={})", of.name, list(perm));
        break;
      }
      case 4: {
        int64_t count = 1;
        for (const int64_t s : of.shape) count *= s;
        made.shape = count % 4 == 0 ? Shape{2, count / 4, 2} : Shape{count, 1};
        operation = fmt::format("reshape({}, shape={})", of.name, list(made.shape));
        break;
      }
      case 5: {
        const char* names[] = {"sqr", "relu", "silu", "gelu", "exp"};
        const size_t which = random.below(5);
        operation = fmt::format("{}({})", names[which], of.name);
        break;
      }
      case 6:
        operation = random.below(2) == 0 ? fmt::format("scale({}, factor=-2/7)", of.name)
                                         : fmt::format("add_constant({}, value=1/3)", of.name);
        break;
      case 7: {
        const char* names[] = {"add", "sub", "mul", "max", "greater"};
        std::string other = of.name;
        if (of.shape == Shape{4, 6}) other = std::string(1, "CDIJK"[random.below(5)]);
        operation = fmt::format("{}({}, {})", names[random.below(5)], of.name, other);
        break;
      }
      case 8: {
        const char* name = random.below(2) == 0 ? "sum" : "reduce_max";
        int64_t every = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(size)));
        while (size % every != 0) --every;
        operation = fmt::format("{}({}, dim={}, every={})", name, of.name, dim, every);
        if (every == size) operation = fmt::format("{}({}, dim={})", name, of.name, dim);
        size /= every;
        break;
      }
      default:
        operation = fmt::format("select({0}, {0}, {0})", of.name);
    }
    text += fmt::format("  {} = {}\n", made.name, operation);
    values.push_back(made);
  }
  return text + fmt::format("  output {}, {}\n}}\n", values.back().name, values[values.size() / 2].name);
}

TEST(Glue, RandomOperatorsComputeWhatTheGraphDoes) {
  Random random(11);
  int compared = 0;
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_glue(random);
    const auto graph = parse_graph(text);
    ASSERT_TRUE(graph) << graph.error().to_string() << text;
    std::vector<size_t> all;
    for (size_t i = 0; i < (*graph)->operations().size(); ++i) all.push_back(i);
    const std::vector<bool> views = view_operations(**graph);
    std::erase_if(all, [&](size_t i) { return views[i]; });
    const auto made = glue(**graph, all, views);
    ASSERT_TRUE(made) << made.error().to_string();
    Float64Arithmetic arithmetic;
    std::vector<Tensor<double>> inputs;
    for (const TensorId id : (*graph)->inputs()) {
      Tensor<double> input((*graph)->type(id).shape);
      for (double& value : input.data) value = static_cast<float>(random.uniform(-1, 1));
      inputs.push_back(std::move(input));
    }
    const auto expected = execute_all(**graph, arithmetic, inputs);
    ASSERT_TRUE(expected);
    const auto results = evaluate_glue(*made, *expected);
    ASSERT_TRUE(results) << results.error().to_string() << made->module;
    for (size_t o = 0; o < made->outputs.size(); ++o) {
      const Tensor<double>& value = (*expected)[static_cast<size_t>(made->outputs[o])];
      const hlo::Literal& actual = results->elements()[o];
      for (size_t i = 0; i < value.data.size(); ++i) {
        const double wanted = value.data[i];
        if (std::abs(wanted) > 1e30) continue;  // beyond float32
        ASSERT_NEAR(actual.get<float>(static_cast<int64_t>(i)), wanted, 1e-4 * (1 + std::abs(wanted))) << text;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 5000);
}

}  // namespace
}  // namespace strata::compiler
