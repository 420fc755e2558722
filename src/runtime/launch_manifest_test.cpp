#include "runtime/launch_manifest.h"

#include <gmock/gmock.h>

namespace strata {
namespace {

using testing::HasSubstr;

/// A kernel with a tensor map, a product and a convolution.
LaunchManifest manifest() {
  LaunchManifest made;
  made.buffers = {{"X", BufferRole::Input, {DType::F16, {2, 3, 7, 5}}},
                  {"W", BufferRole::Input, {DType::F16, {4, 3, 3, 2}}},
                  {"Y", BufferRole::Intermediate, {DType::F16, {2, 4, 5, 4}}},
                  {"O", BufferRole::Output, {DType::F16, {40, 4}}}};
  GpuLaunch kernel;
  kernel.kernel = "first";
  std::tie(kernel.grid, kernel.threads, kernel.shared_bytes, kernel.cluster, kernel.overlaps_previous) =
      std::tuple(std::array<int64_t, 3>{4, 2, 1}, 128, 512, 2, true);
  kernel.arguments = {"X", "Y"};
  kernel.tensor_maps = {{.argument = 1, .sizes = {4, 40}, .strides = {2, 8}, .box = {4, 8}, .swizzle = 32}};
  GpuLaunch convolution;
  convolution.kernel = "second";
  Convolution c;
  std::tie(c.images, c.channels, c.height, c.width) = std::tuple(2, 3, 7, 5);
  std::tie(c.filters, c.filter_height, c.filter_width, c.stride, c.padding, c.algorithm) = std::tuple(4, 3, 2, 2, 1, 5);
  c.channels_last = c.relu = true;
  convolution.library = c;
  convolution.arguments = {"X", "W", "Y"};
  GpuLaunch product;
  product.kernel = "third";
  MatrixProduct p;
  std::tie(p.m, p.n, p.k, p.algorithm, p.activation) = std::tuple(40, 4, 4, 3, Activation::Gelu);
  p.a = {false, 4, 0};
  p.b = {true, 4, 0};
  product.library = p;
  product.arguments = {"Y", "W", "O"};
  made.launches = {kernel, convolution, product};
  return made;
}

template <class T>
std::string message(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

TEST(LaunchManifest, GradientsOfConvolutions) {
  LaunchManifest made = manifest();
  Convolution gradient = *made.launches[1].convolution();
  gradient.part = ConvolutionPart::Filters;
  gradient.relu = false;
  made.launches[1].library = gradient;
  const auto read = parse_launch_manifest(print(made));
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(read->launches[1].library, made.launches[1].library);
  gradient.relu = true;
  made.launches[1].library = gradient;
  EXPECT_THAT(message(parse_launch_manifest(print(made))), HasSubstr("a gradient of a convolution has relu"));
}

TEST(LaunchManifest, Transforms) {
  LaunchManifest made = manifest();
  Fft fft{FftKind::ToReal, true, {4, 6}, 3, true};
  made.launches[2].library = fft;
  made.launches[2].arguments = {"X", "O"};
  const auto read = parse_launch_manifest(print(made));
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(read->launches[2].library, made.launches[2].library);
  fft.lengths = {4, 0};
  made.launches[2].library = fft;
  EXPECT_THAT(message(parse_launch_manifest(print(made))), HasSubstr("sizes that there are not"));
}

TEST(LaunchManifest, ProductsOfBytes) {
  LaunchManifest made = manifest();
  MatrixProduct product = *made.launches[2].product();
  product.a.bytes = ByteType::F8E4M3FN;
  product.b.bytes = ByteType::F8E5M2;
  product.scaled = true;
  made.launches[2].library = product;
  made.launches[2].arguments = {"Y", "W", "X", "O"};
  const auto read = parse_launch_manifest(print(made));
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(read->launches[2].library, made.launches[2].library);
  product.b.bytes = ByteType::S8;
  made.launches[2].library = product;
  EXPECT_THAT(message(parse_launch_manifest(print(made))), HasSubstr("types that do not go together"));
  product.a.bytes = ByteType::S8;
  made.launches[2].library = product;
  EXPECT_THAT(message(parse_launch_manifest(print(made))), HasSubstr("scaled whose operands are not f8"));
}

TEST(LaunchManifest, IsReadAsItIsPrinted) {
  LaunchManifest made = manifest();
  const auto read = parse_launch_manifest(print(made));
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(print(*read), print(made));
  ASSERT_EQ(read->launches.size(), 3U);
  EXPECT_EQ(read->launches[1].library, made.launches[1].library);
  EXPECT_EQ(read->launches[2].library, made.launches[2].library);
  EXPECT_EQ(read->launches[0].tensor_maps[0].box, made.launches[0].tensor_maps[0].box);
  EXPECT_TRUE(read->uses_kernels());
  EXPECT_THAT(print(made), testing::Not(HasSubstr("accumulates")));
  auto product = *made.launches[2].product();
  product.accumulates = product.bias = true;
  made.launches[2].library = product;
  made.launches[2].arguments = {"Y", "W", "W", "O"};
  EXPECT_EQ(parse_launch_manifest(print(made))->launches[2].library, made.launches[2].library);
}

TEST(LaunchManifest, MistakesInWorkOfLibrariesAreErrors) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = print(manifest());
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return message(parse_launch_manifest(text.replace(text.find(from), from.size(), to)));
  };
  EXPECT_THAT(with("\"cudnn\"", "\"cusolver\""), HasSubstr("'cusolver' is no library that launches can name"));
  EXPECT_THAT(with("\"filter_height\": 3", "\"filter_height\": 0"), HasSubstr("a convolution has filter_height=0"));
  EXPECT_THAT(with("\"filter_height\": 3", "\"filter_height\": 10"), HasSubstr("filters larger than its images"));
  EXPECT_THAT(with("\"padding\": 1", "\"padding\": -1"), HasSubstr("a convolution has padding=-1"));
  EXPECT_THAT(with("\"algorithm\": 5", "\"algorithm\": -5"), HasSubstr("a convolution has algorithm -5"));
  EXPECT_THAT(with("\"channels\": 3,", ""), HasSubstr("unreadable"));
  EXPECT_THAT(with("\"bias\": false", "\"bias\": true"), HasSubstr("launch 'third' has 3 arguments in place of 4"));
  EXPECT_THAT(with("\"convolution\": {\n        \"type\": \"f16\"", "\"convolution\": {\n        \"type\": \"f64\""),
              HasSubstr("a convolution is of f64"));
}

TEST(LibraryWork, IdentityTellsApartWhatTheDescriptionDoesNot) {
  MatrixProduct product;
  std::tie(product.m, product.n, product.k) = std::tuple(40, 8, 4);
  MatrixProduct other = product;
  other.a.leading = 64;
  EXPECT_EQ(describe(LibraryWork(product)), describe(LibraryWork(other)));
  EXPECT_NE(identity_of(product), identity_of(other));
  EXPECT_NE(identity_of(product), identity_of(Convolution{}));
}

}  // namespace
}  // namespace strata
