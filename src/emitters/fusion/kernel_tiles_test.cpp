#include "emitters/fusion/kernel_tiles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/fusion/pass.h"
#include "hlo/text.h"

namespace strata::emitters {
namespace {

/// Bytes that memory moves for a kernel of these instructions.
double moved(std::string_view instructions) {
  const auto module = hlo::parse_module(fmt::format(R"(
sum {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{
{} }})",
                                                    instructions));
  EXPECT_TRUE(module) << module.error().message;
  return kernel_work(**module, default_target()).memory_bytes;
}

constexpr double kArray = 4 * 4096.0 * 512;

TEST(KernelTiles, PartsAreOfWhateverStandsBetween) {
  // A quarter of the columns, 128 of them, through a conversion and a change of shape: of bf16.
  const double part = 4096 * 128 * 2, written = 4096 * 128 * 4;
  EXPECT_EQ(moved("p = bf16[4096,512] parameter(0) c = f32[4096,512] convert(p) "
                  "ROOT s = f32[4096,128] slice(c), slice={[0:4096], [128:256]}"),
            part + written);
  EXPECT_EQ(moved("p = bf16[4096,512] parameter(0) c = f32[4096,512] convert(p) r = f32[4096,4,128] reshape(c) "
                  "ROOT s = f32[4096,1,128] slice(r), slice={[0:4096], [1:2], [0:128]}"),
            part + written);
  // Two parts of one array, and the same part twice.
  EXPECT_EQ(moved("p = f32[4096,512] parameter(0) a = f32[4096,128] slice(p), slice={[0:4096], [0:128]} "
                  "b = f32[4096,128] slice(p), slice={[0:4096], [256:384]} ROOT s = f32[4096,128] add(a, b)"),
            kArray * 3 / 4);
  EXPECT_EQ(moved("p = f32[4096,512] parameter(0) a = f32[4096,128] slice(p), slice={[0:4096], [0:128]} "
                  "n = f32[4096,512] negate(p) b = f32[4096,128] slice(n), slice={[0:4096], [0:128]} "
                  "ROOT s = f32[4096,128] add(a, b)"),
            kArray / 2);
  // Of shifted parts that overlap all of it, once.
  EXPECT_EQ(moved("p = f32[4096,512] parameter(0) a = f32[4095,512] slice(p), slice={[0:4095], [0:512]} "
                  "b = f32[4095,512] slice(p), slice={[1:4096], [0:512]} ROOT s = f32[4095,512] add(a, b)"),
            kArray + 4 * 4095.0 * 512);
}

TEST(KernelTiles, StepsMoveWholeSectors) {
  const auto step = [](int stride) {
    return moved(fmt::format("p = f32[1048576] parameter(0) ROOT s = f32[{}] slice(p), slice={{[0:1048576:{}]}}",
                             1048576 / stride, stride));
  };
  EXPECT_NEAR(step(4), 4 * 1048576 + 1048576, 32);
  EXPECT_NEAR(step(64), 32.0 * 1048576 / 64 + 4.0 * 1048576 / 64, 32);
}

TEST(KernelTiles, GatheredRowsAreOfTheTableBeforeItsConversion) {
  const double rows = 64 * 512 * 2, indices = 64 * 4, written = 64 * 512 * 4;
  EXPECT_EQ(moved("p = bf16[4096,512] parameter(0) i = s32[64,1] parameter(1) c = f32[4096,512] convert(p) "
                  "ROOT g = f32[64,512] gather(c, i), offset_dims={1}, collapsed_slice_dims={0}, "
                  "start_index_map={0}, index_vector_dim=1, slice_sizes={1,512}"),
            rows + indices + written);
}

TEST(KernelTiles, ElementsByTwoIndicesAreSectors) {
  const std::string_view gather =
      ", offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, "
      "index_vector_dim=1, slice_sizes={1,1}";
  EXPECT_EQ(moved(fmt::format("p = f32[4,4000000] parameter(0) i = s32[65536,2] parameter(1) "
                              "ROOT g = f32[65536] gather(p, i){}",
                              gather)),
            65536 * (32 + 8 + 4));
  // One of each column, of another row.
  EXPECT_EQ(moved("p = f32[40960,512] parameter(0) i = s32[512,1] parameter(1) "
                  "ROOT g = f32[512] gather(p, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
                  "operand_batching_dims={1}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}"),
            512 * (32 + 4 + 4));
}

TEST(KernelTiles, LookupsByOtherIndicesAreOfOtherRows) {
  const auto lookup = [](std::string_view indices, std::string_view rest) {
    return fmt::format(
        "p = f32[1000000,16] parameter(0) i = s32[4096,1] parameter(1) j = s32[4096,1] parameter(2) "
        "a = f32[4096,16] gather(p, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
        "start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,16}} "
        "n = f32[1000000,16] negate(p) b = f32[4096,16] gather(n, {}), offset_dims={{1}}, "
        "collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,16}} {}",
        indices, rest);
  };
  const double rows = 4096 * 64, indices = 4096 * 4;
  EXPECT_EQ(moved(lookup("j", "ROOT s = f32[4096,16] add(a, b)")), 2 * rows + 2 * indices + rows);
}

TEST(KernelTiles, PartsThatAreReadAgainCountOnce) {
  // By several pieces of a concatenation, and overlapping ones.
  EXPECT_EQ(moved("p = f32[4096,512] parameter(0) s = f32[4096,128] slice(p), slice={[0:4096], [0:128]} "
                  "n = f32[4096,128] negate(s) ROOT c = f32[12288,128] concatenate(s, n, s), dimensions={0}"),
            kArray / 4 + 3 * kArray / 4);
  std::string text = "p = f32[16384,512] parameter(0) ";
  for (int i = 0; i < 3; ++i)
    text += fmt::format("s{0} = f32[4096,512] slice(p), slice={{[{0}:{1}], [0:512]}} ", i, 4096 + i);
  EXPECT_EQ(moved(text + "a = f32[4096,512] add(s0, s1) ROOT b = f32[4096,512] add(a, s2)"), 2 * kArray + 2 * 512 * 4);
}

TEST(KernelTiles, MorePartsMoveMore) {
  const auto parts = [](int count) {
    std::string text = "p = f32[4096,520] parameter(0) t = f32[520,4096] transpose(p), dimensions={1,0} ", names;
    for (int i = 0; i < count; ++i) {
      text += fmt::format("s{0} = f32[2,4096] slice(t), slice={{[{1}:{2}], [0:4096]}} ", i, 7 * i, 7 * i + 2);
      names += fmt::format("{}s{}", i > 0 ? ", " : "", i);
    }
    return moved(fmt::format("{}ROOT c = f32[{},4096] concatenate({}), dimensions={{0}}", text, 2 * count, names));
  };
  EXPECT_GT(parts(64), parts(60));
  EXPECT_GE(parts(66), parts(64)) << "of so many it is all of the array";
  EXPECT_GE(parts(70), parts(66));
}

TEST(KernelTiles, ReductionsReadAcrossWhatTheyTakeAlone) {
  // An eighth of a large array, transposed, beside twelve that lie along the rows.
  std::string text =
      "p = f32[512,32768] parameter(0) t = f32[32768,512] transpose(p), dimensions={1,0} "
      "x0 = f32[4096,512] slice(t), slice={[0:4096], [0:512]} ";
  for (int i = 1; i <= 12; ++i)
    text += fmt::format("p{0} = f32[4096,512] parameter({0}) x{0} = f32[4096,512] add(x{1}, p{0}) ", i, i - 1);
  const double bytes =
      moved(text + "zero = f32[] constant(0) ROOT s = f32[4096] reduce(x12, zero), dimensions={1}, to_apply=sum");
  EXPECT_NEAR(bytes, (12 + 8) * kArray + 4 * 4096, kArray / 100);
}

TEST(KernelTiles, ProductsShareWhatLiesAcrossTheirRows) {
  const double bytes = moved(
      "p = f32[512,4096] parameter(0) q = f32[512,128] parameter(1) ROOT d = f32[4096,128] "
      "dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}");
  EXPECT_LT(bytes, 1.5 * (kArray + 4 * 512 * 128 + 4 * 4096 * 128));
}

TEST(KernelTiles, TransposesThatUndoEachOtherMoveNothingMore) {
  const std::string_view sum = "zero = f32[] constant(0) s = f32[4096] reduce(x, zero), dimensions={1}, to_apply=sum ";
  const double small = 4 * 4096;
  const auto beside = [&](std::string_view y, std::string_view type) {
    return moved(
               fmt::format("x = f32[4096,512] parameter(0) {}{} ROOT t = (f32[4096], {}) tuple(s, y)", sum, y, type)) -
           small;
  };
  EXPECT_EQ(beside("a = f32[512,4096] transpose(x), dimensions={1,0} n = f32[512,4096] negate(a) "
                   "y = f32[4096,512] transpose(n), dimensions={1,0}",
                   "f32[4096,512]"),
            2 * kArray);
  // By thirds of a turn: the third one undoes the first two.
  const std::string_view thirds =
      "a = f32[16,256,512] reshape(x) b = f32[256,512,16] transpose(a), dimensions={1,2,0} n = f32[256,512,16] "
      "negate(b) "
      "c = f32[512,16,256] transpose(n), dimensions={1,2,0} ";
  EXPECT_EQ(beside(fmt::format("{} y = f32[16,256,512] transpose(c), dimensions={{1,2,0}}", thirds), "f32[16,256,512]"),
            2 * kArray);
  // Two of them: each element a sector, read or written.
  EXPECT_EQ(beside(fmt::format("{} y = f32[512,16,256] negate(c)", thirds), "f32[512,16,256]"), 9 * kArray);
}

TEST(KernelTiles, LoopsReadAcrossWhatIsNoTile) {
  // A loop's result lies along memory; its operand across it, before a slice that keeps nearly all.
  const double sliced = 4 * 4096.0 * 511;
  const double bytes = moved(
      "p = f32[4096,512] parameter(0) t = f32[512,4096] transpose(p), dimensions={1,0} "
      "ROOT s = f32[511,4096] slice(t), slice={[1:512], [0:4096]}");
  EXPECT_GT(bytes, 8 * sliced);
  EXPECT_LT(bytes, 10 * sliced);
  // The transpose itself has a tile.
  EXPECT_EQ(moved("p = f32[4096,512] parameter(0) ROOT t = f32[512,4096] transpose(p), dimensions={1,0}"), 2 * kArray);
}

}  // namespace
}  // namespace strata::emitters
