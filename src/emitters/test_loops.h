// Loops as one kernel, run on this processor and compared with the interpreter: what their tests share.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emitters/buffers.h"
#include "emitters/loop_kernel.h"
#include "emitters/program_image.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "runtime/nv_jit_link.h"

namespace strata::emitters {

struct Made {
  hlo::ModulePtr module;
  EmittedProgram program;
  EmittedImage image;
};

/// A GPU where barriers and first loads cost nothing, but launches do: whatever can be one kernel is one.
inline EmitOptions free_barriers() {
  EmitOptions options;
  Rates& rates = options.target.rates;
  rates.grid_barrier = rates.iteration = rates.launch = rates.kernel = 0;
  return options;
}

/// The image, whose modules are PTX.
inline Made made_of(const std::string& text, const EmitOptions& options = {}) {
  Made made;
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return made;
  made.module = *module;
  auto program = emit_program(*made.module, options);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return made;
  made.program = *std::move(program);
  auto image = image_of(
      made.program, options, [](const EmittedFusion& of) { return of.text(Form::Ptx); }, nullptr, ResultMemory::Own,
      [](const LoopKernel& of) { return of.ptx(); });
  EXPECT_TRUE(image) << image.error().to_string();
  if (image) made.image = *std::move(image);
  return made;
}

/// Of a module that is a loop over its parameters and constants: the kernel, whose results are the interpreter's.
/// Memory that nothing was written to is NaN.
inline std::optional<LoopKernel> checked(const std::string& text, uint64_t seed = 1, const EmitOptions& options = {}) {
  const Made made = made_of(text, options);
  EXPECT_EQ(made.image.loops.size(), 1U);
  if (made.image.loops.size() != 1) return std::nullopt;
  const LoopKernel& loop = made.image.loops.front();
  const LaunchManifest& manifest = made.image.image.manifest;
  const auto arguments = hlo::typical_arguments(made.module->entry_computation(), seed);
  const auto expected = hlo::evaluate(*made.module, arguments);
  EXPECT_TRUE(expected);
  if (!expected) return std::nullopt;

  std::map<std::string, Buffer> memory;
  const auto at = [&](const std::string& name) {
    const GpuBuffer* root = manifest.find(name);
    while (!root->lies_in.empty()) root = manifest.find(root->lies_in);
    return memory.try_emplace(root->name, static_cast<size_t>(root->type.bytes())).first->second.data();
  };
  for (const GpuBuffer& buffer : manifest.buffers) {
    const auto bytes = static_cast<size_t>(buffer.type.bytes());
    EXPECT_NE(buffer.role, BufferRole::Carried) << buffer.name;
    if (buffer.role == BufferRole::Counters) std::memset(at(buffer.name), 0, bytes);
    if (buffer.role == BufferRole::Constant)
      std::memcpy(at(buffer.name), made.image.image.constants.data() + *buffer.offset, bytes);
  }
  for (size_t i = 0; i < made.program.buffers.size(); ++i) {
    const ProgramBuffer& it = made.program.buffers[i];
    if (it.parameter < 0 || made.image.buffers[i].empty()) continue;
    const Buffer bytes = to_buffer(arguments[static_cast<size_t>(it.parameter)], it.shape);
    std::memcpy(at(made.image.buffers[i]), bytes.data(), bytes.size());
  }
  std::vector<void*> pointers;
  const auto pointers_of = [&](const std::vector<int>& buffers) {
    std::vector<void*> all;
    for (const int one : buffers) all.push_back(at(made.image.buffers[static_cast<size_t>(one)]));
    return all;
  };
  for (const ProgramStep& step : made.program.steps) {
    if (!step.loop) {  // whether there is a first iteration
      EXPECT_TRUE(step.fusion && step.temporaries.empty() && step.fusion->decision().preparations.empty());
      const std::vector<void*> inputs = pointers_of(step.inputs);
      EXPECT_TRUE(
          step.fusion->run_on_cpu(std::vector<const void*>(inputs.begin(), inputs.end()), pointers_of(step.outputs)));
      continue;
    }
    for (const std::string& name : manifest.steps.back().launch()->arguments) pointers.push_back(at(name));
    const Result<void> ran = loop.run_on_cpu(pointers);
    EXPECT_TRUE(ran) << ran.error().to_string();
  }
  std::vector<hlo::Literal> results;
  for (const int result : made.program.results) {
    const hlo::Shape& shape = made.program.buffers[static_cast<size_t>(result)].shape;
    Buffer bytes(byte_count(shape));
    std::memcpy(bytes.data(), at(made.image.buffers[static_cast<size_t>(result)]), bytes.size());
    results.push_back(from_buffer(bytes, shape));
  }
  EXPECT_EQ(hlo::difference(assemble_results(made.program, results), *expected, 8).value_or(""), "") << text;
  // The code for the GPU is one that the linker takes.
  if (nv_jit_link_version()) {
    const auto cubin = cubin_of(loop, "sm_90a");
    EXPECT_TRUE(cubin) << cubin.error().to_string();
  }
  return loop;
}

}  // namespace strata::emitters
