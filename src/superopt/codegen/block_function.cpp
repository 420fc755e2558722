#include <algorithm>
#include <array>
#include <map>

#include "superopt/codegen/block_memory.h"
#include "superopt/codegen/emit.h"

namespace strata {
namespace {

class BlockFunction {
 public:
  BlockFunction(const Graph& body, const std::string& name, const OperandPlaces& strides, const BlockMemory& memory)
      : body_(body), name_(name), operand_strides_(strides), memory_(memory), stages_(loop_stages(body)) {}

  std::string run() {
    signature();
    places();
    const bool loops = body_.launch().loop > 1;
    if (loops) {
      text_ += fmt::format("  for (long long iteration = 0; iteration < {}; ++iteration) {{\n", body_.launch().loop);
      indent_ = "    ";
    }
    stage(LoopStage::Body);
    if (loops) {
      text_ += "    Team::meet();  // the next iteration overwrites the tiles\n  }\n";
      indent_ = "  ";
    }
    stage(LoopStage::After);
    text_ += "}\n\n";
    return std::move(text_);
  }

 private:
  void signature() {
    text_ += fmt::format("{}{}(", kTeamFunction, name_);
    for (TensorId id : arguments_of(body_, body_.inputs())) {
      names_[id] = scope_.add(body_.tensor(id).name);
      text_ += fmt::format("const {}* {}, ", storage_type(body_.type(id).dtype), names_[id]);
    }
    for (TensorId id : body_.outputs()) {
      names_[id] = scope_.add(body_.tensor(id).name);
      text_ += fmt::format("{}* {}, ", storage_type(body_.type(id).dtype), names_[id]);
    }
    for (size_t n = 0; n < body_.inputs().size(); ++n) {
      const TensorId id = body_.inputs()[n];
      if (!operand_strides_[n].front) continue;
      fronts_[id] = scope_.add(body_.tensor(id).name + "_front");
      text_ += fmt::format("const {}* {}, ", storage_type(body_.type(id).dtype), fronts_[id]);
    }
    text_ += fmt::format("\n    {},\n    unsigned char* shared) {{\n", kBlockCoordinates);
  }

  /// Every block tensor's place in shared memory.
  void places() {
    const auto define = [&](const std::string& name, const std::string& type, int64_t offset, const Shape& shape) {
      text_ += fmt::format("  auto* const {} = reinterpret_cast<{}*>(shared + {});  // {}\n", name, type, offset,
                           to_string(shape));
    };
    text_ += fmt::format("  // shared memory: {} bytes{}\n", memory_.bytes,
                         memory_.optimal ? "" : fmt::format(", at least {} are needed", memory_.lower_bound));
    for (size_t i = 0; i < body_.tensors().size(); ++i) {
      if (memory_.tensors[i] < 0) continue;
      const auto id = static_cast<TensorId>(i);
      const TensorInfo& tensor = body_.tensor(id);
      const Operation& made_by = body_.operations()[static_cast<size_t>(tensor.producer)];
      const bool tile = made_by.kind == OpKind::InIter && !is_counted(body_, made_by);
      names_[id] = scope_.add(tensor.name);
      define(names_[id], tile ? storage_type(tensor.type.dtype) : compute_type(tensor.type.dtype), memory_.tensors[i],
             tensor.type.shape);
    }
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      if (memory_.states[i].empty()) continue;
      const Operation& op = body_.operations()[i];
      const TensorType& reference = body_.type(op.operands[1]);
      constexpr std::array<std::string_view, 3> kParts{"largest", "before", "now"};
      for (size_t part = 0; part < kParts.size(); ++part) {
        const std::string name = scope_.add(fmt::format("{}_{}", body_.tensor(op.results[0]).name, kParts[part]));
        states_[op.results[0]].push_back(name);
        define(name, compute_type(reference.dtype), memory_.states[i][part], reference.shape);
      }
    }
  }

  void stage(LoopStage wanted) {
    // Operators of one depth need no barrier between them.
    std::map<int, std::vector<size_t>> by_depth;
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      if (stages_[i] == wanted) by_depth[memory_.depths[i]].push_back(i);
    }
    bool first = true;
    for (const auto& [level, operations] : by_depth) {
      if (!first) text_ += indent_ + "Team::meet();\n";
      first = false;
      for (size_t i : operations) operation(body_.operations()[i]);
    }
  }

  /// Names inside a loop: all but those of the function.
  NameScope inner_scope() const {
    std::set<std::string> outside;
    for (const auto& [id, name] : names_) outside.insert(name);
    return NameScope(outside);
  }

  std::string pointer(TensorId id) const { return names_.at(id); }

  void operation(const Operation& op) {
    text_ += fmt::format("{}// {}\n", indent_, statement_text(body_, op));
    if (op.body) return thread_graph(op);
    const std::string result = pointer(op.results[0]);
    if (is_counted(body_, op)) return count(op, result);
    std::vector<std::string> operands;
    for (TensorId id : op.operands) operands.push_back(pointer(id));
    switch (op.kind) {
      case OpKind::InIter:
        return load(op, operands[0], result);
      case OpKind::OutSaver:
        return save(op, operands[0], result);
      case OpKind::Accum:
        return accumulate(op, operands[0], result);
      case OpKind::AccumRescale:
        return rescale(op, operands, result);
      default:
        break;
    }
    if (op_def(op.kind).cuda.form == CudaLowering::Form::Elementwise) {
      text_ += elementwise_loop(body_, op, "Team", operands, result, inner_scope(), indent_);
      return;
    }
    text_ += indent_ + library_call(body_, op, "Team", operands, result);
  }

  void load(const Operation& op, const std::string& from, const std::string& to) {
    const auto formal = std::find(body_.inputs().begin(), body_.inputs().end(), op.operands[0]);
    const OperandPlace& place = operand_strides_[static_cast<size_t>(formal - body_.inputs().begin())];
    const Shape& tile = body_.type(op.results[0]).shape;
    const AccessRegion region = tile_region(body_, op);
    const bool once = !region.iterates() && body_.launch().loop > 1;
    const auto from_place = [&](const std::vector<int64_t>& strides, const std::string& memory, bool in_front) {
      return fmt::format("strata_device::load_tile<Team, {}, {}>({}, {}, {});\n", dims(tile), dims(strides), to, memory,
                         tile_base(region, place, in_front));
    };
    const std::string begin = indent_ + (once ? "if (iteration == 0) " : "");
    if (place.front) {
      // One statement, which a condition before it may be about.
      text_ += fmt::format("{0}if ({2}) {3}{1}else {4}", begin, indent_, before_seam(region, *place.front),
                           from_place(place.front->strides, fronts_.at(op.operands[0]), true),
                           from_place(place.strides, from, false));
    } else {
      text_ += begin + from_place(place.strides, from, false);
    }
  }

  /// A tile of an iota.
  void count(const Operation& op, const std::string& to) {
    const Iota& iota = *body_.type(op.operands[0]).iota;
    const TensorType& tile = body_.type(op.results[0]);
    const auto dim = static_cast<size_t>(iota.dim);
    const AccessRegion region = tile_region(body_, op);
    const bool once = !region.iterates() && body_.launch().loop > 1;
    const std::string index = fmt::format("{} + {}", tile_start(region, dim), index_along(tile.shape, dim, "i"));
    text_ += fmt::format("{0}{1}for (long long i = Team::rank(); i < {2}; i += Team::size()) {3}[i] = {4};\n", indent_,
                         once ? "if (iteration == 0) " : "", element_count(tile.shape), to,
                         counted_text(iota, index, tile.dtype));
  }

  void save(const Operation& op, const std::string& from, const std::string& to) {
    const Shape& whole = body_.type(op.results[0]).shape;
    const Shape& tile = body_.type(op.operands[0]).shape;
    text_ += fmt::format("{}strata_device::store_tile<Team, {}, {}>({}, {}, {});\n", indent_, dims(tile),
                         dims(row_major_strides(whole)), to,
                         tile_base(tile_region(body_, op), row_major_strides(whole)), from);
  }

  void accumulate(const Operation& op, const std::string& from, const std::string& to) {
    const Shape& shape = body_.type(op.operands[0]).shape;
    const std::string& kind = op.attributes.word("kind");
    if (kind == "concat") {
      const auto dim = static_cast<size_t>(op.attributes.integer("dim"));
      int64_t part = 1;
      for (size_t d = dim; d < shape.size(); ++d) part *= shape[d];
      text_ += fmt::format("{}strata_device::place<Team, {}, {}, {}>({}, iteration * {}, {});\n", indent_,
                           element_count(shape), part, part * body_.launch().loop, to, part, from);
      return;
    }
    const std::string value = fmt::format("strata_device::to_compute({}[i])", from);
    const std::string combined = kind == "sum" ? fmt::format("{}[i] + {}", to, value)
                                               : fmt::format("strata_device::maximum({}[i], {})", to, value);
    text_ += fmt::format(
        "{0}for (long long i = Team::rank(); i < {1}; i += Team::size()) {{\n"
        "{0}  {2}[i] = iteration == 0 ? {3} : {4};\n{0}}}\n",
        indent_, element_count(shape), to, value, combined);
  }

  void rescale(const Operation& op, const std::vector<std::string>& operands, const std::string& to) {
    const Shape& shape = body_.type(op.results[0]).shape;
    const Shape& reference = body_.type(op.operands[1]).shape;
    const std::vector<std::string>& state = states_.at(op.results[0]);
    text_ += fmt::format("{}strata_device::rescale_factors<Team, Math, {}>({}, {}, iteration);\n", indent_,
                         element_count(reference), fmt::join(state, ", "), operands[1]);
    text_ += fmt::format("{}Team::meet();\n", indent_);
    text_ +=
        fmt::format("{}strata_device::accumulate_rescaled<Team, {}, {}>({}, {}, {}, {}, iteration);\n", indent_,
                    dims(shape), dims(broadcast_strides(reference, shape.size())), to, operands[0], state[1], state[2]);
  }

  /// One loop for each of its outputs, with every value that the output needs in a register.
  void thread_graph(const Operation& op) {
    const Graph& graph = *op.body;
    for (size_t n = 0; n < graph.outputs().size(); ++n) {
      const Operation& saver = graph.operations()[static_cast<size_t>(graph.tensor(graph.outputs()[n]).producer)];
      std::vector<bool> needed(graph.tensors().size(), false);
      needed[static_cast<size_t>(saver.operands[0])] = true;
      for (size_t i = graph.operations().size(); i-- > 0;) {
        const Operation& inner = graph.operations()[i];
        if (!needed[static_cast<size_t>(inner.results[0])]) continue;
        for (TensorId id : inner.operands) needed[static_cast<size_t>(id)] = true;
      }
      std::map<TensorId, std::string> variables;
      NameScope scope = inner_scope();
      std::vector<ElementOperand> operands;
      std::vector<ElementStep> steps;
      for (const Operation& inner : graph.operations()) {
        const TensorId result = inner.results[0];
        if (!needed[static_cast<size_t>(result)] || inner.kind == OpKind::OutSaver) continue;
        variables[result] = scope.add(graph.tensor(result).name);
        if (inner.kind == OpKind::InIter) {
          const auto formal = std::find(graph.inputs().begin(), graph.inputs().end(), inner.operands[0]);
          const TensorId operand = op.operands[static_cast<size_t>(formal - graph.inputs().begin())];
          operands.push_back({pointer(operand), variables[result], graph.type(result).shape});
          continue;
        }
        std::vector<std::string> arguments;
        for (TensorId id : inner.operands) arguments.push_back(variables.at(id));
        steps.push_back({&inner, arguments, variables[result]});
      }
      const TensorType& type = graph.type(saver.results[0]);
      text_ += element_loop("Team", type.shape, type.dtype, operands, steps, variables.at(saver.operands[0]),
                            pointer(op.results[n]), indent_);
    }
  }

  const Graph& body_;
  std::string name_;
  const OperandPlaces& operand_strides_;
  const BlockMemory& memory_;
  std::vector<LoopStage> stages_;
  NameScope scope_;
  std::map<TensorId, std::string> names_;
  std::map<TensorId, std::string> fronts_;               ///< of inputs (operand_place.h)
  std::map<TensorId, std::vector<std::string>> states_;  ///< of accumulators, by result
  std::string text_;
  std::string indent_ = "  ";
};

}  // namespace

std::string emit_block_function(const Operation& op, const std::string& name, const OperandPlaces& strides,
                                const BlockMemory& memory) {
  return BlockFunction(*op.body, name, strides, memory).run();
}

}  // namespace strata
