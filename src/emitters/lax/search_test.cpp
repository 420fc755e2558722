// Parts of modules by the superoptimizer: which are taken, and that programs with them compute what the interpreter
// does: on the CPU by the reference executor, and through the launches of a fake GPU.
#include "emitters/lax/search.h"

#include <gtest/gtest.h>

#include "emitters/gpu_run.h"
#include "emitters/measure_parts.h"
#include "hlo/compare.h"
#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "ir/text.h"
#include "runtime/storage.h"
#include "runtime/test_driver.h"

namespace strata::emitters {
namespace {

/// HLO rounds 16-bit values after each operator.
constexpr double kSlack = 16;

hlo::ModulePtr load(const std::string& name) {
  const auto module = hlo::load_module(STRATA_SOURCE_DIR "/tests/data/lax/" + name + ".hlo");
  EXPECT_TRUE(module) << module.error().to_string();
  return module ? *module : nullptr;
}

LaxOptions quick() {
  LaxOptions options;
  options.seconds = 600;  // every search ends long before
  options.threads = 2;
  return options;
}

int lax_steps(const EmittedProgram& program) {
  int count = 0;
  for (const ProgramStep& step : program.steps) count += step.lax ? 1 : 0;
  return count;
}

class LaxSearchOfJax : public testing::TestWithParam<std::string> {};

TEST_P(LaxSearchOfJax, ProgramsAgreeOnTheCpu) {
  const hlo::ModulePtr module = load(GetParam());
  const auto program = emit_program(*module, {}, LibraryUse::WhereFaster, quick());
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_EQ(lax_steps(*program), 1) << explain(*program);
  EXPECT_NE(explain(*program).find("  superoptimizer "), std::string::npos);
  const auto arguments = hlo::typical_arguments(module->entry_computation(), 5);
  const auto expected = hlo::evaluate(*module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  ASSERT_TRUE(expected && actual);
  EXPECT_EQ(hlo::difference(*actual, *expected, kSlack).value_or(""), "");
  // Its kernels say what they touch of the module's arrays; making the image checks that.
  const auto image = image_of(*program, {}, [](const EmittedFusion&) { return Result<std::string>("code"); });
  ASSERT_TRUE(image) << image.error().to_string();
  int kernels = 0;
  for_each_step(image->image.manifest.steps, [&](const GpuStep& step) {
    if (step.what != "superoptimizer" || step.launch()->library) return;
    ++kernels;
    EXPECT_FALSE(step.launch()->accesses.empty()) << step.launch()->kernel;
    EXPECT_EQ(step.launch()->classes.size(), step.launch()->arguments.size());
  });
  EXPECT_GT(kernels, 0);
}

INSTANTIATE_TEST_SUITE_P(Modules, LaxSearchOfJax,
                         testing::Values("attention_f16", "attention_bthd_bf16", "causal_bf16", "gqa_decode_bf16",
                                         "rmsnorm_f16", "gated_mlp_bf16", "gated_mlp_f16"),
                         [](const auto& instance) { return instance.param; });

TEST(LaxSearch, NothingIsSearchedWhereNobodyAsks) {
  const hlo::ModulePtr module = load("attention_f16");
  const auto program = emit_program(*module);
  ASSERT_TRUE(program);
  EXPECT_EQ(lax_steps(*program), 0);
  EXPECT_TRUE(program->notes.empty());
}

TEST(LaxSearch, MeasurementDecidesWhereThereIsOne) {
  const hlo::ModulePtr module = load("lora_f16");
  LaxOptions options = quick();
  double of_step = 7;
  options.microseconds = [&](const hlo::Module&, const LaxStep* step) -> Result<double> { return step ? of_step : 8; };
  const auto faster = emit_program(*module, {}, LibraryUse::WhereFaster, options);
  of_step = 9;
  const auto slower = emit_program(*module, {}, LibraryUse::WhereFaster, options);
  ASSERT_TRUE(faster && slower);
  EXPECT_EQ(lax_steps(*faster), 1);
  EXPECT_EQ(lax_steps(*slower), 0);
  ASSERT_FALSE(slower->notes.empty());
  EXPECT_NE(slower->notes[0].find("add.1 with 3 instructions before it: 9 µs measured; kernels and libraries take 8"),
            std::string::npos)
      << slower->notes[0];
}

TEST(LaxSearch, WhatAStepCostsAroundItIsCounted) {
  // A kernel that computes the hyperbolic tangent beside the product reads its values where they are made.
  const auto module = hlo::parse_module(R"(HloModule m
ENTRY e {
  x = f16[2048,64] parameter(0)
  w = f16[64,2048] parameter(1)
  p = f16[2048,2048] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f16[] constant(0.125)
  cs = f16[2048,2048] broadcast(c), dimensions={}
  s = f16[2048,2048] multiply(p, cs)
  ROOT t = f16[2048,2048] tanh(s)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  LaxOptions options = quick();
  double of_step = 19.9;
  options.microseconds = [&](const hlo::Module&, const LaxStep* step) -> Result<double> { return step ? of_step : 20; };
  const auto slower = emit_program(**module, {}, LibraryUse::WhereFaster, options);
  of_step = 1;
  const auto faster = emit_program(**module, {}, LibraryUse::WhereFaster, options);
  ASSERT_TRUE(faster && slower);
  EXPECT_EQ(lax_steps(*slower), 0);
  EXPECT_EQ(lax_steps(*faster), 1);
  ASSERT_FALSE(slower->notes.empty());
  EXPECT_NE(slower->notes[0].find("µs with what it costs around it; kernels and libraries take 20"), std::string::npos)
      << slower->notes[0];
}

GraphPtr graph_of(const std::string& path) {
  const auto graph = load_graph(STRATA_SOURCE_DIR "/" + path);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

TEST(LaxSearch, ValuesOfF32AreNotRoundedBetweenKernels) {
  const auto rounds = [](const std::string& path) {
    LaxProgram program{graph_of("programs/gqa.strata"), {}, {}, true};
    const bool found = !objection(*graph_of(path), program).empty();
    program.wide_values = false;
    EXPECT_EQ(objection(*graph_of(path), program), "");
    return found;
  };
  EXPECT_TRUE(rounds("programs/gqa.strata"));  // each operator is a kernel
  EXPECT_FALSE(rounds("tests/data/gqa_fused.strata"));
  EXPECT_FALSE(rounds("tests/data/gqa_online_split.strata"));  // partial results are f32
  EXPECT_TRUE(rounds("tests/data/gqa_split.strata"));          // partial results are f16
}

TEST(LaxSearch, MaskedExponentsHaveOneMaximum) {
  const auto masked = parse_graph(R"(graph masked {
  input S: f16[2, 256, 4096]
  input V: f16[2, 4096, 64]
  M = reduce_max(S, dim=2)
  B = sub(S, M)
  E = exp(B)
  T = sum(E, dim=2)
  D = div(E, T)
  O = matmul(D, V)
  output O
})");
  ASSERT_TRUE(masked) << masked.error().to_string();
  const GraphPtr online = graph_of("tests/data/gqa_online.strata");
  EXPECT_NE(objection(*online, {*masked, {}, {}, false}), "");
  EXPECT_EQ(objection(*online, {graph_of("programs/gqa.strata"), {}, {}, false}), "");
  EXPECT_EQ(objection(**masked, {*masked, {}, {}, false}), "");
}

TEST(LaxSearch, EqualPartsAreSearchedOnce) {
  std::string text = "HloModule m\nENTRY e {\n  x0 = f16[16,64] parameter(0)\n";
  for (int layer = 0; layer < 3; ++layer) {
    text += fmt::format(R"(  w{0} = f16[64,64] parameter({1})
  u{0} = f16[64,64] parameter({2})
  p{0} = f16[16,64] dot(x{0}, w{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  q{0} = f16[16,64] dot(x{0}, u{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  m{0} = f16[16,64] multiply(p{0}, q{0})
  {3}x{4} = f16[16,64] tanh(m{0})
)",
                        layer, 2 * layer + 1, 2 * layer + 2, layer == 2 ? "ROOT " : "", layer + 1);
  }
  const auto module = hlo::parse_module(text + "}\n");
  ASSERT_TRUE(module) << module.error().to_string();
  int measured = 0;
  LaxOptions options = quick();
  options.microseconds = [&](const hlo::Module&, const LaxStep* step) -> Result<double> {
    ++measured;
    return step ? 1 : 20;
  };
  const auto program = emit_program(**module, {}, LibraryUse::WhereFaster, options);
  ASSERT_TRUE(program);
  EXPECT_EQ(lax_steps(*program), 3);
  EXPECT_EQ(measured, 2);
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 5);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  ASSERT_TRUE(expected && actual);
  EXPECT_EQ(hlo::difference(*actual, *expected, kSlack).value_or(""), "");
}

/// The step whose kernel the fake GPU runs, and its µGraph on the host.
const LaxStep* running = nullptr;

void run_step(const char* kernel, void** arguments) {
  const GpuLaunch& launch = *running->manifest.steps.front().launch();
  ASSERT_EQ(launch.kernel, kernel);
  const auto place = [&](const std::string& name) {
    const auto at = std::find(launch.arguments.begin(), launch.arguments.end(), name) - launch.arguments.begin();
    return *static_cast<char**>(arguments[at]);
  };
  std::vector<hlo::Literal> inputs;
  std::vector<int> numbers;
  const Graph& graph = *running->graph;
  const auto shape_of = [&](TensorId id) { return hlo::array_shape(hlo::ElementType::F32, graph.type(id).shape); };
  for (const TensorId id : graph.arguments()) {
    const TensorType& type = graph.type(id);
    const std::string bytes(place(graph.tensor(id).name), static_cast<size_t>(type.bytes()));
    numbers.push_back(static_cast<int>(inputs.size()));
    inputs.push_back(hlo::literal_of<double>(shape_of(id), decode(bytes, type).data));
  }
  const TensorId output = graph.outputs()[0];
  const auto result = run_on_host(graph, numbers, inputs, shape_of(output));
  ASSERT_TRUE(result) << result.error().to_string();
  const Tensor<double> values(graph.type(output).shape, hlo::load_all<double>(*result));
  const std::string bytes = encode(values, graph.type(output).dtype);
  std::memcpy(place(graph.tensor(output).name), bytes.data(), bytes.size());
}

class LaxStepsTest : public FakeDriverTest {};

TEST_F(LaxStepsTest, AreLaunchedOnAGpu) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device) << device.error().to_string();
  for (const char* name : {"gated_mlp_bf16", "attention_bf16", "causal_bf16"}) {
    const hlo::ModulePtr module = load(name);
    auto program = emit_program(*module, {}, LibraryUse::WhereFaster, quick());
    ASSERT_TRUE(program);
    ASSERT_EQ(program->steps.size(), 1U) << explain(*program);
    ASSERT_TRUE(program->steps[0].lax);
    LaxStep& step = *program->steps[0].lax;
    ASSERT_EQ(step.manifest.steps.size(), 1U);
    EXPECT_TRUE(step.manifest.steps[0].launch()->overlaps_previous);
    step.cubin = fmt::format("kernel {}\ncall {:x}\n", step.manifest.steps[0].launch()->kernel,
                             reinterpret_cast<uintptr_t>(&run_step));
    const auto runner = GpuRunner::load(**device, *std::move(program), {});
    ASSERT_TRUE(runner) << runner.error().to_string();
    EXPECT_TRUE((*runner)->notes().empty());
    running = &*(*runner)->program().steps[0].lax;
    const auto arguments = hlo::typical_arguments(module->entry_computation(), 5);
    const auto actual = (*runner)->run(arguments);
    const auto expected = hlo::evaluate(*module, arguments);
    ASSERT_TRUE(actual && expected);
    EXPECT_EQ(hlo::difference(*actual, *expected, kSlack).value_or(""), "") << name;
    const auto times = (*runner)->profile(1);
    ASSERT_TRUE(times);
    EXPECT_EQ((*times)[0].what, "superoptimizer");
    EXPECT_TRUE((*runner)->microseconds());
  }
}

TEST_F(LaxStepsTest, WithoutCodeAreKernels) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  const hlo::ModulePtr module = load("gated_mlp_f16");
  auto program = emit_program(*module, {}, LibraryUse::WhereFaster, quick());
  ASSERT_TRUE(program);
  ASSERT_EQ(lax_steps(*program), 1);
  program->steps[0].lax->cubin.clear();
  const auto runner = GpuRunner::load(**device, *std::move(program), {}, [](const EmittedFusion& fusion) {
    return Result<std::string>("kernel " + fusion.kernel_names().front() + "\n");
  });
  ASSERT_TRUE(runner) << runner.error().to_string();
  ASSERT_EQ((*runner)->notes().size(), 1U);
  EXPECT_NE((*runner)->notes()[0].find("its code was not compiled"), std::string::npos);
  EXPECT_EQ(lax_steps((*runner)->program()), 0);
}

}  // namespace
}  // namespace strata::emitters
