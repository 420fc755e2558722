#include "emitters/program_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <set>
#include <thread>

#include "emitters/buffers.h"
#include "emitters/image_accesses.h"
#include "hlo/evaluate.h"
#include "runtime/memory_layout.h"
#include "runtime/nv_jit_link.h"

namespace strata::emitters {
namespace {

ArrayType type_of(const hlo::Shape& shape) {
  ArrayType type(std::string(hlo::name(shape.type)), hlo::byte_width(shape.type), shape.dims);
  if (!shape.has_default_layout()) type.minor_to_major = shape.minor_to_major;
  return type;
}

ArrayType bytes_type(int64_t bytes) { return {"u8", 1, {bytes}}; }

/// Of those that share their kernels the one that has them.
void list_fusions(const EmittedProgram& program, std::vector<const EmittedFusion*>& all) {
  for (const ProgramStep& step : program.steps) {
    if (step.fusion && step.fusion->name() == step.fusion->module_name()) all.push_back(&*step.fusion);
    if (!step.loop) continue;
    list_fusions(*step.loop->body, all);
    if (step.loop->condition) list_fusions(*step.loop->condition, all);
  }
}

/// A program of a module, of a loop's body or of its condition. What it is decides whose memory its parameters and
/// results have.
enum class Place : uint8_t { Entry, Body, Condition };

class ImageBuilder {
 public:
  /// `not_kernels`: names of loops' kernels that cannot be made.
  ImageBuilder(const EmitOptions& options, const GpuDevice* device, ResultMemory results, bool loops_are_kernels,
               const std::set<std::string>& not_kernels)
      : options_(options),
        device_(device),
        overlaps_(options.target.overlapping_kernels),
        results_(results),
        loops_are_kernels_(loops_are_kernels),
        not_kernels_(not_kernels) {}

  Result<EmittedImage> build(const EmittedProgram& program) {
    EmittedImage made;
    std::vector<const EmittedFusion*> fusions;
    list_fusions(program, fusions);
    for (const EmittedFusion* fusion : fusions) {
      kernel_names_.insert(fusion->module_name());
      for (std::string& kernel : fusion->kernel_names()) kernel_names_.insert(std::move(kernel));
    }
    manifest().name = program.name;
    manifest().runs_overlap = false;
    made.buffers = add_buffers(program, Place::Entry, "");
    STRATA_TRY(manifest().steps, steps_of(program, made.buffers));
    if (!loops_.empty()) forget_carried();
    STRATA_CHECK(add_results(program, made.buffers));
    place_buffers(manifest(), /*outputs=*/results_ == ResultMemory::Shared);
    image_.constants.assign(static_cast<size_t>(layout_of(manifest()).constant_bytes), '\0');
    for (const GpuBuffer& buffer : manifest().buffers) {
      if (buffer.role != BufferRole::Constant) continue;
      const std::string& bytes = constants_.at(buffer.name);
      std::copy(bytes.begin(), bytes.end(), image_.constants.begin() + *buffer.offset);
    }
    made.image = std::move(image_);
    made.loops = std::move(loops_);
    return made;
  }

 private:
  LaunchManifest& manifest() { return image_.manifest; }

  std::string unique(std::set<std::string>& known, const std::string& name) {
    std::string made = name;
    for (int i = 1; !known.insert(made).second; ++i) made = fmt::format("{}_{}", name, i);
    return made;
  }

  std::string add(const std::string& name, BufferRole role, ArrayType type) {
    const std::string made = unique(buffer_names_, name);
    numbers_[made] = manifest().buffers.size();
    manifest().buffers.push_back({made, role, std::move(type)});
    return made;
  }

  std::string add_constant(const std::string& name, ArrayType type, std::string bytes) {
    const std::string made = add(name, BufferRole::Constant, std::move(type));
    constants_[made] = std::move(bytes);
    return made;
  }

  GpuBuffer& buffer(const std::string& name) { return manifest().buffers[numbers_.at(name)]; }

  /// The buffer in whose memory it lies.
  GpuBuffer& root(const std::string& name) {
    GpuBuffer* at = &buffer(name);
    while (!at->lies_in.empty()) at = &buffer(at->lies_in);
    return *at;
  }

  /// Those that something names; parameters all.
  static std::vector<bool> used_buffers(const EmittedProgram& program) {
    std::vector<bool> used(program.buffers.size(), false);
    for (size_t i = 0; i < used.size(); ++i) used[i] = program.buffers[i].parameter >= 0;
    const auto use = [&](const std::vector<int>& list) {
      for (const int one : list) used[static_cast<size_t>(one)] = true;
    };
    for (const ProgramStep& step : program.steps) {
      use(step.inputs);
      use(step.outputs);
      use(step.temporaries);
      if (step.library) use(step.library->arguments);
      if (!step.loop) continue;
      for (const LoopStep::Leaf& leaf : step.loop->leaves) used[static_cast<size_t>(leaf.initial)] = true;
    }
    use(program.results);
    return used;
  }

  std::vector<std::string> add_buffers(const EmittedProgram& program, Place place, const std::string& prefix) {
    const std::vector<bool> used = used_buffers(program);
    std::vector<std::string> names(program.buffers.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const ProgramBuffer& it = program.buffers[i];
      if (!used[i] || !it.shape.is_array()) continue;
      const std::string name = prefix + (it.parameter >= 0 && !it.name.empty() ? it.name : fmt::format("array.{}", i));
      const bool result = std::count(program.results.begin(), program.results.end(), static_cast<int>(i)) > 0;
      if (it.constant) {
        const Buffer bytes = to_buffer(*it.constant, it.shape);
        names[i] = add_constant(name, type_of(it.shape), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      } else {
        const bool carried = place != Place::Entry && (it.parameter >= 0 || (result && place == Place::Body));
        const BufferRole role = carried                           ? BufferRole::Carried
                                : it.parameter >= 0               ? BufferRole::Input
                                : result && place == Place::Entry ? BufferRole::Output
                                                                  : BufferRole::Intermediate;
        names[i] = add(name, role, type_of(it.shape));
      }
    }
    share(program, place, names);
    return names;
  }

  /// Arrays that are written one over the other lie in one: the parameter's where that may be written over, that of a
  /// result, which has its place from the loop or the caller, or the first.
  void share(const EmittedProgram& program, Place place, const std::vector<std::string>& names) {
    const std::vector<int> over = written_over(program);
    const auto is_given = [&](int of) { return std::ranges::count(program.aliases, of, &ResultAlias::parameter) > 0; };
    for (size_t i = 0; i < over.size(); ++i) {
      const int from = over[i];
      if (from < 0) continue;
      const bool parameter = program.buffers[static_cast<size_t>(from)].parameter >= 0;
      if (parameter && (place != Place::Entry || !is_given(from))) continue;
      GpuBuffer& first = buffer(names[static_cast<size_t>(from)]);
      GpuBuffer& next = buffer(names[i]);
      GpuBuffer& begin = root(first.name);
      const bool is_result = next.role == BufferRole::Output && begin.role == BufferRole::Intermediate;
      if (next.role == BufferRole::Carried || is_result)
        begin.lies_in = next.name;  // the whole chain so far
      else
        next.lies_in = first.name;
    }
    if (place == Place::Entry) give_parameters(program, names);
  }

  /// The number of the first step, and of the last, that names a buffer lying in `of`; none: {steps, -1}.
  std::pair<int64_t, int64_t> life_of(const EmittedProgram& program, const std::vector<std::string>& names,
                                      const std::string& of) {
    std::pair<int64_t, int64_t> life(std::ssize(program.steps), -1);
    const auto lies_there = [&](int number) {
      const std::string& name = names[static_cast<size_t>(number)];
      return !name.empty() && root(name).name == of;
    };
    for (int64_t i = 0; i < std::ssize(program.steps); ++i) {
      const ProgramStep& step = program.steps[static_cast<size_t>(i)];
      for (const std::vector<int>* list : {&step.inputs, &step.outputs, &step.temporaries}) {
        if (std::none_of(list->begin(), list->end(), lies_there)) continue;
        life.first = std::min(life.first, i);
        life.second = i;
      }
    }
    return life;
  }

  /// Results that are not written over the parameter they may lie in take its memory where it is free by then.
  void give_parameters(const EmittedProgram& program, const std::vector<std::string>& names) {
    for (const ResultAlias& alias : program.aliases) {
      const std::string& parameter = names[static_cast<size_t>(alias.parameter)];
      GpuBuffer& result = root(names[static_cast<size_t>(program.results[alias.result])]);
      const BufferRole role = result.role;
      if (role != BufferRole::Intermediate && role != BufferRole::Output) continue;
      const bool handed_out = std::count(program.results.begin(), program.results.end(), alias.parameter) > 0;
      const bool taken = std::any_of(manifest().buffers.begin(), manifest().buffers.end(),
                                     [&](const GpuBuffer& one) { return one.lies_in == parameter; });
      if (handed_out || taken) continue;
      if (life_of(program, names, parameter).second < life_of(program, names, result.name).first)
        result.lies_in = parameter;
    }
  }

  Result<void> add_results(const EmittedProgram& program, const std::vector<std::string>& names) {
    std::vector<std::string> results;
    for (const int result : program.results) results.push_back(names[static_cast<size_t>(result)]);
    for (const ResultAlias& alias : program.aliases) {
      if (!alias.must) continue;
      const std::string& parameter = names[static_cast<size_t>(alias.parameter)];
      if (root(results[alias.result]).name == parameter) continue;
      if (std::count(results.begin(), results.end(), parameter) > 0)
        return unsupported("result {} must lie in '{}', which is another result", alias.result, parameter);
      manifest().steps.emplace_back(GpuCopy{results[alias.result], parameter}, "copy to " + parameter, "must-alias");
      results[alias.result] = parameter;
    }
    std::vector<std::string> leaves;
    list_leaves(program.result_shape, program.result_name, leaves);
    for (size_t i = 0; i < results.size(); ++i)
      manifest().results.emplace_back(i < leaves.size() ? leaves[i] : results[i], results[i]);
    return {};
  }

  static void list_leaves(const hlo::Shape& shape, const std::string& name, std::vector<std::string>& leaves) {
    if (shape.is_array()) leaves.push_back(name);
    for (size_t i = 0; i < shape.elements.size(); ++i)
      list_leaves(shape.elements[i], fmt::format("{}.{}", name, i), leaves);
  }

  Result<std::vector<GpuStep>> steps_of(const EmittedProgram& program, const std::vector<std::string>& names) {
    std::vector<GpuStep> steps;
    for (const ProgramStep& step : program.steps) {
      const std::string name = step.fusion ? step.fusion->name() : step.interpreted->entry_computation().name;
      part_ = unique(part_names_, name);
      if (step.fusion) {
        add_fusion(step, names, steps);
      } else if (step.loop) {
        const std::string part = part_;
        STRATA_TRY(GpuLoop loop, loop_of(*step.loop, part, names));
        std::string what = description(*step.loop);
        if (add_loop_kernel(loop, *step.loop, part, what, steps)) continue;
        steps.emplace_back(std::move(loop), part, std::move(what));
      } else if (step.library) {
        GpuLaunch launch;
        launch.kernel = part_;
        launch.library = step.library->work;
        launch.arguments = list(step.library->arguments, names);
        steps.emplace_back(std::move(launch), part_, "");
      } else if (step.lax) {
        add_lax(step, names, steps);
      } else {
        add_host(step, program, names, steps);
      }
    }
    return steps;
  }

  static std::vector<std::string> list(const std::vector<int>& numbers, const std::vector<std::string>& names) {
    std::vector<std::string> all;
    for (const int number : numbers) all.push_back(names[static_cast<size_t>(number)]);
    return all;
  }

  void add_fusion(const ProgramStep& step, const std::vector<std::string>& names, std::vector<GpuStep>& steps) {
    const Decision& decision = step.fusion->decision();
    const auto add_step = [&](auto work) { steps.emplace_back(std::move(work), part_, decision.emitter); };
    for (const Preparation& one : decision.preparations) {
      const int output = (one.temporary ? step.temporaries : step.outputs)[static_cast<size_t>(one.output)];
      const std::string& to = names[static_cast<size_t>(output)];
      if (one.kind == Preparation::Kind::Fill) {
        add_step(GpuFill{to, {reinterpret_cast<const char*>(one.value.bytes()), one.value.byte_size()}});
        continue;
      }
      const std::string& from = names[static_cast<size_t>(step.inputs[static_cast<size_t>(one.input)])];
      if (root(to).name != root(from).name) add_step(GpuCopy{from, to});
    }
    const std::vector<std::string> kernels = step.fusion->kernel_names();
    for (size_t i = 0; i < kernels.size(); ++i) {
      const Launch& of = decision.launches[i];
      if (of.blocks == 0) continue;
      GpuLaunch launch;
      launch.kernel = kernels[i];
      launch.grid[0] = of.blocks;
      launch.threads = of.threads;
      launch.shared_bytes = of.shared_bytes;
      launch.overlaps_previous = overlaps_;
      launch.module = step.fusion->module_name();
      for (const std::vector<int>* numbers : {&step.inputs, &step.outputs, &step.temporaries}) {
        for (std::string& name : list(*numbers, names)) launch.arguments.push_back(std::move(name));
      }
      add_step(std::move(launch));
    }
  }

  /// Whether the loop is one kernel.
  bool add_loop_kernel(const GpuLoop& loop, const LoopStep& step, const std::string& part, const std::string& what,
                       std::vector<GpuStep>& steps) {
    if (!loops_are_kernels_) return false;
    std::string name = part + "_loop";
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    // Modules of the image are files: none has the name of another.
    do name = unique(part_names_, name);
    while (!kernel_names_.insert(name).second);
    if (not_kernels_.count(name) > 0) return false;
    std::optional<LoopKernel> kernel = loop_kernel(manifest(), loop, name, *step.body, options_);
    if (!kernel) return false;
    GpuLaunch launch;
    launch.kernel = launch.module = name;
    launch.grid[0] = kernel->blocks();
    launch.threads = kernel->threads();
    launch.shared_bytes = kernel->shared_bytes();
    launch.resident = launch.fewer_blocks = kernel->blocks() > 1;
    launch.overlaps_previous = overlaps_ && !launch.resident;
    launch.arguments = kernel->arguments();
    launch.arguments.push_back(add(part + ".counters", BufferRole::Counters, bytes_type(8)));
    steps.emplace_back(std::move(launch), part, what + ", in one kernel");
    loops_.push_back(*std::move(kernel));
    return true;
  }

  /// Arrays of the state that no loop of the manifest hands on any more, and what lies in them.
  void forget_carried() {
    std::set<std::string> named;
    for_each_step(manifest().steps, [&](const GpuStep& step) {
      const GpuLoop* loop = step.loop();
      if (loop == nullptr) return;
      named.insert(loop->answer);
      for (const GpuLoop::Value& value : loop->values) {
        named.insert(value.current.begin(), value.current.end());
        named.insert(value.next);
      }
    });
    std::set<std::string> forgotten;
    for (const GpuBuffer& one : manifest().buffers) {
      const GpuBuffer& in = root(one.name);
      if (in.role == BufferRole::Carried && named.count(in.name) == 0) forgotten.insert(one.name);
    }
    std::erase_if(manifest().buffers, [&](const GpuBuffer& one) { return forgotten.count(one.name) > 0; });
    numbers_.clear();
    for (size_t i = 0; i < manifest().buffers.size(); ++i) numbers_[manifest().buffers[i].name] = i;
  }

  void add_lax(const ProgramStep& step, const std::vector<std::string>& names, std::vector<GpuStep>& steps) {
    const LaxStep& lax = *step.lax;
    std::map<std::string, std::string> outside;
    const Graph& graph = *lax.graph;
    const std::vector<TensorId> arguments = graph.arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const int input = step.inputs[static_cast<size_t>(lax.inputs[i])];
      outside[graph.tensor(arguments[i]).name] = names[static_cast<size_t>(input)];
    }
    size_t temporary = 0;
    for (const GpuBuffer& one : lax.manifest.buffers) {
      if (one.role == BufferRole::Intermediate)
        outside[one.name] = names[static_cast<size_t>(step.temporaries[temporary++])];
      if (one.role == BufferRole::Counters) outside[one.name] = add(part_ + "." + one.name, one.role, one.type);
      if (one.role == BufferRole::Output) outside[one.name] = names[static_cast<size_t>(step.outputs.front())];
    }
    if (lax.manifest.uses_kernels()) image_.modules[part_] = lax.cubin;
    for (const GpuStep& one : lax.manifest.steps) {
      GpuLaunch launch = placed_launch(*one.launch(), lax.manifest, [&](const std::string& argument) -> GpuBuffer& {
        return buffer(outside.at(argument));
      });
      if (!launch.library) launch.module = part_;
      steps.emplace_back(std::move(launch), part_, "superoptimizer");
    }
  }

  void add_host(const ProgramStep& step, const EmittedProgram& program, const std::vector<std::string>& names,
                std::vector<GpuStep>& steps) {
    HostStep host;
    host.why = step.why_interpreted;
    std::vector<hlo::Shape> inputs, outputs;
    const auto shapes = [&](const std::vector<int>& numbers, std::vector<hlo::Shape>& of) {
      for (const int number : numbers) {
        host.arguments.push_back(names[static_cast<size_t>(number)]);
        of.push_back(program.buffers[static_cast<size_t>(number)].shape);
      }
    };
    shapes(step.inputs, inputs);
    shapes(step.outputs, outputs);
    if (device_ != nullptr) {
      host.run = [device = device_, module = step.interpreted, inputs,
                  outputs](const std::vector<CudaPointer>& pointers) -> Result<void> {
        std::vector<hlo::Literal> arguments;
        for (size_t i = 0; i < inputs.size(); ++i) {
          const hlo::Shape& shape = inputs[i];
          Buffer bytes(static_cast<size_t>(type_of(shape).bytes()));
          STRATA_CHECK(GpuArray(*device, pointers[i], std::ssize(bytes)).download(bytes.data()));
          arguments.push_back(from_buffer(bytes, shape));
        }
        STRATA_TRY(const hlo::Literal result, hlo::evaluate(*module, arguments));
        for (size_t i = 0; i < outputs.size(); ++i) {
          const hlo::Literal& one = result.shape().is_tuple() ? result.elements()[i] : result;
          const Buffer bytes = to_buffer(one, outputs[i]);
          const GpuArray to(*device, pointers[inputs.size() + i], std::ssize(bytes));
          STRATA_CHECK(to.upload({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
        }
        return {};
      };
    }
    steps.emplace_back(std::move(host), part_, "interpreter");
  }

  static std::string description(const LoopStep& loop) {
    const size_t steps = loop.body->steps.size();
    const std::string each = fmt::format("{} step{} each", steps, steps == 1 ? "" : "s");
    if (loop.once) return fmt::format("loop of one iteration or none, {}", each);
    if (!loop.counted) return fmt::format("loop until its condition is false, {}", each);
    return fmt::format("loop of {} iterations, {}", loop.counted->count, each);
  }

  /// By leaf: the buffers of the parameter that hold it.
  static void add_current(const EmittedProgram& program, const std::vector<std::string>& names, GpuLoop& loop) {
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const ProgramBuffer& it = program.buffers[i];
      if (it.parameter >= 0 && !names[i].empty())
        loop.values[static_cast<size_t>(std::max(it.element, 0))].current.push_back(names[i]);
    }
  }

  Result<GpuLoop> loop_of(const LoopStep& step, const std::string& part, const std::vector<std::string>& names) {
    GpuLoop loop;
    const std::vector<std::string> body = add_buffers(*step.body, Place::Body, part + ".");
    const std::vector<int> over = written_over(*step.body);
    for (size_t leaf = 0; leaf < step.leaves.size(); ++leaf) {
      const LoopStep::Leaf& it = step.leaves[leaf];
      GpuLoop::Value& value = loop.values.emplace_back();
      value.initial = names[static_cast<size_t>(it.initial)];
      if (it.result >= 0) value.result = names[static_cast<size_t>(it.result)];
      value.next = body[static_cast<size_t>(step.body->results[leaf])];
      value.over = leaf_written_over(step, over, leaf);
      value.in_place = !value.result.empty() && root(value.result).name == root(value.initial).name &&
                       value.over == static_cast<int64_t>(leaf);
      if (step.counted) {
        add_counter(step, leaf, part, value);
      } else if (it.changes) {
        const ArrayType type = buffer(value.initial).type;
        if (value.result.empty())
          value.result = add(fmt::format("{}.state.{}", part, leaf), BufferRole::Intermediate, type);
        if (!step.once) value.spare = add(fmt::format("{}.next.{}", part, leaf), BufferRole::Intermediate, type);
      }
    }
    add_current(*step.body, body, loop);
    STRATA_TRY(loop.body, steps_of(*step.body, body));
    if (step.counted) {
      loop.count = step.counted->count;
      STRATA_TRY(const LoopFlow flow, flow_of(manifest(), loop));
      for (const int64_t bytes : plan_loop_buffers(flow).scratch_bytes)
        loop.scratch.push_back(add(part + ".scratch", BufferRole::Intermediate, bytes_type(bytes)));
      return loop;
    }
    const std::vector<std::string> condition = add_buffers(*step.condition, Place::Condition, part + ".condition.");
    add_current(*step.condition, condition, loop);
    STRATA_TRY(loop.condition, steps_of(*step.condition, condition));
    loop.answer = condition[static_cast<size_t>(step.condition->results.front())];
    loop.once = step.once;
    return loop;
  }

  void add_counter(const LoopStep& step, size_t leaf, const std::string& part, GpuLoop::Value& value) {
    const auto* counter = step.counted->counter(static_cast<int64_t>(leaf));
    if (counter == nullptr) return;
    std::string bytes;
    for (int64_t k = 0; k <= step.counted->count; ++k) {
      const hlo::Literal one = counter_value(step, *counter, k);
      bytes.append(reinterpret_cast<const char*>(one.bytes()), one.byte_size());
    }
    const auto size = std::ssize(bytes);
    value.counted = add_constant(fmt::format("{}.counter.{}", part, leaf), bytes_type(size), std::move(bytes));
  }

  const EmitOptions& options_;
  const GpuDevice* device_;
  const bool overlaps_;
  const ResultMemory results_;
  const bool loops_are_kernels_;
  const std::set<std::string>& not_kernels_;
  std::vector<LoopKernel> loops_;
  ProgramImage image_;
  std::map<std::string, std::string> constants_;  ///< bytes by name
  std::map<std::string, size_t> numbers_;         ///< of buffers in the manifest
  std::set<std::string> buffer_names_, part_names_;
  std::set<std::string> kernel_names_;  ///< and those of modules: the fusions', and of loops so far
  std::string part_;                    ///< of the step that is being added
};

}  // namespace

Result<std::string> cubin_of(const EmittedFusion& fusion, const std::string& arch) {
  STRATA_TRY(const std::string ptx, fusion.text(Form::Ptx));
  STRATA_TRY(const std::vector<char> cubin, link_ptx(ptx, arch));
  return std::string(cubin.begin(), cubin.end());
}

Result<std::string> cubin_of(const LoopKernel& loop, const std::string& arch) {
  STRATA_TRY(const std::string ptx, loop.ptx());
  STRATA_TRY(const std::vector<char> cubin, link_ptx(ptx, arch));
  return std::string(cubin.begin(), cubin.end());
}

namespace {

/// On all cores: cubins take most of the time.
void in_parallel(const std::vector<std::function<void()>>& works) {
  std::atomic<size_t> next = 0;
  const auto take_all = [&] {
    for (size_t i = next++; i < works.size(); i = next++) works[i]();
  };
  std::vector<std::jthread> workers;
  const size_t most = std::min(std::max(1U, std::thread::hardware_concurrency()), 16U);
  while (workers.size() < std::min(most, works.size())) workers.emplace_back(take_all);
}

}  // namespace

Result<EmittedImage> image_of(const EmittedProgram& program, const EmitOptions& options, const KernelLoader& loader,
                              const GpuDevice* device, ResultMemory results, const LoopLoader& loops) {
  const KernelLoader load =
      loader ? loader : [&](const EmittedFusion& of) { return cubin_of(of, std::string(options.target.name)); };
  const LoopLoader load_loop =
      loops ? loops : [&](const LoopKernel& of) { return cubin_of(of, std::string(options.target.name)); };
  EmittedImage made;
  std::vector<const EmittedFusion*> fusions;
  std::map<std::string, Result<std::string>> modules;  // of fusions, from one attempt to the next
  std::vector<Result<std::string>> loop_modules;
  for (std::set<std::string> not_kernels;;) {
    STRATA_TRY(made, ImageBuilder(options, device, results, !loader || loops, not_kernels).build(program));
    fusions.clear();
    list_fusions(program, fusions);
    for (const LoopKernel& loop : made.loops) {  // whose kernels are parts of the loops'
      for (const EmittedFusion& part : loop.fusions())
        std::erase_if(fusions, [&](const EmittedFusion* one) { return one->module_name() == part.module_name(); });
    }
    std::vector<std::function<void()>> works;
    for (const EmittedFusion* fusion : fusions) {
      const auto [at, missing] = modules.try_emplace(fusion->module_name());
      if (missing) works.emplace_back([&load, fusion, to = &at->second] { *to = load(*fusion); });
    }
    loop_modules.assign(made.loops.size(), {});
    for (size_t i = 0; i < made.loops.size(); ++i) {
      works.emplace_back([&, i] {
        if (made.loops[i].compile() || made.loops[i].ptx().error().code == ErrorCode::Environment)
          loop_modules[i] = load_loop(made.loops[i]);
      });
    }
    in_parallel(works);
    const size_t before = not_kernels.size();
    for (const LoopKernel& loop : made.loops) {  // what cannot be one kernel stays a loop
      if (!loop.ptx() && loop.ptx().error().code != ErrorCode::Environment) not_kernels.insert(loop.name());
    }
    if (not_kernels.size() == before) break;
  }
  made.image.manifest.target = options.target.name;
  for (const EmittedFusion* fusion : fusions) {
    Result<std::string>& one = modules.at(fusion->module_name());
    if (!one) return tl::unexpected(one.error());
    made.image.modules[fusion->module_name()] = *std::move(one);
  }
  for (size_t i = 0; i < made.loops.size(); ++i) {
    if (!loop_modules[i]) return tl::unexpected(loop_modules[i].error());
    made.image.modules[made.loops[i].name()] = *std::move(loop_modules[i]);
  }
  STRATA_CHECK(add_accesses(made.image.manifest, fusions));
  return made;
}

}  // namespace strata::emitters
