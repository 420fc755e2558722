#include "ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ir/validate.h"
#include "test_paths.h"

namespace strata {
namespace {

const char* const kScaledProduct = R"(# a comment before
graph scaled_product {  # behind the brace
  input A: f16[16, 64]  # left

  # right
  input B: f16[64, 256]
  C = block(A, B2=B, grid=[4], loop=2) {  # tiles of 64 columns
    a = in_iter(A, imap=[_], fmap=1) : f16[16, 32]
    b = in_iter(B2, imap=[1], fmap=0) : f16[32, 64]
    p = matmul(a, b) : f16[16, 64]
    s = accum(p, kind=sum) : f16[16, 64]
    r = thread(s, threads=128) {
      x = in_iter(s) : f16[16, 64]
      y = scale(x, factor=1/64) : f16[16, 64]
      z = out_saver(y) : f16[16, 64]
    }
    C = out_saver(r, omap=[1]) : f16[16, 256]
    # closing
  }
  output C
}
)";

TEST(Text, RoundTripsByteForByte) {
  auto graph = parse_graph(kScaledProduct);
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_EQ(print(**graph), kScaledProduct);
  EXPECT_TRUE(validate(**graph, targets().back()));
}

// Found by the fuzzer: blank lines of an opening stood beside the one after it, and two are read as one.
TEST(Text, BlankLinesInOpeningsAreDropped) {
  const auto graph = parse_graph(
      "graph\n\ng # name\n\n{ # brace\n\n  input A: f16[4]\n  B\n\n= block(A,\n\ngrid=[2]) # inner\n\n{\n\n"
      "    a = in_iter(A, imap=[0])\n    b = exp(a)\n    B = out_saver(b, omap=[0])\n  }\n  output B\n}\n");
  ASSERT_TRUE(graph) << graph.error().to_string();
  const std::string printed = print(**graph);
  EXPECT_NE(printed.find("graph g {  # name # brace\n\n  input A"), std::string::npos) << printed;
  EXPECT_NE(printed.find("{  # inner\n\n    a = "), std::string::npos) << printed;
  const auto again = parse_graph(printed);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(print(**again), printed);
}

TEST(Text, ProgramsRoundTrip) {
  int programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRATA_SOURCE_DIR "/programs")) {
    if (entry.path().extension() != ".strata") continue;
    auto graph = load_graph(entry.path().string());
    ASSERT_TRUE(graph) << graph.error().to_string();
    auto valid = validate(**graph, targets().back());
    ASSERT_TRUE(valid) << valid.error().to_string();
    const std::string once = print(**graph);
    auto again = parse_graph(once);
    ASSERT_TRUE(again) << again.error().to_string();
    EXPECT_EQ(print(**again), once);
    EXPECT_TRUE(same_structure(**graph, **again));
    ++programs;
  }
  EXPECT_GE(programs, 6);
}

struct BadProgram {
  const char* text;
  const char* message;
};

/// One user mistake each: "line:column: message".
const BadProgram kBadPrograms[] = {
    {"", "1:1: error: expected 'graph', found the end of the file"},
    {"graph { }", "1:7: error: expected the program's name, found '{'"},
    {"graph g {", "1:10: error: expected '}', found the end of the file"},
    {"graph g { }", "1:11: error: the kernel graph 'g' has no output"},
    {"graph g { input A f16[1] }", "1:19: error: expected ':', found 'f16'"},
    {"graph g { input A: f17[1] }", "1:20: error: unknown element type 'f17'"},
    {"graph g { input A: f16[0] }", "1:17: error: tensor 'A' has a dimension of size 0"},
    {"graph g { input A: f16[1]\n input A: f16[2] }", "2:8: error: 'A' is defined twice"},
    {"graph g { input A: f16[2]\n B = frob(A)\n output B }", "2:6: error: unknown operator 'frob'"},
    {"graph g { input A: f16[2]\n B = exp(C)\n output B }", "2:10: error: 'C' is not defined here"},
    {"graph g { input A: f16[2]\n B = exp(A, A)\n output B }",
     "2:2: error: B = exp(A: f16[2], A: f16[2]): expected 1 operands, found 2"},
    {"graph g { input A: f16[2]\n B = sum(A, dim=1)\n output B }",
     "2:2: error: B = sum(A: f16[2]): dim=1 is outside 0 … 0"},
    {"graph g { input A: f16[2]\n B = sum(A)\n output B }", "sum needs dim=…"},
    {"graph g { input A: f16[2]\n B = sum(A, axis=1)\n output B }", "2:13: error: sum has no attribute 'axis'"},
    {"graph g { input A: f16[2]\n B = exp(A) : f16[3]\n output B }", "2:15: error: 'B' is f16[2], not f16[3]"},
    {"graph g { input A: f16[2, 3]\n B = matmul(A, A)\n output B }",
     "inner dimensions differ: 3 of f16[2, 3] against 2"},
    {"graph g { input A: f16[2]\n input B: f32[2]\n C = add(A, B)\n output C }",
     "3:2: error: C = add(A: f16[2], B: f32[2]): "
     "element types f16 and f32 differ"},
    {"graph g { input A: f16[2]\n B = scale(A, factor=1/0)\n output B }",
     "2:22: error: a constant has the denominator 0"},
    {"graph g { input A: f16[2]\n B = block(A, grid=[3]) {\n a = in_iter(A, imap=[0])\n B = out_saver(a, omap=[0]) }\n "
     "output B }",
     "3:2: error: a = in_iter(A: f16[2]): dimension 0 of f16[2] is not divisible into 3 tiles"},
    {"graph g { input A: f16[2]\n B = block(A, grid=[2]) {\n a = in_iter(A, imap=[_])\n B = out_saver(a, omap=[_]) }\n "
     "output B }",
     "4:2: error: B = out_saver(a: f16[2]): omap=[_] replicates grid dimension 0 of size 2"},
    {"graph g { input A: f16[2]\n B = accum(A, kind=sum)\n output B }", "this operator does not exist at kernel level"},
    {"graph g { input A: f16[2] \x01 }", "1:27: error: unexpected byte 0x01"},
    {"graph g { input A: f16[9223372036854775807, 8]\n B = exp(A)\n output B }", "more than 2^40 elements"},
};

TEST(Text, ErrorsNamePlaceAndExpectation) {
  for (const BadProgram& bad : kBadPrograms) {
    auto graph = parse_graph(bad.text);
    ASSERT_FALSE(graph) << bad.text;
    EXPECT_THAT(graph.error().to_string(), testing::HasSubstr(bad.message)) << bad.text;
    EXPECT_TRUE(graph.error().location.known()) << bad.text;
    EXPECT_FALSE(graph.error().remedy.empty()) << bad.text;
  }
}

// Would not end if each name were looked for among all others.
TEST(Text, IotasAreInputsWithoutArguments) {
  const std::string text =
      "graph g {\n  input A: f32[4, 8]\n  # rows\n  I = iota(dim=0, start=-3, step=2) : f32[4, 1]  # odd\n"
      "  C = iota(dim=0, start=1/3, step=0) : f32[1]\n  B = mul(A, I) : f32[4, 8]\n  D = add(B, C) : f32[4, 8]\n"
      "  output D\n}\n";
  const auto graph = parse_graph(text);
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_EQ(print(**graph), text);
  EXPECT_TRUE(validate(**graph, targets().back()));
  EXPECT_EQ((*graph)->inputs().size(), 3U);
  EXPECT_EQ((*graph)->arguments().size(), 1U);
  EXPECT_FALSE((*graph)->type(*(*graph)->find_tensor("B")).iota);
  // What it counts is part of what a program is.
  std::string other = text;
  other.replace(other.find("-3"), 2, "-1");
  const auto changed = parse_graph(other);
  ASSERT_TRUE(changed);
  EXPECT_FALSE(same_structure(**graph, **changed));
  EXPECT_NE((*graph)->structural_hash(), (*changed)->structural_hash());
}

TEST(Text, IotasAreNoOutputs) {
  const auto graph =
      parse_graph("graph g {\n  input A: f32[4]\n  I = iota(dim=0) : f32[4]\n  B = mul(A, I)\n  output B, I\n}\n");
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().to_string(), testing::HasSubstr("'I' is an iota, which lies nowhere in memory"));
}

TEST(Text, IotasThatCannotBeAreRefused) {
  const auto error = [](const std::string& statements) {
    const auto graph = parse_graph("graph g {\n  input A: f32[4, 8]\n" + statements + "  output B\n}\n");
    return graph ? std::string("none") : graph.error().to_string();
  };
  using testing::HasSubstr;
  EXPECT_THAT(error("  I = iota(dim=2) : f32[4, 1]\n  B = mul(A, I)\n"), HasSubstr("dim=2 names no dimension"));
  EXPECT_THAT(error("  I = iota(start=1/2) : f32[4, 1]\n  B = mul(A, I)\n"), HasSubstr("start=1/2 is no integer"));
  EXPECT_THAT(error("  I = iota(step=8388608) : f32[4, 1]\n  B = mul(A, I)\n"), HasSubstr("reach 2^24"));
  EXPECT_THAT(error("  I = iota(dim=0)\n  B = mul(A, I)\n"), HasSubstr("expected ':'"));
  EXPECT_THAT(error("  I = iota(A) : f32[4, 1]\n  B = mul(A, I)\n"), HasSubstr("takes no operands"));
  EXPECT_THAT(error("  I = iota(dim=0) : f32[8, 4]\n  B = matmul(A, I)\n"),
              HasSubstr("'I' is an iota, which elementwise operators and block graphs alone read"));
  EXPECT_THAT(error("  B = block(A, grid=[2]) {\n    i = iota(dim=0) : f32[4, 1]\n  }\n"),
              HasSubstr("iota stands in a kernel graph only"));
}

TEST(Text, LongProgramsRoundTrip) {
  constexpr int kCount = 300000;
  std::string text = "graph g {\n  input x0: f16[16]\n";
  for (int i = 0; i < kCount; ++i) text += fmt::format("  x{} = exp(x{}) : f16[16]\n", i + 1, i);
  text += fmt::format("  output x{}\n}}\n", kCount);
  const auto graph = parse_graph(text);
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_TRUE(print(**graph) == text);
  const auto again = parse_graph(text.insert(text.rfind("  output"), "  x7 = exp(x9)\n"));
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().to_string(), testing::HasSubstr("'x7' is defined twice"));
}

}  // namespace
}  // namespace strata
