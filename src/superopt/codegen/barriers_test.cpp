// Barriers: those that are generated suffice, and a test sees where one is missing: the outputs then depend on the
// order in which the block's threads run, or are wrong in all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "superopt/codegen/test_host.h"

namespace strata {
namespace {

constexpr std::string_view kBarrier = "Team::meet();";

/// At every depth an operator reads elements that other threads made.
const char* const kEveryDepthCrossesThreads = R"(graph barriers {
  input A: f32[8, 12]
  input B: f32[12, 8]
  O = block(A, B, grid=[1], loop=2) {
    a = in_iter(A, imap=[_], fmap=1)
    b = in_iter(B, imap=[_], fmap=0)
    p = matmul(a, b)
    t = transpose(p, perm=[1, 0])
    s = accum(t, kind=sum)
    r = sum(s, dim=1)
    u = transpose(s, perm=[1, 0])
    v = matmul(u, r)
    O = out_saver(v, omap=[_])
  }
  output O
}
)";

GeneratedProgram generated() {
  const auto graph = parse_graph(kEveryDepthCrossesThreads);
  EXPECT_TRUE(graph) << graph.error().to_string();
  auto program = generate_cuda(**graph, targets().back());
  EXPECT_TRUE(program) << program.error().to_string();
  return *program;
}

/// Where the generated functions, which follow the library, call the barrier.
std::vector<size_t> barriers_of(const GeneratedProgram& program) {
  std::vector<size_t> places;
  const size_t begin = program.source.find("// The program:");
  for (size_t at = begin; (at = program.source.find(kBarrier, at)) != std::string::npos; at += kBarrier.size()) {
    places.push_back(at);
  }
  return places;
}

Result<std::vector<Tensor<double>>> run_in_all_orders(const GeneratedProgram& program) {
  std::vector<Tensor<double>> inputs;
  for (const DeviceBuffer& input : program.inputs) {
    Tensor<double> tensor(input.type.shape);
    for (size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = static_cast<double>(i % 7);
    inputs.push_back(std::move(tensor));
  }
  return run_on_host(program, inputs, kPlainHost);
}

TEST(Barriers, OneWhereTheDepthChangesAndOneForTheLoop) {
  // Body: load | matmul | transpose | accum, then one before the next iteration. After: sum, transpose | matmul | save.
  EXPECT_EQ(barriers_of(generated()).size(), 3u + 1u + 2u);
}

TEST(Barriers, AreEnough) {
  const auto outputs = run_in_all_orders(generated());
  EXPECT_TRUE(outputs) << outputs.error().to_string();
}

/// An accumulator and an output saver read what their own thread made, which the generator does not make use of yet.
bool reads_own_elements(const GeneratedProgram& program, size_t barrier) {
  const size_t begin = program.source.find("// ", barrier);
  const std::string statement = program.source.substr(begin, program.source.find('\n', begin) - begin);
  return statement.find("accum(") != std::string::npos || statement.find("out_saver(") != std::string::npos;
}

TEST(Barriers, NoneCanBeLeftOut) {
  const GeneratedProgram program = generated();
  const auto right = run_in_all_orders(program);
  ASSERT_TRUE(right) << right.error().to_string();
  int needed = 0;
  for (size_t at : barriers_of(program)) {
    if (reads_own_elements(program, at)) continue;
    ++needed;
    GeneratedProgram broken = program;
    broken.source.erase(at, kBarrier.size());
    const auto outputs = run_in_all_orders(broken);
    if (outputs) {
      EXPECT_NE(outputs->front().data, right->front().data) << "without the barrier in\n"
                                                            << program.source.substr(at - 200, 400);
    } else {
      EXPECT_THAT(outputs.error().to_string(), testing::HasSubstr("depends on the order of threads"));
    }
  }
  EXPECT_EQ(needed, 4);
}

}  // namespace
}  // namespace strata
