// Reductions: which tiles are chosen, what code is emitted, and that it computes what the interpreter does.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>

#include "emitters/program.h"
#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

using hlo::Literal;
using testing::HasSubstr;

/// A computation `name` of two scalars.
std::string combiner(const std::string& name, const std::string& type, const std::string& op) {
  return name + " {\n  a = " + type + "[] parameter(0)\n  b = " + type + "[] parameter(1)\n  ROOT c = " + type + "[] " +
         op + "(a, b)\n}\n";
}

const std::string kCombiners = "HloModule m\n" + combiner("add", "f32", "add") + combiner("max", "f32", "maximum");

Result<EmittedFusion> emit(const std::string& text) {
  STRATA_TRY(const hlo::ModulePtr module, hlo::parse_module(text));
  EmitOptions options;
  options.only = "reduction";
  return emit_fusion(*module, module->entry, "kernel", options);
}

std::string detail(const EmittedFusion& kernel, const std::string& name) {
  for (const auto& [key, text] : kernel.decision().details) {
    if (key == name) return text;
  }
  return {};
}

/// The largest difference of two arrays of floats relative to their size, or 1 if others are not equal.
double difference(const Literal& a, const Literal& b) {
  if (!a.shape().is_array()) {
    double most = 0;
    for (size_t i = 0; i < a.elements().size(); ++i)
      most = std::max(most, difference(a.elements()[i], b.elements()[i]));
    return most;
  }
  if (hlo::is_complex(a.type())) {
    double most = 0;
    for (int64_t i = 0; i < a.size(); ++i) {
      const auto x = a.get<std::complex<float>>(i), y = b.get<std::complex<float>>(i);
      most = std::max(most, static_cast<double>(std::abs(x - y) / (1 + std::abs(y))));
    }
    return most;
  }
  if (!hlo::is_float(a.type())) return hlo::identical(a, b) ? 0 : 1;
  const auto value = [](const Literal& of, int64_t i) {
    return of.type() == hlo::ElementType::F64 ? of.get<double>(i) : static_cast<double>(of.get<float>(i));
  };
  double most = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = value(a, i), y = value(b, i);
    if (std::isnan(x) && std::isnan(y)) continue;
    const double error = x == y ? 0 : std::abs(x - y) / (1 + std::abs(y));
    most = std::max(most, std::isnan(error) ? 1 : error);
  }
  return most;
}

/// Runs the fusion by the reduction emitter on the CPU and compares with the interpreter.
void check(const std::string& text, const std::string& emitter, double bound = 1e-5, EmitOptions options = {}) {
  SCOPED_TRACE(text);
  const auto module = hlo::parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  options.only = "reduction";
  const auto program = emit_program(**module, options);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 1u);
  ASSERT_TRUE(program->steps[0].fusion) << program->steps[0].why_interpreted;
  if (!emitter.empty()) {
    EXPECT_EQ(program->steps[0].fusion->decision().emitter, emitter);
  }
  const std::vector<Literal> arguments = hlo::typical_arguments((*module)->entry_computation(), 7);
  const auto expected = hlo::evaluate(**module, arguments);
  ASSERT_TRUE(expected) << expected.error().to_string();
  const auto result = run_on_cpu(*program, arguments);
  ASSERT_TRUE(result) << result.error().to_string() << explain(*program);
  EXPECT_LE(difference(*result, *expected), bound) << explain(*program);
}

std::string sum(const std::string& operand, const std::string& result, const std::string& dims) {
  return kCombiners + "ENTRY e {\n  x = " + operand + " parameter(0)\n  z = f32[] constant(0.5)\n  ROOT r = " + result +
         " reduce(x, z), dimensions={" + dims + "}, to_apply=add\n}\n";
}

TEST(Reduction, Rows) {
  for (const int length : {129, 256, 300, 1000, 1024, 2051}) {
    check(sum(fmt::format("f32[5,{}]", length), "f32[5]", "1"), "row reduction");
  }
  check(sum("f32[2,3,4,5,67]", "f32[2,4]", "1,3,4"), "row reduction");
  check(sum("f32[3,300,7]{1,2,0}", "f32[3,7]", "1"), "row reduction");
}

TEST(Reduction, RowsOfSeveralPieces) {
  check(sum("f32[7,40,1089]", "f32[40]", "0,2"), "row reduction");
  check(sum("f32[7,3,5,2,400]", "f32[3,2]", "0,2,4"), "row reduction");
  check(sum("f32[5,31,3001]", "f32[31]", "0,2"), "row reduction");
  // Gone through again: in shared memory, or read again.
  for (const auto& [outer, rows, length] :
       {std::tuple(13, 31, 1089), std::tuple(5, 7, 1024), std::tuple(70, 3, 1201)}) {
    const std::string type = fmt::format("f32[{},{},{}]", outer, rows, length), kept = fmt::format("f32[{}]", rows);
    check(kCombiners + fmt::format("ENTRY e {{\n  x = {0} parameter(0)\n  z = f32[] constant(0)\n"
                                   "  m = {1} reduce(x, z), dimensions={{0,2}}, to_apply=max\n"
                                   "  ms = {0} broadcast(m), dimensions={{1}}\n  d = {0} subtract(x, ms)\n"
                                   "  s = {1} reduce(d, z), dimensions={{0,2}}, to_apply=add\n"
                                   "  ss = {0} broadcast(s), dimensions={{1}}\n  ROOT r = {0} divide(d, ss)\n}}\n",
                                   type, kept),
          "row reduction");
  }
}

TEST(Reduction, ShortRows) {
  for (const int length : {2, 3, 8, 17, 31, 32, 64, 128}) {
    check(sum(fmt::format("f32[37,{}]", length), "f32[37]", "1"), "multi-row reduction");
  }
  check(sum("f32[64]", "f32[]", "0"), "multi-row reduction");
}

TEST(Reduction, Columns) {
  for (const int width : {2, 3, 8, 31, 33, 64, 100, 256}) {
    for (const int height : {3, 16, 65, 200}) {
      if (width * height < 64) continue;
      check(sum(fmt::format("f32[{},{}]", height, width), fmt::format("f32[{}]", width), "0"), "column reduction");
    }
  }
  check(sum("f32[3,5,7,11]", "f32[5,11]", "0,2"), "column reduction");
}

std::string softmax(const std::string& shape, const std::string& rows) {
  return kCombiners + "ENTRY e {\n  x = " + shape + R"( parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  most = )" +
         rows + R"( reduce(x, low), dimensions={1}, to_apply=max
  wide = )" +
         shape + R"( broadcast(most), dimensions={0}
  d = )" +
         shape + R"( subtract(x, wide)
  e = )" +
         shape + R"( exponential(d)
  total = )" +
         rows + R"( reduce(e, zero), dimensions={1}, to_apply=add
  totals = )" +
         shape + R"( broadcast(total), dimensions={0}
  ROOT r = )" +
         shape + R"( divide(e, totals)
})";
}

/// Few columns of few terms in many places: a block has several places.
TEST(Reduction, ShortColumnsOfManyPlaces) {
  for (const auto& [places, length, columns] :
       {std::tuple(3001, 6, 6), std::tuple(977, 3, 2), std::tuple(1031, 16, 16), std::tuple(499, 31, 5)}) {
    check(sum(fmt::format("f32[{},{},{}]", places, length, columns), fmt::format("f32[{},{}]", places, columns), "1"),
          "column reduction");
  }
  // Other places inside of those, and terms of two dimensions.
  check(sum("f32[7,5,211,6]", "f32[7,211,6]", "1"), "column reduction");
  check(sum("f32[3,97,5,4]", "f32[97,4]", "0,2"), "column reduction");
}

TEST(Reduction, SoftmaxIsOneKernel) {
  for (const int length : {14, 32, 100, 128, 300, 1000, 1024, 2500, 40001}) {
    check(softmax(fmt::format("f32[5,{}]", length), "f32[5]"),
          length <= 32 || (length % 2 == 0 && length <= 128) ? "multi-row reduction" : "row reduction");
  }
}

TEST(Reduction, SoftmaxOfColumns) {
  std::string text = softmax("f32[40,6]", "f32[6]");
  for (size_t at = 0; (at = text.find("dimensions={1}")) != std::string::npos;) text[at + 12] = '#';
  for (size_t at = 0; (at = text.find("dimensions={0}")) != std::string::npos;) text[at + 12] = '1';
  for (size_t at = 0; (at = text.find("dimensions={#}")) != std::string::npos;) text[at + 12] = '0';
  check(text, "column reduction");
}

/// Mean and variance of the rows of `x`, both results and the normalised rows as outputs.
std::string layer_norm(int rows, int length, const std::string& type) {
  const std::string wide = fmt::format("f32[{},{}]", rows, length), row = fmt::format("f32[{}]", rows);
  const std::string narrow = fmt::format("{}[{},{}]", type, rows, length);
  return kCombiners + "ENTRY e {\n  p = " + narrow + " parameter(0)\n  w = f32[" + std::to_string(length) +
         "] parameter(1)\n  x = " + wide + " convert(p)\n  zero = f32[] constant(0)\n  n = f32[] constant(" +
         std::to_string(length) + ")\n  ns = " + row + " broadcast(n), dimensions={}\n  s = " + row +
         " reduce(x, zero), dimensions={1}, to_apply=add\n  mean = " + row + " divide(s, ns)\n  means = " + wide +
         " broadcast(mean), dimensions={0}\n  d = " + wide + " subtract(x, means)\n  d2 = " + wide +
         " multiply(d, d)\n  s2 = " + row + " reduce(d2, zero), dimensions={1}, to_apply=add\n  var = " + row +
         " divide(s2, ns)\n  eps = f32[] constant(1e-5)\n  epss = " + row +
         " broadcast(eps), dimensions={}\n  v = " + row + " add(var, epss)\n  rs = " + row +
         " rsqrt(v)\n  rss = " + wide + " broadcast(rs), dimensions={0}\n  y = " + wide +
         " multiply(d, rss)\n  ws = " + wide + " broadcast(w), dimensions={1}\n  yw = " + wide +
         " multiply(y, ws)\n  out = " + narrow + " convert(yw)\n  ROOT t = (" + narrow + ", " + row + ", " + row +
         ") tuple(out, mean, rs)\n}";
}

TEST(Reduction, LayerNormWithItsStatistics) {
  check(layer_norm(7, 384, "f32"), "row reduction");
  check(layer_norm(3, 1027, "f32"), "row reduction");
  check(layer_norm(3, 515, "bf16"), "row reduction", 1e-2);
  check(layer_norm(70, 24, "f16"), "multi-row reduction", 2e-3);
}

TEST(Reduction, VariadicWithAnyComputation) {
  const auto argmax = [](const std::string& shape, const std::string& rows, int dim) {
    return R"(HloModule m
pick {
  v0 = f32[] parameter(0)
  i0 = s32[] parameter(1)
  v1 = f32[] parameter(2)
  i1 = s32[] parameter(3)
  more = pred[] compare(v0, v1), direction=GT
  same = pred[] compare(v0, v1), direction=EQ
  first = pred[] compare(i0, i1), direction=LT
  tie = pred[] and(same, first)
  keep = pred[] or(more, tie)
  v = f32[] select(keep, v0, v1)
  i = s32[] select(keep, i0, i1)
  ROOT t = (f32[], s32[]) tuple(v, i)
}
ENTRY e {
  x = f32)" +
           shape + " parameter(0)\n  n = s32" + shape + " iota(), iota_dimension=" + std::to_string(dim) + R"(
  low = f32[] constant(-inf)
  none = s32[] constant(1000000)
  r = (f32)" +
           rows + ", s32" + rows + ") reduce(x, n, low, none), dimensions={" + std::to_string(dim) + R"(}, to_apply=pick
  v = f32)" +
           rows + " get-tuple-element(r), index=0\n  i = s32" + rows + R"( get-tuple-element(r), index=1
  ROOT t = (s32)" +
           rows + ", f32" + rows + ") tuple(i, v)\n}";
  };
  check(argmax("[6,1000]", "[6]", 1), "row reduction");
  check(argmax("[50,19]", "[50]", 1), "multi-row reduction");
  check(argmax("[301,12]", "[12]", 0), "column reduction");
}

TEST(Reduction, SeveralRootsAndSideOutputs) {
  const std::string text = kCombiners + R"(ENTRY e {
  x = f32[9,700] parameter(0)
  y = f32[9,700] parameter(1)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  p = f32[9,700] multiply(x, y)
  s = f32[9] reduce(p, zero), dimensions={1}, to_apply=add
  m = f32[9] reduce(x, low), dimensions={1}, to_apply=max
  half = f32[] constant(0.5)
  halves = f32[9] broadcast(half), dimensions={}
  a = f32[9] multiply(s, halves)
  flat = f32[6300] reshape(p)
  ROOT t = (f32[9], f32[6300], f32[9]) tuple(a, flat, m)
})";
  check(text, "row reduction");
}

/// Each thread adds up the few terms of an element of the row, whose arrays are larger than the row's own.
TEST(Reduction, ShortReductionsArePartsOfElements) {
  const auto text = [](const std::string& larger, const std::string& rows, const std::string& results,
                       const std::string& terms, const std::string& reduced) {
    return kCombiners + fmt::format(R"(ENTRY e {{
  x = {0} parameter(0)
  y = {1} parameter(1)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  s = {1} reduce(x, zero), dimensions={{{3}}}, to_apply=add
  n = {1} minimum(y, s)
  m = {2} reduce(n, low), dimensions={{{4}}}, to_apply=max
  t = {2} reduce(n, zero), dimensions={{{4}}}, to_apply=add
  ROOT all = ({1}, {2}, {2}) tuple(n, m, t)
}}
)",
                                    larger, rows, results, terms, reduced);
  };
  check(text("f32[5,1021,3]", "f32[5,1021]", "f32[5]", "2", "1"), "row reduction");
  check(text("f32[63,5,700]", "f32[5,700]", "f32[5]", "0", "1"), "row reduction");
  check(text("f32[301,12,5]", "f32[301,12]", "f32[12]", "2", "0"), "column reduction");
  check(kCombiners + R"(ENTRY alone {
  x = f32[500,40] parameter(0)
  zero = f32[] constant(0)
  ROOT s = f32[500] reduce(x, zero), dimensions={1}, to_apply=add
})",
        "multi-row reduction");
}

TEST(Reduction, EpiloguesOfOtherShapes) {
  const std::string text = kCombiners + R"(ENTRY e {
  x = f32[2,350,4] parameter(0)
  zero = f32[] constant(0)
  s = f32[2,4] reduce(x, zero), dimensions={1}, to_apply=add
  turned = f32[4,2] transpose(s), dimensions={1,0}
  three = f32[4,2,3] broadcast(turned), dimensions={0,1}
  back = f32[4,2,3] reverse(three), dimensions={0}
  ROOT t = (f32[4,2,3], f32[4,2]) tuple(back, turned)
})";
  check(text, "column reduction");
}

TEST(Reduction, TypesAndCombiners) {
  const auto text = [](const std::string& type, const std::string& op, const std::string& initial, int rows, int length,
                       int dim) {
    return "HloModule m\n" + combiner("op", type, op) +
           fmt::format(R"(ENTRY e {{
  x = {0}[{1},{2}] parameter(0)
  z = {0}[] constant({3})
  ROOT r = {0}[{4}] reduce(x, z), dimensions={{{5}}}, to_apply=op
}})",
                       type, rows, length, initial, dim == 0 ? length : rows, dim);
  };
  const auto all = [&](const std::string& type, const std::string& op, const std::string& initial, double bound) {
    check(text(type, op, initial, 3, 501, 1), "row reduction", bound);
    check(text(type, op, initial, 65, 12, 1), "multi-row reduction", bound);
    check(text(type, op, initial, 130, 40, 0), "column reduction", bound);
  };
  all("s32", "add", "3", 0);
  all("s32", "minimum", "9", 0);
  all("u8", "maximum", "1", 0);
  all("s64", "xor", "5", 0);
  all("u16", "and", "65535", 0);
  all("pred", "or", "false", 0);
  all("pred", "and", "true", 0);
  all("f64", "add", "0.25", 1e-12);
  all("f64", "maximum", "-inf", 0);
  all("f16", "maximum", "0", 0);
  all("bf16", "add", "0", 2e-2);
  all("f16", "add", "1", 4e-3);
  all("c64", "add", "(1, 2)", 1e-5);
}

TEST(Reduction, BlocksShareOutputsAtomically) {
  check(sum("f32[1,100003]", "f32[1]", "1"), "row reduction");
  check(sum("f32[50000]", "f32[]", "0"), "row reduction");
  check(sum("f32[9000,6]", "f32[6]", "0"), "column reduction");
  const auto kernel = emit(sum("f32[50000]", "f32[]", "0"));
  ASSERT_TRUE(kernel);
  ASSERT_EQ(kernel->decision().preparations.size(), 1u);
  EXPECT_EQ(kernel->decision().preparations[0].kind, Preparation::Kind::Fill);
  EXPECT_THAT(*kernel->text(Form::Mlir), HasSubstr("atomic_rmw add"));
}

TEST(Reduction, ManyArraysHaveFewThreads) {
  // Norms of `arrays` weights after a step, and the weights: a thread has a vector of each array.
  const auto text = [](int arrays, int length) {
    std::string body = kCombiners + "ENTRY e {\n  z = f32[] constant(0)\n", types, names;
    const std::string type = fmt::format("f32[{}]", length);
    for (int i = 0; i < arrays; ++i) {
      body += fmt::format(
          "  w{0} = {1} parameter({2})\n  g{0} = {1} parameter({3})\n  s{0} = {1} subtract(w{0}, g{0})\n"
          "  q{0} = {1} multiply(s{0}, s{0})\n  n{0} = f32[] reduce(q{0}, z), dimensions={{0}}, to_apply=add\n",
          i, type, 2 * i, 2 * i + 1);
      types += fmt::format("{}f32[], {}", i == 0 ? "" : ", ", type);
      names += fmt::format("{}n{}, s{}", i == 0 ? "" : ", ", i, i);
    }
    return body + fmt::format("  ROOT r = ({}) tuple({})\n}}\n", types, names);
  };
  const auto launch = [&](int arrays, int length) {
    const auto kernel = emit(text(arrays, length));
    EXPECT_TRUE(kernel) << kernel.error().to_string();
    return kernel ? kernel->decision().launch().threads : 0;
  };
  EXPECT_EQ(launch(1, 1 << 22), 1024);
  EXPECT_EQ(launch(5, 1 << 22), 512);  // 36 + 5 · 3 · 4 + 5 registers
  EXPECT_EQ(launch(12, 1 << 22), 256);
  EXPECT_EQ(launch(5, (1 << 22) + 1), 512);  // 4 elements one by one instead
  check(text(5, 50001), "row reduction");
  check(text(9, 50000), "row reduction");
}

TEST(Reduction, RandomShapesAndLayouts) {
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int done = 0;
  while (done < 40) {
    const int rank = 1 + below(4);
    std::vector<int64_t> dims, layout, reduced, kept;
    int64_t elements = 1;
    for (int d = 0; d < rank; ++d) {
      dims.push_back(std::vector<int64_t>{1, 2, 3, 7, 16, 33, 130}[static_cast<size_t>(below(7))]);
      elements *= dims.back();
      layout.push_back(d);
      (below(2) == 0 ? reduced : kept).push_back(d);
    }
    std::shuffle(layout.begin(), layout.end(), random);
    int64_t length = 1;
    for (const int64_t d : reduced) length *= dims[static_cast<size_t>(d)];
    if (elements < 64 || elements > 20000 || length == 1) continue;
    ++done;
    std::vector<int64_t> result;
    for (const int64_t d : kept) result.push_back(dims[static_cast<size_t>(d)]);
    const std::string text =
        kCombiners + fmt::format(R"(ENTRY e {{
  x = f32[{0}]{{{1}}} parameter(0)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  most = f32[{2}] reduce(x, low), dimensions={{{3}}}, to_apply=max
  wide = f32[{0}]{{{1}}} broadcast(most), dimensions={{{4}}}
  d = f32[{0}]{{{1}}} subtract(x, wide)
  s = f32[{2}] reduce(d, zero), dimensions={{{3}}}, to_apply=add
  m = f32[{2}] add(s, most)
  ROOT t = (f32[{2}], f32[{0}]{{{1}}}) tuple(m, d)
}})",
                                 fmt::join(dims, ","), fmt::join(layout, ","), fmt::join(result, ","),
                                 fmt::join(reduced, ","), fmt::join(kept, ","));
    check(text, "", 1e-4);
  }
}

/// Vectors begin at multiples of their length, wherever the rows do.
TEST(Reduction, RowsThatBeginAnywhere) {
  EmitOptions options;
  options.target.multiprocessors = 1;  // so that few rows are enough
  for (const int64_t length : {1025, 1026, 1027, 1030, 1031, 2049}) {
    const std::string size = std::to_string(length);
    check(sum("f32[7," + size + "]", "f32[7]", "1"), "row reduction", 1e-5, options);
    check(softmax("f32[5," + size + "]", "f32[5]"), "row reduction", 1e-5, options);
  }
  const std::string narrow = R"(
ENTRY e {
  n = bf16[9,1029] parameter(0)
  x = f32[9,1029] convert(n)
  zero = f32[] constant(0)
  s = f32[9] reduce(x, zero), dimensions={1}, to_apply=add
  wide = f32[9,1029] broadcast(s), dimensions={0}
  d = f32[9,1029] subtract(x, wide)
  y = bf16[9,1029] convert(d)
  ROOT t = (bf16[9,1029], f32[9]) tuple(y, s)
})";
  check(kCombiners + narrow, "row reduction", 1e-2, options);
  const auto module = hlo::parse_module(kCombiners + narrow);
  ASSERT_TRUE(module);
  options.only = "reduction";
  const auto kernel = emit_fusion(**module, (*module)->entry, "kernel", options);
  ASSERT_TRUE(kernel);
  EXPECT_THAT(*kernel->text(Form::Ptx), HasSubstr("ld.global.v4"));
  EXPECT_THAT(*kernel->text(Form::Ptx), HasSubstr("st.global.v4"));
}

/// What registers have no room for goes through shared memory.
TEST(Reduction, LongRows) {
  EmitOptions options;
  options.target.multiprocessors = 1;
  const auto in_both = [&](const std::string& text, int64_t in_registers, double bound = 1e-5) {
    check(text, "row reduction", bound, options);
    const auto module = hlo::parse_module(text);
    options.only = "reduction";
    const auto kernel = emit_fusion(**module, (*module)->entry, "kernel", options);
    EXPECT_THAT(detail(*kernel, "rows stay in"), testing::StartsWith(fmt::format("registers ({} of ", in_registers)));
    EXPECT_EQ(kernel->decision().launch().min_blocks, 2);
  };
  for (const int64_t length : {20000, 20001, 20003}) {
    in_both(softmax(fmt::format("f32[3,{}]", length), "f32[3]"), 7);
  }
  in_both(R"(
sum { a = f64[] parameter(0)  b = f64[] parameter(1)  ROOT r = f64[] add(a, b) }
ENTRY e {
  x = f64[2,9001] parameter(0)
  zero = f64[] constant(0)
  s = f64[2] reduce(x, zero), dimensions={1}, to_apply=sum
  wide = f64[2,9001] broadcast(s), dimensions={0}
  ROOT d = f64[2,9001] subtract(x, wide)
})",
          7);
  // Two arrays, one of them narrow; the other output is the sum.
  in_both(kCombiners + R"(
ENTRY e {
  n = bf16[2,15003] parameter(0)
  p = f32[2,15003] parameter(1)
  x = f32[2,15003] convert(n)
  y = f32[2,15003] multiply(x, p)
  zero = f32[] constant(0)
  s = f32[2] reduce(y, zero), dimensions={1}, to_apply=add
  wide = f32[2,15003] broadcast(s), dimensions={0}
  d = f32[2,15003] subtract(y, wide)
  r = bf16[2,15003] convert(d)
  ROOT t = (bf16[2,15003], f32[2]) tuple(r, s)
})",
          3, 1e-2);
  // All of it in registers.
  const auto kernel = emit(softmax("f32[528,12001]", "f32[528]"));
  ASSERT_TRUE(kernel);
  EXPECT_EQ(detail(*kernel, "rows stay in"), "registers or caches");
  EXPECT_EQ(kernel->decision().launch().min_blocks, 2);
}

TEST(Reduction, ResultsThatAreReadUnderConditions) {
  const auto kernel = emit(kCombiners + R"(ENTRY e {
  x = f32[40,30] parameter(0)
  y = f32[7] parameter(1)
  zero = f32[] constant(0)
  s = f32[40] reduce(x, zero), dimensions={1}, to_apply=add
  ROOT c = f32[47] concatenate(y, s), dimensions={0}
})");
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, HasSubstr("c needs reductions of several rows at a time"));
}

/// Rows no longer than a vector: a thread has one, though vectors do not divide it.
TEST(Reduction, RowsOfAThread) {
  const auto narrow = [](int rows, int length) {
    return fmt::format(
        "HloModule m\n{}ENTRY e {{\n  x = f16[{},{}] parameter(0)\n  z = f16[] constant(-inf)\n  ROOT r "
        "= f16[{}] reduce(x, z), dimensions={{1}}, to_apply=max\n}}\n",
        combiner("max", "f16", "maximum"), rows, length, rows);
  };
  for (const int length : {3, 5, 6, 7}) check(narrow(1001, length), "multi-row reduction");
  check(sum("f32[5,333,3]", "f32[5,333]", "2"), "multi-row reduction");
  check(sum("f32[5,333,3]", "f32[333]", "0,2"), "multi-row reduction");
  check(softmax("f32[1001,3]", "f32[1001]"), "multi-row reduction");
  const auto of_three = emit(sum("f32[4194304,3]", "f32[4194304]", "1"));
  ASSERT_TRUE(of_three) << of_three.error().to_string();
  EXPECT_EQ(detail(*of_three, "tiling"), "4194304x3 threads 256x1 unroll 4x3 vector 1x1, 4096 blocks");
  EXPECT_EQ(of_three->text(Form::Mlir)->find("strata.shuffle"), std::string::npos);
}

/// The tiles of the rows of the benchmark.
TEST(Reduction, Tiles) {
  const auto tiling = [](const std::string& text) {
    const auto kernel = emit(text);
    return kernel ? detail(*kernel, "tiling") : kernel.error().to_string();
  };
  EXPECT_EQ(tiling(sum("f32[16384,8192]", "f32[16384]", "1")),
            "16384x8192 threads 1x256 unroll 1x8 vector 1x4, 16384 blocks");
  EXPECT_EQ(tiling(sum("f32[4194304,32]", "f32[4194304]", "1")),
            "4194304x32 threads 64x4 unroll 2x2 vector 1x4, 32768 blocks");
  EXPECT_EQ(tiling(sum("f32[16384,8192]", "f32[8192]", "0")),
            "16384x8192 threads 64x16 unroll 32x1 vector 8x4, 128 blocks");
  // Rows of several pieces: threads along both, as few repetitions as can be.
  EXPECT_EQ(tiling(sum("f32[24,250,1089]", "f32[250]", "0,2")),
            "24x250x1089 threads 3x1x288 unroll 8x1x1 vector 1x1x4, 250 blocks");
  EXPECT_EQ(tiling(sum("f32[94805,6,6]", "f32[94805,6]", "1")),
            "94805x6x6 threads 128x1x3 unroll 1x1x1 vector 1x6x2, 741 blocks");
  EXPECT_EQ(tiling(softmax("f32[16384,4096]", "f32[16384]")),
            "16384x4096 threads 1x512 unroll 1x2 vector 1x4, 16384 blocks");
  const auto wide = emit(softmax("f32[4096,50257]", "f32[4096]"));
  ASSERT_TRUE(wide) << wide.error().to_string();
  EXPECT_EQ(tiling(softmax("f32[4096,50257]", "f32[4096]")),
            "4096x50257 threads 1x256 unroll 1x50 vector 1x4, 4096 blocks");
  EXPECT_EQ(detail(*wide, "rows stay in"), "registers (23 of 50 repetitions) and shared memory");
  EXPECT_THAT(*wide->text(Form::Mlir), HasSubstr("tensor<1x26705xf32, #strata.shared>"));
  // Rows too long for two blocks, for one, for any.
  EXPECT_EQ(tiling(softmax("f32[4096,80001]", "f32[4096]")),
            "4096x80001 threads 1x1024 unroll 1x20 vector 1x4, 4096 blocks");
  EXPECT_EQ(tiling(softmax("f32[4096,100001]", "f32[4096]")),
            "4096x100001 threads 1x512 unroll 1x49 vector 1x4, 4096 blocks");
  const auto longest = emit(softmax("f32[4096,200001]", "f32[4096]"));
  EXPECT_EQ(detail(*longest, "rows stay in"), "registers or caches");
  // Too few rows for two blocks a multiprocessor.
  const auto few = emit(softmax("f32[64,50256]", "f32[64]"));
  EXPECT_EQ(detail(*few, "rows stay in"), "shared memory");
}

TEST(Reduction, SaysWhyNot) {
  const auto why = [](const std::string& text) {
    const auto kernel = emit(text);
    return kernel ? "taken" : kernel.error().message;
  };
  EXPECT_THAT(why(sum("f32[5,7]", "f32[5]", "1")), HasSubstr("only 35 elements"));
  EXPECT_THAT(why(sum("f32[500,1]", "f32[500]", "1")), HasSubstr("reduces one element to one"));
  EXPECT_THAT(why("HloModule m\nENTRY e {\n  ROOT x = f32[8] parameter(0)\n}\n"), HasSubstr("there is no reduction"));
  // The sum of a row is used in another row.
  EXPECT_THAT(why(kCombiners + R"(ENTRY e {
  x = f32[40,40] parameter(0)
  zero = f32[] constant(0)
  s = f32[40] reduce(x, zero), dimensions={1}, to_apply=add
  across = f32[40,40] broadcast(s), dimensions={1}
  ROOT d = f32[40,40] subtract(x, across)
})"),
              HasSubstr("d has 40 elements for each reduced row"));
  EXPECT_THAT(why(kCombiners + R"(ENTRY e {
  x = f32[40,40] parameter(0)
  zero = f32[] constant(0)
  s = f32[40] reduce(x, zero), dimensions={1}, to_apply=add
  c = f32[40] reduce(x, zero), dimensions={0}, to_apply=add
  ROOT d = (f32[40], f32[40]) tuple(s, c)
})"),
              HasSubstr("reduce arrays of different shapes"));
  // Threads that sum the short rows one by one would each read sectors of their own.
  EXPECT_THAT(why(kCombiners + R"(ENTRY e {
  x = f32[5,1021,30] parameter(0)
  zero = f32[] constant(0)
  s = f32[5,1021] reduce(x, zero), dimensions={2}, to_apply=add
  low = f32[] constant(-inf)
  ROOT m = f32[5] reduce(s, low), dimensions={1}, to_apply=max
})"),
              HasSubstr("reduce arrays of different shapes"));
}

}  // namespace
}  // namespace strata::emitters
