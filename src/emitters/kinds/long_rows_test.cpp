// Long rows that begin anywhere, of all types, with what is fused before and after, on the processor against the
// interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

struct Case {
  int64_t rows = 3;
  int64_t length = 1025;
  std::string type = "f32";    ///< of the first parameter
  std::string wide = "f32";    ///< in which it is reduced
  std::string second;          ///< the type of a second array, if there is one
  bool chained = false;        ///< what is reduced comes after another reduction
  bool side_output = false;    ///< another array of the same size, before the reduction
  bool narrow_output = false;  ///< the result has the first parameter's type
};

std::string text_of(const Case& one) {
  const std::string all = fmt::format("[{},{}]", one.rows, one.length);
  const std::string rows = fmt::format("[{}]", one.rows);
  const std::string& w = one.wide;
  std::string text = fmt::format(
      "HloModule m\n"
      "add {{ a = {0}[] parameter(0)  b = {0}[] parameter(1)  ROOT r = {0}[] add(a, b) }}\n"
      "max {{ a = {0}[] parameter(0)  b = {0}[] parameter(1)  ROOT r = {0}[] maximum(a, b) }}\n"
      "ENTRY e {{\n  n = {1}{2} parameter(0)\n  v = {0}{2} convert(n)\n  zero = {0}[] constant(0)\n",
      w, one.type, all);
  std::string value = "v";
  if (!one.second.empty()) {
    text +=
        fmt::format("  p = {0}{1} parameter(1)\n  c = {2}{1} convert(p)\n  u = {2}{1} add(v, c)\n", one.second, all, w);
    value = "u";
  }
  if (one.chained) {
    text += fmt::format(
        "  most = {0}{1} reduce({3}, zero), dimensions={{1}}, to_apply=max\n"
        "  wide = {0}{2} broadcast(most), dimensions={{0}}\n  d = {0}{2} subtract({3}, wide)\n",
        w, rows, all, value);
    value = "d";
  }
  text += fmt::format("  s = {0}{1} reduce({2}, zero), dimensions={{1}}, to_apply=add\n", w, rows, value);
  std::string results = w + rows;
  std::string names = "s";
  if (one.side_output) {
    text += fmt::format("  side = {0}{1} negate(v)\n", w, all);
    results += ", " + w + all;
    names += ", side";
  }
  if (one.narrow_output) {
    text += fmt::format(
        "  ss = {0}{1} broadcast(s), dimensions={{0}}\n  t = {0}{1} maximum({2}, ss)\n  o = {3}{1} convert(t)\n", w,
        all, value, one.type);
    results += ", " + one.type + all;
    names += ", o";
  }
  return text + fmt::format("  ROOT r = ({}) tuple({})\n}}\n", results, names);
}

/// The kernel's decision, after it has given what the interpreter does.
std::string check(const Case& one) {
  const std::string text = text_of(one);
  SCOPED_TRACE(text);
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return {};
  EmitOptions options;
  options.only = "reduction";
  options.target.multiprocessors = 1;  // so that few rows are enough
  const auto program = emit_program(**module, options);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return {};
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), one.length);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  EXPECT_TRUE(actual) << actual.error().to_string();
  if (expected && actual) {
    for (size_t i = 0; i < expected->elements().size(); ++i) {
      // Sums in another order; floats of 16 bits see little of that.
      const hlo::Literal& want = expected->elements()[i];
      const double slack = hlo::byte_width(want.type()) < 4 ? 2 : static_cast<double>(one.length) / 8;
      EXPECT_EQ(hlo::difference(actual->elements()[i], want, slack).value_or(""), "") << "result " << i;
    }
  }
  return explain(*program);
}

TEST(LongRows, TypesAndWhatIsFused) {
  const std::vector<std::pair<std::string, std::string>> types{{"f32", "f32"}, {"bf16", "f32"}, {"f16", "f32"},
                                                               {"f64", "f64"}, {"s32", "s32"},  {"s8", "s32"}};
  std::mt19937 random(5);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  int aligned = 0, in_registers = 0;
  for (int i = 0; i < 40; ++i) {
    Case one;
    one.rows = 2 + static_cast<int64_t>(below(3));
    one.length = below(4) == 0 ? 9000 + static_cast<int64_t>(below(16000)) : 1024 + static_cast<int64_t>(below(70));
    std::tie(one.type, one.wide) = types[below(types.size())];
    if (below(3) == 0) one.second = one.wide;
    one.chained = below(2) == 0;
    one.side_output = below(3) == 0;
    one.narrow_output = below(2) == 0;
    const std::string decision = check(one);
    aligned += decision.find("vectors at multiples in memory") != std::string::npos;
    in_registers += decision.find("registers (") != std::string::npos;
  }
  EXPECT_GE(aligned, 20);
  EXPECT_GE(in_registers, 2);
}

struct Norm {
  std::string type = "f32";
  int64_t rows = 8192, length = 4096;
  bool weighted = true;     ///< and shifted
  std::string second;       ///< the type of an array that is added, if there is one
  std::string result = "";  ///< its type; that of the first array where there is none
};

/// Threads of a block, and whether rows stay in registers.
std::pair<int, bool> threads_of(const Norm& of) {
  const std::string all = fmt::format("[{},{}]", of.rows, of.length), rows = fmt::format("[{}]", of.rows);
  const std::string result = of.result.empty() ? of.type : of.result;
  std::string text = fmt::format(
      "HloModule m\n"
      "add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}\n"
      "ENTRY e {{\n  n = {1}{0} parameter(0)\n  f = f32{0} convert(n)\n  zero = f32[] constant(0)\n",
      all, of.type);
  int parameters = 1;
  if (!of.second.empty()) {
    text += fmt::format("  p = {1}{0} parameter(1)\n  c = f32{0} convert(p)\n  x = f32{0} add(f, c)\n", all, of.second);
    parameters = 2;
  } else {
    text += fmt::format("  x = f32{0} negate(f)\n", all);
  }
  text += fmt::format(R"(  m = f32{1} reduce(x, zero), dimensions={{1}}, to_apply=add
  b = f32{0} broadcast(m), dimensions={{0}}
  d = f32{0} subtract(x, b)
  q = f32{0} multiply(d, d)
  s = f32{1} reduce(q, zero), dimensions={{1}}, to_apply=add
  ss = f32{0} broadcast(s), dimensions={{0}}
  y = f32{0} multiply(d, ss)
)",
                      all, rows);
  if (of.weighted) {
    text += fmt::format(R"(  g = f32[{1}] parameter({2})
  h = f32[{1}] parameter({3})
  gs = f32{0} broadcast(g), dimensions={{1}}
  hs = f32{0} broadcast(h), dimensions={{1}}
  yg = f32{0} multiply(y, gs)
  z = f32{0} add(yg, hs)
)",
                        all, of.length, parameters, parameters + 1);
  }
  text += fmt::format("  ROOT o = {1}{0} convert({2})\n}}\n", all, result, of.weighted ? "z" : "y");
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return {};
  const auto kernel = emit_fusion(**module, (*module)->entry, "kernel", {});
  EXPECT_TRUE(kernel) << kernel.error().to_string();
  if (!kernel) return {};
  return {kernel->decision().launch().threads, kernel->decision().staged.empty()};
}

/// Fewer threads have more of a row each, where more would leave registers for too few rows at a time.
TEST(LongRows, MultiprocessorsHaveEnoughOfThem) {
  EXPECT_EQ(threads_of({.weighted = false}), std::pair(512, true));
  EXPECT_EQ(threads_of({}), std::pair(256, true));
  EXPECT_EQ(threads_of({.type = "bf16"}), std::pair(128, true));
  EXPECT_EQ(threads_of({.length = 5120}), std::pair(256, true));
  EXPECT_EQ(threads_of({.length = 8192}), std::pair(512, true));
  // Of few rows all are there at the same time anyway.
  EXPECT_EQ(threads_of({.rows = 264}), std::pair(512, true));
  EXPECT_EQ(threads_of({.type = "bf16", .rows = 264}), std::pair(256, true));
  // No more than a thread's loops may have repetitions: else rows would not stay in registers.
  EXPECT_TRUE(threads_of({.type = "s8", .length = 5632, .second = "s8", .result = "f32"}).second);
}

/// Of a row that registers have in part, a stage computes from the elements what an earlier one computed, too: the
/// exponentials of a softmax would take as many registers as the elements.
TEST(LongRows, StagesLeaveElementsAlone) {
  const auto module = hlo::parse_module(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
ENTRY e {
  n = bf16[3,34304] parameter(0)
  x = f32[3,34304] convert(n)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[3] reduce(x, low), dimensions={1}, to_apply=max
  b = f32[3,34304] broadcast(m), dimensions={0}
  d = f32[3,34304] subtract(x, b)
  e = f32[3,34304] exponential(d)
  s = f32[3] reduce(e, zero), dimensions={1}, to_apply=add
  w = f32[3,34304] broadcast(s), dimensions={0}
  q = f32[3,34304] divide(e, w)
  ROOT t = (f32[3,34304], f32[3,34304]) tuple(d, q)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  EmitOptions options;
  options.only = "reduction";
  options.target.multiprocessors = 1;
  const auto kernel = emit_fusion(**module, (*module)->entry, "kernel", options);
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  ASSERT_EQ(kernel->decision().launch().min_blocks, 2);
  const std::string ptx = *kernel->text(Form::Ptx);
  int exponentials = 0;  // of the last stage
  for (size_t at = ptx.rfind("bar.sync"); (at = ptx.find("ex2.approx", at)) != std::string::npos; ++at) ++exponentials;
  constexpr int kInRegisters = 7 * 4;  // repetitions, of a vector each
  EXPECT_GE(exponentials, kInRegisters + 4);
}

}  // namespace
}  // namespace strata::emitters
