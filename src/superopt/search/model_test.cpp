// Programs at the limits of the model: sums over many axes, many dimensions, scalars, dimensions of real size.
#include "superopt/search/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "superopt/search/search.h"
#include "superopt/search/stabilise.h"

namespace strata {
namespace {

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

Model model_of(const GraphPtr& program, NormalForms& forms) {
  auto model = Model::build(program, forms, 1);
  EXPECT_TRUE(model) << model.error().to_string();
  return std::move(*model);
}

/// A chain of products: factor i has the sizes sizes[i] × sizes[i + 1], with the batch dimensions in front.
GraphPtr chain(const std::string& batch, const std::vector<int64_t>& sizes) {
  std::string text = "graph chain {\n";
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    text += fmt::format(" input F{}: f16[{}{}, {}]\n", i, batch, sizes[i], sizes[i + 1]);
  }
  std::string last = "F0";
  for (size_t i = 1; i + 1 < sizes.size(); ++i) {
    text += fmt::format(" P{} = matmul({}, F{})\n", i, last, i);
    last = fmt::format("P{}", i);
  }
  return parse(text + " output " + last + "\n}");
}

/// Softmax along dimension 1 of tensors of `rank` dimensions of two elements.
GraphPtr softmax(int rank) {
  std::string shape = "2";
  for (int d = 1; d < rank; ++d) shape += ", 2";
  return parse(
      fmt::format("graph g {{\n input X: f16[{0}]\n input Y: f16[{0}]\n A = add(X, Y)\n E = exp(A)\n"
                  " S = sum(E, dim=1)\n O = div(E, S)\n output O\n}}",
                  shape));
}

SearchResult searched(const GraphPtr& program) {
  SearchOptions options;
  options.target = &targets().back();
  options.threads = 2;
  options.time_limit = 2;
  auto result = search(program, options);
  EXPECT_TRUE(result) << result.error().to_string();
  return result ? std::move(*result) : SearchResult{};
}

TEST(Model, ExtentsOfAxesThatAreSummedOverMultiplyWithoutOverflow) {
  for (const size_t factors : {2, 4, 6, 12}) {
    NormalForms forms;
    const GraphPtr program = chain("", std::vector<int64_t>(factors + 1, 16));
    const Model model = model_of(program, forms);
    EXPECT_NE(model.tensor(program->outputs()[0]).expression, NormalForms::kOversized) << factors;
    int told = 0;
    for (const Axis& axis : model.axes()) told += axis.told() ? 1 : 0;
    EXPECT_GE(told, std::min<int>(static_cast<int>(factors) + 1, 6));  // what fits 63 bits, and the two ends
  }
}

TEST(Search, TakesChainsOfProducts) {
  for (const GraphPtr& program :
       {chain("2, 4, ", {16, 32, 32, 64}), chain("4, ", {16, 32, 32, 64, 16}), chain("", {16, 32, 64, 48, 16, 80}),
        parse("graph g {\n input Q: bf16[32, 256, 128]\n input Kt: bf16[32, 128, 256]\n"
              " input V: bf16[32, 256, 128]\n input M: bf16[256, 256]\n S = matmul(Q, Kt)\n"
              " N = mul(S, M)\n O = matmul(N, V)\n output O\n}")}) {
    EXPECT_FALSE(searched(program).graphs.empty()) << print(*program);
  }
  // More axes than extents can tell apart, and more spaces than there is time for: it ends, and says what is left.
  const SearchResult many = searched(chain("2, 2, 2, ", {8, 8, 8, 8, 8, 8, 8, 8}));
  EXPECT_FALSE(many.graphs.empty() && many.left_out.empty());
}

TEST(Model, ManyDimensionsStaySmall) {
  for (int rank = 1; rank <= kMaxRank; ++rank) {
    NormalForms forms;
    const GraphPtr program = softmax(std::max(rank, 2));
    const Model model = model_of(program, forms);
    for (size_t i = 0; i < program->tensors().size(); ++i) {
      const ModelTensor& tensor = model.tensor(static_cast<TensorId>(i));
      EXPECT_LE(element_count(tensor.shape), Model::kMostElements) << rank;
      EXPECT_EQ(tensor.value.shape, tensor.shape);
    }
  }
  // The longest axes are those that are worth cutting.
  NormalForms forms;
  const Model model =
      model_of(parse("graph g {\n input X: f16[2, 2, 2, 2, 2, 64, 2, 96]\n O = exp(X)\n output O\n}"), forms);
  EXPECT_EQ(model.axes()[5].model % 4, 0);
  EXPECT_EQ(model.axes()[7].model % 4, 0);
}

TEST(Search, TakesEveryRank) {
  for (const GraphPtr& program :
       {parse("graph g {\n input X: f16[]\n O = exp(X)\n output O\n}"),
        parse("graph g {\n input X: f32[]\n input Y: f32[8]\n A = mul(X, Y)\n O = exp(A)\n output O\n}"), softmax(5),
        softmax(6), softmax(7), softmax(8)}) {
    EXPECT_FALSE(searched(program).graphs.empty()) << print(*program);
  }
}

TEST(Model, RefusesDimensionsOfRealSizeThatAreTooLong) {
  NormalForms forms;
  const GraphPtr program = parse(
      "graph g {\n input X: f16[2048, 4096]\n S = sum(X, dim=1, every=4)\n"
      " O = sum(S, dim=0, every=2)\n output O\n}");
  const auto model = Model::build(program, forms, 1);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::Unsupported);
  // The search says so, and fails nothing.
  EXPECT_THAT(searched(program).left_out, testing::HasSubstr("everything: a tensor of more than"));
}

TEST(Model, SlicesKeepTheRealSize) {
  NormalForms forms;
  model_of(
      parse("graph g {\n input X: f16[32, 640]\n S = slice(X, dim=1, start=600, size=1)\n O = exp(S)\n output O\n}"),
      forms);
}

TEST(Model, KeepsTheIdsOfTheProgram) {
  // An input after a statement.
  GraphBuilder builder(Level::Kernel, "g");
  const TensorId x = *builder.input("X", {DType::F32, {8, 16}});
  const TensorId e = *builder.add(OpKind::Exp, {x}, {}, "E");
  const TensorId y = *builder.input("Y", {DType::F32, {16}});
  const TensorId o = *builder.add(OpKind::Mul, {e, y}, {}, "O");
  ASSERT_TRUE(builder.output(o));
  const GraphPtr program = *builder.finish();
  NormalForms forms;
  const Model model = model_of(program, forms);
  for (TensorId id = 0; id < 4; ++id) EXPECT_EQ(model.graph().tensor(id).name, program->tensor(id).name);
  EXPECT_FALSE(searched(program).graphs.empty());
}

TEST(Model, StopsWhenAsked) {
  std::stop_source source;
  source.request_stop();
  NormalForms forms;
  const auto model = Model::build(softmax(4), forms, 1, source.get_token());
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::Interrupted);
  EXPECT_NE(stabilised(softmax(4), 1), nullptr);
  EXPECT_EQ(stabilised(softmax(4), 1, source.get_token()), nullptr);
}

}  // namespace
}  // namespace strata
