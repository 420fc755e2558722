// What the model counts of a kernel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

#include "emitters/fusion/pass.h"
#include "hlo/text.h"

namespace strata::emitters {
namespace {

TEST(FusionWork, CountsThreadsThatWaitForTheirNeighbours) {
  const auto operations = [](std::string_view pad) {
    const auto module = hlo::parse_module(
        fmt::format("HloModule m\nENTRY e {{\n  x = f32[1024,512] parameter(0)\n  zero = f32[] constant(0)\n"
                    "  y = f32[1024,512] exponential(x)\n  ROOT p = {}\n}}\n",
                    pad));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target()).operations;
  };
  // Every second element of a row, or of the rows.
  const double parted = operations("f32[1024,1024] pad(y, zero), padding=0_0x0_1_1");
  const double whole = operations("f32[2048,512] pad(y, zero), padding=0_1_1x0_0");
  const double alone = 1024 * 512 * 12.0;
  EXPECT_GE(parted - whole, 0.9 * alone);
  EXPECT_LE(parted - whole, 1.2 * alone);
}

/// Padding changes what windows read at the edges alone: each place of a window reads nearly all of the array.
TEST(FusionWork, CountsAllPlacesOfPaddedWindows) {
  const auto operations = [](std::string_view window, int size) {
    const auto module = hlo::parse_module(fmt::format(R"(HloModule m
sum {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{
  x = f32[512,512] parameter(0)
  y = f32[512,512] sine(x)
  zero = f32[] constant(0)
  ROOT w = f32[{0},{0}] reduce-window(y, zero), window={{{1}}}, to_apply=sum
}})",
                                                      size, window));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target()).operations / (512.0 * 512);
  };
  const double sine = 40;
  const double padded = operations("size=7x7 pad=3_3x3_3", 512);
  EXPECT_GT(padded, 0.95 * operations("size=7x7", 506));
  EXPECT_GT(padded, 48 * sine);
  // By windows that lie beside each other each element is read once, by those over holes as often as without them:
  // by 9 windows of 3 x 3, though a window has 4 elements at most.
  EXPECT_LT(operations("size=2x2 stride=2x2 pad=1_1x1_1", 257), 1.2 * (sine + 5));
  EXPECT_LT(operations("size=3x3 pad=1_1x1_1 lhs_dilate=2x2", 1023), 9.1 * sine + 16 * 5);
  EXPECT_GT(operations("size=3x3 pad=1_1x1_1 lhs_dilate=2x2", 1023), 8.9 * sine);
}

/// Elements of one operand of a concatenation are not those of another, though both read an array at one index.
TEST(FusionWork, CountsWhatEachOperandOfAConcatenationReads) {
  const auto operations = [](std::string_view joined) {
    const auto module = hlo::parse_module(fmt::format(R"(HloModule m
ENTRY e {{
  x = f32[4096,2,64] parameter(0)
  y = f32[4096,2,64] sine(x)
  a = f32[4096,1,64] slice(y), slice={{[0:4096], [0:1], [0:64]}}
  b = f32[4096,1,64] slice(y), slice={{[0:4096], [1:2], [0:64]}}
  low = f32[4096,1,64] add(a, b)
  high = f32[4096,1,64] subtract(a, b)
  {}
}})",
                                                      joined));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target()).operations / (4096.0 * 2 * 64);
  };
  const double sine = 40;
  const double together = operations("ROOT r = (f32[4096,1,64], f32[4096,1,64]) tuple(low, high)");
  EXPECT_GT(together, sine);
  EXPECT_LT(together, 1.2 * sine);
  const double apart = operations("ROOT r = f32[8192,1,64] concatenate(low, high), dimensions={0}");
  EXPECT_GT(apart, 2 * sine);
  EXPECT_LT(apart, 2.2 * sine);
  // Every second run of 64: both sides are computed by the warp.
  const double parted = operations("ROOT r = f32[4096,2,64] concatenate(low, high), dimensions={1}");
  EXPECT_GT(parted, 4 * sine);
  EXPECT_LT(parted, 4.3 * sine);
}

/// Slices of one place each are of different elements, though their index is written without a variable there.
TEST(FusionWork, CountsEachPlaceThatSlicesAreOf) {
  const auto work = [](int places) {
    std::string text = "HloModule m\nENTRY e {\n  x = f32[32,65536] parameter(0)\n  y = f32[32,65536] sine(x)\n";
    for (int i = 0; i < places; ++i) {
      text += fmt::format("  s{0} = f32[1,65536] slice(y), slice={{[{0}:{1}], [0:65536]}}\n", i, i + 1);
      if (i > 0) text += fmt::format("  t{} = f32[1,65536] add({}{}, s{})\n", i, i == 1 ? "s" : "t", i - 1, i);
    }
    text += fmt::format("  ROOT r = f32[1,65536] negate(t{})\n}}\n", places - 1);
    const auto module = hlo::parse_module(text);
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target());
  };
  EXPECT_GT(work(20).operations, 20 * 40 * 65536.0);
  EXPECT_GT(work(20).code, 20 * 40.0);
  EXPECT_LT(work(20).code, 2.2 * work(10).code);
}

/// Atomic updates take their time whatever else the threads do: what is added up in place is computed meanwhile, though
/// that is done twice for windows of two.
TEST(Fusion, ScattersInPlaceComputeTheirUpdates) {
  const auto module = hlo::parse_module(R"(HloModule m
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[1000000] parameter(0)
  places = s32[1000000] parameter(1)
  zero = f32[] constant(0)
  zeros = f32[20000,2] broadcast(zero), dimensions={}
  a = f32[1000000] sine(x)
  b = f32[1000000] cosine(a)
  c = f32[1000000] sine(b)
  d = f32[1000000] cosine(c)
  f = f32[1000000] sine(d)
  g = f32[1000000] cosine(f)
  pairs = f32[1000000,2] broadcast(g), dimensions={0}
  ROOT s = f32[20000,2] scatter(zeros, places, pairs), update_window_dims={1}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const KernelWork work = kernel_work(**module, default_target());
  EXPECT_GT(work.update_microseconds, 15);
  EXPECT_EQ(fuse(**module, default_target()).size(), 1U);
}

/// The sums of three terms are no kernel of their own, though they read more than the reduction of rows.
TEST(Fusion, ShortReductionsJoinLongOnesThatReadLess) {
  const auto module = hlo::parse_module(R"(HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
most { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
ENTRY e {
  x = f32[5,1021,3] parameter(0)
  d = f32[5,1021] parameter(1)
  m = f32[5,3] parameter(2)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  b = f32[5,1021,3] broadcast(m), dimensions={0,2}
  s = f32[5,1021,3] subtract(x, b)
  q = f32[5,1021,3] multiply(s, s)
  r = f32[5,1021] reduce(q, zero), dimensions={2}, to_apply=sum
  n = f32[5,1021] minimum(d, r)
  f = f32[5] reduce(n, low), dimensions={1}, to_apply=most
  ROOT t = (f32[5,1021], f32[5]) tuple(n, f)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(fuse(**module, default_target(), Parameters::Kept).size(), 1U);
}

/// Outputs of all places and features share the images, and all images the filters.
TEST(FusionWork, CountsAllTermsOfPaddedConvolutions) {
  const auto module = hlo::parse_module(R"(HloModule m
ENTRY e {
  x = s8[4,16,16,32] parameter(0)
  w = s8[3,3,32,64] parameter(1)
  ROOT c = s32[4,16,16,64] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
})");
  ASSERT_TRUE(module) << module.error().message;
  const double terms = 4.0 * 16 * 16 * 64 * 9 * 32;
  EXPECT_GE(kernel_work(**module, default_target()).operations, 2 * terms);
  EXPECT_GE(kernel_work(**module, default_target()).cache_bytes, 2 * terms);
}

/// A scan's threads read each element once, however long its window is.
TEST(FusionWork, CountsOnceWhatAScanReads) {
  const auto module = hlo::parse_module(R"(HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[256,4096] parameter(0)
  y = f32[256,4096] sine(x)
  zero = f32[] constant(0)
  ROOT w = f32[256,4096] reduce-window(y, zero), window={size=1x4096 pad=0_0x4095_0}, to_apply=sum
})");
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(kernel_work(**module, default_target()).cache_bytes, 4 * 256.0 * 4096);
}

/// After a branch the elements of a thread's vector follow each other; without one they are computed together.
TEST(FusionWork, CountsBranchesOfAThreadOneAfterTheOther) {
  const auto longest = [](std::string_view type, int size, std::string_view y) {
    const auto module = hlo::parse_module(
        fmt::format("HloModule m\nENTRY e {{\n  x = {0}[1000] parameter(0)\n  zero = {0}[] constant(0)\n  y = {1}\n"
                    "  ROOT r = {0}[{2}] tanh(y)\n}}\n",
                    type, y, size));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target()).of_longest_thread;
  };
  const double plain = longest("f32", 1000, "f32[1000] negate(x)");
  EXPECT_GE(longest("f32", 1024, "f32[1024] pad(x, zero), padding=0_24"), 4 * plain);
  EXPECT_GE(longest("f16", 1024, "f16[1024] pad(x, zero), padding=0_24"), 8 * plain);
  EXPECT_LE(longest("f32", 1000, "f32[1000] reverse(x), dimensions={0}"), 2 * plain);
}

/// Threads of a loop follow the results: after a transpose each element is a sector, unless there is a tile for it.
TEST(FusionWork, CountsSectorsBehindTransposes) {
  constexpr double kElements = 1024 * 1000;
  const auto bytes = [](std::string_view what) {
    const auto module = hlo::parse_module(
        fmt::format("HloModule m\nENTRY e {{\n  x = bf16[1024,1000] parameter(0)\n  y = bf16[1000,1024] parameter(1)\n"
                    "  zero = bf16[] constant(0)\n  t = bf16[1000,1024] transpose(x), dimensions={{1,0}}\n{}\n}}\n",
                    what));
    EXPECT_TRUE(module) << module.error().to_string();
    return kernel_work(**module, default_target()).memory_bytes / kElements;
  };
  const auto is_about = [](double value, double expected) { return std::abs(value - expected) < 0.05 * expected; };
  // Tiles: of the results' own places, also of several results.
  EXPECT_PRED2(is_about, bytes("  ROOT s = bf16[1000,1024] add(t, y)"), 2 + 2 + 2);
  EXPECT_PRED2(is_about,
               bytes("  s = bf16[1000,1024] add(t, y)\n  n = bf16[1024,1000] negate(x)\n"
                     "  ROOT r = (bf16[1000,1024], bf16[1024,1000]) tuple(s, n)"),
               2 + 2 + 2 + 2);
  // None: beyond a pad, beside a result of another size, after another permutation's tile.
  EXPECT_PRED2(is_about, bytes("  ROOT p = bf16[1001,1024] pad(t, zero), padding=0_1x0_0"), 32 + 2);
  EXPECT_PRED2(is_about,
               bytes("  s = bf16[1000,1024] add(t, y)\n  c = bf16[500,1024] slice(y), slice={[0:500],[0:1024]}\n"
                     "  ROOT r = (bf16[1000,1024], bf16[500,1024]) tuple(s, c)"),
               32 + 2 + 2 + 1);
  // Two transposes are as none.
  EXPECT_PRED2(is_about,
               bytes("  p = bf16[1000,1026] pad(t, zero), padding=0_0x0_2\n"
                     "  q = bf16[1026,1000] transpose(p), dimensions={1,0}\n"
                     "  ROOT r = bf16[1028,1000] pad(q, zero), padding=0_2x0_0"),
               2 + 2);
  // Few elements that lie together, or fill sectors, are read as they are.
  EXPECT_PRED2(is_about,
               bytes("  k = bf16[16,64000] reshape(x)\n  l = bf16[64000,16] transpose(k), dimensions={1,0}\n"
                     "  ROOT p = bf16[64001,16] pad(l, zero), padding=0_1x0_0"),
               2 + 2);
}

/// Of a table the rows that are gathered, and the ends of sectors around them.
TEST(FusionWork, CountsRowsOfTables) {
  const auto bytes = [](std::string_view table, std::string_view sizes, std::string_view result) {
    const auto module = hlo::parse_module(fmt::format(
        "HloModule m\nENTRY e {{\n  t = {} parameter(0)\n  i = s32[1000,1] parameter(1)\n  ROOT g = {} gather(t, i), "
        "offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, "
        "slice_sizes={{{}}}\n}}\n",
        table, result, sizes));
    EXPECT_TRUE(module) << module.error().to_string();
    return kernel_work(**module, default_target()).memory_bytes;
  };
  EXPECT_NEAR(bytes("f32[100000,100]", "1,100", "f32[1000,100]"), 1000 * (416 + 400 + 4), 1000);
  EXPECT_NEAR(bytes("bf16[100000,1]", "1,1", "bf16[1000,1]"), 1000 * (32 + 2 + 4), 1000);
}

/// Of an array that is sliced what is taken, and the ends of sectors around rows.
TEST(FusionWork, CountsRowsOfSlices) {
  const auto bytes = [](std::string_view slice) {
    const auto module =
        hlo::parse_module(fmt::format("HloModule m\nENTRY e {{\n  x = f32[1000,100] parameter(0)\n{}}}\n", slice));
    EXPECT_TRUE(module) << module.error().to_string();
    return kernel_work(**module, default_target()).memory_bytes;
  };
  EXPECT_NEAR(bytes("  ROOT s = f32[200,100] slice(x), slice={[300:500], [0:100]}\n"), 2 * 200 * 400, 100);
  EXPECT_NEAR(bytes("  ROOT s = f32[1000,20] slice(x), slice={[0:1000], [7:27]}\n"), 1000 * (80 + 28 + 80), 100);
  EXPECT_NEAR(bytes("  ROOT s = f32[1000,5] slice(x), slice={[0:1000], [0:100:20]}\n"), 5000 * (32 + 4), 100);
  EXPECT_NEAR(bytes("  ROOT s = f32[1000,50] slice(x), slice={[0:1000], [0:100:2]}\n"), 50000 * (8 + 4), 100);
}

/// A transpose after pads is a kernel of its own: with them it would read a sector for each element.
TEST(Fusion, TransposesBehindPadsStayApart) {
  const auto module = hlo::parse_module(R"(HloModule m
ENTRY e {
  x = bf16[4780,896] parameter(0)
  y = bf16[4780,896] parameter(1)
  zero = bf16[] constant(0)
  t = bf16[896,4780] transpose(x), dimensions={1,0}
  u = bf16[896,4780] transpose(y), dimensions={1,0}
  a = bf16[1792,4780] pad(t, zero), padding=0_896x0_0
  b = bf16[1792,4780] pad(u, zero), padding=896_0x0_0
  ROOT s = bf16[1792,4780] add(a, b)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(fuse(**module, default_target()).size(), 3U);
}

TEST(FusionWork, CountsWhatComplexNumbersAreComputedBy) {
  const auto operations = [](std::string_view type, std::string_view op, std::string_view result) {
    const auto module = hlo::parse_module(fmt::format(
        "HloModule m\nENTRY e {{\n  x = {0}[1024] parameter(0)\n  ROOT y = {2}[1024] {1}\n}}\n", type, op, result));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target()).operations / 1024;
  };
  // In f64, with conversions; in f32 with a square root; of two numbers.
  EXPECT_GT(operations("c64", "multiply(x, x)", "c64"), 20 * operations("f32", "multiply(x, x)", "f32"));
  EXPECT_GT(operations("c64", "abs(x)", "f32"), operations("f32", "sqrt(x)", "f32"));
  EXPECT_LT(operations("c64", "add(x, x)", "c64"), 5);
}

/// Their code has 18 to 120 instructions an element, where an exponential's has 6, and twice as many in f64.
TEST(FusionWork, CountsInstructionsOfLongFunctions) {
  const auto operations = [](std::string_view type, std::string_view op) {
    const auto module = hlo::parse_module(fmt::format(
        "HloModule m\nENTRY e {{\n  x = {0}[1024] parameter(0)\n  ROOT y = {0}[1024] {1}(x)\n}}\n", type, op));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target()).operations / 1024;
  };
  for (const char* op : {"log-plus-one", "exponential-minus-one", "acos", "asinh", "cbrt", "sinh"}) {
    EXPECT_GT(operations("f32", op), 1.3 * operations("f32", "exponential")) << op;
    EXPECT_GT(operations("f64", op), 1.8 * operations("f32", op)) << op;
    EXPECT_LT(operations("f64", op), 300) << op;
  }
}

TEST(FusionWork, CountsOnceWhatStaysOnTheChip) {
  const auto work = [](int64_t rows, int64_t length) {
    const auto module = hlo::parse_module(fmt::format(R"(
max {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }}
sum {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{
  p = f32[{0},{1}] parameter(0)
  x = f32[{0},{1}] sine(p)
  least = f32[] constant(-inf)
  m = f32[{0}] reduce(x, least), dimensions={{1}}, to_apply=max
  ms = f32[{0},{1}] broadcast(m), dimensions={{0}}
  d = f32[{0},{1}] subtract(x, ms)
  e = f32[{0},{1}] exponential(d)
  zero = f32[] constant(0)
  s = f32[{0}] reduce(e, zero), dimensions={{1}}, to_apply=sum
  ss = f32[{0},{1}] broadcast(s), dimensions={{0}}
  ROOT y = f32[{0},{1}] divide(e, ss)
}})",
                                                      rows, length));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target());
  };
  const double sine = 40;
  // In registers: all of it is there once.
  const KernelWork registers = work(4096, 1024);
  const double few = 4096.0 * 1024;
  EXPECT_EQ(registers.cache_bytes, 4 * few);
  EXPECT_LT(registers.operations, 2 * sine * few);
  // In shared memory: each of the three passes computes it again.
  const KernelWork shared = work(4096, 24001);
  const double more = 4096.0 * 24001;
  EXPECT_EQ(shared.cache_bytes, 4 * more);
  EXPECT_GT(shared.operations, 3 * sine * more);
  // Too long for both.
  const KernelWork neither = work(512, 400001);
  EXPECT_EQ(neither.cache_bytes, 3 * 4 * 512.0 * 400001);
}

/// Warps whose threads take pieces beside each other wait for each piece's loads in turn, unless results are the
/// concatenation, whose threads have a piece each.
TEST(FusionWork, CountsWaitsForPiecesBesideEachOther) {
  const auto waits = [](int pieces, int64_t width, std::string_view rest) {
    std::string text, names;
    for (int i = 0; i < pieces; ++i) {
      text += fmt::format("p{0} = f32[4096,{1}] parameter({0}) ", i, width);
      names += fmt::format("{}p{}", i > 0 ? ", " : "", i);
    }
    const auto module = hlo::parse_module(
        fmt::format("sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }} ENTRY e {{ {}"
                    "c = f32[4096,{}] concatenate({}), dimensions={{1}} {} }}",
                    text, pieces * width, names, rest));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target()).waits;
  };
  const std::string_view sum =
      "zero = f32[] constant(0) ROOT s = f32[4096] reduce(c, zero), dimensions={1}, to_apply=sum";
  EXPECT_EQ(waits(20, 1, "ROOT n = f32[4096,20] negate(c)"), 0);
  EXPECT_EQ(waits(20, 1, sum), 4096 * 20 / 32 * 16);
  EXPECT_EQ(waits(3, 1, sum), 0) << "predicates";
  EXPECT_EQ(waits(2, 512, sum), 0) << "a warp is within one piece";
  // Of more pieces than the emitter of concatenations takes, a thread branches to each.
  EXPECT_GT(waits(70, 1, "ROOT n = f32[4096,70] negate(c)"), 0);
}

/// Threads of a reduction follow memory in one direction: what lies across it moves a sector an element.
TEST(FusionWork, CountsSectorsAcrossAReduction) {
  const auto bytes = [](std::string_view rest, std::string_view result) {
    const auto module = hlo::parse_module(fmt::format(R"(
sum {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{
  p = f32[4096,512] parameter(0)
  q = f32[512,4096] parameter(1)
  x = f32[4096,512] exponential(p)
  zero = f32[] constant(0)
  {}
  ROOT t = (f32[512], {}) tuple(s, y)
}})",
                                                      rest, result));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target()).memory_bytes;
  };
  const std::string_view sum = "s = f32[512] reduce(x, zero), dimensions={0}, to_apply=sum ";
  const double array = 4 * 4096.0 * 512, small = 4 * 512;
  const auto beside = [&](std::string_view y, std::string_view type) {
    return bytes(fmt::format("{} y = {} {}", sum, type, y), type) - small;
  };
  EXPECT_EQ(beside("negate(x)", "f32[4096,512]"), 2 * array);
  // Written across, and read across: q takes part in what is written along p.
  EXPECT_EQ(beside("transpose(x), dimensions={1,0}", "f32[512,4096]"), 9 * array);
  EXPECT_EQ(bytes(fmt::format("{} u = f32[4096,512] transpose(q), dimensions={{1,0}} y = f32[4096,512] add(x, u)", sum),
                  "f32[4096,512]") -
                small,
            10 * array);
  // All of it across: threads follow the array.
  EXPECT_EQ(bytes("t1 = f32[512,4096] transpose(x), dimensions={1,0} s = f32[512] reduce(t1, zero), dimensions={1}, "
                  "to_apply=sum y = f32[4096,512] negate(x)",
                  "f32[4096,512]") -
                small,
            2 * array);
  // A few elements beside each other are a sector's or less, however they lie.
  EXPECT_NEAR(bytes("s = f32[512] reduce(x, zero), dimensions={0}, to_apply=sum b = f32[4096,128,4] reshape(x) y = "
                    "f32[4096,4,128] transpose(b), dimensions={0,2,1}",
                    "f32[4096,4,128]") -
                  small,
              2 * array, 1);
}

/// What a row has several elements of beside each other its one thread reads and writes, a sector each. Where rows lie
/// beside each other, threads share sectors.
TEST(FusionWork, CountsSectorsOfRowsApart) {
  const auto bytes = [](std::string_view row, std::string_view wide, std::string_view kept, int reduced) {
    const auto module = hlo::parse_module(fmt::format(R"(
most {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }}
ENTRY e {{
  x = {0} parameter(0)
  y = {1} parameter(1)
  low = f32[] constant(-inf)
  m = f32[4096] reduce(x, low), dimensions={{{3}}}, to_apply=most
  b = {1} broadcast(m), dimensions={{{2}}}
  r = {1} multiply(b, y)
  ROOT t = (f32[4096], {1}) tuple(m, r)
}})",
                                                      row, wide, kept, reduced));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target()).cache_bytes;
  };
  constexpr double kRows = 4096, kSector = 32;
  EXPECT_EQ(bytes("f32[4096,80]", "f32[4096,15]", "0", 1), kRows * (80 * 4 + 15 * (kSector + kSector)));
  EXPECT_EQ(bytes("f32[80,4096]", "f32[15,4096]", "1", 0), kRows * (80 * 4 + 15 * 4));
}

/// What has more elements than the rows that it is made of is no part of their kernel, if its threads would write one
/// element after the other.
TEST(Fusion, RowsOfManyElementsAreAKernel) {
  const auto kernels = [](int rows) {
    const auto module = hlo::parse_module(fmt::format(R"(
most {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }}
ENTRY e {{
  x = f32[{0},80] parameter(0)
  y = f32[{0},15] parameter(1)
  low = f32[] constant(-inf)
  m = f32[{0}] reduce(x, low), dimensions={{1}}, to_apply=most
  b = f32[{0},15] broadcast(m), dimensions={{0}}
  ROOT r = f32[{0},15] multiply(b, y)
}})",
                                                      rows));
    EXPECT_TRUE(module) << module.error().message;
    return fuse(**module, default_target()).size();
  };
  EXPECT_EQ(kernels(65537), 2U);
  EXPECT_EQ(kernels(1000), 1U) << "a launch takes longer";
}

TEST(FusionWork, CountsAPassForAllItsReductions) {
  const auto work = [](int64_t length, const char* more) {
    const auto module = hlo::parse_module(fmt::format(R"(
sum {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{
  p = f32[4096,{0}] parameter(0)
  w = f32[{0}] parameter(1)
  ws = f32[4096,{0}] broadcast(w), dimensions={{1}}
  x = f32[4096,{0}] multiply(p, ws)
  zero = f32[] constant(0)
  m = f32[4096] reduce(x, zero), dimensions={{1}}, to_apply=sum
  ms = f32[4096,{0}] broadcast(m), dimensions={{0}}
  d = f32[4096,{0}] subtract(x, ms)
  y = f32[4096,{0}] sine(d)
  z = f32[4096,{0}] multiply(y, y)
  s = f32[4096] reduce(y, zero), dimensions={{1}}, to_apply=sum
  q = f32[4096] reduce(z, zero), dimensions={{1}}, to_apply=sum
  {1}
}})",
                                                      length, more));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target());
  };
  const double sine = 40, few = 4096.0 * 1024, many = 4096.0 * 24001;
  const char *sums = "ROOT t = (f32[4096], f32[4096]) tuple(s, q)",
             *rows = "ROOT t = (f32[4096], f32[4096], f32[4096,24001]) tuple(s, q, y)";
  EXPECT_LT(work(1024, sums).operations, 1.5 * sine * few);
  // The rows stay in shared memory, the weights do not: two passes, or three.
  EXPECT_LT(work(24001, sums).operations, 1.5 * sine * many);
  EXPECT_EQ(work(24001, sums).cache_bytes, (1 + 2) * 4 * many);
  EXPECT_GT(work(24001, rows).operations, 2 * sine * many);
  EXPECT_EQ(work(24001, rows).cache_bytes, (1 + 3) * 4 * many);
}

TEST(FusionWork, CountsThreadsThatComputeAProductsRows) {
  const auto operations = [](std::string_view rows, std::string_view type) {
    const auto module = hlo::parse_module(fmt::format(R"(
HloModule m
ENTRY e {{
  x = {1}[24,4,128] parameter(0)
  y = {1}[24,4,128] sine(x)
  w = {1}[24,5000,128] parameter(1)
  ROOT p = f32[24,4,5000] dot({0}, w), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
      rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
}})",
                                                      rows, type));
    EXPECT_TRUE(module) << module.error().message;
    return kernel_work(**module, default_target()).operations;
  };
  // The columns are shared by warps; of a fragment of eight rows each lane computes one, though there are four. Without
  // matrix instructions each lane computes all rows.
  const double sine = 40, elements = 24.0 * 4 * 128;
  const double shared = 5000.0 / (8 * 4);  // warps along the columns, of four a lane
  EXPECT_GE(operations("y", "bf16") - operations("x", "bf16"), 2 * shared * sine * elements);
  EXPECT_LE(operations("y", "bf16") - operations("x", "bf16"), 3 * shared * sine * elements);
  EXPECT_GE(operations("y", "f32") - operations("x", "f32"), 8 * shared * sine * elements);
}

}  // namespace
}  // namespace strata::emitters
