#include "megakernel/tgraph/decompose.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "megakernel/tgraph/compile.h"
#include "megakernel/tgraph/test_graphs.h"

namespace strata::megakernel {
namespace {

GraphPtr parsed(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

constexpr const char* kLayer = R"(graph layer {
  input X: f16[16, 1024]
  input W: f16[1024, 2048]
  input V: f16[2048, 512]
  H = matmul(X, W)
  A = block(H, grid=[16, 4]) {
    h = in_iter(H, imap=[0, 1])
    s = sqr(h)
    A = out_saver(s, omap=[0, 1])
  }
  T = transpose(A, perm=[1, 0])
  Y = block(T, V, grid=[64], loop=4) {
    t = in_iter(T, imap=[_], fmap=0)
    v = in_iter(V, imap=[1], fmap=0)
    u = transpose(t, perm=[1, 0])
    p = matmul(u, v)
    s = accum(p, kind=sum)
    Y = out_saver(s, omap=[1])
  }
  Z = sum(Y, dim=1)
  output Z
})";

TEST(Decompose, AGraphOfAllKindsOfOperators) {
  const GraphPtr graph = parsed(kLayer);
  ASSERT_TRUE(graph);
  Machine machine;
  machine.workers = 64;
  const auto made = decompose(*graph, machine);
  ASSERT_TRUE(made) << made.error().to_string();
  const auto valid = validate(*made);
  ASSERT_TRUE(valid) << valid.error().to_string();
  ASSERT_EQ(made->operators.size(), 4U) << "the transpose is a view";
  const Operator& product = made->operators[0];
  EXPECT_EQ(product.name, "H");
  // All rows in each task: then no weight is loaded twice.
  EXPECT_EQ(product.grid, (std::vector<int64_t>{64}));
  EXPECT_EQ(product.cost.constant_bytes, (16 * 1024 + 1024 * 32) * 2);
  EXPECT_EQ(product.cost.stages, 8);
  EXPECT_EQ(product.cost.stage_bytes, 12288);
  const Operator& square = made->operators[1];
  EXPECT_EQ(square.grid, (std::vector<int64_t>{16, 4}));
  EXPECT_EQ(square.cost.constant_bytes, 0);
  const Operator& block = made->operators[2];
  EXPECT_EQ(made->tensors[static_cast<size_t>(block.reads[0].tensor)].name, "A") << "through the view";
  EXPECT_EQ(block.cost.constant_bytes, 2048 * 8 * 2);
  EXPECT_EQ(made->operators[3].grid, (std::vector<int64_t>{16}));
  for (const StepTensor& tensor : made->tensors) {
    const bool is_input = tensor.name == "X" || tensor.name == "W" || tensor.name == "V";
    EXPECT_EQ(tensor.kind == TensorClass::Constant, is_input) << tensor.name;
  }
  const auto compiled = compile(*made, machine);
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  // Tasks of A read 512 columns of one row of H, which 16 tasks of H computed: 4 sets. Then all to all, and again.
  EXPECT_EQ(compiled->stages.fused.events.size(), 4U + 1 + 1 + 1);
}

/// What all tasks of a division load, element by element.
int64_t bytes_by_elements(const OperatorGraph& graph, const Operator& op) {
  int64_t bytes = 0;
  for (const Access& read : op.reads) {
    std::set<std::vector<int64_t>> elements;  // with the block before the index
    for_each_point(read.region.map, [&](const indexing::Point& point) {
      std::vector<int64_t> one(point.dims.begin(), point.dims.end());
      const auto index = evaluate(read.region.map, point);
      one.insert(one.end(), index->begin(), index->end());
      elements.insert(one);
      return true;
    });
    bytes += static_cast<int64_t>(elements.size()) * graph.tensors[static_cast<size_t>(read.tensor)].element_bytes;
  }
  return bytes;
}

/// No division that is as near to a multiple of the workers loads less.
TEST(Decompose, ChoosesTheDivisionThatLoadsLeast) {
  Random random(5);
  static constexpr int64_t kSizes[] = {1, 2, 3, 4, 6, 8, 12};
  int divided = 0;
  for (int test = 0; test < 40; ++test) {
    const auto size = [&] { return kSizes[random.below(std::size(kSizes))]; };
    const int64_t m = size(), n = size(), k = size();
    const GraphPtr graph =
        parsed(fmt::format("graph g {{\n input A: f16[{}, {}]\n input B: f16[{}, {}]\n C = matmul(A, B)\n"
                           " output C\n}}",
                           m, k, k, n));
    Machine machine;
    machine.workers = 1 + static_cast<int>(random.below(8));
    const auto share = [&](int64_t tasks) {
      const int64_t rounds = indexing::ceil_div(tasks, machine.workers);
      return std::min(0.9, static_cast<double>(tasks) / static_cast<double>(rounds * machine.workers));
    };
    const auto tasks_of = [](const Operator& op) { return *indexing::element_count(op.grid); };
    const OperatorGraph chosen = *decompose(*graph, machine);
    const int64_t bytes = bytes_by_elements(chosen, chosen.operators[0]);
    divided += tasks_of(chosen.operators[0]) > 1;
    for (int64_t rows = 1; rows <= std::min<int64_t>(m, 8); ++rows) {
      for (int64_t columns = 1; columns <= std::min<int64_t>(n, 8); ++columns) {
        DecomposeOptions options;
        options.parts["C"] = {rows, columns};
        const auto other = decompose(*graph, machine, options);
        ASSERT_TRUE(other) << other.error().to_string();
        const int64_t tasks = tasks_of(other->operators[0]);
        if (tasks > machine.workers * 4) continue;
        EXPECT_LE(share(tasks), share(tasks_of(chosen.operators[0])) + 1e-12);
        // Tiles that divide the result: of others the last is smaller than what is reckoned.
        if (share(tasks) < share(tasks_of(chosen.operators[0])) || m % rows != 0 || n % columns != 0) continue;
        EXPECT_GE(bytes_by_elements(*other, other->operators[0]), bytes)
            << m << " " << n << " " << k << ": " << rows << " x " << columns << " on " << machine.workers;
      }
    }
  }
  EXPECT_GT(divided, 20);
}

/// What each step changes is no constant: no loader may bring it, for it would run ahead of the step.
TEST(Decompose, InputsOfTheStepAreNotLoadedAhead) {
  const GraphPtr graph = parsed(kLayer);
  ASSERT_TRUE(graph);
  DecomposeOptions options;
  options.step_inputs = {"X", "V"};
  const auto made = decompose(*graph, {}, options);
  ASSERT_TRUE(made) << made.error().to_string();
  for (const StepTensor& tensor : made->tensors) {
    const bool changes = tensor.name == "X" || tensor.name == "V";
    EXPECT_EQ(tensor.kind == TensorClass::StepInput, changes) << tensor.name;
  }
  const auto valid = validate(*made);
  ASSERT_TRUE(valid) << valid.error().to_string();
  const OperatorGraph without = *decompose(*graph, {});
  const Operator& product = made->operators[0];
  const int64_t rows = 16 * 1024 * 2;
  EXPECT_EQ(product.grid, without.operators[0].grid);
  EXPECT_EQ(product.cost.constant_bytes, without.operators[0].cost.constant_bytes - rows) << "W alone";
  EXPECT_GT(product.cost.seconds, without.operators[0].cost.seconds) << "X is brought when the step has begun";
  EXPECT_GT(product.cost.scratch_bytes, 0);
  const Operator& block = made->operators[2];
  EXPECT_EQ(block.cost.constant_bytes, 0);
  EXPECT_EQ(block.cost.stages, 0) << "nothing for a loader";
  const auto compiled = compile(*made, {});
  ASSERT_TRUE(compiled) << compiled.error().to_string();

  OperatorGraph writes = *made;
  writes.operators[3].writes[0].tensor = 0;
  writes.operators[3].writes[0].region.map = writes.operators[0].reads[0].region.map;
  writes.operators[3].grid = writes.operators[0].grid;
  writes.operators[3].reads.clear();
  const auto wrong = validate(writes);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "'layer': operator 'Z' writes 'X', which is an input of the step");
}

TEST(Decompose, OptionsNameWhatThereIs) {
  const GraphPtr graph = parsed(kLayer);
  ASSERT_TRUE(graph);
  const auto message = [&](const DecomposeOptions& options) {
    const auto made = decompose(*graph, {}, options);
    return made ? std::string("fine") : made.error().message;
  };
  DecomposeOptions options;
  options.parts["H"] = {2, 4};
  options.history = {"V"};
  options.data_dependent = {"A"};
  const auto made = decompose(*graph, {}, options);
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(made->operators[0].grid, (std::vector<int64_t>{2, 4}));
  EXPECT_TRUE(made->operators[1].data_dependent);
  EXPECT_EQ(made->tensors[2].kind, TensorClass::History);
  options.parts["H"] = {2};
  EXPECT_EQ(message(options), "'H' has 2 dimensions, and 1 numbers of parts");
  options.parts["H"] = {2, 4096};
  EXPECT_EQ(message(options), "dimension 1 of 'H' has 2048 elements; it cannot have 4096 parts");
  options.parts = {{"A", {1, 1}}};
  EXPECT_EQ(message(options), "'A', which is said to be divided, is the result of no predefined operator of 'layer'");
  options.parts.clear();
  options.history = {"Y"};
  EXPECT_EQ(message(options), "'Y', which is said to be history, is no input of 'layer'");
  options.history = {"V"};
  options.step_inputs = {"X", "V"};
  EXPECT_EQ(message(options), "'V' is said to be history and an input of the step");
  options.history.clear();
  options.step_inputs = {"H"};
  EXPECT_EQ(message(options), "'H', which is said to be an input of the step, is no input of 'layer'");
  options.step_inputs.clear();
  options.data_dependent = {"T"};
  EXPECT_EQ(message(options), "'T', whose time is said to depend on data, is the result of no operator of 'layer'");
}

}  // namespace
}  // namespace strata::megakernel
