#include "hlo/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hlo/evaluate.h"
#include "hlo/typical_arguments.h"

namespace strata::hlo {
namespace {

using testing::HasSubstr;

/// One computation of the instructions, f32[2,3] x and f32[] s being parameters.
std::string module_of(const std::string& instructions) {
  return "HloModule m\nENTRY main {\n  x = f32[2,3] parameter(0)\n  s = f32[] parameter(1)\n" + instructions + "\n}\n";
}

std::string error_of(const std::string& text) {
  const auto module = parse_module(text);
  return module ? "no error" : module.error().to_string();
}

void expect_round_trip(const std::string& text) {
  const auto module = parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string() << "\n" << text;
  const std::string printed = print(**module);
  const auto again = parse_module(printed);
  ASSERT_TRUE(again) << again.error().to_string() << "\n" << printed;
  EXPECT_EQ(print(**again), printed);
}

TEST(HloText, PrintsInOneForm) {
  const char* const text = R"(HloModule sums

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %main (x: f32[2,3]) -> (f32[2], f32[3,2]) {
  %x = f32[2,3]{0,1} parameter(0)
  %zero = f32[] constant(0)
  %sum = f32[2]{0} reduce(%x, %zero), dimensions={1}, to_apply=%add
  %t = f32[3,2]{1,0} transpose(%x), dimensions={1,0}
  ROOT %r = (f32[2]{0}, f32[3,2]{1,0}) tuple(%sum, %t)
}
)";
  const auto module = parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(print(**module), text);
}

TEST(HloText, AcceptsTheFormsThatXlaPrints) {
  // Percent signs, operand shapes, comments, tables of places and attributes that change no value.
  expect_round_trip(R"(HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[2,3]{1,0})->f32[2,3]{1,0}}

FileNames
1 "model.py"

StackFrames
1 {file_location_id=1 parent_frame_id=1}


%fused_computation (param_0.1: f32[2,3], /*index=1*/param_1: (f32[], s32[4])) -> f32[2,3] {
  %param_0.1 = f32[2,3]{1,0:T(8,128)(2,1)S(1)} parameter(0), sharding={devices=[2,1]<=[2] metadata={op_name="a"}}
  %param_1 = (f32[], /*index=1*/s32[4]{0:E(32)}) parameter(1)
  %g = f32[] get-tuple-element((f32[], s32[4]{0}) %param_1), index=0
  %b = f32[2,3]{1,0} broadcast(f32[] %g), dimensions={}, metadata={op_name="jit(f)/\"quoted}\"" source_line=3}
  ROOT %add-x.1 = f32[2,3]{1,0} add(f32[2,3]{1,0} %param_0.1, f32[2,3]{1,0} %b), backend_config={"a":{"b":[1,"}"]}}
}

ENTRY %main.3 (x: f32[2,3], t: (f32[], s32[4])) -> f32[2,3] {
  %x = f32[2,3]{1,0} parameter(0), parameter_replication={false}, frontend_attributes={a="b"}
  %t = (f32[], s32[4]{0}) parameter(1)
  ROOT %f = f32[2,3]{1,0} fusion(%x, %t), kind=kLoop, calls=%fused_computation, control-predecessors={%x}
}, execution_thread="main"
)");
  // No header and no ENTRY: the last computation runs. Comments, and an instruction over several lines.
  const auto module = parse_module(R"(// RUN: something %s
add {
  p0 = s32[] parameter(0)
  p1 = s32[] parameter(1)
  ROOT add = s32[] add(p0, p1)
}
// another
scatter {
  operand = s32[10]  parameter(0)
  indices = s32[4, 1] parameter(1)
  update = s32[4,2] parameter(2)
  ROOT r = s32[10] scatter(
      s32[10] operand, s32[4,1] indices,
      s32[4,2] update
    ),
    update_window_dims={1}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1,
    indices_are_sorted=true, unique_indices=false,
    to_apply=add
}
)");
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ((*module)->entry_computation().name, "scatter");
  EXPECT_TRUE((*module)->entry_computation().root_instruction().as<ScatterAttributes>().indices_are_sorted);
}

/// The printed form of a text of several computations.
std::string printed(const std::string& text) {
  const auto module = parse_module(text);
  return module ? print(**module) : module.error().to_string();
}

TEST(HloText, AcceptsOrdersAndStability) {
  const auto compared = [](const std::string& attributes) {
    return printed(module_of("ROOT c = pred[2,3] compare(x, x), direction=LT" + attributes));
  };
  EXPECT_EQ(compared(", order=PARTIAL"), compared(""));
  EXPECT_EQ(compared(", order=TOTAL"), compared(", type=TOTALORDER"));
  EXPECT_EQ(compared(", type=TOTALORDER, order=TOTAL"), compared(", type=TOTALORDER"));
  EXPECT_THAT(compared(", order=WEAK"), HasSubstr("order=WEAK"));
  EXPECT_THAT(compared(", order=STRONG"), HasSubstr("order is one of PARTIAL, WEAK, TOTAL, not STRONG"));
  EXPECT_THAT(compared(", type=FLOAT, order=TOTAL"), HasSubstr("type= states another order"));
  expect_round_trip(module_of("ROOT c = pred[2,3] compare(x, x), direction=GE, order=WEAK"));
  expect_round_trip(module_of("ROOT t = (f32[2,2], s32[2,2]) topk(x), k=2, largest=true, is_stable=true"));
  const std::string unstable = module_of("ROOT t = (f32[2,2], s32[2,2]) topk(x), k=2, largest=true, is_stable=false");
  EXPECT_THAT(printed(unstable), HasSubstr("is_stable=false"));
  expect_round_trip(unstable);
}

TEST(HloText, AcceptsOperandsThatStandWhereTheyAreUsed) {
  const std::string text =
      "ENTRY e { add = add(f32[10] parameter(0), f32[10] parameter(1)) "
      "add.anon = negate(add) ROOT r = tuple(tuple(add, add.anon), add(add, multiply(add, add))) }";
  EXPECT_EQ(printed(text), R"(HloModule module

ENTRY %e (parameter.anon: f32[10], parameter.anon.1: f32[10]) -> ((f32[10], f32[10]), f32[10]) {
  %parameter.anon = f32[10]{0} parameter(0)
  %parameter.anon.1 = f32[10]{0} parameter(1)
  %add = f32[10]{0} add(%parameter.anon, %parameter.anon.1)
  %add.anon = f32[10]{0} negate(%add)
  %tuple.anon = (f32[10]{0}, f32[10]{0}) tuple(%add, %add.anon)
  %multiply.anon = f32[10]{0} multiply(%add, %add)
  %add.anon.1 = f32[10]{0} add(%add, %multiply.anon)
  ROOT %r = ((f32[10]{0}, f32[10]{0}), f32[10]{0}) tuple(%tuple.anon, %add.anon.1)
}
)");
  expect_round_trip(text);
  // A scalar has no dimensions that a broadcast could name.
  expect_round_trip(module_of("ROOT r = f32[2,3] add(x, f32[2,3] broadcast(f32[] constant(1)))"));
  EXPECT_THAT(error_of(module_of("ROOT r = f32[3,2,3] broadcast(x)")), HasSubstr("broadcast needs dimensions="));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "negate(";
  EXPECT_THAT(error_of(module_of("ROOT r = " + deep + "x")), HasSubstr("nested more than 200 deep"));
}

TEST(HloText, AcceptsStartsOfSlicesAsOneArray) {
  for (const char* call : {"dynamic-slice(x, i), dynamic_slice_sizes={1,2}", "dynamic-update-slice(x, u, i)"}) {
    const std::string text = fmt::format(
        "ENTRY e {{ x = f32[4,5] parameter(0) u = f32[1,2] parameter(1) i = s32[2] constant({{2,3}}) ROOT r = {} }}",
        call);
    expect_round_trip(text);
    std::string apart = text;
    apart.replace(apart.find(" i)"), 3, " a, b)");
    apart.replace(apart.find("i = s32[2] constant({2,3})"), 26, "a = s32[] constant(2) b = s32[] constant(3)");
    const auto one = parse_module(text);
    const auto other = parse_module(apart);
    ASSERT_TRUE(one) << one.error().to_string();
    ASSERT_TRUE(other) << other.error().to_string();
    const auto arguments = typical_arguments((*one)->entry_computation(), 1);
    EXPECT_TRUE(identical(*evaluate(**one, arguments), *evaluate(**other, arguments))) << call;
  }
}

TEST(HloText, InfersShapesThatAreLeftOut) {
  const auto module = parse_module(R"(
plus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = add(a, b) }
main {
  x = f32[4,6] parameter(0)
  z = f32[] constant(0)
  s = reduce(x, z), dimensions={1}, to_apply=plus
  d = dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  t = tuple(s, d)
  ROOT r = get-tuple-element(t), index=1
}
)");
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_THAT(print(**module), HasSubstr("%t = (f32[4]{0}, f32[4,4]{1,0}) tuple(%s, %d)"));
}

TEST(HloText, CallsMayStandBeforeWhatTheyCall) {
  const auto module = parse_module(
      "HloModule m\nENTRY main {\n x = f32[2] parameter(0)\n ROOT y = f32[2] call(x), to_apply=f\n}\n"
      "f {\n a = f32[2] parameter(0)\n ROOT b = f32[2] negate(a)\n}\n");
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ((*module)->computations[0].name, "f");
  EXPECT_EQ((*module)->entry, 1);
}

TEST(HloText, ReadsConstantsOfEveryType) {
  expect_round_trip(module_of(R"(
  a = f32[2,3] constant({ { 1, -2.5, 1e-3 }, { nan, inf, -inf } })
  b = pred[3] constant({true, 0, 1})
  c = c64[2] constant({(1, 2), (-0, nan)})
  d = s4[2] constant({-8, 7})
  e = u64[] constant(18446744073709551615)
  f = s64[] constant(-9223372036854775808)
  g = bf16[2] constant({0.1, -nan})
  h = f8e4m3fn[3] constant({448, 0.001953125, nan(0x7f)})
  i = f32[0,2] constant({})
  j = (f32[], s32[2], (pred[])) constant((1.5, {1, 2}, (false)))
  k = f32[1,2] constant(f32[1,2] { { 3, 4 } })
  l = f64[] constant(0.1)
  m = f32[] constant(-0)
  ROOT r = f32[] add(s, m))"));
  const auto value = parse_value("f64[2] {0.1, -0}");
  ASSERT_TRUE(value) << value.error().to_string();
  EXPECT_EQ(print(*value), "{0.1, -0}");
}

TEST(HloText, MakesUpElementsThatWereLeftOut) {
  const auto module =
      parse_module(module_of("  c = s32[1000] constant({...})\n  d = f32[2,2] constant({ {...}, {...} })"));
  ASSERT_TRUE(module) << module.error().to_string();
  const Instruction& constant = (*module)->entry_computation().instructions[2];
  EXPECT_TRUE(constant.as<ConstantAttributes>().elided);
  EXPECT_THAT(print(**module), HasSubstr("constant({...})"));
  expect_round_trip(print(**module));
}

TEST(HloText, RoundTripsAttributes) {
  expect_round_trip(R"(HloModule m
ENTRY main {
  x = f32[4,6] parameter(0)
  i = s32[3,1] parameter(1)
  s = f32[] parameter(2)
  p = pred[] parameter(3)
  a = f32[2,3] slice(x), slice={[0:4:2], [1:6:2]}
  b = f32[7,4] pad(x, s), padding=0_0_1x-1_-1
  c = f32[3,6] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
    slice_sizes={1,6}
  d = f32[4,6] scatter(x, i, c), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, unique_indices=true, to_apply=plus
  e = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}, operand_precision={highest,highest},
    algorithm=dot_f32_f32_f32
  e1 = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}, algorithm=dot_bf16_bf16_f32
  e2 = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}, algorithm=dot_f16_f16_f32
  f = f32[2,3] reduce-window(x, s), window={size=2x2 stride=2x2}, to_apply=plus
  g = f32[4,6] select-and-scatter(x, f, s), window={size=2x2 stride=2x2}, select=less, scatter=plus
  h = (f32[4,6], f32[4,6]) sort(x, x), dimensions={1}, is_stable=true, to_apply=less2
  v0 = f32[4] broadcast(s), dimensions={}
  h0 = f32[4,6] get-tuple-element(h), index=1
  j = f32[] conditional(p, s, s), true_computation=branch, false_computation=branch
  n = f32[2,5,4,4] broadcast(s), dimensions={}
  o = f32[3,3,2,6] broadcast(s), dimensions={}
  k = f32[2,3,4,6] convolution(n, o), window={size=3x3 stride=2x2 pad=1_1x0_2 lhs_dilate=1x2 rhs_reversal=0x1},
    dim_labels=b01f_01io->b01f, feature_group_count=2
  k1 = f32[2,3,2,6] convolution(n, o), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2,
    operand_precision={highest,highest}
  k2 = f32[2,3,2,6] convolution(n, o), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2,
    algorithm=dot_tf32_tf32_f32
  l = f32[4,6] reduce-precision(x), exponent_bits=5, mantissa_bits=10
  q = f32[3] custom-call(x), custom_call_target="@target", called_computations={%branch, %plus}, backend_config="a\"}"
  t = f32[4,6] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=plus, channel_id=1
  v = f32[4,4] cholesky(e), lower=true
  w = f32[4,6] triangular-solve(e, x), left_side=true, unit_diagonal=true, transpose_a=ADJOINT
  y = c64[4,4] fft(x), fft_type=RFFT, fft_length={4,6}
  z = (f32[4,6], f32[4], f32[4]) batch-norm-training(x, v0, v0), epsilon=1e-05, feature_index=0
  ROOT u = (f32[4,6], f32[4,6]) tuple(h0, l)
}
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }
plus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
branch { a = f32[] parameter(0) ROOT r = f32[] negate(a) }
less2 {
  a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}
)");
}

TEST(HloText, ReadsHowFarOperandsMayBeRounded) {
  using enum OperandPrecision;
  for (const auto& [more, precision] : std::initializer_list<std::pair<std::string, OperandPrecision>>{
           {"", Default},
           {", operand_precision={default,default}", Default},
           {", operand_precision={high,default}", Exact},
           {", operand_precision={highest,highest}", Exact},
           {", algorithm=dot_f32_f32_f32", Exact},
           {", operand_precision={highest,highest}, algorithm=dot_tf32_tf32_f32", Tf32},
           {", algorithm=dot_bf16_bf16_f32", Bf16},
           {", algorithm=dot_f16_f16_f32", F16}}) {
    const auto module =
        parse_module(module_of("  n = f32[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}" + more +
                               "\n  ROOT c = f32[3,2] convolution(x, n), dim_labels=fb_oi->bf" + more));
    ASSERT_TRUE(module) << module.error().to_string();
    const Computation& entry = (*module)->entry_computation();
    const Instruction &convolution = entry.root_instruction(), &dot = entry[convolution.operands[1]];
    EXPECT_EQ(dot.as<DotAttributes>().precision, precision) << more;
    EXPECT_EQ(convolution.as<ConvolutionAttributes>().precision, precision) << more;
    EXPECT_EQ(print(**parse_module(print(**module))), print(**module)) << more;
    EXPECT_EQ(allows_tf32(precision), precision == Tf32 || precision == Bf16 || precision == F16);
  }
}

TEST(HloText, KnowsItsOwnFiles) {
  EXPECT_TRUE(looks_like_module("// a comment\nHloModule m"));
  EXPECT_TRUE(looks_like_module("%add (a: f32[]) -> f32[] {"));
  EXPECT_TRUE(looks_like_module("fusion {\n p = f32[] parameter(0)"));
  EXPECT_FALSE(looks_like_module("graph g {\n  input A: f16[2]"));
  EXPECT_FALSE(looks_like_module("# comment\ngraph g {"));
  EXPECT_FALSE(looks_like_module(""));
}

struct Mistake {
  std::string text;   ///< the instructions after x and s, or a whole module
  std::string error;  ///< a part of the message, with its place
};

class HloMistake : public testing::TestWithParam<Mistake> {};

TEST_P(HloMistake, IsNamedWithItsPlace) {
  const std::string& text = GetParam().text;
  EXPECT_THAT(error_of(text.starts_with("HloModule") ? text : module_of(text)), HasSubstr(GetParam().error)) << text;
}

TEST(HloText, SaysThatStableHloIsNone) {
  for (const char* text : {"module @jit_f {\n}", "module attributes {a = 1 : i32} {\n}", "\n#loc = loc(unknown)\n"})
    EXPECT_THAT(error_of(text), testing::AllOf(HasSubstr("1: error: this is StableHLO"), HasSubstr("as_text(\"hlo\")")))
        << text;
  EXPECT_TRUE(parse_module("module { ROOT x = f32[] parameter(0) }"));  // a computation of this name
}

INSTANTIATE_TEST_SUITE_P(
    Texts, HloMistake,
    testing::Values(
        Mistake{"  y = f32[2,3] frobnicate(x)", "<input>:5:16: error: unknown operator 'frobnicate'"},
        Mistake{"  y = f99[2,3] negate(x)", "<input>:5:7: error: unknown element type 'f99'"},
        Mistake{"  y = f32[2,3] negate(z)", "<input>:5:23: error: 'z' is not defined here"},
        Mistake{"  y = f32[2,3] negate(f32[3] x)", "<input>:5:23: error: 'x' is f32[2,3], not f32[3]"},
        Mistake{"  y = f32[3] negate(x)",
                "<input>:5:3: error: y = negate: it is stated to be f32[3]; its operands make it f32[2,3]"},
        Mistake{"  y = f32[2,3] add(x, s)", "<input>:5:3: error: y = add: operands 0 and 1 differ: f32[2,3] and f32[]"},
        Mistake{"  y = f32[2,3] add(x)", "add: it takes 2 operands, and has 1"},
        Mistake{"  y = f32[2,3] not(x)", "not: it is not defined for f32"},
        Mistake{"  y = f32[2,3] negate(x), weird=3", "<input>:5:27: error: negate has no attribute 'weird'"},
        Mistake{"  y = f32[3,2] transpose(x)", "<input>:5:3: error: transpose needs dimensions="},
        Mistake{"  y = f32[3,2] transpose(x), dimensions={0,0}", "the dimension 0 is listed twice"},
        Mistake{"  y = f32[3,2] transpose(x), dimensions={0,2}", "the dimension 2 is outside the 2 dimensions"},
        Mistake{"  y = reshape(x)", "<input>:5:7: error: reshape needs its shape before it"},
        Mistake{"  y = add(x, s)", "<input>:5:3: error: y = add: operands 0 and 1 differ"},
        Mistake{"  y = map(x), to_apply=later", "<input>:5:24: error: 'later' is not defined before this call"},
        Mistake{"  y = f32[7] reshape(x)", "reshape: f32[7] does not have the 6 elements of f32[2,3]"},
        Mistake{"  y = f32[2,2] slice(x), slice={[0:2],[2:4]}", "[2:4:1] is no slice of dimension 1 of f32[2,3]"},
        Mistake{"  y = pred[2,3] compare(x, x), direction=XX",
                "<input>:5:32: error: a direction is EQ, NE, LT, LE, GT or GE"},
        Mistake{"  y = f32[2] constant({1, 2, 3})", "<input>:5:28: error: expected '}' after 2 elements, found ','"},
        Mistake{"  y = s8[] constant(300)", "<input>:5:21: error: a number does not fit s8"},
        Mistake{"  y = f32[] constant(abc)", "<input>:5:22: error: expected a number, found 'abc'"},
        Mistake{"  y = f32[1000000000] constant({1})", "the text ends before the 1000000000 elements"},
        Mistake{"  y = f32[<=4] negate(x)", "dynamic sizes are not supported"},
        Mistake{"  y = f32[99999999999,99999999999] negate(x)", "an array has more than 2^40 elements"},
        Mistake{"  y = f32[2,3]{0} negate(x)", "a layout is no permutation of the 2 dimensions"},
        Mistake{"  y = f32[2,3] call(x), to_apply=g", "<input>:5:34: error: there is no computation 'g'"},
        Mistake{"  y = f32[2] reduce(x, s), dimensions={1}", "reduce calls 0 computations"},
        Mistake{"  y = f32[2,3] negate(x)\n  y = f32[2,3] negate(x)", "<input>:6:3: error: 'y' is defined twice"},
        Mistake{"  ROOT y = f32[2,3] negate(x)\n  ROOT z = f32[2,3] negate(x)",
                "<input>:6:3: error: 'main' has two ROOTs"},
        Mistake{"  y = f32[2,3] parameter(1)", "parameter number 1 is taken"},
        Mistake{"  y = f32[2,3]{1,0:T(8,128)} copy(x)\n  z = f32[6] bitcast(y)",
                "<input>:6:3: error: a bitcast of a tiled layout"},
        Mistake{"  y = f32[2,3] negate(x), metadata={a=\"b}", "is not closed"},
        Mistake{"  y = f32[2,3] cholesky(x)",
                "<input>:5:3: error: y = cholesky: the operand is f32[2,3], no square matrix"},
        Mistake{"  c = s32[2,2] constant({{1,1},{1,1}})\n  y = s32[2,2] cholesky(c)",
                "<input>:6:3: error: y = cholesky: the operand has floats or complex numbers, not s32"},
        Mistake{"  a = f32[3,3] broadcast(s), dimensions={}\n"
                "  y = f32[2,3] triangular-solve(a, x), left_side=true, transpose_a=NO_TRANSPOSE",
                "a matrix of f32[3,3] does not fit right-hand sides of f32[2,3]\n"
                "  with left_side=true they have as many rows"},
        Mistake{"  a = f32[2,3,3] broadcast(s), dimensions={}\n"
                "  y = f32[2,3] triangular-solve(a, x), transpose_a=NO_TRANSPOSE",
                "the batches of f32[2,3,3] and f32[2,3] differ"},
        Mistake{"  a = f32[3,3] broadcast(s), dimensions={}\n  y = f32[2,3] triangular-solve(a, x)",
                "<input>:6:3: error: triangular-solve needs transpose_a="},
        Mistake{"  a = f32[3,3] broadcast(s), dimensions={}\n  y = f32[2,3] triangular-solve(a, x), transpose_a=YES",
                "<input>:6:40: error: transpose_a is one of NO_TRANSPOSE, TRANSPOSE, ADJOINT, not YES"},
        Mistake{"  y = c64[2,3] fft(x), fft_type=FFT, fft_length={3}",
                "the operand of this transform is c64 or c128, not f32"},
        Mistake{"  y = c64[2,3] fft(x), fft_type=RFFT, fft_length={4}",
                "fft_length has 4 where dimension 1 of f32[2,3] has size 3"},
        Mistake{"  y = c64[2,3] fft(x), fft_type=RFFT, fft_length={1,2,3}",
                "fft_length has 3 lengths, and the operand is f32[2,3]"},
        Mistake{"  c = c64[2,3] complex(x, x)\n  y = f32[2,6] fft(c), fft_type=IRFFT, fft_length={6}",
                "the innermost dimension of IRFFT's operand has half the length"},
        Mistake{"  y = c64[2,3] fft(x), fft_type=DCT, fft_length={3}", "fft_type is one of FFT, IFFT, RFFT, IRFFT"},
        Mistake{"  y = f32[2,3] batch-norm-inference(x, s, s, s, s), epsilon=1, feature_index=1",
                "operand 1 is f32[], not 3 floats"},
        Mistake{"  y = batch-norm-training(x, s, s), epsilon=1, feature_index=2",
                "feature_index=2 is no dimension of f32[2,3]"},
        Mistake{"  y = batch-norm-training(x, s, s), epsilon=x, feature_index=1",
                "<input>:5:45: error: expected a number"},
        Mistake{"HloModule m\nENTRY f {\n  x = f32[] parameter(0)\n",
                "<input>:4:1: error: expected '}' of 'f', found the end"},
        Mistake{"HloModule m\n", "the module has no computation"},
        Mistake{"HloModule m\nf { ROOT x = f32[] parameter(0) }\nf { ROOT x = f32[] parameter(0) }", "defined twice"},
        Mistake{"HloModule m\nf { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=f }", "'f' calls itself"},
        Mistake{"HloModule m\nf (x: f32[]) -> f32[2] { ROOT x = f32[] parameter(0) }",
                "<input>:2:17: error: the root of 'f' is f32[], not f32[2]"}));

TEST(HloText, NestingIsLimited) {
  std::string calls = "HloModule m\nf0 { ROOT x = f32[] parameter(0) }\n";
  for (int i = 1; i < 300; ++i) {
    calls += fmt::format("f{} {{ x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=f{} }}\n", i, i - 1);
  }
  EXPECT_THAT(error_of(calls), HasSubstr("<input>:203:36: error: calls are nested more than 200 deep"));
  std::string ones = "1";
  for (int i = 1; i < 100; ++i) ones += ",1";
  EXPECT_THAT(error_of(module_of("  y = f32[" + ones + "] negate(x)")), HasSubstr("more than 64 dimensions"));
  const std::string tuples = std::string(5000, '(') + "f32[]" + std::string(5000, ')');
  EXPECT_THAT(error_of(module_of("  y = " + tuples + " tuple(x)")), HasSubstr("tuples are nested too deeply"));
}

TEST(HloText, UnsupportedOperatorsParseAndAreNamedWhenTheyRun) {
  for (const auto& [instruction, error] :
       {std::pair{"y = f32[2,3] rng(s, s), distribution=rng_uniform",
                  "<input>:5:1: error: the interpreter does not support rng"},
        {"y = f32[3] custom-call(x), custom_call_target=\"there\"", "does not support custom-call to \"there\""}}) {
    const auto module = parse_module(module_of(instruction));
    ASSERT_TRUE(module) << module.error().to_string();
    expect_round_trip(print(**module));
    const auto value = evaluate(**module, typical_arguments((*module)->entry_computation(), 1));
    ASSERT_FALSE(value);
    EXPECT_THAT(value.error().to_string(), HasSubstr(error));
    EXPECT_EQ(value.error().code, ErrorCode::Unsupported);
  }
}

}  // namespace
}  // namespace strata::hlo
