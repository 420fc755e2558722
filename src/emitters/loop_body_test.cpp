// Steps that give the same in each iteration of a loop: that they are done before it, and that nothing else changes.
#include "emitters/loop_body.h"

#include <fmt/format.h>

#include <random>

#include "emitters/library/test_library_calls.h"

namespace strata::emitters {
namespace {

class LoopBody : public LibraryCallsTest {
 protected:
  /// The program, whose results are the interpreter's, as are those of its steps on a fake GPU, with libraries.
  EmittedProgram checked_program(const std::string& text, uint64_t seed = 1) {
    SCOPED_TRACE(text);
    const hlo::ModulePtr module = parsed(text);
    if (!module) return {};
    auto program = emit_program(*module);
    EXPECT_TRUE(program) << program.error().to_string();
    if (!program) return {};
    const auto arguments = hlo::typical_arguments(module->entry_computation(), seed);
    const auto expected = hlo::evaluate(*module, arguments);
    const auto actual = run_on_cpu(*program, arguments);
    EXPECT_TRUE(expected && actual);
    if (!expected || !actual) return {};
    EXPECT_EQ(hlo::difference(*actual, *expected, 4).value_or(""), "") << explain(*program);
    EXPECT_EQ(checked(*module, seed), "") << explained_;
    return *std::move(program);
  }
};

/// Sorts in a program, without those in its loops.
int64_t sorts(const EmittedProgram& program) {
  return std::ranges::count_if(
      program.steps, [](const ProgramStep& step) { return step.fusion && step.fusion->decision().emitter == "sort"; });
}

const LoopStep* loop_of(const EmittedProgram& program) {
  for (const ProgramStep& step : program.steps) {
    if (step.loop) return step.loop.get();
  }
  return nullptr;
}

constexpr const char* kLess =
    "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=LT\n}\n";
constexpr const char* kState = "(s32[], f32[4,33], f32[4,33])";

/// (i, x, w): `body` computes `next` of x and w, and `left`, or leaves w as it is; the loop goes on while `goes_on` of
/// i and x.
std::string loop(const std::string& name, const std::string& body, const std::string& goes_on) {
  return fmt::format(
      "{0}.condition {{\n  s = {1} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  x = f32[4,33] "
      "get-tuple-element(s), index=1\n  {3}\n}}\n{0}.body {{\n  s = {1} parameter(0)\n  i = s32[] "
      "get-tuple-element(s), index=0\n  x = f32[4,33] get-tuple-element(s), index=1\n  w = f32[4,33] "
      "get-tuple-element(s), index=2\n{2}  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  ROOT r = {1} tuple(j, "
      "next, {4})\n}}\n",
      name, kState, body, goes_on, body.find("  left = ") == std::string::npos ? "w" : "left");
}

std::string until(int64_t count) {
  return fmt::format("n = s32[] constant({})\n  ROOT c = pred[] compare(i, n), direction=LT", count);
}

/// Stops at an element of x, which the body computes, or after 9 iterations.
constexpr const char* kUntilLarge =
    "first = f32[1,1] slice(x), slice={[0:1], [0:1]}\n  x0 = f32[] reshape(first)\n  most = f32[] constant(3)\n  small "
    "= pred[] compare(x0, most), direction=LT\n  n = s32[] constant(9)\n  few = pred[] compare(i, n), direction=LT\n  "
    "ROOT c = pred[] and(small, few)";

std::string entry(const std::string& name = "outer") {
  return fmt::format(
      "ENTRY e {{\n  x = f32[4,33] parameter(0)\n  w = f32[4,33] parameter(1)\n  i = s32[] constant(0)\n  s = {0} "
      "tuple(i, x, w)\n  ROOT l = {0} while(s), condition={1}.condition, body={1}.body\n}}\n",
      kState, name);
}

constexpr const char* kAddsSorted =
    "  sorted = f32[4,33] sort(w), dimensions={1}, to_apply=less\n  half = f32[] constant(0.5)\n  halves = f32[4,33] "
    "broadcast(half), dimensions={}\n  part = f32[4,33] multiply(x, halves)\n  next = f32[4,33] add(part, sorted)\n";

std::string module_of(const std::string& computations) { return std::string("HloModule m\n") + kLess + computations; }

TEST_F(LoopBody, StepsThatGiveTheSameAreDoneBefore) {
  for (const std::string& goes_on : {until(2), until(5), std::string(kUntilLarge)}) {
    const EmittedProgram program = checked_program(module_of(loop("outer", kAddsSorted, goes_on) + entry()));
    ASSERT_NE(loop_of(program), nullptr);
    EXPECT_EQ(sorts(program), 1);
    EXPECT_EQ(sorts(*loop_of(program)->body), 0);
  }
}

TEST_F(LoopBody, ALoopOfOneIterationKeepsItsSteps) {
  for (const int64_t count : {0, 1}) {
    const EmittedProgram program = checked_program(module_of(loop("outer", kAddsSorted, until(count)) + entry()));
    EXPECT_EQ(sorts(program), 0);
  }
}

TEST_F(LoopBody, WhatChangesStays) {
  // w is another one in each iteration; and it is the counter that is sorted by.
  const std::string moves = std::string(kAddsSorted) + "  left = f32[4,33] negate(w)\n";
  EXPECT_EQ(sorts(checked_program(module_of(loop("outer", moves, until(5)) + entry()))), 0);
  const std::string counts =
      "  k = f32[] convert(i)\n  ks = f32[4,33] broadcast(k), dimensions={}\n  far = f32[4,33] subtract(w, ks)\n  "
      "odd = f32[4,33] cosine(far)\n  sorted = f32[4,33] sort(odd), dimensions={1}, to_apply=less\n  next = f32[4,33] "
      "add(x, sorted)\n";
  EXPECT_EQ(sorts(checked_program(module_of(loop("outer", counts, until(5)) + entry()))), 0);
}

/// The sorted array becomes x, which the loop places.
TEST_F(LoopBody, AResultOfTheBodyStays) {
  const std::string becomes = "  next = f32[4,33] sort(w), dimensions={1}, to_apply=less\n";
  for (const std::string& goes_on : {until(2), until(3), std::string(kUntilLarge)}) {
    const EmittedProgram program = checked_program(module_of(loop("outer", becomes, goes_on) + entry()));
    EXPECT_EQ(sorts(program), 0);
  }
}

/// A body that writes rows over what is sorted makes it anew each time, which is no more work than a copy.
TEST_F(LoopBody, WhatIsWrittenOverStays) {
  const std::string body =
      "  sorted = f32[4,33] sort(w), dimensions={1}, to_apply=less\n  row = f32[1,4] slice(x), slice={[0:1], [0:4]}\n  "
      "zero = s32[] constant(0)\n  cut = f32[4,33] dynamic-update-slice(sorted, row, i, zero)\n  next = f32[4,33] "
      "copy(cut)\n";
  const EmittedProgram program = checked_program(module_of(loop("outer", body, until(3)) + entry()));
  ASSERT_NE(loop_of(program), nullptr);
  EXPECT_EQ(sorts(program) + sorts(*loop_of(program)->body), 1);
}

/// Of the state, what neither the result nor the condition needs is not computed.
TEST_F(LoopBody, WhatNothingReadsIsNotComputed) {
  // w is sorted for itself alone; then x reads it, and then the result does.
  const auto sorts_in_body = [this](const std::string& next, int64_t result) {
    const std::string body =
        next + "  odd = f32[4,33] cosine(w)\n  left = f32[4,33] sort(odd), dimensions={1}, to_apply=less\n";
    std::string text = entry();
    text.replace(text.find("ROOT l"), 6, "l");
    text.insert(text.rfind("}"), fmt::format("  ROOT r = f32[4,33] get-tuple-element(l), index={}\n", result));
    const EmittedProgram program = checked_program(module_of(loop("outer", body, until(3)) + text));
    return loop_of(program) == nullptr ? -1 : sorts(*loop_of(program)->body);
  };
  EXPECT_EQ(sorts_in_body("  next = f32[4,33] sort(x), dimensions={0}, to_apply=less\n", 1), 1);
  EXPECT_EQ(sorts_in_body("  y = f32[4,33] sort(x), dimensions={0}, to_apply=less\n  next = f32[4,33] subtract(y, "
                          "w)\n",
                          1),
            2);
  EXPECT_EQ(sorts_in_body("  next = f32[4,33] sort(x), dimensions={0}, to_apply=less\n", 2), 1);
}

std::string nested(const std::string& inner_goes_on, const std::string& sorted_operand) {
  const std::string outer = fmt::format(
      "  zero = s32[] constant(0)\n  v = f32[4,33] {}(x)\n  t = {} tuple(zero, x, {})\n  l = {} while(t), "
      "condition=inner.condition, body=inner.body\n  y = f32[4,33] get-tuple-element(l), index=1\n  next = "
      "f32[4,33] cosine(y)\n",
      "sine", kState, sorted_operand, kState);
  return module_of(loop("inner", kAddsSorted, inner_goes_on) + loop("outer", outer, until(4)) + entry());
}

TEST_F(LoopBody, StepsLeaveAsManyLoopsAsTheyAreTheSameIn) {
  for (const std::string& goes_on : {until(3), std::string(kUntilLarge)}) {
    const EmittedProgram out = checked_program(nested(goes_on, "w"));
    EXPECT_EQ(sorts(out), 1);
    const EmittedProgram half = checked_program(nested(goes_on, "v"));
    EXPECT_EQ(sorts(half), 0);
    ASSERT_NE(loop_of(half), nullptr);
    EXPECT_EQ(sorts(*loop_of(half)->body), 1);
  }
}

/// A loop that gives the same leaves the one around as a whole where it surely ends.
TEST_F(LoopBody, ALoopLeavesALoop) {
  const auto text = [](const std::string& inner_goes_on) {
    const std::string outer = fmt::format(
        "  zero = s32[] constant(0)\n  t = {0} tuple(zero, w, w)\n  l = {0} while(t), "
        "condition=inner.condition, body=inner.body\n  y = f32[4,33] get-tuple-element(l), index=1\n  next "
        "= f32[4,33] subtract(y, x)\n",
        kState);
    const std::string inner =
        "  sines = f32[4,33] sine(x)\n  next = f32[4,33] sort(sines), dimensions={1}, "
        "to_apply=less\n";
    return module_of(loop("inner", inner, inner_goes_on) + loop("outer", outer, until(4)) + entry());
  };
  const auto loops = [](const EmittedProgram& program) {
    return std::ranges::count_if(program.steps, [](const ProgramStep& step) { return step.loop != nullptr; });
  };
  EXPECT_EQ(loops(checked_program(text(until(3)))), 2);
  EXPECT_EQ(loops(checked_program(text(kUntilLarge))), 1);
}

/// In a branch that is taken sometimes nothing is done before it is known that it is.
TEST_F(LoopBody, ABranchKeepsItsSteps) {
  const std::string text =
      module_of(std::string("sorted {\n  p = f32[4,33] parameter(0)\n  ROOT s = f32[4,33] sort(p), dimensions={1}, "
                            "to_apply=less\n}\nkept {\n  ROOT p = f32[4,33] parameter(0)\n}\n") +
                loop("outer",
                     "  two = s32[] constant(2)\n  bit = s32[] remainder(i, two)\n  y = f32[4,33] conditional(bit, w, "
                     "w), branch_computations={kept, sorted}\n  next = f32[4,33] add(x, y)\n",
                     until(5)) +
                entry());
  const EmittedProgram program = checked_program(text);
  EXPECT_EQ(sorts(program), 0);
}

/// Random bodies: of what stays, of what changes, with loops in them.
class RandomLoops {
 public:
  explicit RandomLoops(uint64_t seed) : random_(seed) {}

  std::string text() {
    const std::string outer = loop("outer", body(1), goes_on());
    return module_of(computations_ + outer + entry());
  }

 private:
  int64_t below(int64_t count) { return std::uniform_int_distribution<int64_t>(0, count - 1)(random_); }
  const std::string& any(const std::vector<std::string>& of) { return of[static_cast<size_t>(below(std::ssize(of)))]; }
  std::string goes_on() { return below(3) == 0 ? kUntilLarge : until(below(5)); }

  std::string body(int depth) {
    std::vector<std::string> values{"x", "w", "w"};
    std::string text =
        "  zero = s32[] constant(0)\n  half = f32[] constant(0.5)\n  halves = f32[4,33] broadcast(half), "
        "dimensions={}\n";
    for (int64_t k = 0; k < 3 + below(5); ++k) {
      const std::string name = fmt::format("v{}", k), a = any(values), b = any(values);
      switch (below(depth > 0 ? 7 : 6)) {
        case 0:
          text += fmt::format("  {} = f32[4,33] sort({}), dimensions={{{}}}, to_apply=less\n", name,
                              below(2) == 0 ? "w" : a, below(2));
          break;
        case 1:
          text += fmt::format("  {} = f32[4,33] sine({})\n", name, a);
          break;
        case 2:
          text +=
              fmt::format("  {0}.s = f32[4,33] add({1}, {2})\n  {0} = f32[4,33] multiply({0}.s, halves)\n", name, a, b);
          break;
        case 3:
          text += fmt::format(
              "  {0}.r = f32[2,1] slice({1}), slice={{[0:2], [3:4]}}\n  {0} = f32[4,33] dynamic-update-slice({2}, "
              "{0}.r, zero, i)\n",
              name, a, b);
          break;
        case 4:
          text += fmt::format(
              "  {0}.t = f32[33,4] transpose({1}), dimensions={{1,0}}\n  {0}.d = f32[33,33] dot({0}.t, {2}), "
              "lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n  {0}.k = f32[] constant(0.05)\n  {0}.a = "
              "f32[33,33] "
              "broadcast({0}.k), dimensions={{}}\n  {0}.b = f32[33,33] multiply({0}.d, {0}.a)\n  {0}.c = f32[33,33] "
              "cosine({0}.b)\n  {0} = "
              "f32[4,33] slice({0}.c), slice={{[5:9], [0:33]}}\n",
              name, a, b);
          break;
        case 5:
          text += fmt::format("  {0} = f32[4,33] iota(), iota_dimension={1}\n", name, below(2));
          break;
        default: {
          const std::string inner = fmt::format("inner{}", loops_++);
          computations_ += loop(inner, body(depth - 1), goes_on());
          text += fmt::format(
              "  {0}.t = {1} tuple(zero, {2}, {3})\n  {0}.l = {1} while({0}.t), condition={4}.condition, "
              "body={4}.body\n  {0} = f32[4,33] get-tuple-element({0}.l), index={5}\n",
              name, kState, a, b, inner, 1 + below(2));
        }
      }
      values.push_back(name);
    }
    text += fmt::format("  next = f32[4,33] sine({})\n", values.back());
    return below(3) > 0 ? text : text + fmt::format("  left = f32[4,33] cosine({})\n", any(values));
  }

  std::mt19937_64 random_;
  std::string computations_;
  int64_t loops_ = 0;
};

/// Kernels that have left loops of a program, or of the bodies of its loops: they keep the loops' names.
int64_t kernels_that_left(const EmittedProgram& program) {
  int64_t left = 0;
  for (const ProgramStep& step : program.steps) {
    if (!step.loop) continue;
    std::string name = step.interpreted->entry_computation().name + "_";
    std::ranges::replace(name, '.', '_');
    left += kernels_that_left(*step.loop->body) + std::ranges::count_if(program.steps, [&](const ProgramStep& other) {
              return other.fusion && other.fusion->name().find(name) != std::string::npos;
            });
  }
  return left;
}

TEST_F(LoopBody, RandomLoopsGiveTheInterpretersValues) {
  int64_t left = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    left += kernels_that_left(checked_program(RandomLoops(seed).text(), seed));
  }
  EXPECT_GE(left, 3);
}

}  // namespace
}  // namespace strata::emitters
