// Fourier transforms and gradients of convolutions as work of libraries: random ones, by libraries that compute on the
// host, against the interpreter.
#include <map>

#include "emitters/library/test_library_calls.h"

namespace strata::emitters {
namespace {

/// A gradient of a random convolution as JAX writes it, with dimensions in a random order.
std::string random_gradient(Random& random, bool of_filters) {
  const auto one_of = [&](std::initializer_list<int64_t> of) { return std::data(of)[random.below(of.size())]; };
  const std::string type = std::data({"f32", "bf16", "f16"})[random.below(3)];
  const int64_t groups = of_filters ? one_of({1, 1, 2}) : 1;
  const int64_t images = one_of({8, 16}), channels = groups * one_of({4, 8});
  // Of images each element is a sum over filters: of many, as what is small stays a loop.
  const int64_t filters = groups * (of_filters ? one_of({4, 16}) : one_of({16, 48}));
  const size_t spatial = 2 + random.below(2);
  std::vector<int64_t> size, filter, low, high, result, stride, dilation;
  const bool same = random.below(2) == 0;
  for (size_t i = 0; i < spatial; ++i) {
    const bool as_first = i > 0 && same;
    stride.push_back(as_first ? stride[0] : of_filters || i > 0 ? one_of({1, 2}) : 2);
    dilation.push_back(as_first ? dilation[0] : one_of({1, 1, 2}));
    filter.push_back(as_first ? filter[0] : one_of({1, 2, 3}));
    size.push_back(spatial == 3 ? one_of({5, 6, 7}) : one_of({8, 9, 11}));
    low.push_back(as_first ? low[0] : std::min(one_of({0, 1, 1}), (filter[i] - 1) * dilation[i]));
    high.push_back(one_of({low[i], low[i], 1}));
    result.push_back((size[i] + low[i] + high[i] - (filter[i] - 1) * dilation[i] - 1) / stride[i] + 1);
  }
  const auto shape = [&](const std::string& labels, const std::map<char, int64_t>& of,
                         const std::vector<int64_t>& space) {
    std::vector<int64_t> all;
    for (const char c : labels) all.push_back(std::isdigit(c) ? space[static_cast<size_t>(c - '0')] : of.at(c));
    return type + dims(all);
  };
  const auto any_order = [&](std::string labels) {
    labels += std::string("012").substr(0, spatial);
    for (size_t i = labels.size(); i > 1; --i) std::swap(labels[i - 1], labels[random.below(i)]);
    return labels;
  };
  const auto join = [](const std::vector<int64_t>& of) { return fmt::format("{}", fmt::join(of, "x")); };
  const auto pads = [&](const std::vector<int64_t>& before, const std::vector<int64_t>& behind) {
    std::string all;
    for (size_t i = 0; i < spatial; ++i) all += fmt::format("{}{}_{}", i == 0 ? "" : "x", before[i], behind[i]);
    return all;
  };
  const std::string x = any_order("bf"), w = any_order("io"), y = any_order("bf");
  std::string text = "HloModule m\n\nENTRY e {\n";
  if (of_filters) {
    text += fmt::format("  x = {} parameter(0)\n", shape(x, {{'b', channels}, {'f', images}}, size));
    text += fmt::format("  g = {} parameter(1)\n", shape(w, {{'i', images}, {'o', filters}}, result));
    // What of the images no filter reached is cut off.
    std::vector<int64_t> end;
    for (size_t i = 0; i < spatial; ++i)
      end.push_back((result[i] - 1) * stride[i] + (filter[i] - 1) * dilation[i] + 1 - size[i] - low[i]);
    return text + fmt::format(
                      "  ROOT c = {} convolution(x, g), window={{size={} stride={} pad={} rhs_dilate={}}}, "
                      "dim_labels={}_{}->{}, batch_group_count={}\n}}\n",
                      shape(y, {{'b', channels / groups}, {'f', filters}}, filter), join(result), join(dilation),
                      pads(low, end), join(stride), x, w, y, groups);
  }
  text += fmt::format("  g = {} parameter(0)\n", shape(x, {{'b', images}, {'f', filters}}, result));
  text += fmt::format("  w = {} parameter(1)\n", shape(w, {{'i', filters}, {'o', channels}}, filter));
  std::vector<int64_t> before, behind, reversed;
  for (size_t i = 0; i < spatial; ++i) {
    before.push_back((filter[i] - 1) * dilation[i] - low[i]);
    behind.push_back(size[i] - ((result[i] - 1) * stride[i] + 1) - before[i] + (filter[i] - 1) * dilation[i]);
    reversed.push_back(static_cast<int64_t>(w.find(static_cast<char>('0' + i))));
  }
  text += fmt::format("  r = {} reverse(w), dimensions={}\n", shape(w, {{'i', filters}, {'o', channels}}, filter),
                      list(reversed));
  return text + fmt::format(
                    "  ROOT c = {} convolution(g, r), window={{size={} pad={} lhs_dilate={} rhs_dilate={}}}, "
                    "dim_labels={}_{}->{}\n}}\n",
                    shape(y, {{'b', images}, {'f', channels}}, size), join(filter), pads(before, behind), join(stride),
                    join(dilation), x, w, y);
}

TEST_F(LibraryCallsTest, RandomGradientsOfConvolutionsAgreeWithTheInterpreter) {
  int of_filters = 0, of_images = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const std::string text = random_gradient(random, seed % 2 == 0);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    const std::string wrong = checked(*module, seed);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << text << explained_;
    EXPECT_TRUE(notes_.empty()) << notes_.front() << "\n" << text;
    of_filters += explained_.find(" filters of ") != std::string::npos ? 1 : 0;
    of_images += explained_.find(" images of ") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(of_filters, 8);
  EXPECT_GE(of_images, 10);
}

/// One transform between operators on complex numbers.
std::string random_fft(Random& random) {
  const auto one_of = [&](std::initializer_list<int64_t> of) { return std::data(of)[random.below(of.size())]; };
  const std::string kind = std::data({"FFT", "IFFT", "RFFT", "IRFFT"})[random.below(4)];
  const bool wide = random.below(3) == 0;
  const std::string real = wide ? "f64" : "f32", complex = wide ? "c128" : "c64";
  std::vector<int64_t> before(random.below(3)), lengths(1 + random.below(3));
  for (int64_t& size : before) size = one_of({1, 2, 3});
  for (int64_t& size : lengths) size = one_of({1, 4, 5, 6});
  std::vector<int64_t> whole = before;
  whole.insert(whole.end(), lengths.begin(), lengths.end());
  std::vector<int64_t> half = whole;
  half.back() = half.back() / 2 + 1;
  const std::string in = (kind == "RFFT" ? real : complex) + dims(kind == "IRFFT" ? half : whole);
  const std::string out = (kind == "IRFFT" ? real : complex) + dims(kind == "RFFT" ? half : whole);
  std::string text = fmt::format("HloModule m\n\nENTRY e {{\n  x = {} parameter(0)\n", in);
  // Read by something else too, or not.
  const bool shared = random.below(2) == 0;
  text += shared ? fmt::format("  y = {} copy(x)\n", in) : fmt::format("  y = {0} multiply(x, x)\n", in);
  text += fmt::format("  t = {} fft(y), fft_type={}, fft_length={}\n", out, kind, list(lengths));
  text += fmt::format("  n = {} negate(t)\n  m = {} negate(y)\n", out, in);
  return text + fmt::format("  ROOT r = ({}, {}) tuple(n, m)\n}}\n", out, in);
}

TEST_F(LibraryCallsTest, RandomTransformsAgreeWithTheInterpreter) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const std::string text = random_fft(random);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    const std::string wrong = checked(*module, seed);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << text << explained_;
    EXPECT_EQ(libraries_, 1) << text;
    EXPECT_TRUE(notes_.empty());
  }
}

// As JAX prints irfft2 of a product.
constexpr const char* kInverse = R"(ENTRY e {
  x = c64[2,6,5] parameter(0)
  y = c64[2,6,5] parameter(1)
  m = c64[2,6,5] multiply(x, y)
  a = c64[2,5,6] transpose(m), dimensions={0,2,1}
  b = c64[2,5,6] fft(a), fft_type=IFFT, fft_length={6}
  c = c64[2,6,5] transpose(b), dimensions={0,2,1}
  ROOT d = f32[2,6,8] fft(c), fft_type=IRFFT, fft_length={8}
})";

TEST_F(LibraryCallsTest, TransformsOfSeveralDimensionsAreOne) {
  EXPECT_EQ(explained_work(kInverse), "kernel; to real f32 2 of 6×8; ");
  EXPECT_EQ(checked(*parsed(kInverse), 1), "");
}

TEST_F(LibraryCallsTest, TheInterpreterStandsInForATransformWithoutALibrary) {
  setenv("STRATA_CUFFT", "/nowhere/libcufft.so", 1);
  EXPECT_EQ(checked(*parsed(kInverse), 1), "");
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("cannot be loaded; the interpreter in its place"), std::string::npos) << notes_[0];
}

}  // namespace
}  // namespace strata::emitters
