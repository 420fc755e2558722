#include "superopt/codegen/libraries.h"

#include <gmock/gmock.h>

#include "interpret/interpret.h"
#include "interpret/typical_inputs.h"
#include "ir/text.h"
#include "runtime/gpu_program.h"
#include "runtime/storage.h"
#include "runtime/test_driver.h"
#include "superopt/codegen/all_schedules.h"
#include "support/random.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Target& target() { return targets().back(); }

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string() << "\n" << text;
  return *graph;
}

/// All products and convolutions by a library's first algorithm, those that it cannot compute too.
Schedules all_products(const Graph& graph) {
  Schedules schedules(graph.operations().size());
  for (size_t i = 0; i < schedules.size(); ++i) {
    const OpKind kind = graph.operations()[i].kind;
    if (kind == OpKind::Matmul || kind == OpKind::ConcatMatmul || kind == OpKind::Conv2d)
      schedules[i] = BlockSchedule{.algorithm = 0};
  }
  return schedules;
}

const MatrixProduct& product_of(const LibraryCall& call) { return std::get<MatrixProduct>(call.steps.at(0).work); }

class LibrariesTest : public FakeDriverTest {
 protected:
  /// The largest error of the program's outputs, by the library alone, on the driver and the library of
  /// tests/fake_cuda; infinite where it launches anything else.
  double error(const Graph& graph, const Schedules& schedules) {
    const auto device = GpuDevice::open();
    EXPECT_TRUE(device);
    const auto code = generate_cuda(graph, target(), schedules);
    EXPECT_TRUE(code) << code.error().message;
    if (!code) return INFINITY;
    const auto manifest = parse_launch_manifest(launch_manifest(*code));
    EXPECT_TRUE(manifest) << manifest.error().message;
    if (manifest->uses_kernels()) return INFINITY;
    const auto program = GpuProgram::load(**device, "", *manifest);
    EXPECT_TRUE(program) << program.error().message;
    const auto inputs = typical_inputs(graph, 3);
    auto buffers = (*program)->allocate();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorId id = graph.inputs()[i];
      EXPECT_TRUE(buffers->at(graph.tensor(id).name).upload(encode(inputs[i], graph.type(id).dtype)));
    }
    EXPECT_TRUE((*program)->launch(*buffers));
    Float64Arithmetic exact;
    const auto expected = execute(graph, exact, inputs);
    double worst = 0;
    for (size_t i = 0; i < expected->size(); ++i) {
      const TensorId id = graph.outputs()[i];
      const Tensor<double> found = decode(*buffers->at(graph.tensor(id).name).download(), graph.type(id));
      const double one = relative_error(found, (*expected)[i]);
      if (!(one <= worst)) worst = one;  // NaN too
    }
    return worst;
  }
};

TEST_F(LibrariesTest, AProductIsOneLaunchWithoutAKernel) {
  const GraphPtr graph =
      parse("graph g {\n input A: f32[17, 40]\n input B: f32[40, 30]\n O = matmul(A, B)\n output O\n}\n");
  const auto code = generate_cuda(*graph, target(), all_products(*graph));
  ASSERT_TRUE(code);
  EXPECT_EQ(code->launches.size(), 1U);
  EXPECT_EQ(code->source.find("STRATA_KERNEL void __launch_bounds__"), std::string::npos);
  EXPECT_EQ(needed_libraries(*code), "cuBLASLt: f32 17×30×40, algorithm 0");
  EXPECT_EQ(needed_libraries(*generate_cuda(*graph, target())), "");
  EXPECT_LT(error(*graph, all_products(*graph)), 1e-6);
}

TEST_F(LibrariesTest, BiasAndActivationAreOneLaunchWithTheProduct) {
  for (const char* type : {"f16", "bf16", "f32"}) {
    for (const char* last : {"relu", "gelu"}) {
      for (const char* bias : {"24", "1, 24"}) {
        const GraphPtr graph = parse(fmt::format(
            "graph g {{\n input X: {0}[2, 6, 16]\n input W: {0}[16, 24]\n input b: {0}[{2}]\n P = matmul(X, W)\n"
            " S = add(b, P)\n O = {1}(S)\n output O\n}}\n",
            type, last, bias));
        const LibraryPlan plan = plan_libraries(*graph, all_products(*graph));
        ASSERT_EQ(plan.calls.size(), 1U);
        EXPECT_THAT(plan.calls[0].operations, ElementsAre(0, 1, 2));
        EXPECT_EQ(product_of(plan.calls[0]).m, 12);  // both matrices of X are one
        EXPECT_LT(error(*graph, all_products(*graph)), tolerance(graph->type(graph->outputs()[0]).dtype));
      }
    }
  }
}

TEST_F(LibrariesTest, WhatOthersReadStaysOutOfTheLaunch) {
  const auto operations = [](const std::string& statements, const std::string& type = "f16") {
    const GraphPtr graph =
        parse(fmt::format("graph g {{\n input X: {0}[8, 16]\n input W: {0}[16, 8]\n input b: {0}[8]\n"
                          " input c: {0}[8, 1]\n P = matmul(X, W)\n{1}}}\n",
                          type, statements));
    return plan_libraries(*graph, all_products(*graph)).calls.at(0).operations;
  };
  EXPECT_THAT(operations(" S = add(P, b)\n O = relu(S)\n output O\n"), ElementsAre(0, 1, 2));
  EXPECT_THAT(operations(" S = add(P, b)\n O = relu(S)\n output O, S\n"), ElementsAre(0, 1));
  EXPECT_THAT(operations(" S = add(P, b)\n O = relu(S)\n output O, P\n"), ElementsAre(0));
  EXPECT_THAT(operations(" S = add(P, b)\n R = relu(S)\n O = mul(R, P)\n output O\n"), ElementsAre(0));
  EXPECT_THAT(operations(" S = add(P, c)\n O = relu(S)\n output O\n"), ElementsAre(0));
  EXPECT_THAT(operations(" S = add(P, P)\n O = relu(S)\n output O\n"), ElementsAre(0));
  EXPECT_THAT(operations(" O = exp(P)\n output O\n"), ElementsAre(0));
  EXPECT_THAT(operations(" O = relu(P)\n output O\n", "f64"), ElementsAre(0));
}

TEST_F(LibrariesTest, OfTwoProductsOneIsTheOthersBias) {
  const GraphPtr graph = parse(
      "graph g {\n input X: f32[1, 16]\n input Y: f32[1, 8]\n input V: f32[16, 24]\n input W: f32[8, 24]\n"
      " P = matmul(X, V)\n Q = matmul(Y, W)\n O = add(P, Q)\n output O\n}\n");
  const LibraryPlan plan = plan_libraries(*graph, all_products(*graph));
  ASSERT_EQ(plan.calls.size(), 2U);
  EXPECT_THAT(plan.calls[0].operations, ElementsAre(0, 2));
  EXPECT_THAT(plan.calls[1].operations, ElementsAre(1));
  EXPECT_LT(error(*graph, all_products(*graph)), 1e-6);
}

TEST_F(LibrariesTest, TransposesAreViewsWhereAllReadersCanReadThem) {
  const GraphPtr graph = parse(
      "graph g {\n input X: f16[2, 8, 16]\n input Y: f16[2, 24, 16]\n T = transpose(Y, perm=[0, 2, 1])\n"
      " O = matmul(X, T)\n output O\n}\n");
  const LibraryPlan plan = plan_libraries(*graph, all_products(*graph));
  ASSERT_EQ(plan.calls.size(), 1U);
  EXPECT_TRUE(product_of(plan.calls[0]).b.transposed);
  EXPECT_EQ(product_of(plan.calls[0]).b.leading, 16);
  EXPECT_LT(error(*graph, all_products(*graph)), 2e-3);
  EXPECT_EQ(scheduled_cost(*graph, target(), all_products(*graph)).kernels, 1);
  // Heads that lie between the rows: no one stride leads from matrix to matrix of Q, and Q is stored.
  const GraphPtr heads = parse(
      "graph g {\n input X: f16[2, 8, 3, 16]\n input W: f16[2, 3, 16, 8]\n Q = transpose(X, perm=[0, 2, 1, 3])\n"
      " O = matmul(Q, W)\n output O\n}\n");
  const LibraryPlan stored = plan_libraries(*heads, all_products(*heads));
  ASSERT_EQ(stored.calls.size(), 1U);
  EXPECT_FALSE(stored.strided[1]);
  EXPECT_EQ(product_of(stored.calls[0]).batch, 6);
  EXPECT_EQ(generate_cuda(*heads, target(), all_products(*heads))->launches.size(), 2U);
}

TEST_F(LibrariesTest, ProductsOfConcatenationsAreTwoLaunches) {
  for (const char* type : {"f16", "bf16", "f32", "f64"}) {
    const GraphPtr graph =
        parse(fmt::format("graph g {{\n input X: {0}[2, 6, 16]\n input L: {0}[2, 6, 4]\n input W: {0}[16, 24]\n"
                          " input B: {0}[4, 24]\n input b: {0}[24]\n P = concat_matmul(X, L, W, B)\n S = add(P, b)\n"
                          " O = relu(S)\n output O\n}}\n",
                          type));
    const bool wide = graph->type(graph->outputs()[0]).dtype == DType::F64;
    const LibraryPlan plan = plan_libraries(*graph, all_products(*graph));
    ASSERT_EQ(plan.calls.size(), 1U);
    ASSERT_EQ(plan.calls[0].steps.size(), 2U);
    EXPECT_EQ(plan.calls[0].operations.size(), wide ? 1U : 3U);  // no epilogues in f64
    const auto& second = std::get<MatrixProduct>(plan.calls[0].steps[1].work);
    EXPECT_FALSE(product_of(plan.calls[0]).accumulates || product_of(plan.calls[0]).bias);
    EXPECT_TRUE(second.accumulates);
    EXPECT_EQ(second.bias, !wide);
    if (!wide) {
      EXPECT_LT(error(*graph, all_products(*graph)), tolerance(graph->type(graph->outputs()[0]).dtype));
    }
    const auto code = generate_cuda(*graph, target(), all_products(*graph));
    ASSERT_TRUE(code);
    EXPECT_EQ(code->launches[0].arguments.back(), code->launches[1].arguments.back());
    EXPECT_NE(code->launches[0].kernel, code->launches[1].kernel);
  }
  const GraphPtr plain = parse(
      "graph g {\n input X: f64[6, 16]\n input L: f64[6, 4]\n input W: f64[16, 24]\n input B: f64[4, 24]\n"
      " O = concat_matmul(X, L, W, B)\n output O\n}\n");
  EXPECT_LT(error(*plain, all_products(*plain)), 1e-12);
}

TEST_F(LibrariesTest, AConvolutionIsOneLaunchWithoutAKernel) {
  for (const char* type : {"f16", "bf16", "f32"}) {
    const GraphPtr graph = parse(
        fmt::format("graph g {{\n input X: {0}[2, 3, 9, 8]\n input W: {0}[4, 3, 3, 2]\n input V: {0}[5, 4, 1, 1]\n"
                    " C = conv2d(X, W, stride=2, padding=1)\n O = conv2d(C, V)\n output O, C\n}}\n",
                    type));
    EXPECT_LT(error(*graph, all_products(*graph)), tolerance(graph->type(graph->outputs()[0]).dtype));
    EXPECT_EQ(needed_libraries(*generate_cuda(*graph, target(), all_products(*graph))),
              fmt::format("cuDNN: {0} 2×3×9×8 by 4×3×3×2, stride 2, padding 1, algorithm 0; {0} 2×4×5×5 by 5×4×1×1, "
                          "algorithm 0",
                          type));
  }
}

TEST_F(LibrariesTest, ConvolutionsReadTransposesThatAreStored) {
  const GraphPtr graph = parse(
      "graph g {\n input X: f32[2, 9, 8, 3]\n input W: f32[4, 3, 3, 2]\n T = transpose(X, perm=[0, 3, 1, 2])\n"
      " O = conv2d(T, W)\n output O\n}\n");
  const auto code = generate_cuda(*graph, target(), all_products(*graph));
  ASSERT_TRUE(code);
  ASSERT_EQ(code->launches.size(), 2U);
  EXPECT_EQ(code->launches[1].arguments, (std::vector<std::string>{"T", "W", "O"}));
  EXPECT_NE(code->launches[1].convolution(), nullptr);
}

TEST_F(LibrariesTest, ConvolutionsWithChannelsLastNeedNoTransposes) {
  const auto with = [](const std::string& behind, const std::string& filters = "W = transpose(V, perm=[0, 3, 1, 2])") {
    return parse(
        "graph g {\n input U: f16[2, 9, 8, 3]\n input V: f16[4, 3, 2, 3]\n"
        " X = transpose(U, perm=[0, 3, 1, 2])\n " +
        filters + "\n C = conv2d(X, W, padding=1)\n" + behind + "}\n");
  };
  const auto needs = [](const GraphPtr& graph) {
    return needed_libraries(*generate_cuda(*graph, target(), all_products(*graph)));
  };
  const std::string back = "transpose(C, perm=[0, 2, 3, 1])\n";
  const GraphPtr plain = with(" O = " + back + " output O\n");
  EXPECT_EQ(needs(plain), "cuDNN: f16 2×3×9×8 by 4×3×3×2, padding 1, channels last, algorithm 0");
  EXPECT_LT(error(*plain, all_products(*plain)), 2e-3);
  for (const char* relu : {" R = relu(C)\n O = transpose(R, perm=[0, 2, 3, 1])\n output O\n",
                           " T = transpose(C, perm=[0, 2, 3, 1])\n O = relu(T)\n output O\n"}) {
    const GraphPtr graph = with(relu);
    EXPECT_EQ(needs(graph), "cuDNN: f16 2×3×9×8 by 4×3×3×2, padding 1, channels last, relu, algorithm 0");
    EXPECT_LT(error(*graph, all_products(*graph)), 2e-3);
    EXPECT_EQ(scheduled_cost(*graph, target(), all_products(*graph)).kernels, 1);
  }
  // What else is read is stored, and so is what the library would read in two orders.
  const auto launches = [](const GraphPtr& graph) {
    std::string text;
    const auto code = generate_cuda(*graph, target(), all_products(*graph));
    for (const KernelLaunch& launch : code->launches)
      text += launch.library ? (launch.convolution()->channels_last ? 'l' : 'f') : 'k';
    return text;
  };
  EXPECT_EQ(launches(with(" O = " + back + " output O, C\n")), "kkfk");
  EXPECT_EQ(launches(with(" O = transpose(C, perm=[0, 3, 1, 2])\n output O\n")), "kkfk");
  EXPECT_EQ(launches(with(" O = relu(C)\n output O\n")), "kkfk");
  EXPECT_EQ(launches(with(" O = " + back + " output O\n", "W = transpose(V, perm=[0, 3, 2, 1])")), "kkfk");
}

TEST_F(LibrariesTest, ConvolutionsThatTheLibraryDoesNotTake) {
  const auto refused = [](const std::string& type, int64_t padding) {
    const GraphPtr graph = parse(fmt::format(
        "graph g {{\n input X: {0}[1, 2, 4, 4]\n input W: {0}[2, 2, 2, 3]\n O = conv2d(X, W, padding={1})\n output "
        "O\n}}\n",
        type, padding));
    return !plan_libraries(*graph, all_products(*graph)).refused.empty();
  };
  EXPECT_FALSE(refused("f32", 1));
  EXPECT_TRUE(refused("f64", 1));
  EXPECT_TRUE(refused("f32", 2));  // results of padding alone
}

/// A kernel after a library's waits for it: that does not say when the next kernel may start.
TEST_F(LibrariesTest, KernelsOverlapKernelsAlone) {
  const auto overlaps = [](const std::string& statements) {
    const GraphPtr graph = parse("graph g {\n input X: f16[64, 64]\n input W: f16[64, 64]\n" + statements + "}\n");
    const auto code = generate_cuda(*graph, target(), all_products(*graph));
    std::string text;
    for (const KernelLaunch& launch : code->launches)
      text += launch.library ? 'L' : launch.overlaps_previous ? 'o' : '-';
    return text;
  };
  EXPECT_EQ(overlaps(" P = matmul(X, W)\n S = exp(P)\n O = sqr(S)\n output O\n"), "L-o");
  EXPECT_EQ(overlaps(" S = exp(X)\n T = sqr(S)\n P = matmul(T, W)\n O = sqr(P)\n output O\n"), "ooL-");
  // Behind the last launch comes the first of the next run.
  EXPECT_EQ(overlaps(" S = exp(X)\n T = sqr(S)\n O = matmul(T, W)\n output O\n"), "-oL");
  EXPECT_EQ(overlaps(" O = exp(X)\n output O\n"), "o");
}

TEST_F(LibrariesTest, WhatIsMissingIsNotOffered) {
  const GraphPtr graph = parse(
      "graph g {\n input X: f16[8, 64, 56, 56]\n input W: f16[64, 64, 3, 3]\n input A: f16[2048, 2048]\n"
      " input B: f16[2048, 2048]\n C = conv2d(X, W, padding=1)\n P = matmul(A, B)\n output C, P\n}\n");
  const auto labels = [&](const AvailableLibraries& available) {
    std::string text;
    for (const Schedules& schedules : all_schedules(*graph, target(), {}, available)) text += label(schedules) + " ";
    return text;
  };
  EXPECT_EQ(labels({}), "own lt0.0 lt1.0 lt2.0 lt3.0 lt4.0 lt5.0 lt6.0 lt7.0 lt0.1 lt0.2 lt0.3 lt0.4 ");
  EXPECT_EQ(labels({.cudnn = false}), "own lt0 lt1 lt2 lt3 lt4 ");
  EXPECT_EQ(labels({.cublas_lt = false}), "own lt0 lt1 lt2 lt3 lt4 lt5 lt6 lt7 ");
  EXPECT_EQ(labels({.cublas_lt = false, .cudnn = false}), "own ");
  // 2 · 8 · 64 · 56 · 56 · 64 · 9 operations.
  const Schedules schedules = library_schedules(*graph, target(), {}, {.cublas_lt = false});
  EXPECT_LT(scheduled_cost(*graph, target(), schedules).seconds, scheduled_cost(*graph, target()).seconds);
}

TEST_F(LibrariesTest, RandomProducts) {
  Random random(11);
  const auto pick = [&](int64_t from, int64_t to) { return from + static_cast<int64_t>(random() % (to - from + 1)); };
  int computed = 0;
  for (int round = 0; round < 150; ++round) {
    const auto dimensions = static_cast<size_t>(pick(0, 2));
    Shape batch;
    for (size_t d = 0; d < dimensions; ++d) batch.push_back(pick(1, 3));
    const int64_t m = pick(1, 9), n = pick(1, 9), k = pick(1, 9);
    const auto operand = [&](const char* name, int64_t rows, int64_t columns, std::string& statements) {
      Shape shape;
      const size_t kept = static_cast<size_t>(pick(0, static_cast<int64_t>(dimensions)));
      for (size_t d = dimensions - kept; d < dimensions; ++d) shape.push_back(pick(0, 3) == 0 ? 1 : batch[d]);
      const bool transposed = pick(0, 1) == 1;
      shape.push_back(transposed ? columns : rows);
      shape.push_back(transposed ? rows : columns);
      std::vector<size_t> perm(shape.size());
      for (size_t d = 0; d < perm.size(); ++d) perm[d] = d;
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      if (transposed) statements += fmt::format(" {0} = transpose(m{0}, perm=[{1}])\n", name, fmt::join(perm, ", "));
      return fmt::format(" input {}{}: f32[{}]\n", transposed ? "m" : "", name, fmt::join(shape, ", "));
    };
    std::string statements;
    std::string text = "graph g {\n" + operand("A", m, k, statements) + operand("B", k, n, statements);
    text += statements + " O = matmul(A, B)\n output O\n}\n";
    const GraphPtr graph = parse(text);
    const Schedules schedules = all_products(*graph);
    if (!plan_libraries(*graph, schedules).refused.empty()) continue;
    const double found = error(*graph, schedules);
    if (found == INFINITY) continue;  // a transpose is stored
    ++computed;
    EXPECT_LT(found, 1e-6) << text;
  }
  EXPECT_GT(computed, 120);
}

TEST_F(LibrariesTest, TheModelGivesLargeProductsToTheLibrary) {
  const GraphPtr large = parse(
      "graph g {\n input A: f16[2048, 2048]\n input B: f16[2048, 2048]\n input c: f16[2048, 16]\n"
      " P = matmul(A, B)\n O = matmul(P, c)\n output O\n}\n");
  const Schedules schedules = library_schedules(*large, target(), {});
  EXPECT_TRUE(uses_library(schedules));
  EXPECT_LT(scheduled_cost(*large, target(), schedules).seconds, scheduled_cost(*large, target()).seconds / 20);
  EXPECT_TRUE(library_schedules(*large, target(), {.libraries = false}).empty());
  const GraphPtr small =
      parse("graph g {\n input A: f16[8, 8]\n input B: f16[8, 8]\n O = matmul(A, B)\n output O\n}\n");
  EXPECT_TRUE(library_schedules(*small, target(), {}).empty());
  // Measured on an H200, f16 of 25.2 and 13.8 µs, f32 of 340 µs.
  const auto microseconds = [](DType type, int64_t m, int64_t n, int64_t k) {
    MatrixProduct p;
    p.type = type;
    std::tie(p.m, p.n, p.k, p.a.leading, p.b.leading) = std::tuple(m, n, k, k, n);
    return library_seconds(p, targets().back()) * 1e6;
  };
  EXPECT_NEAR(microseconds(DType::F16, 2048, 2048, 2048), 25.2, 3);
  EXPECT_NEAR(microseconds(DType::F16, 8, 4096, 4096), 13.8, 1);
  EXPECT_NEAR(microseconds(DType::F32, 2048, 2048, 2048), 340, 40);
  // Rows of no whole 16 bytes; the second on an H100.
  EXPECT_NEAR(microseconds(DType::F16, 17, 3001, 1000), 10.6, 2);
  EXPECT_NEAR(microseconds(DType::BF16, 1803, 4001, 1152), 154, 20);
  // Few results of long sums: 11.9, 20.4, 57.0 and 170.8 µs, and of bf16 8.5 and 23.3.
  EXPECT_NEAR(microseconds(DType::F32, 12, 40, 13728), 11.9, 4);
  EXPECT_NEAR(microseconds(DType::F32, 48, 200, 13728), 20.5, 6);
  EXPECT_NEAR(microseconds(DType::F32, 128, 128, 65536), 57, 15);
  EXPECT_NEAR(microseconds(DType::F32, 256, 256, 65536), 170.8, 20);
  EXPECT_NEAR(microseconds(DType::BF16, 40, 80, 13728), 8.5, 3);
  EXPECT_NEAR(microseconds(DType::BF16, 256, 256, 65536), 23.3, 8);
  // Several in one launch, whose sums nobody shares: 93.4, 75.9 and (of TF32) 22.5 µs on an H100, events included.
  const auto of_batch = [](bool tf32, int64_t batch, int64_t m, int64_t n, int64_t k) {
    MatrixProduct p;
    p.type = DType::F32;
    p.tf32 = tf32;
    std::tie(p.batch, p.m, p.n, p.k, p.a.leading, p.b.leading) = std::tuple(batch, m, n, k, k, n);
    p.a.batch_stride = m * k;
    p.b.batch_stride = k * n;
    return library_seconds(p, targets().back()) * 1e6;
  };
  EXPECT_NEAR(of_batch(false, 15, 48, 48, 3001), 75, 20);
  EXPECT_NEAR(of_batch(false, 18, 211, 80, 1499), 65, 15);
  EXPECT_NEAR(of_batch(true, 18, 211, 80, 1504), 19, 4);
}

TEST_F(LibrariesTest, ConvolutionsThatMayBeTf32TakeNoLonger) {
  Convolution c;
  std::tie(c.type, c.images, c.channels, c.filters) = std::tuple(DType::F32, 8, 64, 64);
  c.spatial = {2, ConvolutionDimension{.size = 56, .filter = 3, .padding = 1}};
  const auto gained = [&] {
    c.tf32 = false;
    const double exact = library_seconds(c, targets().back());
    c.tf32 = true;
    return exact / library_seconds(c, targets().back());
  };
  for (const bool last : {false, true}) {
    c.channels_last = last;
    c.groups = 1;
    EXPECT_GT(gained(), 1.5);
    c.groups = 64;
    EXPECT_EQ(gained(), 1);  // a product of one term for each filter's element
  }
}

TEST_F(LibrariesTest, ConvolutionsOfOneElementNeedNoOtherOrderWhereRowsAreWhole) {
  // Measured: 7.2 µs of 56 × 56 (docs/cost-model.md). 65 × 65 of 16 bits are no whole 16 bytes: 36 µs and more.
  const auto microseconds = [&](int64_t images, int64_t channels, int64_t filters, int64_t size, bool last) {
    Convolution c;
    std::tie(c.type, c.images, c.channels, c.filters) = std::tuple(DType::BF16, images, channels, filters);
    c.spatial = {2, ConvolutionDimension{.size = size}};
    c.channels_last = last;
    return library_seconds(c, targets().back()) * 1e6;
  };
  EXPECT_EQ(microseconds(8, 256, 64, 56, false), microseconds(8, 256, 64, 56, true));
  EXPECT_NEAR(microseconds(8, 256, 64, 56, false), 7.2, 1.5);
  EXPECT_GT(microseconds(3, 256, 104, 65, false), 2 * microseconds(3, 256, 104, 65, true));
  EXPECT_NEAR(microseconds(3, 556, 100, 65, false), 36, 8);
}

TEST_F(LibrariesTest, SchedulesOfALibrary) {
  const GraphPtr graph = parse(
      "graph g {\n input A: f16[64, 1024]\n input V: f16[1024, 1024]\n input W: f16[1024, 1024]\n"
      " input U: f16[1024, 512]\n P = matmul(A, V)\n Q = matmul(A, W)\n R = mul(P, Q)\n O = matmul(R, U)\n output "
      "O\n}\n");
  std::vector<std::string> labels;
  for (const Schedules& schedules : all_schedules(*graph, target(), {})) labels.push_back(label(schedules));
  EXPECT_THAT(labels, ElementsAre("own", "lt0.0.0", "lt1.1.0", "lt2.2.0", "lt3.3.0", "lt4.4.0", "lt0.0.1", "lt0.0.2",
                                  "lt0.0.3", "lt0.0.4"));
  EXPECT_EQ(all_schedules(*graph, target(), {.libraries = false}).size(), 1U);
  const auto code = generate_cuda(*graph, target(), all_schedules(*graph, target(), {})[1]);
  ASSERT_TRUE(code);
  ASSERT_EQ(code->launches.size(), 4U);
  EXPECT_FALSE(code->launches[2].overlaps_previous);  // it follows the library
  Schedules wrong(graph->operations().size());
  wrong[2] = BlockSchedule{.algorithm = 0};
  EXPECT_THAT(generate_cuda(*graph, target(), wrong).error().message, HasSubstr("no library computes R = mul"));
}

}  // namespace
}  // namespace strata
