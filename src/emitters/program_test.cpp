// Kernels of the emitters, run on the CPU, against the interpreter.
#include "emitters/program.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>

#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

using hlo::Literal;

/// What programs that were compared are made of.
struct Made {
  int programs = 0;
  int kernels = 0;
  int interpreted = 0;            ///< steps that the interpreter runs, which compare it with itself
  std::map<std::string, int> by;  ///< kernels by emitter
};

/// How the module's kernels differ from the interpreter; empty if they do not.
std::string checked(const hlo::Module& module, uint64_t seed, Made& made) {
  const auto arguments = hlo::typical_arguments(module.entry_computation(), seed);
  const auto expected = hlo::evaluate(module, arguments);
  if (!expected) return "";  // the interpreter refuses it: nothing to compare with
  const auto program = emit_program(module);
  if (!program) return program.error().to_string();
  ++made.programs;
  for (const ProgramStep& step : program->steps) {
    if (step.fusion) ++made.by[std::string(step.fusion->decision().emitter)];
    made.kernels += step.fusion ? 1 : 0;
    made.interpreted += !step.fusion && !step.library ? 1 : 0;
  }
  const auto actual = run_on_cpu(*program, arguments);
  if (!actual) return actual.error().to_string();
  return hlo::difference(*actual, *expected, 4).value_or("");
}

void print(const Made& made) {
  fmt::print("{} programs of {} kernels and {} steps of the interpreter's: {}\n", made.programs, made.kernels,
             made.interpreted, made.by);
}

/// Which instructions have values that depend on how functions are rounded: comparisons and casts would show it.
bool is_exact(hlo::Opcode opcode) {
  switch (hlo::family(opcode)) {
    case hlo::Family::Unary:
      return opcode == hlo::Opcode::Abs || opcode == hlo::Opcode::Negate || opcode == hlo::Opcode::Not ||
             opcode == hlo::Opcode::Sign || opcode == hlo::Opcode::Floor || opcode == hlo::Opcode::Ceil ||
             opcode == hlo::Opcode::Real || opcode == hlo::Opcode::Imag || opcode == hlo::Opcode::Popcnt;
    case hlo::Family::Binary:
      return opcode != hlo::Opcode::Atan2 && opcode != hlo::Opcode::Power;
    default:
      return true;
  }
}

TEST(Program, RandomModulesAgreeWithTheInterpreter) {
  Made made;
  for (uint64_t seed = 1; seed <= 300; ++seed) {  // fewer would not meet all emitters
    hlo::RandomFusionOptions options;
    options.allows = is_exact;
    const hlo::ModulePtr module = hlo::random_fusion(seed, options);
    SCOPED_TRACE(seed);
    const std::string wrong = checked(*module, seed, made);
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << (wrong.empty() ? "" : hlo::print(*module));
  }
  print(made);
  // What the interpreter runs is compared with itself.
  EXPECT_GE(made.programs, 290);
  EXPECT_GE(made.kernels, 4 * made.interpreted);
  for (const char* emitter : {"column reduction", "concatenate", "dynamic-update-slice", "loop", "multi-row reduction",
                              "row reduction", "scatter"}) {
    EXPECT_GE(made.by[emitter], 2) << emitter;
  }
}

TEST(Program, RandomModulesOfAllOperatorsAgree) {
  Made made;
  for (uint64_t seed = 1001; seed <= 1000 + static_cast<uint64_t>(rounds(200)); ++seed) {
    hlo::RandomFusionOptions options;
    options.max_instructions = 5;  // so that rounding does not grow
    const hlo::ModulePtr module = hlo::random_fusion(seed, options);
    SCOPED_TRACE(seed);
    const std::string wrong = checked(*module, seed, made);
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << (wrong.empty() ? "" : hlo::print(*module));
  }
  print(made);
  EXPECT_GE(made.programs, rounds(190));
  EXPECT_GE(made.kernels, 8 * made.interpreted);
}

/// How many steps of a module's program the interpreter runs; the program has the interpreter's value.
int interpreted_steps(const std::string& text) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return -1;
  Made made;
  EXPECT_EQ(checked(**module, 1, made), "");
  const auto program = emit_program(**module);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return -1;
  int count = 0;
  for (const ProgramStep& step : program->steps) count += !step.fusion && !step.library && !step.loop;
  return count;
}

TEST(Program, LinearAlgebraIsKernelsAndLoops) {
  EXPECT_EQ(interpreted_steps(R"(HloModule m
ENTRY main {
  b = f64[2,4,4] parameter(0)
  x = f64[2,4,3] parameter(1)
  p = f64[2,4,4] dot(b, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  i = s32[2,4,4] iota(), iota_dimension=1
  j = s32[2,4,4] iota(), iota_dimension=2
  same = pred[2,4,4] compare(i, j), direction=EQ
  one = f64[2,4,4] convert(same)
  a = f64[2,4,4] add(p, one)
  l = f64[2,4,4] cholesky(a), lower=true
  s = f64[2,4,3] negate(x)
  y = f64[2,4,3] triangular-solve(l, s), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  z = f64[2,4,3] triangular-solve(l, y), left_side=true, lower=true, transpose_a=TRANSPOSE
  f = c128[2,4,2] fft(z), fft_type=RFFT, fft_length={3}
  m = f64[2,4,2] abs(f)
  ROOT r = f64[2,4,2] add(m, m)
}
)"),  // the transform is a library's
            0);
}

TEST(Program, BatchNormsAreKernels) {
  EXPECT_EQ(interpreted_steps(R"(HloModule m
ENTRY main {
  x = f32[4,6,3,5] parameter(0)
  s = f32[6] parameter(1)
  o = f32[6] parameter(2)
  t = (f32[4,6,3,5], f32[6], f32[6]) batch-norm-training(x, s, o), epsilon=0.001, feature_index=1
  y = f32[4,6,3,5] get-tuple-element(t), index=0
  mean = f32[6] get-tuple-element(t), index=1
  variance = f32[6] get-tuple-element(t), index=2
  z = f32[4,6,3,5] batch-norm-inference(y, s, o, mean, variance), epsilon=0.001, feature_index=1
  w = f32[4,6,3,5] tanh(z)
  ROOT g = (f32[4,6,3,5], f32[6], f32[6]) batch-norm-grad(x, s, mean, variance, w), epsilon=0.001, feature_index=1
}
)"),
            0);
}

TEST(Program, ScattersOfSeveralArraysAreKernels) {
  EXPECT_EQ(interpreted_steps(R"(HloModule m
larger {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  keep = pred[] compare(a, b), direction=GE
  x = f32[] select(keep, a, b)
  y = s32[] select(keep, i, j)
  ROOT t = (f32[], s32[]) tuple(x, y)
}
ENTRY main {
  a = f32[31,3] parameter(0)
  n = s32[31,3] parameter(1)
  rows = s32[57,1] parameter(2)
  b = f32[57,3] parameter(3)
  m = s32[57,3] parameter(4)
  ROOT r = (f32[31,3], s32[31,3]) scatter(a, n, rows, b, m), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=larger
}
)"),
            0);
}

/// What is wrong with a text's program: that there is none, that it does not run, or its results. Empty if nothing is.
std::string wrong_program(const std::string& text) {
  const auto module = hlo::parse_module(text);
  if (!module) return module.error().to_string();
  const auto expected = hlo::evaluate(**module, hlo::typical_arguments((*module)->entry_computation(), 1));
  if (!expected) return expected.error().to_string();
  Made made;
  return checked(**module, 1, made);
}

/// Tuples in tuples, of constants, copies, barriers, loops and variadic reductions, as parameters and as results.
TEST(Program, TuplesOfAllFormsHaveKernels) {
  const std::string sums =
      "sums { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)\n"
      "  s = f32[] add(a, c) t = f32[] add(b, d) ROOT r = (f32[], f32[]) tuple(s, t) }\n";
  const std::string reduced =
      "x = f32[64] parameter(0) y = f32[64] parameter(1) z = f32[] constant(0)\n"
      "  r = (f32[], f32[]) reduce(x, y, z, z), dimensions={0}, to_apply=sums\n"
      "  g = f32[] get-tuple-element(r), index=0\n";
  const std::string loop =
      "more { p = (f32[4], (s32[], f32[2])) parameter(0) t = get-tuple-element(p), index=1\n"
      "  i = get-tuple-element(t), index=0 n = s32[] constant(3) ROOT r = compare(i, n), direction=LT }\n"
      "step { p = (f32[4], (s32[], f32[2])) parameter(0) x = get-tuple-element(p), index=0\n"
      "  t = get-tuple-element(p), index=1 i = get-tuple-element(t), index=0 y = get-tuple-element(t), index=1\n"
      "  one = s32[] constant(1) j = add(i, one) z = add(x, x) u = tuple(j, y) ROOT r = tuple(z, u) }\n";
  const std::string texts[] = {
      "ENTRY e { ROOT c = (f32[2], (s32[], f32[3])) constant(({1, 2}, (3, {4, 5, 6}))) }",
      "e { ROOT c = (f32[2], s32[]) constant(({1, 2}, 3)) }",
      "ENTRY e { x = f32[2] parameter(0) c = (f32[2], s32[]) constant(({1, 2}, 3)) g = get-tuple-element(c), index=0 "
      "ROOT r = add(x, g) }",
      "f { x = f32[2] parameter(0) c = (f32[2], s32[]) constant(({1, 2}, 3)) g = get-tuple-element(c), index=0 ROOT r "
      "= "
      "add(x, g) }\nENTRY e { x = f32[2] parameter(0) ROOT f = fusion(x), kind=kLoop, calls=f }",
      sums + "f { " + reduced + "  ROOT t = tuple(g, r) }",
      sums + "f { " + reduced + "  h = get-tuple-element(r), index=1 ROOT t = tuple(h, g, x) }",
      sums + "f { " + reduced +
          "  ROOT t = tuple(g, r) }\nENTRY e { x = f32[64] parameter(0) y = f32[64] parameter(1) "
          "ROOT f = fusion(x, y), kind=kInput, calls=f }",
      sums + "ENTRY e { " + reduced + "  q = negate(x) u = tuple(q, r) ROOT t = tuple(u, g, u) }",
      "ENTRY e { p = (f32[2], (f32[3], s32[])) parameter(0) t = get-tuple-element(p), index=1 x = "
      "get-tuple-element(t), "
      "index=0 ROOT n = negate(x) }",
      "e { p = (f32[2], (f32[3], s32[])) parameter(0) t = get-tuple-element(p), index=1 x = get-tuple-element(t), "
      "index=0 ROOT n = negate(x) }",
      "ENTRY e { p = (f32[2], (f32[3], s32[])) parameter(0) ROOT c = (f32[2], (f32[3], s32[])) copy(p) }",
      "ENTRY e { p = (f32[2], (f32[3], s32[])) parameter(0) b = opt-barrier(p) t = get-tuple-element(b), index=1 "
      "ROOT r = tuple(t, p) }",
      "f { x = f32[64] parameter(0) a = negate(x) b = exponential(x) ROOT t = tuple(a, b) }\n"
      "ENTRY e { x = f32[64] parameter(0) ROOT f = fusion(x), kind=kLoop, calls=f }",
      "f { x = f32[64] parameter(0) a = negate(x) u = tuple(x, a) ROOT t = tuple(a, u) }\n"
      "e { x = f32[64] parameter(0) ROOT f = fusion(x), kind=kLoop, calls=f }",
      loop +
          "ENTRY e { x = f32[4] parameter(0) y = f32[2] parameter(1) i = s32[] constant(0) t = tuple(i, y) "
          "s = tuple(x, t) ROOT w = while(s), condition=more, body=step }",
      loop +
          "ENTRY e { s = (f32[4], (s32[], f32[2])) parameter(0) w = while(s), condition=more, body=step "
          "t = get-tuple-element(w), index=1 y = get-tuple-element(t), index=1 ROOT r = negate(y) }",
      "ENTRY e { ROOT t = token[] after-all() }",
      "ENTRY e { x = f32[2] parameter(0) t = token[] after-all() n = negate(x) ROOT r = tuple(t, n, t) }",
      "ENTRY e { x = f32[2] parameter(0) t = token[] parameter(1) d = add-dependency(x, t) ROOT r = tuple(d, t) }",
      "ENTRY e { x = f32[2] parameter(0) t = () tuple() ROOT r = tuple(t, x, t) }",
  };
  for (const std::string& text : texts) EXPECT_EQ(wrong_program(text), "") << text;
}

/// Those of one operator by kernels, others by loops.
TEST(Program, ScansAreKernelsOrLoops) {
  for (const char* step : {"add", "subtract", "multiply"}) {
    for (const char* type : {"f32", "bf16", "f16"}) {
      for (const char* how :
           {"", ", is_associative=true", ", is_reverse=true", ", is_reverse=true, is_associative=true"})
        EXPECT_EQ(interpreted_steps(fmt::format(R"(HloModule m
step {{ x = {1}[3] parameter(0) s = {1}[3] parameter(1) n = {1}[3] {0}(x, s) ROOT r = ({1}[3], {1}[3]) tuple(n, n) }}
ENTRY main {{
  x = {1}[40,3] parameter(0)
  y = {1}[40,3] exponential(x)
  z = {1}[] constant(1)
  s = {1}[3] broadcast(z), dimensions={{}}
  r = ({1}[40,3], {1}[3]) scan(y, s), dimensions={{0}}, num_carries=1{2}, to_apply=step
  a = {1}[40,3] get-tuple-element(r), index=0
  b = {1}[3] get-tuple-element(r), index=1
  c = {1}[40,3] negate(a)
  ROOT t = ({1}[40,3], {1}[3]) tuple(c, b)
}}
)",
                                                step, type, how)),
                  0)
            << step << type << how;
    }
  }
}

TEST(Program, WeakOrderIsThatOfTheInterpreter) {
  std::string text =
      "ENTRY e { x = f32[8,8] parameter(0)\n"
      "  c = f32[8] constant({-inf, -1, -0, 0, 1, inf, nan, -nan})\n"
      "  a = f32[8,8] broadcast(c), dimensions={0} b = f32[8,8] broadcast(c), dimensions={1}\n";
  for (const char* type : {"f32", "f64", "bf16", "f16"}) {
    for (const char* direction : {"EQ", "NE", "LT", "LE", "GT", "GE"}) {
      const std::string text_of_one = fmt::format(
          "{0}  p = {1}[8,8] convert(a) q = {1}[8,8] convert(b) ROOT r = compare(p, q), direction={2}, order=WEAK }}",
          text, type, direction);
      EXPECT_EQ(wrong_program(text_of_one), "") << text_of_one;
    }
  }
}

/// n values, each of which the next one reads at two places: 2^n paths. `{0}` is the value's number, `{1}` the next.
struct Doubling {
  const char* what;
  const char* text;
};
const Doubling kDoublings[] = {
    {"pads",
     "p{0} = f32[10] pad(v{0}, z), padding=1_1 a{0} = f32[8] slice(p{0}), slice={{[0:8]}} b{0} = f32[8] "
     "slice(p{0}), slice={{[2:10]}} v{1} = f32[8] subtract(a{0}, b{0})\n"},
    {"reverses", "a{0} = f32[8] reverse(v{0}), dimensions={{0}} v{1} = f32[8] subtract(a{0}, v{0})\n"},
    {"concatenations",
     "p{0} = f32[16] concatenate(v{0}, v{0}), dimensions={{0}} a{0} = f32[8] slice(p{0}), "
     "slice={{[3:11]}} v{1} = f32[8] subtract(a{0}, v{0})\n"},
    {"windows",
     "w{0} = f32[8] reduce-window(v{0}, z), window={{size=3 pad=1_1}}, to_apply=most v{1} = f32[8] "
     "subtract(w{0}, v{0})\n"},
    {"slices at places that are computed",
     "i{0} = s32[] constant(1) a{0} = f32[7] dynamic-slice(v{0}, i{0}), dynamic_slice_sizes={{7}} b{0} = f32[8] "
     "pad(a{0}, z), padding=0_1 v{1} = f32[8] subtract(b{0}, v{0})\n"},
};
std::string doubling(const Doubling& kind, int count, bool entry) {
  std::string text = "most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n";
  text += entry ? "ENTRY e {\n" : "e {\n";
  text += "v0 = f32[8] parameter(0) z = f32[] constant(0)\n";
  for (int i = 0; i < count; ++i) text += fmt::format(fmt::runtime(kind.text), i, i + 1);
  return text + fmt::format("ROOT r = f32[8] copy(v{})\n}}\n", count);
}

/// One kernel of it has code for each value once; a program of it runs, since it is cut where paths are many.
TEST(Program, ValuesReadAlongManyPathsAreEmittedOnce) {
  for (const Doubling& kind : kDoublings) {
    const auto size = [&](int count) -> double {
      EmitOptions options;
      options.only = "loop";
      const auto module = hlo::parse_module(doubling(kind, count, false));
      EXPECT_TRUE(module) << module.error().to_string();
      const auto program = emit_program(**module, options);
      EXPECT_TRUE(program) << program.error().to_string();
      if (!program) return 0;
      const auto text = program->steps[0].fusion->text(Form::Llvm);
      EXPECT_TRUE(text) << text.error().to_string();
      return text ? static_cast<double>(text->size()) : 0;
    };
    const double ten = size(10), twenty = size(20), forty = size(40);
    EXPECT_LE(forty - twenty, 2.5 * (twenty - ten) + 2000) << kind.what << " " << ten << " " << twenty << " " << forty;
    for (const bool entry : {false, true}) {
      EXPECT_EQ(wrong_program(doubling(kind, 40, entry)), "") << kind.what;
    }
  }
}

}  // namespace
}  // namespace strata::emitters
