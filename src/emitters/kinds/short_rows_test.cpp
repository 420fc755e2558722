// Short rows that take longer to compute than to load, which fewer lanes than vectors share: on the processor against
// the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

/// Each of so many rows with each of others, term by term.
struct Pairs {
  int64_t rows = 37, others = 29, terms = 25;
  std::string type = "s32", function = "xor", combiner = "add";
  bool again = false;  ///< what is greatest of a row first
};

std::string text_of(const Pairs& one) {
  const std::string all = fmt::format("[{},{},{}]", one.rows, one.others, one.terms);
  const std::string kept = fmt::format("[{},{}]", one.rows, one.others);
  const std::string least = one.type == "f32" ? "-inf" : "-2147483648";
  std::string text = fmt::format(
      "HloModule m\nby {{ a = {0}[] parameter(0)  b = {0}[] parameter(1)  ROOT r = {0}[] {1}(a, b) }}\n"
      "max {{ a = {0}[] parameter(0)  b = {0}[] parameter(1)  ROOT r = {0}[] maximum(a, b) }}\nENTRY e {{\n"
      "  x = {0}[{2},{4}] parameter(0)\n  y = {0}[{3},{4}] parameter(1)\n"
      "  xs = {0}{5} broadcast(x), dimensions={{0,2}}\n  ys = {0}{5} broadcast(y), dimensions={{1,2}}\n"
      "  z = {0}{5} {6}(xs, ys)\n  first = {0}[] constant({7})\n  least = {0}[] constant({8})\n",
      one.type, one.combiner, one.rows, one.others, one.terms, all, one.function, one.combiner == "add" ? "0" : least,
      least);
  std::string terms = "z";
  if (one.again) {
    text += fmt::format(
        "  m = {0}{1} reduce(z, least), dimensions={{2}}, to_apply=max\n  ms = {0}{2} broadcast(m), "
        "dimensions={{0,1}}\n  d = {0}{2} subtract(z, ms)\n",
        one.type, kept, all);
    terms = "d";
  }
  return text + fmt::format(
                    "  s = {0}{1} reduce({2}, first), dimensions={{2}}, to_apply=by\n  two = {0}[] constant(2)\n"
                    "  twos = {0}{1} broadcast(two), dimensions={{}}\n  ROOT o = {0}{1} multiply(s, twos)\n}}\n",
                    one.type, kept, terms);
}

Result<EmittedProgram> emitted(const Pairs& one, int processors) {
  const auto module = hlo::parse_module(text_of(one));
  EXPECT_TRUE(module) << text_of(one) << module.error().to_string();
  EmitOptions options;
  options.only = "reduction";
  options.target.multiprocessors = processors;
  return emit_program(**module, options);
}

TEST(ShortRows, AreAsTheInterpreterHasThem) {
  Random random(11);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  int several = 0;
  for (int i = 0; i < 40; ++i) {
    Pairs one{1 + below(40), 1 + below(40), 5 + below(60)};
    const bool is_float = i % 2 == 0;
    one.type = is_float ? "f32" : "s32";
    one.function = is_float ? "multiply" : "xor";
    one.combiner = i % 3 == 0 ? "maximum" : "add";
    one.again = i % 5 == 0;
    SCOPED_TRACE(text_of(one));
    const auto program = emitted(one, 1 + static_cast<int>(below(2)));
    if (!program) continue;  // too few elements, or rows too long
    const auto module = hlo::parse_module(text_of(one));
    const auto arguments = hlo::typical_arguments((*module)->entry_computation(), static_cast<uint64_t>(i));
    const auto expected = hlo::evaluate(**module, arguments);
    const auto actual = run_on_cpu(*program, arguments);
    ASSERT_TRUE(expected && actual);
    EXPECT_EQ(hlo::difference(*actual, *expected, 16).value_or(""), "") << explain(*program);
    // "unroll 1x4": a lane has several vectors of its row.
    const std::string text = explain(*program);
    const size_t at = text.find("unroll ");
    ASSERT_NE(at, std::string::npos) << text;
    const std::string unroll = text.substr(at, text.find(' ', at + 7) - at);
    several += text.find("multi-row") != std::string::npos && unroll.back() != '1' ? 1 : 0;
  }
  EXPECT_GE(several, 3) << "most rows have a lane for each vector";
}

/// What --explain says of a module for an H200.
std::string explained(const std::string& text) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return "";
  const auto program = emit_program(**module, {});
  EXPECT_TRUE(program) << program.error().to_string();
  return program ? explain(*program) : "";
}

/// What is computed longer than it is on its way has fewer lanes than vectors.
TEST(ShortRows, OfCachesHaveFewLanes) {
  const auto of_caches = emitted({500, 777, 25}, EmitOptions().target.multiprocessors);
  ASSERT_TRUE(of_caches) << of_caches.error().to_string();
  EXPECT_NE(explain(*of_caches).find("combined by      8 lanes"), std::string::npos) << explain(*of_caches);
}

/// With fewer lanes registers would hold fewer threads, and lanes would store parts of sectors.
TEST(ShortRows, ThatStayAndAreStoredNarrowHaveManyLanes) {
  const std::string text = explained(
      "HloModule m\nby { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }\nENTRY e {\n"
      "  x = bf16[400000,64] parameter(0)\n  w = f32[400000,64] convert(x)\n  p = f32[400000,64] abs(w)\n"
      "  z = f32[] constant(-inf)\n  m = f32[400000] reduce(p, z), dimensions={1}, to_apply=by\n"
      "  s = f32[400000,64] broadcast(m), dimensions={0}\n  d = f32[400000,64] divide(w, s)\n"
      "  ROOT q = s8[400000,64] convert(d)\n}\n");
  EXPECT_NE(text.find("combined by      8 lanes"), std::string::npos) << text;
}

/// Rows that begin anywhere have vectors of one element; a warp has several of them all the same.
TEST(ShortRows, OfOddSizesShareAWarp) {
  const std::string text = explained(
      "HloModule m\nby { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }\nENTRY e {\n"
      "  x = f32[400000,49] parameter(0)\n  z = f32[] constant(0)\n"
      "  ROOT s = f32[400000] reduce(x, z), dimensions={1}, to_apply=by\n}\n");
  EXPECT_NE(text.find("multi-row"), std::string::npos) << text;
}

}  // namespace
}  // namespace strata::emitters
