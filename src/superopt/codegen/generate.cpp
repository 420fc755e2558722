#include "superopt/codegen/generate.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "ir/text.h"
#include "ir/validate.h"
#include "ir/views.h"
#include "superopt/codegen/block_accesses.h"
#include "superopt/codegen/emit.h"
#include "superopt/codegen/fronts.h"
#include "superopt/codegen/glue_operators.h"
#include "superopt/codegen/grouping.h"
#include "superopt/codegen/kernel_text.h"
#include "superopt/codegen/libraries.h"
#include "superopt/codegen/merging.h"
#include "superopt/codegen/one_kernel.h"
#include "superopt/codegen/rows.h"
#include "superopt/codegen/schedule_cost.h"
#include "superopt/codegen/tiles/tiles.h"

namespace strata {
namespace {

constexpr int64_t kDefaultThreads = 128;
constexpr int64_t kPackingThreads = 256;
/// Blocks of a predefined operator's kernel: each thread strides over the elements, so any number is right.
constexpr int64_t kMostBlocks = 4096;
constexpr const char* kGridTeam = "strata_device::GridTeam";
int64_t threads_of(const Graph& body) {
  for (const Operation& op : body.operations()) {
    if (op.body) return op.body->launch().threads;
  }
  return kDefaultThreads;
}

class Generator {
 public:
  Generator(const Graph& graph, const Target& target, const Schedules& schedules, const Passes& passes)
      : graph_(graph),
        target_(target),
        schedules_(schedules),
        passes_(passes),
        libraries_(plan_libraries(graph, schedules)),
        views_(view_operations(graph, libraries_.strided)),
        memory_(memory_views(graph, libraries_.strided)),
        lies_(memory_views(graph)),
        half_(from_half_precision(graph)),
        accesses_(graph, libraries_.strided, fronts_) {}

  Result<GeneratedProgram> run() {
    for (size_t i : libraries_.refused) {
      return unsupported(
          "no library computes {}: it has another kind, another type, or operands in strides of their own",
          headline(graph_.operations()[i]));
    }
    plan_emitted();
    for (size_t i = 0; i < graph_.tensors().size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      DeviceBuffer buffer{graph_.tensor(id).name, graph_.type(id)};
      if (const auto front = fronts_.find(id); front != fronts_.end()) buffer.type.shape = front->second.rest;
      const auto& outputs = graph_.outputs();
      if (graph_.type(id).iota) continue;
      if (graph_.tensor(id).producer < 0) {
        program_.inputs.push_back(buffer);
      } else if (std::find(outputs.begin(), outputs.end(), id) == outputs.end() && view_of(id).memory == id &&
                 !inside_call(id) && !inside_group(id)) {
        program_.intermediates.push_back(buffer);
      }
    }
    for (TensorId id : graph_.outputs()) program_.outputs.push_back({graph_.tensor(id).name, graph_.type(id)});
    std::string kernels;
    while (const auto next = next_operation()) {
      const size_t i = *next;
      const Operation& op = graph_.operations()[i];
      if (const EmittedGroup* group = group_of(i)) {
        kernels += emitted_kernels(*group);
        for (const size_t n : group->operations) done_[n] = true;
        continue;
      }
      done_[i] = true;
      if (views_[i] || merged_.count(i) > 0) continue;
      if (libraries_.covered[i]) {
        if (const LibraryCall* call = libraries_.at(i); call != nullptr) library_launches(*call);
        continue;
      }
      const std::string name = fmt::format("{}_{}", graph_.name(), i);
      kernels += fmt::format("// {}\n", headline(op));
      if (op.body) {
        STRATA_TRY(std::string text, block_kernel(i, name));
        kernels += text;
      } else {
        kernels += predefined_kernel(op, name);
      }
    }
    if (std::find(done_.begin(), done_.end(), false) != done_.end())
      return invalid("groups of emitted operators of {} need each other's results", graph_.name());
    std::string graph_text = "// " + print(graph_);
    graph_text.pop_back();
    for (size_t at = 0; (at = graph_text.find('\n', at)) != std::string::npos; at += 4)
      graph_text.replace(at, 1, "\n// ");
    if (passes_.grouping && !passes_.one_kernel) kernels += group_launches(program_, target_, passes_.spreading);
    set_overlap(program_, target_, passes_);
    for (const KernelLaunch& made : program_.launches) {
      if (!made.library && !made.predefined && !passes_.one_kernel) kernels += kernel_text(made);
    }
    program_.source = fmt::format("{}\n{}{}{}\n// The program:\n//\n{}\n\n{}", device_library(),
                                  uses_registers_ ? device_registers() : "", uses_bulk_ ? device_bulk() : "",
                                  uses_handover_ || passes_.one_kernel ? device_handover() : "", graph_text, kernels);
    return std::move(program_);
  }

 private:
  const MemoryView& view_of(TensorId id) const { return memory_[static_cast<size_t>(id)]; }

  /// The operands of an operator that lie in two memories.
  std::vector<TensorId> fronts_of(const Operation& op) const {
    std::vector<TensorId> found;
    std::copy_if(op.operands.begin(), op.operands.end(), std::back_inserter(found),
                 [&](TensorId id) { return fronts_.count(id) > 0; });
    return found;
  }

  /// Whether a tensor never reaches memory: a call of the library goes on with it.
  bool inside_call(TensorId id) const {
    const auto producer = static_cast<size_t>(graph_.tensor(id).producer);
    return libraries_.covered[producer] && libraries_.at(producer) == nullptr;
  }

  void library_launches(const LibraryCall& call) {
    for (const LibraryStep& step : call.steps) {
      KernelLaunch& made = program_.launches.emplace_back();
      made.kernel = fmt::format("{}_{}_{}", graph_.name(), call.operations.front(),
                                std::holds_alternative<Convolution>(step.work) ? "convolution" : "product");
      if (&step != &call.steps.front()) made.kernel += "_added";
      made.library = step.work;
      made.seconds = library_seconds(step.work, target_);
      for (TensorId id : step.arguments) {
        made.arguments.push_back(graph_.tensor(id).name);
        made.device_bytes += static_cast<double>(graph_.type(id).bytes());
      }
    }
  }

  /// The groups of operators that emitters compute.
  void plan_emitted() {
    const size_t count = graph_.operations().size();
    done_.assign(count, false);
    group_.assign(count, -1);
    if (!passes_.emission || !passes_.emitter) return;
    const std::vector<bool> free = free_operations(graph_, libraries_, views_, passes_);
    Emission emission = plan_emission(graph_, free, views_, libraries_.strided, *passes_.emitter, target_);
    program_.emitted = std::move(emission.groups);
    fronts_ = std::move(emission.fronts);
    for (size_t g = 0; g < program_.emitted.size(); ++g) {
      for (const size_t i : program_.emitted[g].operations) group_[i] = static_cast<int>(g);
      for (const EmittedGroup::Buffer& buffer : program_.emitted[g].buffers)
        program_.intermediates.push_back({buffer.name, buffer.type});
    }
  }

  const EmittedGroup* group_of(size_t operation) const {
    return group_[operation] < 0 ? nullptr : &program_.emitted[static_cast<size_t>(group_[operation])];
  }

  /// Whether a tensor lies between operators of a group alone.
  bool inside_group(TensorId id) const {
    const EmittedGroup* group = group_of(static_cast<size_t>(graph_.tensor(id).producer));
    return group != nullptr && std::find(group->results.begin(), group->results.end(), id) == group->results.end();
  }

  /// Whether all that operators read is computed, except for what their group makes itself.
  bool is_ready(const std::vector<size_t>& operations) const {
    return std::all_of(operations.begin(), operations.end(), [&](size_t i) {
      const auto& operands = graph_.operations()[i].operands;
      return std::all_of(operands.begin(), operands.end(), [&](TensorId id) {
        const int producer = graph_.tensor(view_of(id).memory).producer;
        if (producer < 0 || done_[static_cast<size_t>(producer)]) return true;
        return group_[i] >= 0 && group_[static_cast<size_t>(producer)] == group_[i];
      });
    });
  }

  /// The first that is not done and can be: without groups, the next.
  std::optional<size_t> next_operation() {
    while (first_ < done_.size() && done_[first_]) ++first_;
    for (size_t i = first_; i < done_.size(); ++i) {
      if (done_[i]) continue;
      const EmittedGroup* group = group_of(i);
      if (is_ready(group != nullptr ? group->operations : std::vector<size_t>{i})) return i;
    }
    return std::nullopt;
  }

  /// Of a buffer that has one already.
  ArrayType type_of(const std::string& buffer) const {
    for (const auto* buffers : {&program_.inputs, &program_.intermediates, &program_.outputs}) {
      for (const DeviceBuffer& one : *buffers) {
        if (one.name == buffer) return one.type;
      }
    }
    return {};
  }

  std::string emitted_kernels(const EmittedGroup& group) {
    std::string text;
    for (const EmittedKernel& emitted : group.kernels) {
      KernelLaunch& made = add_launch(emitted.name + (emitted.library ? "" : "_kernel"));
      made.seconds = emitted.seconds;
      made.arguments = emitted.arguments;
      made.device_bytes = emitted.device_bytes;
      made.library = emitted.library;
      if (made.library) continue;
      made.function = fmt::format("{}<{}, strata_device::Exact>", emitted.name, team_text(emitted.threads, 0));
      made.part_function = fmt::format("{}<{}, strata_device::Exact>", emitted.name, team_text(emitted.threads, 1));
      made.threads = emitted.threads;
      made.grid[0] = emitted.blocks;
      made.own_shared_bytes = emitted.shared_bytes;
      const int64_t spread = passes_.spreading ? spreading_bytes(emitted.blocks, {}, target_) : 0;
      made.shared_bytes = std::max(emitted.shared_bytes, spread);
      made.task = BlockTask{emitted.name, "strata_device::Exact", emitted.threads, {}, emitted.shared_bytes};
      for (size_t n = 0; n < emitted.parameters.size(); ++n) {
        const std::string& parameter = emitted.parameters[n];
        made.parameters.push_back(parameter.substr(parameter.rfind(' ') + 1));
        made.types.push_back(parameter.substr(0, parameter.rfind(' ')));
      }
      LaunchAccesses::add_emitted(made, emitted, [&](const std::string& name) { return type_of(name); });
      text += emitted.text;
    }
    return text;
  }

  /// How an operator computes functions of floats: approximately where all that it depends on has 16 bits.
  std::string math_of(const Operation& op) const {
    const bool half = std::all_of(op.operands.begin(), op.operands.end(),
                                  [&](TensorId id) { return half_[static_cast<size_t>(id)]; });
    return half ? "strata_device::Approximate" : "strata_device::Exact";
  }

  std::string headline(const Operation& op) const {
    std::string text;
    for (TensorId id : op.results) text += (text.empty() ? "" : ", ") + graph_.tensor(id).name;
    text += fmt::format(" = {}(", op.name());
    for (size_t n = 0; n < op.operands.size(); ++n) text += (n ? ", " : "") + graph_.tensor(op.operands[n]).name;
    return text + ")";
  }

  struct Parameters {
    std::vector<std::string> types, names;
    std::string declaration() const { return typed_names(types, names); }
  };

  Parameters parameters(const Operation& op, const std::string& function) const {
    Parameters result;
    NameScope scope(
        {function, function + "_block", function + "_kernel", kSharedMemory, "ring", "page", "Math", kPackedConstants});
    const auto add = [&](TensorId id, const char* qualifier) {
      result.names.push_back(scope.add(graph_.tensor(id).name));
      result.types.push_back(fmt::format("{}{}*", qualifier, storage_type(graph_.type(id).dtype)));
    };
    for (TensorId id : arguments_of(graph_, op.operands)) add(id, "const ");
    for (TensorId id : op.results) add(id, "");
    for (TensorId id : fronts_of(op)) {
      result.names.push_back(scope.add(graph_.tensor(id).name + "_front"));
      result.types.push_back(fmt::format("const {}*", storage_type(graph_.type(id).dtype)));
    }
    return result;
  }

  KernelLaunch& add_launch(const std::string& kernel) {
    KernelLaunch& made = program_.launches.emplace_back();
    made.kernel = kernel;
    return made;
  }

  KernelLaunch& launch(const Operation& op, const std::string& name) {
    KernelLaunch& made = add_launch(name + "_kernel");
    for (TensorId id : arguments_of(graph_, op.operands))
      made.arguments.push_back(graph_.tensor(view_of(id).memory).name);
    for (TensorId id : op.results) made.arguments.push_back(graph_.tensor(id).name);
    for (TensorId id : fronts_of(op)) made.arguments.push_back(graph_.tensor(fronts_.at(id).memory).name);
    return made;
  }

  /// The first emitter that takes the block. Where no schedule is given and it has one, that is the emitter's choice.
  Result<BlockCode> block_code(const Operation& op, const std::string& name, std::optional<BlockSchedule>& schedule) {
    OperandPlaces strides;
    for (TensorId id : op.operands) strides.push_back(place_of(view_of(id), fronts_, id));
    if (!schedule && passes_.registers && passes_.schedules) {
      for (const BlockSchedule& offered : block_schedules(op, strides, target_)) {
        if (offered.bulk && !passes_.bulk) continue;
        if (passes_.one_kernel && (offered.cluster_blocks() > 1 || offered.wide)) continue;
        schedule = offered;
        break;
      }
    }
    const bool given = schedule.has_value();
    if (!given && passes_.registers && !passes_.schedules) schedule = BlockSchedule{.stages = 2};
    if (schedule) {
      schedule->best_layout = passes_.layouts;
      auto code = emit_in_registers(op, name, strides, *schedule, target_);
      if (code || given) {
        uses_registers_ = true;
        return code;
      }
      schedule.reset();
    }
    BlockCode code;
    const BlockMemory memory = plan_block_memory(*op.body, passes_.memory_plan);
    code.text = emit_block_function(op, name, strides, memory);
    code.threads = threads_of(*op.body);
    code.shared_bytes = code.scratch_bytes = memory.bytes;
    code.description = passes_.registers ? "no registers: " + refusals(op, name, strides) : "no registers: turned off";
    if (code.shared_bytes > target_.shared_memory) {
      return unsupported("a block of {} needs {} bytes of shared memory; {} has {}", headline(op), code.shared_bytes,
                         target_.name, target_.shared_memory);
    }
    return code;
  }

  /// Why the emitters that work in registers do not take a block, in one line.
  std::string refusals(const Operation& op, const std::string& name, const OperandPlaces& strides) const {
    const auto reason = [](const Result<BlockCode>& code) {
      return code ? std::string("too many registers") : code.error().message;
    };
    return fmt::format("tiles: {}; rows: {}", reason(emit_tiles(op, name, strides, {}, target_)),
                       reason(emit_rows(op, name, strides, {}, target_)));
  }

  /// The launch of a block graph's code; its arguments are the operator's tensors.
  KernelLaunch& block_launch(const Operation& op, const std::string& name, const BlockCode& code) {
    const Graph& body = *op.body;
    KernelLaunch& made = launch(op, name);
    std::copy(body.launch().grid.begin(), body.launch().grid.end(), made.grid.begin());
    made.threads = code.threads;
    made.resident_blocks = code.resident_blocks;
    made.shared_bytes = made.own_shared_bytes = code.shared_bytes;
    made.registers = code.registers;
    made.cluster = code.cluster * code.sharers;
    made.split = code.cluster;
    made.along_x = code.shared_along;
    std::swap(made.grid[0], made.grid[made.along_x]);
    made.grid[0] *= code.cluster;
    made.function = fmt::format("{}<{}, {}>", name, team_of(code), math_of(op));
    const bool moves_registers = code.ring && code.ring->team_registers > 0;
    if (!moves_registers) made.part_function = fmt::format("{}<{}, {}>", name, part_team_of(code), math_of(op));
    made.device_bytes = device_bytes(op, operand_strides(lies_, op));
    made.preparation = preparation_text(code);
    made.layouts = code.layouts;
    made.tensor_maps = code.maps;
    if (code.registers > 0 && passes_.spreading) {
      const int64_t blocks = made.grid[0] * made.grid[1] * made.grid[2];
      made.shared_bytes = std::max(made.shared_bytes, spreading_bytes(blocks, {.cluster = made.cluster}, target_));
    }
    return made;
  }

  /// The text of an emitter's functions, with what it is about and instructions that it uses in front.
  std::string functions(const BlockCode& code) {
    uses_bulk_ |= code.ring.has_value();
    std::string text = code.description.empty() ? "" : "// " + code.description + "\n";
    for (const WideProduct& product : code.wide) {
      if (wide_.insert(product.name()).second) text = product.text() + text;
    }
    return text + code.text;
  }

  BlockCall call_of(const Operation& op, const std::string& function, std::vector<std::string> tensors,
                    const KernelLaunch& made) const {
    BlockCall call{function, math_of(op), std::move(tensors), {}, "block_x, block_y, block_z", "shared"};
    for (size_t n = 0; n < made.tensor_maps.size(); ++n) call.maps.push_back(fmt::format("map_{}", n));
    return call;
  }

  static std::string packed_buffer(const std::string& name) { return name + "_packed"; }

  /// The launch that packs the constants of the next one.
  void pack_launch(const Operation& op, const std::string& name, const Packing& packing) {
    program_.intermediates.push_back({packed_buffer(name), {DType::F32, {ceil_div(packing.bytes, 4)}}});
    KernelLaunch& made = launch(op, name + "_pack");
    std::copy(op.body->launch().grid.begin(), op.body->launch().grid.end(), made.grid.begin());
    made.threads = kPackingThreads;
    made.function = fmt::format("{}_pack<{}, strata_device::Exact>", name, team_text(kPackingThreads, 0));
    made.arguments.push_back(packed_buffer(name));
    const Parameters p = parameters(op, name + "_pack");
    made.types = p.types;
    made.types.emplace_back("unsigned char*");
    made.parameters = p.names;
    made.parameters.push_back(kPackedConstants);
    accesses_.add_packing(made, op, packing);
    made.device_bytes = 2 * static_cast<double>(packing.bytes);
    made.seconds = target_.kernel_seconds() + made.device_bytes / target_.rates.copy_bandwidth;
  }

  Result<std::string> block_kernel(size_t i, const std::string& name) {
    const Operation& op = graph_.operations()[i];
    std::optional<BlockSchedule> schedule = i < schedules_.size() ? schedules_[i] : std::nullopt;
    const bool given = schedule.has_value();
    STRATA_TRY(const BlockCode code, block_code(op, name, schedule));
    if (schedule && passes_.merging && !passes_.one_kernel) {
      auto pair = MergedPair::find(graph_, i, target_, libraries_, views_);
      if (pair && !is_ready({pair->next})) pair.reset();
      const bool next_given = pair && pair->next < schedules_.size() && schedules_[pair->next];
      Handover handover = schedule->handover;
      if (!given) handover = pair && !next_given ? pair->cheapest(graph_, code, *schedule, target_) : Handover::Launch;
      if (handover != Handover::Launch) {
        if (!pair) return unsupported("no kernel that could be part of its launch follows {}", headline(op));
        schedule->handover = handover;
        return merged_kernel(i, *pair, code, *schedule);
      }
    }
    if (code.packing) pack_launch(op, name, *code.packing);
    KernelLaunch& made = block_launch(op, name, code);
    Parameters p = parameters(op, name);
    BlockCall call = call_of(op, name, p.names, made);
    if (code.packing) {
      made.arguments.push_back(packed_buffer(name));
      made.part_function.clear();
      p.types.emplace_back("const unsigned char*");
      p.names.push_back(kPackedConstants);
      call.maps.push_back(kPackedConstants);
      call.coordinates += fmt::format(", {}", op.body->launch().loop);
    }
    accesses_.add_block_graph(made, op, code);
    made.types = p.types;
    made.parameters = p.names;
    if (!code.packing) made.task = BlockTask{name, math_of(op), code.team(), code.ring, code.scratch_bytes};
    made.seconds = schedule ? schedule_seconds(op, operand_strides(lies_, op), code, *schedule, target_)
                            : estimate_operation(graph_, op, target_).seconds;
    std::string text = functions(code);
    if (code.ring) {
      made.function = name + "_block";
      if (!made.part_function.empty()) made.part_function = made.function;
      text += block_function(made, p.declaration(), block_statements(code, call, team_of(code)));
    }
    return text;
  }

  /// The parameters of two kernels in one, each buffer once, and where the tensors of both are among them.
  struct MergedParameters {
    Parameters all;
    std::vector<std::string> buffers;
    std::vector<size_t> first, second;
  };

  MergedParameters merged_parameters(const Operation& first, const Operation& second, const std::string& name) const {
    MergedParameters result;
    NameScope scope({name, name + "_kernel", kSharedMemory, "ring", "page", "rank", "counter", "n"});
    const auto is_result = [&](TensorId id) {
      return std::count(first.results.begin(), first.results.end(), id) +
                 std::count(second.results.begin(), second.results.end(), id) >
             0;
    };
    const auto add = [&](TensorId id, std::vector<size_t>& places) {
      const std::string& buffer = graph_.tensor(view_of(id).memory).name;
      const auto known = std::find(result.buffers.begin(), result.buffers.end(), buffer);
      places.push_back(static_cast<size_t>(known - result.buffers.begin()));
      if (known != result.buffers.end()) return;
      result.buffers.push_back(buffer);
      result.all.names.push_back(scope.add(graph_.tensor(id).name));
      result.all.types.push_back(
          fmt::format("{}{}*", is_result(id) ? "" : "const ", storage_type(graph_.type(id).dtype)));
    };
    for (TensorId id : arguments_of(graph_, first.operands)) add(id, result.first);
    for (TensorId id : first.results) add(id, result.first);
    for (TensorId id : fronts_of(first)) add(fronts_.at(id).memory, result.first);
    for (TensorId id : arguments_of(graph_, second.operands)) add(id, result.second);
    for (TensorId id : second.results) add(id, result.second);
    result.all.names.push_back(scope.add("arrivals"));
    result.all.types.emplace_back("unsigned*");
    return result;
  }

  /// Operator i and the one after it in one launch: blocks of the first run blocks of the second when what these need
  /// is there (handover.h).
  Result<std::string> merged_kernel(size_t i, const MergedPair& pair, const BlockCode& code,
                                    const BlockSchedule& schedule) {
    const Operation& first = graph_.operations()[i];
    const Operation& second = graph_.operations()[pair.next];
    const std::string name = fmt::format("{}_{}_{}", graph_.name(), i, pair.next);
    const std::string first_name = fmt::format("{}_{}", graph_.name(), i);
    const std::string second_name = fmt::format("{}_{}", graph_.name(), pair.next);
    STRATA_TRY(const BlockCode behind, pair.second_code(graph_, second_name, code, schedule, target_));
    uses_registers_ = uses_handover_ = true;
    merged_.insert(pair.next);
    KernelLaunch& made = block_launch(first, name, code);
    made.own_shared_bytes = std::max(made.own_shared_bytes, behind.shared_bytes);
    if (schedule.handover == Handover::Last)
      made.own_shared_bytes = std::max(made.own_shared_bytes, handover_place(code, behind) + kHandoverBytes);
    made.shared_bytes = std::max(made.shared_bytes, made.own_shared_bytes);
    if (made.shared_bytes > target_.shared_memory)
      return unsupported("two kernels in one launch need {} bytes of shared memory", made.shared_bytes);
    made.resident = schedule.handover == Handover::Wait;
    const MergedParameters p = merged_parameters(first, second, name);
    made.types = p.all.types;
    made.parameters = p.all.names;
    made.arguments = p.buffers;
    made.arguments.push_back(add_counters(i, pair.groups.count()));
    for (GpuTensorMap& map : made.tensor_maps) map.argument = p.first[map.argument];
    accesses_.add_handover(made, {first, p.first}, {second, p.second}, code, pair.groups, kCounterStride);
    made.registers = std::max(made.registers, behind.registers);
    made.device_bytes += device_bytes(second, operand_strides(lies_, second));
    made.seconds = schedule_seconds(first, operand_strides(lies_, first), code, schedule, target_) +
                   pair.seconds(graph_, code, schedule, schedule.handover, target_);
    made.function = name;
    if (!made.part_function.empty()) made.part_function = name;
    std::vector<std::string> first_arguments, second_arguments;
    for (size_t place : p.first) first_arguments.push_back(p.all.names[place]);
    for (size_t place : p.second) second_arguments.push_back(p.all.names[place]);
    const std::string second_function =
        fmt::format("{}<{}, {}>", second_name, team_text(behind.threads, 1), math_of(second));
    const std::string statements =
        block_statements(code, call_of(first, first_name, first_arguments, made), part_team_of(code)) +
        pair.text(code, behind, schedule, p.all.names.back(), [&](const std::string& n) {
          return fmt::format("{}({}, {}, shared);\n", second_function, fmt::join(second_arguments, ", "),
                             pair.groups.consumer(n));
        });
    return functions(code) + fmt::format("// {}\n", headline(second)) + functions(behind) + "// Both in one launch.\n" +
           block_function(made, p.all.declaration(), statements);
  }

  /// A new buffer of counters, by its name.
  std::string add_counters(size_t i, int64_t groups) {
    std::string name = fmt::format("arrivals_{}", i);
    while (graph_.find_tensor(name)) name += "_";
    program_.counters.push_back({name, {DType::F32, {groups * kCounterStride}}});
    return name;
  }

  std::string predefined_kernel(const Operation& op, const std::string& name) {
    const Parameters p = parameters(op, name);
    const TensorType& type = graph_.type(op.results[0]);
    KernelLaunch& made = launch(op, name);
    made.types = p.types;
    made.parameters = p.names;
    made.predefined = true;
    const CostEstimate alone = estimate_operation(graph_, op, target_);
    made.seconds = alone.seconds;
    made.device_bytes = static_cast<double>(alone.device_bytes);
    made.function = name;
    made.threads = 256;
    made.grid[0] = std::clamp<int64_t>(ceil_div(type.elements(), made.threads), 1, kMostBlocks);
    accesses_.add_predefined(made, op);
    std::string body;
    const std::vector<std::string> operands(p.names.begin(), p.names.end() - 1);
    if (op_def(op.kind).cuda.form == CudaLowering::Form::Elementwise) {
      std::vector<std::string> pointers;
      auto next = operands.begin();
      for (TensorId id : op.operands) pointers.push_back(graph_.type(id).iota ? std::string() : *next++);
      body = elementwise_loop(graph_, op, kGridTeam, pointers, p.names.back(),
                              NameScope(std::set<std::string>(p.names.begin(), p.names.end())), "  ");
    } else {
      body = "  " + library_call(graph_, op, kGridTeam, operands, p.names.back());
    }
    return fmt::format(
        "static STRATA_DEVICE void {0}({1}) {{\n{7}{2}}}\n\n"
        "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)\n"
        "STRATA_KERNEL void __launch_bounds__({3}) {4}({1}) {{\n{6}  {0}({5});\n}}\n#endif\n\n",
        name, p.declaration(), body, made.threads, made.kernel, fmt::join(p.names, ", "), kernel_order(),
        fmt::format("  using Math [[maybe_unused]] = {};\n", math_of(op)));
  }

  const Graph& graph_;
  const Target& target_;
  const Schedules& schedules_;
  const Passes& passes_;
  LibraryPlan libraries_;
  const std::vector<bool> views_;         ///< by operation
  const std::vector<MemoryView> memory_;  ///< by tensor
  const std::vector<MemoryView> lies_;    ///< the same where libraries take nothing in strides of its own
  const std::vector<bool> half_;          ///< by tensor: whether all inputs that it depends on have 16 bits
  std::vector<bool> done_;                ///< by operation
  UncopiedFronts fronts_;
  const LaunchAccesses accesses_;
  size_t first_ = 0;            ///< all operations before it are done
  std::vector<int> group_;      ///< by operation: of program_.emitted, or −1
  std::set<std::string> wide_;  ///< instructions that are defined
  bool uses_registers_ = false;
  bool uses_bulk_ = false;
  bool uses_handover_ = false;
  std::set<size_t> merged_;  ///< operators that are part of the launch before
  GeneratedProgram program_;
};

}  // namespace

Result<GeneratedProgram> generate_cuda(const Graph& graph, const Target& target, const Schedules& schedules,
                                       const Passes& passes) {
  if (graph.level() != Level::Kernel) return invalid("code is generated from kernel graphs");
  STRATA_TRY(GeneratedProgram program, Generator(graph, target, schedules, passes).run());
  return passes.one_kernel ? as_one_kernel(std::move(program), target) : program;
}

}  // namespace strata
