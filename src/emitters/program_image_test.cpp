// What programs of HLO modules are to the launcher: modules, and what launches touch.
#include "emitters/program_image.h"

#include <gmock/gmock.h>

#include <atomic>

#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/input_output_alias.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "runtime/launch_accesses.h"

namespace strata::emitters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

hlo::ModulePtr parsed(const std::string& text) {
  auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  return *module;
}

/// Two layers that are equal but for names, and one of another size.
constexpr const char* kLayers = R"(
HloModule m
ENTRY e {
  a = f32[64,48] parameter(0)
  b = f32[64,48] parameter(1)
  c = f32[64,32] parameter(2)
  t = f32[48,64] transpose(a), dimensions={1,0}
  first = f32[48,64] negate(t)
  u = f32[48,64] transpose(b), dimensions={1,0}
  second = f32[48,64] negate(u)
  v = f32[32,64] transpose(c), dimensions={1,0}
  third = f32[32,64] negate(v)
  ROOT r = tuple(first, second, third)
})";

TEST(ProgramImage, KernelsThatAreEqualButForNamesAreCompiledOnce) {
  const hlo::ModulePtr module = parsed(kLayers);
  const auto program = emit_program(*module);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 3U);
  std::vector<std::string> modules;
  for (const ProgramStep& step : program->steps) modules.push_back(step.fusion->module_name());
  EXPECT_THAT(modules, ElementsAre("fused_first", "fused_first", "fused_third"));
  EXPECT_EQ(program->steps[1].fusion->name(), "fused_second");
  EXPECT_THAT(explain(*program), HasSubstr("kernels of       fused_first, which is equal but for names"));

  std::atomic<int> compiled = 0;
  const auto image = image_of(*program, {}, [&](const EmittedFusion&) {
    ++compiled;
    return Result<std::string>("code");
  });
  ASSERT_TRUE(image) << image.error().to_string();
  EXPECT_EQ(compiled, 2);
  std::vector<std::string> files, launched, parts;
  for (const auto& [name, code] : image->image.modules) files.push_back(name);
  for (const GpuStep& step : image->image.manifest.steps) {
    launched.push_back(step.launch()->module + " " + step.launch()->kernel);
    parts.push_back(step.part);
  }
  EXPECT_THAT(files, UnorderedElementsAre("fused_first", "fused_third"));
  EXPECT_THAT(launched, ElementsAre("fused_first fused_first", "fused_first fused_first", "fused_third fused_third"));
  EXPECT_THAT(parts, ElementsAre("fused_first", "fused_second", "fused_third"));

  const auto arguments = hlo::typical_arguments(module->entry_computation(), 3);
  const auto expected = hlo::evaluate(*module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  ASSERT_TRUE(expected && actual);
  EXPECT_EQ(hlo::difference(*actual, *expected, 1).value_or(""), "");
}

TEST(ProgramImage, LaunchesSayWhatTheyTouchAndOfWhichClassItIs) {
  // A sort between: y is made in this run. The state is written over.
  const auto text_of_module = hlo::parse_module_text(R"(
HloModule m, input_output_alias={ {1}: (1, {}, may-alias) }
less { p = f32[] parameter(0) q = f32[] parameter(1) ROOT l = pred[] compare(p, q), direction=LT }
ENTRY e {
  x = f32[256] parameter(0)
  state = f32[8,256] parameter(1)
  place = s32[] parameter(2)
  zero = s32[] constant(0)
  y = f32[256] sort(x), dimensions={0}, to_apply=less
  row = f32[1,256] reshape(y)
  z = f32[256] exponential(y)
  next = f32[8,256] dynamic-update-slice(state, row, place, zero)
  ROOT r = tuple(z, next)
})");
  ASSERT_TRUE(text_of_module) << text_of_module.error().to_string();
  const auto program = emit_program(*text_of_module->module, {}, LibraryUse::Never, {}, text_of_module->aliases);
  ASSERT_TRUE(program) << program.error().to_string();
  auto image = image_of(*program, {}, [](const EmittedFusion&) { return Result<std::string>("code"); });
  ASSERT_TRUE(image) << image.error().to_string();
  LaunchManifest& manifest = image->image.manifest;
  std::map<std::string, ArgumentClass> classes;
  for (const GpuStep& step : manifest.steps) {
    const GpuLaunch* launch = step.launch();
    if (launch == nullptr) continue;
    ASSERT_EQ(launch->classes.size(), launch->arguments.size()) << launch->kernel;
    EXPECT_FALSE(launch->accesses.empty()) << launch->kernel;
    for (size_t i = 0; i < launch->arguments.size(); ++i) classes[launch->arguments[i]] = launch->classes[i];
  }
  EXPECT_EQ(classes.at("x"), ArgumentClass::Constant);
  EXPECT_EQ(classes.at("place"), ArgumentClass::Constant);
  EXPECT_EQ(classes.at("state"), ArgumentClass::State);
  EXPECT_EQ(classes.at(manifest.results[0].second), ArgumentClass::Activation);
  // What was written is what is read, and a list in another order is refused.
  const auto text = print(manifest);
  ASSERT_TRUE(text);
  auto read = parse_launch_manifest(*text);
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_TRUE(check_accesses(*read));
  std::swap(read->steps.front(), read->steps.back());
  const auto refused = check_accesses(*read);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().to_string(), HasSubstr("which no step before it writes"));
}

}  // namespace
}  // namespace strata::emitters
