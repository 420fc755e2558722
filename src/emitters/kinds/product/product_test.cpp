// Products of few rows, run on the processor and compared with the interpreter.
#include "emitters/kinds/product/product.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/fusion/pass.h"
#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

struct Example {
  std::string type = "bf16";    ///< of what is multiplied
  std::string stored = "bf16";  ///< of the weights as they are read
  std::string result = "bf16";  ///< of the product
  int64_t batch = 1, rows = 8, columns = 64, terms = 128;
  bool columns_inside = true;  ///< weights are [terms, columns], else [columns, terms]
  bool left = false;           ///< the weights are the first operand
  bool epilogue = false;       ///< scales of the columns, and a maximum
  int64_t group = 0;           ///< so many terms of a column have a scale of their own; 0: none
};

std::string text_of(const Example& of);

ProductTiling tiling_of(const Example& of) {
  const auto module = hlo::parse_module(text_of(of));
  EXPECT_TRUE(module) << module.error().to_string();
  const hlo::Computation& computation = (*module)->entry_computation();
  const auto shape = product_shape(computation, computation.root);
  EXPECT_TRUE(shape.has_value());
  return choose_product_tiling(computation, *shape, default_target());
}

TEST(ProductTiling, LanesAlongTheTermsReadWholeLines) {
  for (const int64_t rows : {2, 8, 16}) {
    for (const int64_t columns : {1024, 4096, 14336}) {
      const ProductTiling tiling =
          tiling_of({.rows = rows, .columns = columns, .terms = 4096, .columns_inside = false});
      EXPECT_EQ(4 * tiling.terms * 2, 128) << rows << " " << columns;
    }
  }
  // A vector of 8 where more do not share the terms evenly.
  EXPECT_EQ(tiling_of({.rows = 8, .columns = 4096, .terms = 72, .columns_inside = false}).terms, 8);
}

/// One wave and a bit more takes as long as two: smaller blocks are there all at once.
TEST(ProductTiling, BlocksAreThereAtOnceWhereThatKeepsMemoryBusy) {
  const Target& target = default_target();
  for (const int64_t columns : {9216, 11008, 12288}) {
    const auto module = hlo::parse_module(
        fmt::format("HloModule m\nENTRY e {{\n  x = bf16[16,4096] parameter(0)\n  w = bf16[4096,{0}] parameter(1)\n"
                    "  ROOT y = bf16[16,{0}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n",
                    columns));
    ASSERT_TRUE(module) << module.error().to_string();
    const hlo::Computation& computation = (*module)->entry_computation();
    const auto shape = product_shape(computation, computation.root);
    ASSERT_TRUE(shape.has_value());
    const ProductTiling tiling = choose_product_tiling(computation, *shape, target);
    const int64_t blocks = indexing::ceil_div(columns, tiling.block_columns());
    const int64_t resident = target.registers / (product_registers(tiling, *shape) * tiling.threads());
    EXPECT_LE(blocks, resident * target.multiprocessors) << columns;
  }
}

/// Sums of many rows take registers and shared memory, of which a block has its own.
TEST(ProductTiling, BlocksOfBytesHaveRoom) {
  const Target& target = default_target();
  for (const int64_t rows : {8, 24, 33, 64}) {
    for (const int64_t columns : {4096, 11008, 22016}) {
      const auto module = hlo::parse_module(text_of({"s8", "s8", "s32", 1, rows, columns, 4096}));
      ASSERT_TRUE(module) << module.error().to_string();
      const hlo::Computation& computation = (*module)->entry_computation();
      const auto shape = product_shape(computation, computation.root);
      ASSERT_TRUE(shape.has_value());
      const ProductTiling tiling = choose_product_tiling(computation, *shape, target);
      EXPECT_EQ(tiling.unit, ProductUnit::Bytes);
      EXPECT_EQ(tiling.terms, tiling.fragment_terms());
      EXPECT_GE(tiling.columns, 4);
      EXPECT_LE(product_registers(tiling, *shape) * tiling.threads(), target.registers) << rows << " " << columns;
      EXPECT_LE(product_shared_bytes(tiling, *shape, 4), target.shared_memory) << rows << " " << columns;
    }
  }
}

std::string text_of(const Example& of) {
  const auto array = [&](const std::string& type, std::vector<int64_t> dims) {
    if (of.batch > 1) dims.insert(dims.begin(), of.batch);
    return fmt::format("{}[{}]", type, fmt::join(dims, ","));
  };
  const std::vector<int64_t> stored =
      of.columns_inside ? std::vector{of.terms, of.columns} : std::vector{of.columns, of.terms};
  std::string text = "HloModule m\nENTRY e {\n";
  text += fmt::format("  x = {} parameter(0)\n  s = {} parameter(1)\n", array(of.type, {of.rows, of.terms}),
                      array(of.stored, stored));
  text += fmt::format("  w = {} {}(s)\n", array(of.type, stored), of.type == of.stored ? "copy" : "convert");
  if (of.group > 0) {  // without batches, columns inside
    const int64_t groups = of.terms / of.group;
    text += fmt::format(
        "  g = {0}[{1},{2}] parameter(2)\n  gs = {0}[{1},{3},{2}] broadcast(g), dimensions={{0,2}}\n  gw = "
        "{0}[{4},{2}] reshape(gs)\n  ww = {0}[{4},{2}] multiply(w, gw)\n",
        of.type, groups, of.columns, of.group, of.terms);
  }
  const int64_t base = of.batch > 1 ? 1 : 0;
  const std::string batch = of.batch > 1 ? ", lhs_batch_dims={0}, rhs_batch_dims={0}" : "";
  const int64_t of_x = base + 1, of_w = base + (of.columns_inside ? 0 : 1);
  const std::vector<int64_t> dims = of.left ? std::vector{of.columns, of.rows} : std::vector{of.rows, of.columns};
  text += fmt::format(
      "  {}d = {} dot({}), lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}{}\n", of.epilogue ? "" : "ROOT ",
      array(of.result, dims),
      of.left ? fmt::format("{}, x", of.group > 0 ? "ww" : "w") : fmt::format("x, {}", of.group > 0 ? "ww" : "w"),
      of.left ? of_w : of_x, of.left ? of_x : of_w, batch);
  if (of.epilogue) {
    const int64_t number = of.group > 0 ? 3 : 2;
    text += fmt::format(
        "  c = {0}[{1}] parameter({2})\n  cs = {3} broadcast(c), dimensions={{{4}}}\n  p = {3} multiply(d, cs)\n"
        "  ROOT r = {3} maximum(p, cs)\n",
        of.result, of.columns, number, array(of.result, dims), base + (of.left ? 0 : 1));
  }
  return text + "}\n";
}

/// What is wrong with the kernel that the product emitter makes of it; empty if nothing is.
std::string wrong(const std::string& text, uint64_t seed, const std::string& detail = "") {
  const auto module = hlo::parse_module(text);
  if (!module) return module.error().to_string();
  EmitOptions options;
  options.only = "product";
  const auto program = emit_program(**module, options);
  if (!program) return program.error().to_string();
  const std::string explained = explain(*program);
  if (program->steps.size() != 1) return "several steps:\n" + explained;
  if (explained.find(detail) == std::string::npos) return "no " + detail + ":\n" + explained;
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), seed);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto found = run_on_cpu(*program, arguments);
  if (!expected) return expected.error().to_string();
  if (!found) return found.error().to_string();
  const auto difference = hlo::difference(*found, *expected, 64);
  return difference ? *difference + "\n" + explained : "";
}

void check(const Example& example, const std::string& detail = "") {
  const std::string text = text_of(example);
  EXPECT_EQ(wrong(text, 3, detail), "") << text;
}

TEST(Products, MatrixInstructions) {
  for (const bool inside : {true, false}) {
    for (const char* type : {"bf16", "f16"}) {
      check({type, type, type, 1, 8, 64, 128, inside}, "matrix instructions");
      check({type, type, "f32", 1, 16, 96, 192, inside}, "matrix instructions");
      check({type, "s8", type, 1, 3, 256, 128, inside, false, true}, "matrix instructions");
    }
  }
}

TEST(Products, MultiplyAdds) {
  for (const bool inside : {true, false}) {
    check({"f32", "f32", "f32", 1, 16, 64, 96, inside}, "multiply-adds");
    check({"f32", "s8", "f32", 1, 5, 48, 128, inside, false, true}, "multiply-adds");
    check({"f64", "f64", "f64", 1, 2, 33, 70, inside}, "multiply-adds");
    check({"s32", "s8", "s32", 1, 7, 40, 100, inside}, "multiply-adds");
    check({"f32", "bf16", "f32", 3, 4, 40, 128, inside}, "multiply-adds");
  }
}

TEST(Products, OfBytes) {
  check({"s8", "s8", "s32", 1, 17, 144, 192, true, false, true}, "matrix instructions");
  // Columns and terms that are no multiples of anything; the last steps have no terms.
  check({"s8", "s8", "s32", 1, 33, 75, 101, true, true}, "matrix instructions");
  check({"s8", "s8", "s32", 1, kMostRowsOfBytes, 80, 200}, "matrix instructions");
  check({"s8", "s8", "s32", 1, 7, 48, 192, false}, "matrix instructions");
  check({"s8", "s8", "s32", 2, 16, 35, 67, false, true}, "matrix instructions");
  check({"s8", "s4", "s32", 1, 20, 96, 128, true, false, true}, "matrix instructions");
  check({"s8", "s8", "s8", 1, 5, 64, 96}, "multiply-adds");  // its sums wrap at 8 bits
}

TEST(Products, WeightsOfNarrowTypes) {
  for (const char* stored : {"s4", "u4", "s8", "f8e4m3fn", "f8e5m2"}) {
    for (const bool left : {false, true})
      check({"bf16", stored, "bf16", 1, 8, 272, 160, true, left, true}, "matrix instructions");
  }
  check({"bf16", "s8", "bf16", 1, 8, 128, 256, true, false, true, 64}, "matrix instructions");
}

TEST(Products, OddSizes) {
  for (const bool inside : {true, false}) {
    for (const int64_t rows : {1, 2, 9, 13}) {
      check({"bf16", "bf16", "bf16", 1, rows, 37, 67, inside, rows % 2 == 0, true});
      check({"f32", "f32", "f32", 2, rows, 35, 101, inside});
    }
  }
}

TEST(Products, AsManyRowsAsColumns) {
  for (const bool inside : {true, false}) {
    check({"f32", "f32", "f32", 1, 6, 6, 283, inside});
    check({"bf16", "bf16", "f32", 3, 16, 16, 100, inside}, "matrix instructions");
  }
}

TEST(Products, OfAnyShape) {
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(40)); ++seed) {
    Random random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
    Example it;
    const char* types[] = {"bf16", "f16", "f32", "f32"};
    const char* narrow[] = {"s8", "s4", "u8", "bf16"};
    it.type = types[below(4)];
    it.stored = below(2) == 0 ? it.type : narrow[below(it.type == "f32" ? 4 : 3)];
    it.result = below(2) == 0 ? it.type : "f32";
    it.batch = below(3) == 0 ? 1 + below(4) : 1;
    it.rows = 1 + below(16);
    it.columns = it.rows + 1 + below(below(2) == 0 ? 40 : 400);
    if (below(2) == 0) it.columns = (it.columns + 15) / 16 * 16;
    it.terms = 64 + below(200);
    if (below(2) == 0) it.terms = it.terms / 16 * 16;
    it.columns_inside = below(2) == 0;
    it.left = below(2) == 0;
    it.epilogue = below(2) == 0;
    check(it);
  }
}

/// Queries of a group of heads by the heads of keys: columns are as many as the keys, or terms.
TEST(Products, OfBatchesOfMoreRows) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Random random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
    Example it;
    it.type = it.stored = below(2) == 0 ? "bf16" : "f16";
    it.result = below(2) == 0 ? it.type : "f32";
    it.batch = 2 + below(2);
    it.rows = kMostRows + 1 + below(kMostRowsOfBatches - kMostRows);
    const int64_t size = 64 + below(40), keys = kFewestWeightsOfBatch / size + 1 + below(90);
    std::tie(it.columns, it.terms) = below(2) == 0 ? std::pair(size, keys) : std::pair(keys, size);
    it.columns_inside = below(2) == 0;
    it.left = below(2) == 0;
    it.epilogue = below(2) == 0;
    check(it, "matrix instructions");
  }
}

/// No number of rows up to the most is another kind of kernel; rows that fill no fragment are there too.
TEST(Products, OfHalvesOfMoreRows) {
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(16)); ++seed) {
    Random random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
    Example it;
    it.type = below(2) == 0 ? "bf16" : "f16";
    it.stored = below(3) == 0 ? "s8" : it.type;
    it.result = below(2) == 0 ? it.type : "f32";
    it.rows = kMostRows + 1 + below(kMostRowsOfHalves - kMostRows);
    it.columns = it.rows + below(100);
    if (below(2) == 0) it.columns = (it.columns + 31) / 32 * 32;
    it.terms = 64 + below(150);
    if (below(2) == 0) it.terms = it.terms / 16 * 16;
    it.columns_inside = below(2) == 0;
    it.left = below(2) == 0;
    it.epilogue = below(2) == 0;
    check(it, "matrix instructions");
  }
}

/// The blocks of hlo::expand_ragged_dots have no more rows than this emitter takes of gathered weights.
TEST(Products, OfGroupsReadTheWeightsOfTheirGroups) {
  for (const auto& [type, rows, product] :
       {std::tuple("bf16", 1500, "59 of 32x256x160"), {"f16", 8, "8 of 8x256x160"}, {"f32", 300, "30 of 16x256x160"}}) {
    const auto module = hlo::parse_module(fmt::format(
        "HloModule m\nENTRY e {{\n  x = {0}[{1},160] parameter(0)\n  w = {0}[13,160,256] parameter(1)\n  s = s32[13] "
        "parameter(2)\n  ROOT y = {0}[{1},256] ragged-dot(x, w, s), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{1}}, lhs_ragged_dims={{0}}, rhs_group_dims={{0}}\n}}\n",
        type, rows));
    ASSERT_TRUE(module) << module.error().to_string();
    const auto program = emit_program(**module, {});
    ASSERT_TRUE(program) << program.error().to_string();
    EXPECT_NE(explain(*program).find(product), std::string::npos) << explain(*program);
  }
}

/// One row more takes little longer, by the model: where a kernel has one more fragment of rows, or a library takes the
/// product instead.
TEST(Products, TakeLittleLongerForARowMore) {
  for (const bool inside : {true, false}) {
    for (const auto& [columns, terms] : {std::pair<int64_t, int64_t>{4096, 4096}, {950, 700}, {14336, 4096}}) {
      const auto microseconds = [&](int64_t rows) {
        const auto module = hlo::parse_module(fmt::format(
            "HloModule m\nENTRY e {{\n  x = f16[{0},{1}] parameter(0)\n  w = f16[{2}] parameter(1)\n  ROOT y = "
            "f16[{0},{3}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{4}}}\n}}\n",
            rows, terms, fmt::join(inside ? std::vector{terms, columns} : std::vector{columns, terms}, ","), columns,
            inside ? 0 : 1));
        EXPECT_TRUE(module) << module.error().to_string();
        const auto program = emit_program(**module, {});
        EXPECT_TRUE(program) << program.error().to_string();
        return estimated_microseconds(*program).value();
      };
      for (const int64_t rows : {8, 16, 24, 32, 48}) {
        EXPECT_LT(microseconds(rows + 1), 1.2 * microseconds(rows)) << rows << " " << columns << " " << inside;
      }
    }
  }
}

/// Each of few blocks reads all rows at the rate of a multiprocessor: 40 rows by 16 columns and 75,264 terms take what
/// the bytes of one block do, and a library may have it.
TEST(Products, OfFewColumnsWaitForTheirRows) {
  const Target& target = default_target();
  const auto module = hlo::parse_module(
      "HloModule m\nENTRY e {\n  x = bf16[75264,40] parameter(0)\n  w = bf16[75264,240] parameter(1)\n  ROOT y = "
      "bf16[40,240] dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n}\n");
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_GT(estimated_microseconds(**module, target), 1e6 * 75264 * 2 * 40 / target.rates.multiprocessor_bandwidth);
}

TEST(Products, OfBytesOfAnyShape) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Random random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
    Example it{"s8", below(3) == 0 ? "s4" : "s8", "s32"};
    it.columns_inside = below(3) > 0;
    it.rows = 1 + below(it.columns_inside ? kMostRowsOfBytes : kMostRows);
    it.columns = it.rows + 1 + below(200);
    if (below(2) == 0) it.columns = (it.columns + 15) / 16 * 16;
    it.terms = 64 + below(300);
    if (below(2) == 0) it.terms = it.terms / 16 * 16;
    it.left = below(2) == 0;
    it.epilogue = below(2) == 0;
    check(it, "matrix instructions");
  }
}

/// Bytes are read in vectors and turned by permutations, four columns' terms at a time.
TEST(Products, InstructionsForBytes) {
  for (const auto& [rows, load] : {std::pair(8, "v4.u32"), std::pair(33, "u64")}) {
    const auto module = hlo::parse_module(text_of({"s8", "s8", "s32", 1, rows, 22016, 4096}));
    ASSERT_TRUE(module) << module.error().to_string();
    const auto kernel = emit_fusion(**module, (*module)->entry, "fused", {.only = "product"});
    ASSERT_TRUE(kernel) << kernel.error().to_string();
    const auto ptx = kernel->text(Form::Ptx);
    ASSERT_TRUE(ptx) << ptx.error().to_string();
    for (const char* has : {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "prmt.b32", load})
      EXPECT_NE(ptx->find(has), std::string::npos) << has << *ptx;
    for (const char* without : {"ld.global.u8", "ld.global.nc.u8", "ld.global.u32", "ld.global.nc.u32", "bfe."})
      EXPECT_EQ(ptx->find(without), std::string::npos) << without << *ptx;
  }
}

/// Narrow integers become floats by byte permutations, and pairs of them words of the matrix instruction.
TEST(Products, InstructionsForNarrowIntegers) {
  const char* types[] = {"s8", "s4", "u8", "u4"};
  for (int i = 0; i < 8; ++i) {
    // Lanes read vectors of 8 bytes along the columns, of 32 along the terms.
    const bool columns_inside = i % 2 == 0;
    const auto module = hlo::parse_module(text_of({"bf16", types[i / 2], "bf16", 1, 8, 14336, 4096, columns_inside}));
    ASSERT_TRUE(module) << module.error().to_string();
    const auto kernel = emit_fusion(**module, (*module)->entry, "fused", {.only = "product"});
    ASSERT_TRUE(kernel) << kernel.error().to_string();
    const auto ptx = kernel->text(Form::Ptx);
    ASSERT_TRUE(ptx) << ptx.error().to_string();
    for (const char* has : {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "prmt.b32", "cvt.rn.bf16x2.f32"})
      EXPECT_NE(ptx->find(has), std::string::npos) << has << *ptx;
    for (const char* without : {"cvt.rn.bf16.s", "cvt.rn.bf16.u", "cvt.rn.f32.s", "cvt.rn.f32.u", "ld.global.u8"})
      EXPECT_EQ(ptx->find(without), std::string::npos) << without << *ptx;
  }
}

std::string refusal(const std::string& text) {
  const auto module = hlo::parse_module(text);
  if (!module) return module.error().to_string();
  const auto kernel = emit_fusion(**module, (*module)->entry, "fused", {.only = "product"});
  return kernel ? "" : kernel.error().message;
}

TEST(Products, ThatAreRefused) {
  const char* none = "no product of few rows and many terms stands behind all roots by operators that keep places";
  EXPECT_EQ(refusal(text_of({"f32", "f32", "f32", 1, 17, 64, 128})), none);
  EXPECT_EQ(refusal(text_of({"f32", "f32", "f32", 1, 8, 64, 63})), none);
  EXPECT_EQ(refusal(text_of({"bf16", "bf16", "bf16", 1, kMostRowsOfHalves + 1, 128, 128})), none);
  EXPECT_EQ(refusal(text_of({"bf16", "bf16", "bf16", 2, 17, 64, 128})), none);  // libraries have a block for each
  // Libraries take bytes whose terms lie together as they are.
  EXPECT_EQ(refusal(text_of({"s8", "s8", "s32", 1, 17, 64, 128, false})), none);
  EXPECT_EQ(refusal(text_of({"s8", "s8", "s32", 1, 65, 128, 128})), none);
  EXPECT_EQ(refusal("HloModule m\nENTRY e { ROOT x = f32[4] parameter(0) }\n"), "there is no product");
  EXPECT_EQ(
      refusal("HloModule m\nENTRY e {\n x = f32[4,128] parameter(0)\n y = f32[128,64] parameter(1)\n d = f32[4,64] "
              "dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n n = f32[4,128] negate(x)\n ROOT t "
              "= (f32[4,64], f32[4,128]) tuple(d, n)\n}\n"),
      "some results are not computed of the product");
}

TEST(Products, AreComputedOnce) {
  // The maximum of its rows reads the product at other places.
  EXPECT_EQ(refusal("HloModule m\nmost { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n"
                    "ENTRY e {\n x = f32[4,128] parameter(0)\n y = f32[128,8] parameter(1)\n d = f32[4,8] dot(x, y), "
                    "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n i = f32[] constant(-inf)\n m = f32[4] "
                    "reduce(d, i), dimensions={1}, to_apply=most\n ms = f32[4,8] broadcast(m), dimensions={0}\n ROOT s "
                    "= f32[4,8] subtract(d, ms)\n}\n"),
            "d would be computed by single threads");
}

/// The steps of a program in which libraries take what they do sooner.
std::string explained(const Example& example) {
  const auto module = hlo::parse_module(text_of(example));
  if (!module) return module.error().to_string();
  const auto program = emit_program(**module, {}, LibraryUse::WhereFaster);
  return program ? explain(*program) : program.error().to_string();
}

TEST(Products, NarrowWeightsAreReadAsTheyAre) {
  // One kernel: conversion, product and scales.
  for (const char* stored : {"s4", "s8", "f8e4m3fn"}) {
    const std::string text = explained({"bf16", stored, "bf16", 1, 8, 14336, 4096, true, false, true});
    EXPECT_NE(text.find("emitter          product"), std::string::npos) << text;
    EXPECT_EQ(text.find("cuBLASLt "), std::string::npos) << text;
    EXPECT_EQ(text.find("emitter          loop"), std::string::npos) << text;
  }
  // Bytes whose columns lie together: a library would want them transposed, and rows and columns padded.
  for (const int64_t rows : {5, 24, 33, 64}) {
    const std::string text = explained({"s8", "s8", "s32", 1, rows, 3001, 4099, true, false, true});
    EXPECT_NE(text.find("emitter          product"), std::string::npos) << text;
    EXPECT_EQ(text.find("cuBLASLt "), std::string::npos) << text;
    EXPECT_EQ(text.find("emitter          transpose"), std::string::npos) << text;
  }
  EXPECT_NE(explained({"s8", "s8", "s32", 1, 33, 4096, 4096, false}).find("cuBLASLt"), std::string::npos);
  // Five queries of each of six heads, for 12 heads of keys: a library would have 12 blocks.
  const std::string values = explained({"bf16", "bf16", "bf16", 12, 30, 128, 1777});
  EXPECT_NE(values.find("emitter          product"), std::string::npos) << values;
  // Many rows are the library's.
  EXPECT_NE(explained({"bf16", "s8", "bf16", 1, 512, 14336, 4096, true, false, true}).find("cuBLASLt"),
            std::string::npos);
}

}  // namespace
}  // namespace strata::emitters
