// Loops of elements as one kernel, run on this processor and compared with the interpreter.
#include "emitters/element_loops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

struct Steps {
  int elements = 0, loops = 0, others = 0;
  bool operator==(const Steps&) const = default;
};

/// What the steps of a module's program are, the bodies of loops included; its results are the interpreter's.
Steps checked(const std::string& text, uint64_t seed = 1, bool to_the_bit = false) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  if (!module) return {};
  const auto program = emit_program(**module);
  EXPECT_TRUE(program) << program.error().to_string() << text;
  if (!program) return {};
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), seed);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  EXPECT_TRUE(expected && actual) << text;
  if (!expected || !actual) return {};
  EXPECT_EQ(hlo::difference(*actual, *expected, to_the_bit ? 0 : 4).value_or(""), "") << text;
  Steps steps;
  const std::function<void(const EmittedProgram&)> count = [&](const EmittedProgram& of) {
    for (const ProgramStep& step : of.steps) {
      const bool is_element_loop = step.fusion && step.fusion->decision().emitter == "loop of elements";
      ++(is_element_loop ? steps.elements : step.loop ? steps.loops : steps.others);
      if (is_element_loop) {
        EXPECT_TRUE(step.fusion->text(Form::Ptx)) << text;
      }
      if (step.loop) count(*step.loop->body);
    }
  };
  count(*program);
  return steps;
}

/// A loop of `count` iterations over a counter, arrays and scalars that random operators compute of each other, rows
/// and elements of arrays that stay; some of what it computes is stacked.
class RandomLoop {
 public:
  explicit RandomLoop(uint64_t seed) : random_(seed) {
    dims_ = pick<std::string>({"5", "3,7", "1", "33", "2,1,5"});
    count_ = pick<int>({0, 1, 2, 3, 17, 40});
    reversed_ = pick<int>({0, 1}) != 0;
    for (int i = pick<int>({1, 2, 3}); i > 0; --i) types_.push_back(pick<std::string>(kTypes));
    if (count_ > 0 && pick<int>({0, 1}) != 0) rows_ = pick<int>({1, 2});
  }

  std::string text() {
    const std::string body = body_text();
    std::vector<std::string> state{"s32[]"}, first{"zero"};
    std::string parameters, entry;
    int number = 0;
    const auto parameter = [&](const std::string& name, const std::string& shape) {
      entry += fmt::format("  {} = {} parameter({})\n", name, shape, number++);
      state.push_back(shape);
      first.push_back(name);
    };
    for (size_t i = 0; i < types_.size(); ++i) parameter(fmt::format("x{}", i), array(types_[i]));
    parameter("c", "f32[]");
    parameter("xs", fmt::format("f32[{},{}]", rows(), dims_));
    parameter("table", "f32[19]");
    for (int i = 0; i < rows_; ++i) {
      state.push_back(fmt::format("f32[{},{}]", rows(), dims_));
      first.push_back("none_stacked");
    }
    const std::string shape = fmt::format("({})", fmt::join(state, ", "));
    return fmt::format(R"(HloModule random
condition {{
  s = {0} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({1})
  ROOT r = pred[] compare(i, n), direction={2}
}}
body {{
  s = {0} parameter(0)
{3}}}
ENTRY e {{
{4}  zero = s32[] constant({5})
  none = f32[] constant(0)
  none_stacked = f32[{6},{7}] broadcast(none), dimensions={{}}
  s = {0} tuple({8})
  ROOT w = {0} while(s), condition=condition, body=body
}}
)",
                       shape, reversed_ ? -1 : count_, reversed_ ? "GT" : "LT", body, entry, reversed_ ? count_ - 1 : 0,
                       rows(), dims_, fmt::join(first, ", "));
  }

 private:
  template <class T>
  T pick(const std::vector<T>& of) {
    return of[random_() % of.size()];
  }
  inline static const std::vector<std::string> kTypes{"f32", "f32", "bf16", "s32", "f64", "pred", "u8"};

  int rows() const { return std::max(count_, 1); }
  std::string array(const std::string& type) const { return fmt::format("{}[{}]", type, dims_); }
  int64_t rank() const { return 1 + std::count(dims_.begin(), dims_.end(), ','); }

  /// A value of f32 among those that there are.
  std::string any() { return pick(values_); }

  void add(const std::string& expression) {
    values_.push_back(fmt::format("v{}", values_.size()));
    text_ += fmt::format("  {} = {} {}\n", values_.back(), array("f32"), expression);
  }

  void converted(const std::string& of, const std::string& type) {
    text_ += fmt::format("  {}_f = {} convert({})\n", of, array("f32"), of);
    // Integers stay small as floats.
    text_ += fmt::format("  {0}_c = {1} clamp(low, {0}_f, high)\n", of, array("f32"));
    values_.push_back(type == "f32" || type == "pred" ? of + "_f" : of + "_c");
  }

  std::string body_text() {
    int leaf = 0;
    const auto element = [&](const std::string& name, const std::string& shape) {
      text_ += fmt::format("  {} = {} get-tuple-element(s), index={}\n", name, shape, leaf++);
    };
    const std::string stacked = fmt::format("f32[{},{}]", rows(), dims_);
    element("i", "s32[]");
    for (size_t i = 0; i < types_.size(); ++i) element(fmt::format("x{}", i), array(types_[i]));
    element("c", "f32[]");
    element("xs", stacked);
    element("table", "f32[19]");
    for (int i = 0; i < rows_; ++i) element(fmt::format("ys{}", i), stacked);
    text_ += fmt::format(R"(  zero = s32[] constant(0)
  step = s32[] constant({0})
  j = s32[] add(i, step)
  a = f32[] constant(-8)
  b = f32[] constant(8)
  half = f32[] constant(0.5)
  low = {1} broadcast(a), dimensions={{}}
  high = {1} broadcast(b), dimensions={{}}
  d = f32[] multiply(c, half)
  e = f32[] add(d, half)
  row = f32[1,{2}] dynamic-slice(xs, i{3}), dynamic_slice_sizes={{1,{2}}}
  at = {1} reshape(row)
  cs = {1} broadcast(c), dimensions={{}}
)",
                         reversed_ ? -1 : 1, array("f32"), dims_, zeros());
    values_ = {"at", "cs", "high"};
    for (size_t i = 0; i < types_.size(); ++i) converted(fmt::format("x{}", i), types_[i]);
    for (int k = 0; k < 8; ++k) {
      const std::string left = any(), right = any();
      switch (random_() % 7) {
        case 0:
          add(fmt::format("maximum({}, {})", left, right));
          break;
        case 1:
          add(fmt::format("minimum({}, {})", left, right));
          break;
        case 2:
          text_ += fmt::format("  p{} = {} compare({}, {}), direction=LT\n", k, array("pred"), left, right);
          add(fmt::format("select(p{}, {}, {})", k, any(), any()));
          break;
        case 3: {
          text_ += fmt::format("  k{0} = {1} convert({2})\n  l{0} = s32[{3},1] reshape(k{0})\n", k, array("s32"), left,
                               dims_);
          add(
              fmt::format("gather(table, l{}), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
                          "index_vector_dim={}, slice_sizes={{1}}",
                          k, rank()));
          break;
        }
        case 4:
          text_ += fmt::format("  m{} = {} multiply({}, {})\n", k, array("f32"), left, right);
          add(fmt::format("clamp(low, m{}, high)", k));
          break;
        case 5:
          text_ += fmt::format("  s{} = {} subtract({}, {})\n", k, array("f32"), left, right);
          add(fmt::format("clamp(low, s{}, high)", k));
          break;
        default:
          add(fmt::format("negate({})", left));
      }
    }
    std::vector<std::string> next{"j"}, shapes{"s32[]"};
    for (size_t i = 0; i < types_.size(); ++i) {
      const std::string value = pick(std::vector<std::string>(values_.end() - 4, values_.end()));
      if (types_[i] == "pred") {
        text_ += fmt::format("  n{} = pred[{}] compare({}, at), direction=GE\n", i, dims_, value);
      } else if (types_[i] == "u8") {
        text_ += fmt::format("  q{0} = {1} abs({2})\n  n{0} = u8[{3}] convert(q{0})\n", i, array("f32"), value, dims_);
      } else {
        text_ += fmt::format("  n{} = {} convert({})\n", i, array(types_[i]), value);
      }
      next.push_back(fmt::format("n{}", i));
      shapes.push_back(array(types_[i]));
    }
    next.insert(next.end(), {"e", "xs", "table"});
    shapes.insert(shapes.end(), {"f32[]", stacked, "f32[19]"});
    for (int i = 0; i < rows_; ++i) {
      text_ += fmt::format("  w{0} = f32[1,{1}] reshape({2})\n  u{0} = {3} dynamic-update-slice(ys{0}, w{0}, i{4})\n",
                           i, dims_, any(), stacked, zeros());
      next.push_back(fmt::format("u{}", i));
      shapes.push_back(stacked);
    }
    return text_ + fmt::format("  ROOT r = ({}) tuple({})\n", fmt::join(shapes, ", "), fmt::join(next, ", "));
  }

  std::string zeros() const {
    std::string text;
    for (int64_t k = 0; k < rank(); ++k) text += ", zero";
    return text;
  }

  std::mt19937_64 random_;
  std::string dims_;
  int count_ = 0, rows_ = 0;
  bool reversed_ = false;
  std::vector<std::string> types_, values_;
  std::string text_;
};

TEST(ElementLoops, RandomBodiesAreTheInterpretersToTheBit) {
  int kernels = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Steps steps = checked(RandomLoop(seed).text(), seed, /*to_the_bit=*/true);
    EXPECT_EQ(steps.loops, 0) << RandomLoop(seed).text();
    kernels += steps.elements;
  }
  EXPECT_GT(kernels, 25) << "all but those that are written out";
}

/// while `condition` of (x, n): x ← x / 2, n ← n + 1, of `dims`; both where `pred` is.
std::string halvings(const std::string& dims, int64_t rank) {
  std::string all;
  for (int64_t k = 0; k < rank; ++k) all += fmt::format("{}{}", k > 0 ? "," : "", k);
  return fmt::format(R"(HloModule halvings
or {{
  a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT r = pred[] or(a, b)
}}
condition {{
  s = (f32[{0}], s32[{0}]) parameter(0)
  x = f32[{0}] get-tuple-element(s), index=0
  small = f32[] constant(0.01)
  smalls = f32[{0}] broadcast(small), dimensions={{}}
  p = pred[{0}] compare(x, smalls), direction=GT
  no = pred[] constant(false)
  ROOT r = pred[] reduce(p, no), dimensions={{{1}}}, to_apply=or
}}
body {{
  s = (f32[{0}], s32[{0}]) parameter(0)
  x = f32[{0}] get-tuple-element(s), index=0
  n = s32[{0}] get-tuple-element(s), index=1
  small = f32[] constant(0.01)
  smalls = f32[{0}] broadcast(small), dimensions={{}}
  p = pred[{0}] compare(x, smalls), direction=GT
  half = f32[] constant(0.5)
  halves = f32[{0}] broadcast(half), dimensions={{}}
  y = f32[{0}] multiply(x, halves)
  one = s32[] constant(1)
  ones = s32[{0}] broadcast(one), dimensions={{}}
  m = s32[{0}] add(n, ones)
  next = f32[{0}] select(p, y, x)
  count = s32[{0}] select(p, m, n)
  ROOT r = (f32[{0}], s32[{0}]) tuple(next, count)
}}
ENTRY e {{
  x = f32[{0}] parameter(0)
  zero = s32[] constant(0)
  n = s32[{0}] broadcast(zero), dimensions={{}}
  s = (f32[{0}], s32[{0}]) tuple(x, n)
  ROOT w = (f32[{0}], s32[{0}]) while(s), condition=condition, body=body
}}
)",
                     dims, all);
}

TEST(ElementLoops, EachElementEndsByItself) {
  for (const auto& [dims, rank] : std::vector<std::pair<std::string, int64_t>>{{"1000", 1}, {"7,31", 2}, {"1", 1}})
    EXPECT_EQ(checked(halvings(dims, rank), 3, true), (Steps{1, 0, 0})) << dims;
}

TEST(ElementLoops, WhatComesAfterItAtTheSameIndexIsPartOfTheKernel) {
  const auto with_end = [](const std::string& end) {
    std::string text = halvings("30,7", 2);
    text.replace(text.find("ROOT w = "), 5, "");
    return text.substr(0, text.rfind("}\n")) + end + "}\n";
  };
  const std::string both =
      "  y = f32[30,7] get-tuple-element(w), index=0\n  m = s32[30,7] get-tuple-element(w), index=1\n";
  EXPECT_EQ(checked(with_end(both + "  f = f32[30,7] convert(m)\n  ROOT r = f32[30,7] add(f, y)\n")), (Steps{1, 0, 0}));
  EXPECT_EQ(checked(with_end(both + "  f = f32[30,7] convert(m)\n  t = f32[210] reshape(f)\n"
                                    "  ROOT r = (f32[210], s32[30,7]) tuple(t, m)\n")),
            (Steps{1, 0, 0}));
  EXPECT_EQ(checked(with_end(both + "  t = f32[7,30] transpose(y), dimensions={1,0}\n"
                                    "  ROOT r = f32[7,30] negate(t)\n")),
            (Steps{1, 0, 1}))
      << "which other threads' elements are not";
}

TEST(ElementLoops, WhatElseAModuleHasDoesNotMatter) {
  // The first state is a product, and a product follows.
  std::string text = halvings("16,16", 2);
  const std::string first = "ENTRY e {\n  x = f32[16,16] parameter(0)\n";
  text.replace(text.find(first), first.size(),
               "ENTRY e {\n  a = f32[16,16] parameter(0)\n  x = f32[16,16] dot(a, a), lhs_contracting_dims={1}, "
               "rhs_contracting_dims={0}\n");
  text.replace(text.find("ROOT w = "), 5, "");
  text = text.substr(0, text.rfind("}\n")) +
         "  y = f32[16,16] get-tuple-element(w), index=0\n  ROOT r = f32[16,16] dot(y, a), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0}\n}\n";
  const Steps steps = checked(text);
  EXPECT_EQ(steps.elements, 1);
  EXPECT_EQ(steps.loops, 0);
}

/// A loop over i < n, which is `bound`, of scalars and arrays; `body` makes `y` of x, a f32 of these dimensions.
std::string bounded(const std::string& dims, const std::string& bound, const std::string& body) {
  return fmt::format(R"(HloModule bounded
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}
condition {{
  s = (s32[], s32[], f32[{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT r = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], s32[], f32[{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = f32[{0}] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  zero = f32[] constant(0)
  half = f32[] constant(0.5)
  halves = f32[{0}] broadcast(half), dimensions={{}}
  t = f32[] convert(i)
  ts = f32[{0}] broadcast(t), dimensions={{}}
  {2}
  ROOT r = (s32[], s32[], f32[{0}]) tuple(j, n, y)
}}
ENTRY e {{
  x = f32[{0}] parameter(0)
  m = s32[] {1}
  zero = s32[] constant(0)
  s = (s32[], s32[], f32[{0}]) tuple(zero, m, x)
  ROOT w = (s32[], s32[], f32[{0}]) while(s), condition=condition, body=body
}}
)",
                     dims, bound, body);
}

TEST(ElementLoops, UntilAScalarSaysSo) {
  const std::string body = "h = f32[{0}] multiply(x, halves)\n  y = f32[{0}] add(h, ts)";
  EXPECT_EQ(checked(bounded("50", "parameter(1)", fmt::format(fmt::runtime(body), "50"))), (Steps{1, 0, 0}));
  EXPECT_EQ(checked(bounded("3,5", "constant(1000)", fmt::format(fmt::runtime(body), "3,5"))), (Steps{1, 0, 0}));
  EXPECT_EQ(checked(bounded("", "constant(1000)", fmt::format(fmt::runtime(body), ""))), (Steps{1, 0, 0}))
      << "a loop of scalars has one element";
}

TEST(ElementLoops, WhatNeedsOthersIsNoLoopOfElements) {
  const Steps reversed = checked(bounded("50", "constant(600)", "y = f32[50] reverse(x), dimensions={0}"));
  EXPECT_EQ(reversed.elements, 0);
  EXPECT_EQ(reversed.loops, 1);
  const Steps summed = checked(bounded("50", "constant(600)",
                                       "a = f32[] reduce(x, zero), dimensions={0}, to_apply=sum\n"
                                       "  b = f32[50] broadcast(a), dimensions={}\n  c = f32[50] minimum(b, ts)\n"
                                       "  y = f32[50] subtract(c, halves)"));
  EXPECT_EQ(summed.elements, 0);
  EXPECT_EQ(summed.loops, 1);
}

TEST(ElementLoops, WhatKernelsComputeOnceForAllIsNotComputedForEach) {
  // 40 numbers by 40 operators, of which a million elements each take one.
  std::string body =
      "k = f32[40] iota(), iota_dimension=0\n  t40 = f32[40] broadcast(t), dimensions={}\n"
      "  v0 = f32[40] add(k, t40)\n";
  for (int i = 0; i < 40; ++i) body += fmt::format("  v{} = f32[40] tan(v{})\n", i + 1, i);
  body +=
      "  at = s32[1000003] convert(x)\n  places = s32[1000003,1] reshape(at)\n"
      "  y = f32[1000003] gather(v40, places), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
      "index_vector_dim=1, slice_sizes={1}";
  const auto module = hlo::parse_module(bounded("1000003", "constant(600)", body));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_NE(explain(*program).find("not of elements  kernels of the body are estimated to be faster"),
            std::string::npos)
      << explain(*program);
}

/// The condition of a loop that runs so often, by the first leaf of its state.
std::string times(const std::string& name, const std::string& state, int64_t count) {
  return fmt::format(
      "{} {{\n  s = {} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant({})\n"
      "  ROOT r = pred[] compare(i, n), direction=LT\n}}\n",
      name, state, count);
}

TEST(ElementLoops, LoopsInTheBodyOfAnotherOne) {
  // The outer loop reverses, the inner one takes each element through 600 iterations.
  const std::string text = R"(HloModule nested
)" + times("inner_condition", "(s32[], f32[40])", 600) +
                           R"(inner {
  s = (s32[], f32[40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[40] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  half = f32[] constant(0.5)
  halves = f32[40] broadcast(half), dimensions={}
  y = f32[40] multiply(x, halves)
  z = f32[40] add(y, halves)
  ROOT r = (s32[], f32[40]) tuple(j, z)
}
)" + times("condition", "(s32[], f32[40])", 3) +
                           R"(body {
  s = (s32[], f32[40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[40] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  zero = s32[] constant(0)
  first = (s32[], f32[40]) tuple(zero, x)
  w = (s32[], f32[40]) while(first), condition=inner_condition, body=inner
  y = f32[40] get-tuple-element(w), index=1
  z = f32[40] reverse(y), dimensions={0}
  u = f32[40] add(z, x)
  ROOT r = (s32[], f32[40]) tuple(j, u)
}
ENTRY e {
  x = f32[40] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[40]) tuple(zero, x)
  ROOT w = (s32[], f32[40]) while(s), condition=condition, body=body
}
)";
  const Steps steps = checked(text);
  EXPECT_EQ(steps.elements, 1);
  EXPECT_EQ(steps.loops, 1);
}

/// In the body of a loop around it, a loop that needs nothing of that body's changes leaves it, and its readers, which
/// do, are not part of its kernel.
TEST(ElementLoops, WhatIsTheSameInEachIterationAroundItLeavesThat) {
  const std::string text = R"(HloModule m
)" + times("icond", "(s32[], f32[9])", 700) +
                           R"(ibody {
  s = (s32[], f32[9]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[9] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  c = f32[9] cosine(a)
  ROOT t = (s32[], f32[9]) tuple(j, c)
}
)" + times("cond", "(s32[], f32[9], f32[9,9], f32[9])", 9) +
                           R"(body {
  s = (s32[], f32[9], f32[9,9], f32[9]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[9] get-tuple-element(s), index=1
  m = f32[9,9] get-tuple-element(s), index=2
  same = f32[9] get-tuple-element(s), index=3
  one = s32[] constant(1)
  z = s32[] constant(0)
  j = s32[] add(i, one)
  d = f32[9] dot(m, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  is = (s32[], f32[9]) tuple(z, same)
  w = (s32[], f32[9]) while(is), condition=icond, body=ibody
  w1 = f32[9] get-tuple-element(w), index=1
  t = f32[9] tanh(d)
  q = f32[9] add(w1, t)
  ROOT r = (s32[], f32[9], f32[9,9], f32[9]) tuple(j, q, m, same)
}
ENTRY e {
  x = f32[9] parameter(0)
  m = f32[9,9] parameter(1)
  y = f32[9] parameter(2)
  z = s32[] constant(0)
  s = (s32[], f32[9], f32[9,9], f32[9]) tuple(z, x, m, y)
  w = (s32[], f32[9], f32[9,9], f32[9]) while(s), condition=cond, body=body
  ROOT r = f32[9] get-tuple-element(w), index=1
})";
  const auto module = hlo::parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 2U) << explain(*program);
  ASSERT_TRUE(program->steps[0].fusion) << explain(*program);
  EXPECT_EQ(program->steps[0].fusion->decision().emitter, "loop of elements");
  ASSERT_TRUE(program->steps[1].loop) << explain(*program);
  checked(text);
}

/// The state, and what the body makes of it, have the layout of the text.
TEST(ElementLoops, StatesInOtherLayouts) {
  for (const std::string body : {"negate(x)", "reverse(x), dimensions={0}"}) {
    checked(R"(HloModule m
)" + times("c", "(s32[], f32[4,6]{0,1})", 30) +
            R"(b {
  s = (s32[], f32[4,6]{0,1}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,6]{0,1} get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4,6]{0,1} )" +
            body + R"(
  k = f32[4,6]{0,1} cosine(y)
  ROOT t = (s32[], f32[4,6]{0,1}) tuple(j, k)
}
ENTRY e {
  x = f32[4,6]{0,1} parameter(0)
  z = s32[] constant(0)
  s = (s32[], f32[4,6]{0,1}) tuple(z, x)
  w = (s32[], f32[4,6]{0,1}) while(s), condition=c, body=b
  ROOT r = f32[4,6]{0,1} get-tuple-element(w), index=1
})");
  }
  checked(R"(HloModule m
ENTRY e {
  p = (f32[4,6]{0,1}, f32[4,6]) parameter(0)
  a = f32[4,6]{0,1} get-tuple-element(p), index=0
  c = f32[4,6]{0,1} reverse(a), dimensions={1}
  ROOT t = f32[4,6]{0,1} negate(c)
})");
}

}  // namespace
}  // namespace strata::emitters
