// Products and convolutions as work of the libraries: random ones, by libraries that compute on the host, against the
// interpreter.
#include "emitters/library/calls.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "emitters/library/test_library_calls.h"
#include "hlo/inline_calls.h"
#include "hlo/random_fusion.h"
#include "runtime/memory_layout.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

/// One dot of random dimension numbers, through transposes and with what may come behind it.
std::string random_dot(Random& random) {
  const auto any = [&](std::initializer_list<const char*> of) { return std::data(of)[random.below(of.size())]; };
  const std::string type = any({"f32", "bf16", "f16", "f64"});
  const bool widens = (type == "bf16" || type == "f16") && random.below(3) == 0;
  std::string result_type = widens ? "f32" : type;
  std::vector<int64_t> batch(random.below(3)), left(random.below(3)), right(random.below(3)),
      terms(1 + random.below(2));
  for (auto* sizes : {&batch, &left, &right}) {
    for (int64_t& size : *sizes) size = std::data({1, 2, 3, 4})[random.below(4)];
  }
  if (!left.empty()) left[0] = 24;
  if (!right.empty()) right[0] = 20;
  for (int64_t& size : terms) size = 3 + static_cast<int64_t>(random.below(6));
  const auto side = [&](const std::vector<int64_t>& free, std::vector<int64_t>& sizes, std::string& attributes,
                        const std::string& name) {
    // Places of batch, free and contracting dimensions.
    const auto count = static_cast<int64_t>(batch.size() + free.size() + terms.size());
    std::vector<int64_t> places(static_cast<size_t>(count));
    std::iota(places.begin(), places.end(), 0);
    places = shuffled(places, random);
    std::vector<int64_t> b(places.begin(), places.begin() + std::ssize(batch));
    std::vector<int64_t> c(places.end() - std::ssize(terms), places.end());
    std::vector<int64_t> f(places.begin() + std::ssize(batch), places.end() - std::ssize(terms));
    std::sort(f.begin(), f.end());
    sizes.assign(static_cast<size_t>(count), 0);
    for (size_t i = 0; i < b.size(); ++i) sizes[static_cast<size_t>(b[i])] = batch[i];
    for (size_t i = 0; i < c.size(); ++i) sizes[static_cast<size_t>(c[i])] = terms[i];
    for (size_t i = 0; i < f.size(); ++i) sizes[static_cast<size_t>(f[i])] = free[i];
    attributes += fmt::format(", {}_batch_dims={}, {}_contracting_dims={}", name, list(b), name, list(c));
  };
  std::vector<int64_t> x, y;
  std::string attributes;
  side(left, x, attributes, "lhs");
  side(right, y, attributes, "rhs");
  std::vector<int64_t> result = batch;
  result.insert(result.end(), left.begin(), left.end());
  result.insert(result.end(), right.begin(), right.end());
  std::string text = "HloModule m\n\nENTRY e {\n";
  const auto operand = [&](const std::string& name, int number, const std::vector<int64_t>& sizes) {
    if (random.below(2) == 0) {
      text += fmt::format("  {} = {}{} parameter({})\n", name, type, dims(sizes), number);
      return;
    }
    if (random.below(2) == 0) {
      // The inside of an array, whose rows begin at multiples of 16 bytes.
      std::vector<int64_t> whole;
      std::vector<std::string> ranges;
      for (size_t d = 0; d < sizes.size(); ++d) {
        const bool all = random.below(3) != 0, last = d + 1 == sizes.size();
        const int64_t start = all ? 0 : 8 * static_cast<int64_t>(random.below(3)), stride = all || last ? 1 : 2;
        const int64_t limit = start + (sizes[d] - 1) * stride + 1;
        whole.push_back(last ? (limit + 7) / 8 * 8 : limit);
        ranges.push_back(fmt::format("[{}:{}:{}]", start, limit, stride));
      }
      text += fmt::format("  {0}0 = {1}{2} parameter({3})\n  {0} = {1}{4} slice({0}0), slice={{{5}}}\n", name, type,
                          dims(whole), number, dims(sizes), fmt::join(ranges, ", "));
      return;
    }
    // Through a transpose, and a reshape that adds a dimension.
    std::vector<int64_t> order(sizes.size()), before(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    order = shuffled(order, random);
    for (size_t i = 0; i < order.size(); ++i) before[static_cast<size_t>(order[i])] = sizes[i];
    std::vector<int64_t> with_one = before;
    with_one.insert(with_one.begin() + static_cast<int64_t>(random.below(before.size() + 1)), 1);
    text += fmt::format("  {}0 = {}{} parameter({})\n  {}1 = {}{} reshape({}0)\n", name, type, dims(with_one), number,
                        name, type, dims(before), name);
    text += fmt::format("  {} = {}{} transpose({}1), dimensions={}\n", name, type, dims(sizes), name, list(order));
  };
  operand("x", 0, x);
  operand("y", 1, y);
  std::string array = result_type + dims(result);
  text += fmt::format("  d = {} dot(x, y){}\n", array, attributes);
  std::string last = "d";
  const auto rounded = [&](int chance) {
    if (result_type == type || random.below(chance) != 0) return;
    result_type = type;
    array = type + dims(result);
    text += fmt::format("  rounded = {} convert({})\n", array, last);
    last = "rounded";
  };
  rounded(4);
  if (!right.empty() && random.below(2) == 0) {
    std::vector<int64_t> of_right(right.size());
    std::iota(of_right.begin(), of_right.end(), std::ssize(batch) + std::ssize(left));
    const bool widened = result_type != type && random.below(2) == 0;
    text += fmt::format("  b{} = {}{} parameter(2)\n", widened ? "0" : "", widened ? type : result_type, dims(right));
    if (widened) text += fmt::format("  b = f32{} convert(b0)\n", dims(right));
    text += fmt::format("  bb = {} broadcast(b), dimensions={}\n  s = {} add({}, bb)\n", array, list(of_right), array,
                        last);
    last = "s";
  }
  rounded(2);
  if (random.below(3) == 0) {
    result.insert(result.begin() + static_cast<int64_t>(random.below(result.size() + 1)), 1);
    array = result_type + dims(result);
    text += fmt::format("  reshaped = {} reshape({})\n", array, last);
    last = "reshaped";
  }
  if (random.below(2) == 0) {
    text += fmt::format("  z = {}[] constant(0)\n  zz = {} broadcast(z), dimensions={{}}\n  r = {} maximum({}, zz)\n",
                        result_type, array, array, last);
    last = "r";
  }
  rounded(2);
  return text + fmt::format("  ROOT n = {} negate({})\n}}\n", array, last);
}

TEST_F(LibraryCallsTest, ALoopHandsOnAnArrayThatItUpdates) {
  const hlo::ModulePtr module = parsed(R"(HloModule m
condition {
  s = (f32[], f32[64,4], f32[64,4]) parameter(0)
  x = f32[] get-tuple-element(s), index=0
  limit = f32[] constant(100)
  ROOT c = pred[] compare(x, limit), direction=LT
}
body {
  s = (f32[], f32[64,4], f32[64,4]) parameter(0)
  x = f32[] get-tuple-element(s), index=0
  a = f32[64,4] get-tuple-element(s), index=1
  square = f32[] multiply(x, x)
  one = f32[] constant(1)
  next = f32[] add(square, one)
  row = f32[1,4] broadcast(next), dimensions={}
  zero = s32[] constant(0)
  updated = f32[64,4] dynamic-update-slice(a, row, zero, zero)
  ROOT r = (f32[], f32[64,4], f32[64,4]) tuple(next, updated, a)
}
ENTRY e {
  x = f32[] constant(0)
  a = f32[64,4] parameter(0)
  b = f32[64,4] parameter(1)
  s = (f32[], f32[64,4], f32[64,4]) tuple(x, a, b)
  ROOT w = (f32[], f32[64,4], f32[64,4]) while(s), condition=condition, body=body
}
)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(checked(*module, 1), "");
}

TEST_F(LibraryCallsTest, KernelsStartWhileTheOneBeforeThemRuns) {
  const hlo::ModulePtr module = parsed(R"(HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[64,64] parameter(0)
  rows = f32[64,64] sort(x), dimensions={1}, to_apply=less
  columns = f32[64,64] sort(rows), dimensions={0}, to_apply=less
  product = f32[64,64] dot(columns, columns), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT last = f32[64,64] sort(product), dimensions={1}, to_apply=less
}
)");
  ASSERT_NE(module, nullptr);
  // Nothing of ours is before the first; a library's kernels do not let the next one start.
  for (const auto& [arch, overlaps] : {std::pair("sm_90a", "-o-"), std::pair("sm_80", "---")}) {
    EmitOptions options;
    options.target = **find_target(arch);
    auto program = emit_program(*module, options, LibraryUse::WherePossible);
    ASSERT_TRUE(program) << program.error().to_string();
    const std::string log = (folder_.path() / arch).string();
    const auto runner = GpuRunner::load(*device_, *std::move(program), options,
                                        [&](const EmittedFusion&) { return Result<std::string>("log " + log + "\n"); });
    ASSERT_TRUE(runner) << runner.error().to_string();
    // Both ways take the same time here.
    ASSERT_TRUE((*runner)->choose_algorithms(nullptr));
    std::filesystem::remove(log);
    ASSERT_TRUE((*runner)->run(hlo::typical_arguments(module->entry_computation(), 1)));
    std::ifstream lines(log);
    std::string seen;
    for (std::string line; std::getline(lines, line);) seen += line.ends_with(" overlaps") ? 'o' : '-';
    EXPECT_EQ(seen, overlaps) << arch;
  }
}

TEST_F(LibraryCallsTest, RandomProductsAgreeWithTheInterpreter) {
  int by_library = 0;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(120)); ++seed) {
    Random random(seed);
    const std::string text = random_dot(random);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    const std::string wrong = checked(*module, seed);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << text << explained_;
    by_library += libraries_;
  }
  EXPECT_GE(by_library, rounds(20));
}

/// A product of slices of larger arrays, of which one operand or both may lie transposed.
std::string random_product_of_slices(Random& random) {
  const char* type = std::data({"bf16", "f32", "f64"})[random.below(3)];
  const auto any = [&](std::initializer_list<int64_t> of) { return std::data(of)[random.below(of.size())]; };
  const int64_t batch = any({1, 2, 3}), m = any({8, 24}), n = any({16, 40}), k = any({8, 32});
  std::string text = "HloModule m\n\nENTRY e {\n", terms;
  const auto operand = [&](const char* name, const char* side, int number, int64_t rows, int64_t columns,
                           bool terms_last) {
    const std::vector<int64_t> sizes{batch, rows, columns};
    std::vector<int64_t> whole;
    std::vector<std::string> ranges;
    for (const int64_t size : sizes) {
      const int64_t start = 8 * static_cast<int64_t>(random.below(2)), stride = whole.empty() ? any({1, 2}) : 1;
      const int64_t limit = start + (size - 1) * stride + 1;
      whole.push_back(limit + 8 * static_cast<int64_t>(random.below(2)));
      ranges.push_back(fmt::format("[{}:{}:{}]", start, limit, stride));
    }
    text += fmt::format("  {0}0 = {1}{2} parameter({3})\n  {0} = {1}{4} slice({0}0), slice={{{5}}}\n", name, type,
                        dims(whole), number, dims(sizes), fmt::join(ranges, ", "));
    terms += fmt::format(", {0}_batch_dims={{0}}, {0}_contracting_dims={{{1}}}", side, terms_last ? 2 : 1);
  };
  const bool x_last = random.below(2) == 0, y_last = random.below(2) == 0;
  operand("x", "lhs", 0, x_last ? m : k, x_last ? k : m, x_last);
  operand("y", "rhs", 1, y_last ? n : k, y_last ? k : n, y_last);
  return text + fmt::format("  ROOT d = {}{} dot(x, y){}\n}}\n", type, dims({batch, m, n}), terms);
}

TEST_F(LibraryCallsTest, RandomProductsOfSlicesAgreeWithTheInterpreter) {
  int inside = 0;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(60)); ++seed) {
    Random random(seed);
    const std::string text = random_product_of_slices(random);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    const std::string wrong = checked(*module, seed);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << text << explained_;
    inside += inside_;
  }
  EXPECT_GE(inside, rounds(40));
}

/// The library computes the transposed product, of the second operand by the first.
TEST_F(LibraryCallsTest, ResultsWhoseColumnsLieTogetherAreOfSwappedOperands) {
  const hlo::ModulePtr module = parsed(
      "HloModule m\nENTRY e {\n  a = f64[16,16,24]{0,2,1} parameter(0)\n  b = f64[18,24,16] parameter(1)\n"
      "  s = f64[16,24,16] slice(b), slice={[2:18], [0:24], [0:16]}\n"
      "  ROOT d = f64[16,16]{0,1} dot(a, s), lhs_contracting_dims={0,2}, rhs_contracting_dims={2,1}\n}\n");
  ASSERT_TRUE(module);
  EXPECT_EQ(checked(*module, 1), "") << explained_;
  EXPECT_EQ(libraries_, 1) << explained_;
}

/// One convolution of random dimension numbers and window.
std::string random_convolution(Random& random) {
  const auto one_of = [&](std::initializer_list<int64_t> of) { return std::data(of)[random.below(of.size())]; };
  const char* type = std::data({"f32", "bf16", "f16"})[random.below(3)];
  const size_t spatial = 1 + random.below(3);
  // A thread would have so many terms to add that a copy of an operand in another form is worth it.
  const bool large = random.below(4) == 0;
  const int64_t groups = one_of({1, 1, 2}), images = one_of({1, 2});
  const int64_t channels = groups * (large ? 256 : one_of({1, 3, 4})), filters = groups * one_of({2, 4});
  std::vector<int64_t> sizes, window, result, low, high, stride, dilation, reversed, base;
  const bool plain = random.below(2) == 0;
  const int64_t same_stride = one_of({1, 2}), same_padding = one_of({0, 1}), same_dilation = plain ? one_of({1, 2}) : 1;
  const bool uniform = random.below(3) != 0;
  for (size_t i = 0; i < spatial; ++i) {
    sizes.push_back(spatial == 3 ? one_of({4, 5, 6}) : one_of({7, 8, 9}));
    stride.push_back(uniform ? same_stride : one_of({1, 2, 3}));
    window.push_back(plain ? 3 : one_of({1, 2, 3}));
    low.push_back(plain ? (uniform ? same_padding : one_of({0, 1})) : one_of({0, 1, 2, -1}));
    high.push_back(plain ? low[i] : one_of({0, 1, 2}));
    dilation.push_back(same_dilation);
    reversed.push_back(plain ? 0 : one_of({0, 1}));
    base.push_back(plain ? 1 : one_of({1, 2}));
    const int64_t room = (sizes[i] - 1) * base[i] + 1 + low[i] + high[i] - (window[i] - 1) * dilation[i] - 1;
    result.push_back(room / stride[i] + 1);
  }
  // Letters of each tensor in a random order.
  const std::string numbers = std::string("012").substr(0, spatial);
  const auto labels = [&](const std::string& letters) {
    std::string all = letters + numbers;
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.below(i)]);
    return all;
  };
  const std::string x = labels("bf"), w = labels("io"), y = labels("bf");
  const auto shape = [&](const std::string& order, const std::map<char, int64_t>& of,
                         const std::vector<int64_t>& space) {
    std::vector<int64_t> all;
    for (const char letter : order)
      all.push_back(std::isdigit(letter) ? space[static_cast<size_t>(letter - '0')] : of.at(letter));
    return type + dims(all);
  };
  const auto join = [](const std::vector<int64_t>& of) { return fmt::format("{}", fmt::join(of, "x")); };
  std::string pads;
  for (size_t i = 0; i < spatial; ++i) pads += fmt::format("{}{}_{}", i == 0 ? "" : "x", low[i], high[i]);
  const std::string array = shape(y, {{'b', images}, {'f', filters}}, result);
  std::string text = "HloModule m\n\nENTRY e {\n";
  text += fmt::format("  x = {} parameter(0)\n", shape(x, {{'b', images}, {'f', channels}}, sizes));
  text += fmt::format("  w = {} parameter(1)\n", shape(w, {{'i', channels / groups}, {'o', filters}}, window));
  text += fmt::format(
      "  c = {} convolution(x, w), window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={} rhs_reversal={}}}, "
      "dim_labels={}_{}->{}, feature_group_count={}\n",
      array, join(window), join(stride), pads, join(base), join(dilation), join(reversed), x, w, y, groups);
  if (random.below(2) == 0) {
    text += fmt::format("  z = {0}[] constant(0)\n  zz = {1} broadcast(z), dimensions={{}}\n", type, array);
    return text + fmt::format("  ROOT r = {} maximum(zz, c)\n}}\n", array);
  }
  return text + fmt::format("  ROOT n = {} negate(c)\n}}\n", array);
}

TEST_F(LibraryCallsTest, RandomConvolutionsAgreeWithTheInterpreter) {
  int by_library = 0;
  int prepared = 0;  // of one dimension, or with filters reversed
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(80)); ++seed) {
    Random random(seed);
    const std::string text = random_convolution(random);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    const std::string wrong = checked(*module, seed);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << text << explained_;
    by_library += libraries_;
    prepared += libraries_ > 0 && text.find("size=3x3") == std::string::npos ? 1 : 0;
  }
  EXPECT_GE(by_library, rounds(15));
  EXPECT_GE(prepared, rounds(3));
}

TEST_F(LibraryCallsTest, ConvolutionsMayBeRoundedWhereTheModuleSaysSo) {
  // Forward in two dimensions and in one, with padding at one end; the gradients of filters and of images.
  const std::array<const char*, 4> kinds{
      "x = f32[4,32,16,16] parameter(0)\n w = f32[32,32,3,3] parameter(1)\n ROOT c = f32[4,32,16,16] "
      "convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01",
      "x = f32[4,32,9000] parameter(0)\n w = f32[32,32,3] parameter(1)\n ROOT c = f32[4,32,9000] "
      "convolution(x, w), window={size=3 pad=2_0}, dim_labels=bf0_oi0->bf0",
      "x = f32[4,32,16,16] parameter(0)\n w = f32[4,32,16,16] parameter(1)\n ROOT c = f32[32,32,3,3] "
      "convolution(x, w), window={size=16x16 pad=1_1x1_1}, dim_labels=fb01_io01->fb01",
      "x = f32[4,32,8,8] parameter(0)\n w = f32[32,32,2,2] parameter(1)\n ROOT c = f32[4,32,16,16] "
      "convolution(x, w), window={size=2x2 pad=1_1x1_1 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=bf01_io01->bf01"};
  const std::array<const char*, 4> parts{"", "", "filters of ", "images of "};
  for (size_t i = 0; i < kinds.size(); ++i) {
    for (const auto& [more, rounded] : {std::pair("", false),
                                        {", operand_precision={highest,highest}", false},
                                        {", algorithm=dot_tf32_tf32_f32", true}}) {
      const std::string text = fmt::format("ENTRY e {{\n {}{}\n}}", kinds[i], more);
      EXPECT_EQ(checked(*parsed(text), 1), "") << text << explained_;
      const std::string work = fmt::format("{}f32 {}", parts[i], rounded ? "as tf32 " : "");
      EXPECT_NE(explained_.find("cuDNN            " + work + "4×32×"), std::string::npos) << text << explained_;
    }
  }
  // Other types have nothing to round.
  const std::string narrow =
      "ENTRY e {\n x = bf16[4,32,16,16] parameter(0)\n w = bf16[32,32,3,3] parameter(1)\n ROOT c = "
      "bf16[4,32,14,14] convolution(x, w), window={size=3x3}, dim_labels=bf01_oi01->bf01, "
      "algorithm=dot_tf32_tf32_f32\n}";
  EXPECT_EQ(checked(*parsed(narrow), 1), "");
  EXPECT_NE(explained_.find("cuDNN            bf16 4×32×16×16"), std::string::npos) << explained_;
}

TEST_F(LibraryCallsTest, RandomModulesAgreeOnTheGpu) {
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(40)); ++seed) {
    hlo::RandomFusionOptions random;
    random.max_instructions = 8;
    const hlo::ModulePtr module = hlo::random_fusion(seed, random);
    const auto arguments = hlo::typical_arguments(module->entry_computation(), seed);
    if (!hlo::evaluate(*module, arguments)) continue;
    EXPECT_EQ(checked(*module, seed), "") << "seed " << seed << "\n" << hlo::print(*module);
  }
}

TEST(LibraryCalls, FiltersThatAreReversedAreTheLibrarysWhereItIsFaster) {
  // As JAX writes the gradient of images: a library takes the filters as an operator has reversed them.
  const auto work = [](const char* images, const char* filters, const char* more) {
    return explained_work(fmt::format(R"(ENTRY e {{
  x = {0} parameter(0)
  w = {1} parameter(1)
  r = {1} reverse(w), dimensions={{0,1}}
  ROOT c = {0} convolution(x, r), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f{2}
}})",
                                      images, filters, more));
  };
  EXPECT_EQ(work("bf16[32,56,56,256]", "bf16[3,3,256,256]", ""),
            "kernel; bf16 32×256×56×56 by 256×256×3×3, padding 1, channels last, algorithm 0; ");
  EXPECT_EQ(work("bf16[32,56,56,256]", "bf16[3,3,1,256]", ", feature_group_count=256"), "kernel; ");
}

TEST(LibraryCalls, ViewsNeedNoTransposes) {
  EXPECT_EQ(explained_work(R"(ENTRY e {
  x = f32[8,32,4,16] parameter(0)
  y = f32[8,4,32,16] parameter(1)
  xt = f32[8,4,32,16] transpose(x), dimensions={0,2,1,3}
  ROOT d = f32[8,4,32,32] dot(xt, y), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},
      lhs_contracting_dims={3}, rhs_contracting_dims={3}
})"),
            "kernel; 32 of f32 32×32×16, algorithm 0; ");  // two strides of batches
  EXPECT_EQ(explained_work(R"(ENTRY e {
  x = f32[32,4,16] parameter(0)
  y = f32[4,32,16] parameter(1)
  xt = f32[4,32,16] transpose(x), dimensions={1,0,2}
  ROOT d = f32[4,32,32] dot(xt, y), lhs_batch_dims={0}, rhs_batch_dims={0},
      lhs_contracting_dims={2}, rhs_contracting_dims={2}
})"),
            "4 of f32 32×32×16, algorithm 0; ");
  // One matrix for all: one product.
  EXPECT_EQ(explained_work(R"(ENTRY e {
  x = bf16[4,32,16] parameter(0)
  w = bf16[16,64] parameter(1)
  b = bf16[64] parameter(2)
  d = bf16[4,32,64] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  bb = bf16[4,32,64] broadcast(b), dimensions={2}
  ROOT s = bf16[4,32,64] add(bb, d)
})"),
            "bf16 128×64×16 with bias, algorithm 0; ");
}

TEST(LibraryCalls, SlicesOfArraysInMemoryNeedNoCopies) {
  // Of stacked weights, of columns of a product, and of rows with steps.
  const auto of_slice = [](const std::string& operand) {
    return explained_work("ENTRY e {\n  x = bf16[32,64] parameter(0)\n" + operand +
                          "  ROOT d = bf16[32,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}");
  };
  const std::string product = "bf16 32×128×64, algorithm 0; ";
  EXPECT_EQ(
      of_slice("  ws = bf16[3,64,128] parameter(1)\n  s = bf16[1,64,128] slice(ws), slice={[2:3], [0:64], [0:128]}\n"
               "  w = bf16[64,128] reshape(s)\n"),
      product);
  EXPECT_EQ(of_slice("  ws = bf16[64,512] parameter(1)\n  w = bf16[64,128] slice(ws), slice={[0:64], [256:384]}\n"),
            product);
  EXPECT_EQ(of_slice("  ws = bf16[256,128] parameter(1)\n  w = bf16[64,128] slice(ws), slice={[1:254:4], [0:128]}\n"),
            product);
  // Columns that begin at no multiple of 16 bytes, or rows, are slow: a copy is read.
  EXPECT_EQ(of_slice("  ws = bf16[64,513] parameter(1)\n  w = bf16[64,128] slice(ws), slice={[0:64], [0:128]}\n"),
            "kernel; " + product);
  EXPECT_EQ(of_slice("  ws = bf16[64,512] parameter(1)\n  w = bf16[64,128] slice(ws), slice={[0:64], [255:383]}\n"),
            "kernel; " + product);
  // What is computed for the slice alone is not computed as a whole.
  EXPECT_EQ(of_slice("  u = bf16[64,512] parameter(1)\n  ws = bf16[64,512] negate(u)\n"
                     "  w = bf16[64,128] slice(ws), slice={[0:64], [256:384]}\n"),
            "kernel; " + product);
}

constexpr const char* kGelu = R"(ENTRY e {
  x = f32[32,16] parameter(0)
  w = f32[16,64] parameter(1)
  d = f32[32,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  square = f32[32,64] multiply(d, d)
  cube = f32[32,64] multiply(d, square)
  c0 = f32[] constant(0.044715)
  c1 = f32[] constant(0.797884583)
  c2 = f32[] constant(1)
  c3 = f32[] constant(FACTOR)
  b0 = f32[32,64] broadcast(c0), dimensions={}
  b1 = f32[32,64] broadcast(c1), dimensions={}
  b2 = f32[32,64] broadcast(c2), dimensions={}
  b3 = f32[32,64] broadcast(c3), dimensions={}
  scaled = f32[32,64] multiply(cube, b0)
  sum = f32[32,64] add(d, scaled)
  inner = f32[32,64] multiply(sum, b1)
  tanh = f32[32,64] tanh(inner)
  one = f32[32,64] add(tanh, b2)
  half = f32[32,64] multiply(one, b3)
  ROOT g = f32[32,64] multiply(d, half)
})";

TEST_F(LibraryCallsTest, GeluIsTheLibrarysWhereItIsGelu) {
  std::string text = kGelu;
  text.replace(text.find("FACTOR"), 6, "0.5");
  EXPECT_EQ(explained_work(text), "f32 32×64×16 and gelu, algorithm 0; ");
  EXPECT_EQ(checked(*parsed(text), 1), "");
  text = kGelu;
  text.replace(text.find("FACTOR"), 6, "0.25");
  EXPECT_EQ(explained_work(text), "f32 32×64×16, algorithm 0; kernel; ");
}

/// A linear layer of 16 bits as addmm has it, of a bias of this type, and what comes behind it: of "v", bf16[2,16,64].
std::string linear(const std::string& bias, const std::string& behind) {
  const bool widens = bias != "f32";
  return fmt::format(R"(ENTRY e {{
  x = bf16[32,16] parameter(0)
  w = bf16[16,64] parameter(1)
  {} = {}[64] parameter(2)
{}  d = f32[32,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  bb = f32[32,64] broadcast(b), dimensions={{1}}
  s = f32[32,64] add(d, bb)
  n = bf16[32,64] convert(s)
  {}v = bf16[2,16,64] reshape(n)
{}}})",
                     widens ? "narrow" : "b", bias, widens ? "  b = f32[64] convert(narrow)\n" : "",
                     behind.empty() ? "ROOT " : "", behind);
}

TEST_F(LibraryCallsTest, ABiasOf16BitsIsAddedBeforeTheResultIsRounded) {
  EXPECT_EQ(explained_work(linear("bf16", "")), "bf16 32×64×16 with bias, algorithm 0; ");
  EXPECT_EQ(checked(*parsed(linear("bf16", "")), 1), "");
  // A bias of f32 would be rounded: then the result is of f32.
  EXPECT_EQ(explained_work(linear("f32", "")), "bf16 to f32 32×64×16 with bias, algorithm 0; kernel; ");
  EXPECT_EQ(checked(*parsed(linear("f32", "")), 1), "");
  const std::string relu =
      "  z = bf16[] constant(0)\n  zz = bf16[2,16,64] broadcast(z), dimensions={}\n"
      "  ROOT r = bf16[2,16,64] maximum(v, zz)\n";
  EXPECT_EQ(explained_work(linear("bf16", relu)), "bf16 32×64×16 with bias and relu, algorithm 0; ");
  EXPECT_EQ(checked(*parsed(linear("bf16", relu)), 1), "");
}

TEST_F(LibraryCallsTest, GeluOf16BitsIsTheLibrarysBehindABiasAndReshapes) {
  const auto gelu = [](const std::string& rounds, const std::string& also) {
    return linear("bf16", fmt::format(R"(  f = f32[2,16,64] convert(v)
  square = f32[2,16,64] multiply(f, f)
  cube = f32[2,16,64] multiply(f, square)
  c0 = f32[] constant(0.044715)
  c1 = f32[] constant(0.797884583)
  c2 = f32[] constant(1)
  c3 = f32[] constant(0.5)
  b0 = f32[2,16,64] broadcast(c0), dimensions={{}}
  b1 = f32[2,16,64] broadcast(c1), dimensions={{}}
  b2 = f32[2,16,64] broadcast(c2), dimensions={{}}
  b3 = f32[2,16,64] broadcast(c3), dimensions={{}}
  scaled = f32[2,16,64] multiply(cube, b0)
  sum = f32[2,16,64] add(f, scaled)
  inner = f32[2,16,64] multiply(sum, b1)
  tanh = f32[2,16,64] tanh(inner)
  one = f32[2,16,64] add(tanh, b2)
  half = f32[2,16,64] multiply(one, b3)
  g = f32[2,16,64] multiply(f, half)
  {}
)",
                                      also.empty() ? fmt::format("ROOT o = {} convert(g)", rounds) : also));
  };
  const std::string whole = gelu("bf16[2,16,64]", "");
  EXPECT_EQ(explained_work(whole), "bf16 32×64×16 with bias and gelu, algorithm 0; ");
  EXPECT_EQ(checked(*parsed(whole), 1), "");
  // What is not rounded to the operands' type, or read before, stays a kernel.
  EXPECT_EQ(explained_work(gelu("f16[2,16,64]", "")), "bf16 32×64×16 with bias, algorithm 0; kernel; ");
  EXPECT_EQ(
      explained_work(gelu("", "o = bf16[2,16,64] convert(g)\n  ROOT t = (bf16[2,16,64], bf16[2,16,64]) tuple(o, v)")),
      "bf16 32×64×16 with bias, algorithm 0; kernel; ");
}

TEST_F(LibraryCallsTest, KernelsStandInForALibraryThatIsMissing) {
  setenv("STRATA_CUBLAS_LT", "/nowhere/libcublasLt.so", 1);
  const hlo::ModulePtr module = parsed(R"(ENTRY e {
  x = f32[32,16] parameter(0)
  w = f32[16,64] parameter(1)
  ROOT d = f32[32,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  EXPECT_EQ(checked(*module, 1), "");
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("cannot be loaded"), std::string::npos) << notes_[0];
}

TEST(GpuMemoryLayout, WhatLivesAtTheSameTimeLiesApart) {
  // A chain of interpreted steps, each of which needs only the one before it.
  std::string text = "ENTRY e {\n  v0 = f32[1000] parameter(0)\n";
  for (int i = 0; i < 8; ++i)
    text += fmt::format("  {}v{} = f32[1000] sort(v{}), dimensions={{0}}, to_apply=less\n", i == 7 ? "ROOT " : "",
                        i + 1, i);
  const auto module = parsed(
      "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT c = pred[] compare(a, b), direction=LT\n}\n\n" +
      text + "}\n");
  const auto program = emit_program(*module);
  ASSERT_TRUE(program) << program.error().to_string();
  const auto image = image_of(*program, {}, [](const EmittedFusion&) { return Result<std::string>(""); });
  ASSERT_TRUE(image) << image.error().to_string();
  const MemoryLayout layout = layout_of(image->image.manifest);
  EXPECT_EQ(layout.input_bytes, 4096);
  EXPECT_EQ(layout.constant_bytes, 0);
  EXPECT_EQ(layout.separate_bytes, 8 * 4096);
  EXPECT_EQ(layout.working_bytes, 2 * 4096);
}

}  // namespace
}  // namespace strata::emitters
