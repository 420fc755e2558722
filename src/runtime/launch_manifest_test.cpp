#include "runtime/launch_manifest.h"

#include <gmock/gmock.h>

namespace strata {
namespace {

using testing::HasSubstr;

/// A kernel with a tensor map, a product and a convolution.
LaunchManifest manifest() {
  LaunchManifest made;
  made.buffers = {{"X", BufferRole::Input, TensorType{DType::F16, {2, 3, 7, 5}}},
                  {"W", BufferRole::Input, TensorType{DType::F16, {4, 3, 3, 2}}},
                  {"Y", BufferRole::Intermediate, TensorType{DType::F16, {2, 4, 5, 4}}},
                  {"O", BufferRole::Output, TensorType{DType::F16, {40, 4}}}};
  GpuLaunch kernel;
  kernel.kernel = "first";
  std::tie(kernel.grid, kernel.threads, kernel.shared_bytes, kernel.cluster, kernel.overlaps_previous) =
      std::tuple(std::array<int64_t, 3>{4, 2, 1}, 128, 512, 2, true);
  kernel.arguments = {"X", "Y"};
  kernel.tensor_maps = {{.argument = 1, .sizes = {4, 40}, .strides = {2, 8}, .box = {4, 8}, .swizzle = 32}};
  GpuLaunch convolution;
  convolution.kernel = "second";
  Convolution c;
  std::tie(c.images, c.channels, c.filters, c.algorithm) = std::tuple(2, 3, 4, 5);
  c.spatial = {{.size = 7, .filter = 3, .stride = 2, .padding = 1},
               {.size = 5, .filter = 2, .stride = 2, .padding = 1}};
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
  made.steps = {kernel, convolution, product};
  return made;
}

template <class T>
std::string message(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

TEST(LaunchManifest, ProductsInTf32) {
  LaunchManifest made = manifest();
  MatrixProduct product = *made.steps[2].launch()->product();
  product.type = DType::F32;
  product.tf32 = true;
  made.steps[2].launch()->library = product;
  const std::string text = *print(made);
  EXPECT_EQ(parse_launch_manifest(text)->steps[2].launch()->library, made.steps[2].launch()->library);
  std::string of_f16 = text;
  const size_t type = of_f16.rfind("\"f32\"");
  ASSERT_NE(type, std::string::npos);
  of_f16.replace(type, 5, "\"f16\"");
  EXPECT_THAT(message(parse_launch_manifest(of_f16)), HasSubstr("TF32 has operands that are not f32"));
}

TEST(LaunchManifest, ConvolutionsInTf32) {
  LaunchManifest made = manifest();
  Convolution c = *made.steps[1].launch()->convolution();
  EXPECT_THAT(*print(made), testing::Not(HasSubstr("tf32")));  // as manifests from before there was the flag
  std::tie(c.type, c.tf32) = std::tuple(DType::F32, true);
  made.steps[1].launch()->library = c;
  EXPECT_EQ(parse_launch_manifest(*print(made))->steps[1].launch()->library, made.steps[1].launch()->library);
  c.type = DType::BF16;
  made.steps[1].launch()->library = c;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("TF32 has operands that are not f32"));
}

TEST(LaunchManifest, ConvolutionsWhoseDimensionsDiffer) {
  LaunchManifest made = manifest();
  Convolution c = *made.steps[1].launch()->convolution();
  const std::string plain = *print(made);
  EXPECT_THAT(plain, HasSubstr("\"filter_width\": 2"));
  EXPECT_THAT(plain, testing::Not(HasSubstr("spatial")));
  c.spatial[1].stride = 1;
  made.steps[1].launch()->library = c;
  EXPECT_EQ(parse_launch_manifest(*print(made))->steps[1].launch()->library, made.steps[1].launch()->library);
  c.spatial.insert(c.spatial.begin(), {.size = 9, .filter = 3, .dilation = 2});
  made.steps[1].launch()->library = c;
  const std::string text = *print(made);
  EXPECT_EQ(parse_launch_manifest(text)->steps[1].launch()->library, made.steps[1].launch()->library);
  c.spatial[0].dilation = 0;
  made.steps[1].launch()->library = c;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("a convolution has dilation=0"));
  c.spatial[0].dilation = 1;
  c.spatial.push_back({});
  made.steps[1].launch()->library = c;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("a convolution has 4 spatial dimensions"));
}

TEST(LaunchManifest, GradientsOfConvolutions) {
  LaunchManifest made = manifest();
  Convolution gradient = *made.steps[1].launch()->convolution();
  gradient.part = ConvolutionPart::Filters;
  gradient.relu = false;
  made.steps[1].launch()->library = gradient;
  const auto read = parse_launch_manifest(*print(made));
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(read->steps[1].launch()->library, made.steps[1].launch()->library);
  gradient.relu = true;
  made.steps[1].launch()->library = gradient;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("a gradient of a convolution has relu"));
}

TEST(LaunchManifest, Transforms) {
  LaunchManifest made = manifest();
  Fft fft{FftKind::ToReal, true, {4, 6}, 3, true};
  made.steps[2].launch()->library = fft;
  made.steps[2].launch()->arguments = {"X", "O"};
  const auto read = parse_launch_manifest(*print(made));
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(read->steps[2].launch()->library, made.steps[2].launch()->library);
  fft.lengths = {4, 0};
  made.steps[2].launch()->library = fft;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("impossible sizes"));
}

TEST(LaunchManifest, FactorsAndSolves) {
  LaunchManifest made = manifest();
  GpuLaunch& launch = *made.steps[2].launch();
  const auto read = [&] {
    const auto found = parse_launch_manifest(*print(made));
    EXPECT_TRUE(found) << message(found);
    return found ? found->steps[2].launch()->library : std::nullopt;
  };
  MatrixFactor factor{FactorKind::Cholesky, {true, true}, 6, 6, 3, 0, true, true};
  launch.library = factor;  // the matrices, the factors, the numbers that say where there is none
  EXPECT_EQ(launch.arguments.size(), arguments_of(factor));
  EXPECT_EQ(read(), launch.library);
  EXPECT_EQ(describe(LibraryWork(factor)), "Cholesky c128 3 of 6×6, upper, together");
  factor.rows = 7;
  launch.library = factor;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("a factor of matrices of 7×6 needs square ones"));
  const MatrixSolve solve{{false, true}, 6, 4, 3, true, false, true, MatrixSolve::Operation::Adjoint, false};
  launch.library = solve;
  EXPECT_EQ(read(), launch.library);
  EXPECT_EQ(describe(LibraryWork(solve)), "right solve c64 3 of 6 for 4, lower, adjoint, unit");
  factor = {FactorKind::Lu, {}, 7, 6};
  launch.library = factor;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("3 arguments in place of 4"));
  launch.arguments = {"Y", "W", "X", "O"};
  EXPECT_EQ(read(), launch.library);
  factor.kind = FactorKind::Orthogonal;
  launch.library = factor;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("of 7×6 has 0 reflectors"));
  factor.reflectors = 5;
  launch.library = factor;
  launch.arguments = {"Y", "W", "O"};
  EXPECT_EQ(read(), launch.library);
  factor.columns = 0;
  launch.library = factor;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("work on matrices has columns=0"));
}

TEST(LaunchManifest, Spectra) {
  LaunchManifest made = manifest();
  GpuLaunch& launch = *made.steps[2].launch();
  const auto read = [&](const MatrixSpectrum& spectrum, std::vector<std::string> arguments) {
    launch.library = spectrum;
    launch.arguments = std::move(arguments);
    const auto found = parse_launch_manifest(*print(made));
    EXPECT_TRUE(found) << message(found);
    return found && found->steps[2].launch()->library == launch.library;
  };
  MatrixSpectrum spectrum{SpectrumKind::Eigen, {true, false}, 6, 6, 3, SpectrumVectors::Full, true};
  EXPECT_TRUE(read(spectrum, {"Y", "W", "X", "O"}));  // matrices; vectors, values, numbers
  EXPECT_EQ(describe(LibraryWork(spectrum)), "eigenpairs f64 3 of 6×6, upper");
  EXPECT_EQ(library_of(LibraryWork(spectrum)), "cuSOLVER");
  spectrum = {SpectrumKind::Singular, {}, 7, 6, 3, SpectrumVectors::Thin};
  EXPECT_TRUE(read(spectrum, {"Y", "W", "X", "Y", "W", "O"}));
  EXPECT_EQ(describe(LibraryWork(spectrum)), "singular vectors f32 3 of 7×6");
  spectrum.vectors = SpectrumVectors::None;
  launch.library = spectrum;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("6 arguments in place of 4"));
  EXPECT_TRUE(read(spectrum, {"Y", "W", "X", "O"}));
  spectrum.kind = SpectrumKind::Eigen;
  launch.library = spectrum;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("a spectrum of matrices of 7×6 has other rows"));
}

TEST(LaunchManifest, ProductsOfBytes) {
  LaunchManifest made = manifest();
  MatrixProduct product = *made.steps[2].launch()->product();
  product.a.bytes = ByteType::F8E4M3FN;
  product.b.bytes = ByteType::F8E5M2;
  product.scaled = true;
  made.steps[2].launch()->library = product;
  made.steps[2].launch()->arguments = {"Y", "W", "X", "O"};
  const auto read = parse_launch_manifest(*print(made));
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(read->steps[2].launch()->library, made.steps[2].launch()->library);
  product.b.bytes = ByteType::S8;
  made.steps[2].launch()->library = product;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("types that do not go together"));
  product.a.bytes = ByteType::S8;
  made.steps[2].launch()->library = product;
  EXPECT_THAT(message(parse_launch_manifest(*print(made))), HasSubstr("scaled product has operands that are not f8"));
}

TEST(LaunchManifest, IsReadAsItIsPrinted) {
  LaunchManifest made = manifest();
  const auto read = parse_launch_manifest(*print(made));
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(print(*read), *print(made));
  ASSERT_EQ(read->steps.size(), 3U);
  EXPECT_EQ(read->steps[1].launch()->library, made.steps[1].launch()->library);
  EXPECT_EQ(read->steps[2].launch()->library, made.steps[2].launch()->library);
  EXPECT_EQ(read->steps[0].launch()->tensor_maps[0].box, made.steps[0].launch()->tensor_maps[0].box);
  EXPECT_TRUE(read->uses_kernels());
  EXPECT_THAT(*print(made), testing::Not(HasSubstr("accumulates")));
  auto product = *made.steps[2].launch()->product();
  product.accumulates = product.bias = true;
  made.steps[2].launch()->library = product;
  made.steps[2].launch()->arguments = {"Y", "W", "W", "O"};
  EXPECT_EQ(parse_launch_manifest(*print(made))->steps[2].launch()->library, made.steps[2].launch()->library);
}

TEST(LaunchManifest, MistakesInWorkOfLibrariesAreErrors) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = *print(manifest());
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return message(parse_launch_manifest(text.replace(text.find(from), from.size(), to)));
  };
  EXPECT_THAT(with("\"cudnn\"", "\"cusparse\""), HasSubstr("'cusparse' is no library that launches can name"));
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

/// A loop in a loop, a fill, a copy, a constant, and arrays of HLO's.
LaunchManifest manifest_of_steps() {
  LaunchManifest made;
  made.name = "loops";
  made.target = "sm_90a";
  made.runs_overlap = false;
  const ArrayType numbers("s32", 4, {2, 3}, {0, 1});
  made.buffers = {{"x", BufferRole::Input, numbers},
                  {"k", BufferRole::Constant, ArrayType("c64", 8, {0}), 256},
                  {"current", BufferRole::Carried, numbers},
                  {"next", BufferRole::Carried, numbers},
                  {"y", BufferRole::Output, numbers, std::nullopt, "x"},
                  {"t", BufferRole::Intermediate, numbers, 512}};
  GpuLaunch kernel;
  kernel.kernel = "step";
  kernel.arguments = {"current", "next"};
  kernel.module = "step.cubin";
  GpuLoop inner;
  inner.count = 3;
  inner.values.push_back({.initial = "x",
                          .result = "y",
                          .current = {"current"},
                          .next = "next",
                          .over = 0,
                          .in_place = true,
                          .counted = "k"});
  inner.scratch = {"t"};
  inner.body = {GpuStep(kernel)};
  GpuLoop outer;
  outer.answer = "t";
  outer.values.push_back({.initial = "x", .result = "y", .current = {"current"}, .next = "next", .spare = "t"});
  outer.condition = {GpuStep(GpuCopy{"x", "t"}, "copied", "")};
  outer.body = {GpuStep(inner, "inner", "loop of 3"), GpuStep(GpuFill{"t", std::string("\0\x7f", 2)}, "", "")};
  made.steps = {GpuStep(outer, "outer", "loop")};
  made.results = {{"r.0", "y"}, {"r.1", "x"}};
  return made;
}

TEST(LaunchManifest, EveryKindOfStepIsReadAsItWasPrinted) {
  const auto printed = print(manifest_of_steps());
  ASSERT_TRUE(printed) << message(printed);
  const auto read = parse_launch_manifest(*printed);
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(*print(*read), *printed);
  EXPECT_EQ(read->buffers[1].offset, 256);
  EXPECT_EQ(read->buffers[4].lies_in, "x");
  EXPECT_EQ(read->buffers[0].type, ArrayType("s32", 4, {2, 3}, {0, 1}));
  EXPECT_EQ(read->results, manifest_of_steps().results);
  const GpuLoop& inner = *read->steps[0].loop()->body[0].loop();
  EXPECT_TRUE(inner.count == 3 && inner.values[0].in_place && inner.values[0].over == 0);
  EXPECT_EQ(inner.body[0].launch()->module, "step.cubin");
  EXPECT_TRUE(read->uses_kernels());
}

TEST(LaunchManifest, StepsOfTheHostCannotBeWritten) {
  LaunchManifest made = manifest_of_steps();
  made.steps[0].loop()->body.emplace_back(HostStep{"no emitter has code for it", {}, {}}, "sort", "interpreter");
  EXPECT_EQ(message(print(made)),
            "step 'sort' runs on the host, which no manifest can say: no emitter has code for it");
}

TEST(LaunchManifest, WhatIsReadIsChecked) {
  const std::string text = *print(manifest_of_steps());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    EXPECT_NE(changed.find(from), std::string::npos) << from;
    return message(parse_launch_manifest(changed.replace(changed.find(from), from.size(), to)));
  };
  EXPECT_THAT(with("\"offset\": 256", "\"offset\": 100"), HasSubstr("buffer 'k' has the offset 100"));
  EXPECT_THAT(with("\"offset\": 256", "\"offset\": -256"), HasSubstr("buffer 'k' has the offset -256"));
  EXPECT_THAT(with("\"007f\"", "\"007\""), HasSubstr("'007' is not a pattern"));
  EXPECT_THAT(with("\"007f\"", "\"0x\""), HasSubstr("'0x' is not a pattern"));
  EXPECT_THAT(with("\"copy\": \"x\"", "\"copy\": \"z\""), HasSubstr("a copy has an argument 'z'"));
  EXPECT_THAT(with("\"buffer\": \"y\"", "\"buffer\": \"z\""), HasSubstr("result 'r.0' has an argument 'z'"));
  EXPECT_THAT(with("\"element_bytes\": 8", "\"element_bytes\": 0"), HasSubstr("elements of 0 bytes"));
  std::string deep = R"({"steps": [)";
  for (int i = 0; i < 100; ++i) deep += R"({"loop": {"values": [], "body": [)";
  for (int i = 0; i < 100; ++i) deep += "]}}";
  EXPECT_THAT(message(parse_launch_manifest(deep + "]}")), HasSubstr("nested more than 32 deep"));
}

}  // namespace
}  // namespace strata
