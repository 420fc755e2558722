#include "report/box_text.h"

#include <gmock/gmock.h>

#include "report/shipped_graphs.h"

namespace strata {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// Every operation stands in the line that is said, whatever comments stand between.
TEST(TextLines, AreThoseOfTheText) {
  for (const GraphPtr& graph : shipped_graphs()) {
    std::vector<std::string> lines;
    const std::string text = print(*graph);
    for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
      lines.push_back(text.substr(begin, text.find('\n', begin) - begin));
    const TextLines found = text_lines(*graph);
    size_t operations = 0;
    const std::function<void(const Graph&)> check = [&](const Graph& level) {
      for (const Operation& op : level.operations()) {
        ++operations;
        const int line = found.operations.at(&op);
        ASSERT_GT(line, 0);
        EXPECT_THAT(lines.at(static_cast<size_t>(line) - 1),
                    HasSubstr(fmt::format("{} = {}(", level.tensor(op.results.back()).name, op.name())));
        if (op.body) check(*op.body);
      }
    };
    check(*graph);
    EXPECT_EQ(found.operations.size(), operations);
    EXPECT_THAT(lines.at(static_cast<size_t>(found.output) - 1), HasSubstr("output "));
    for (const TensorId id : graph->inputs()) {
      const TensorInfo& input = graph->tensor(id);
      EXPECT_THAT(lines.at(static_cast<size_t>(found.inputs.at(id)) - 1),
                  HasSubstr(input.type.iota ? input.name + " = iota(" : "input " + input.name));
    }
  }
}

std::string described(const Graph& graph, const std::string& first_line) {
  for (const DrawnBox& box : lay_out(graph).boxes) {
    if (!box.lines.empty() && box.lines.back().starts_with(first_line)) return describe_box(box);
  }
  return {};
}

TEST(DescribeBox, SaysWhatMapsMean) {
  const auto graph = parse_graph(R"(graph g {
  input A: f16[16, 64]
  input B: f16[64, 256]
  C = block(A, B, grid=[4], loop=2) {
    a = in_iter(A, imap=[_], fmap=1)
    b = in_iter(B, imap=[1], fmap=0)
    p = matmul(a, b)
    s = accum(p, kind=sum)
    C = out_saver(s, omap=[1])
  }
  output C
})");
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_EQ(
      described(**graph, "a: "),
      "in_iter imap=[_] fmap=1\nmakes a: f16[16, 32], 1.02 kB in shared memory or registers\nreads A: f16[16, 64]\n"
      "imap [_]: of the 4 blocks along grid x, each reads the same\n"
      "fmap 1: of the 2 iterations, each reads 32 of 64 along dimension 1");
  EXPECT_THAT(described(**graph, "b: "), HasSubstr("each reads 64 of 256 along dimension 1\nfmap 0"));
  EXPECT_THAT(described(**graph, "p: "), HasSubstr("reads a: f16[16, 32]; b: f16[32, 64]"));
  EXPECT_THAT(described(**graph, "C: "),
              StartsWith("block\none kernel: grid [4], 4 blocks, 2 iterations each\nmakes C"));
  EXPECT_THAT(described(**graph, "f16[16, 64]"),
              StartsWith("input of the program\nA: f16[16, 64], 2.05 kB in device memory"));
}

}  // namespace
}  // namespace strata
