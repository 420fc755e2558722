#include "hlo/associative_scans.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "hlo/combiner_operator.h"
#include "hlo/compute.h"
#include "hlo/inline_calls.h"
#include "hlo/optional_combiner.h"
#include "hlo/scan_recursion.h"

namespace strata::hlo {
namespace {

/// With the two sides exchanged.
Computation turned(Computation combiner) {
  const size_t count = combiner.parameters.size() / 2;
  for (size_t i = 0; i < count; ++i) {
    std::swap(combiner.parameters[i], combiner.parameters[count + i]);
    for (const size_t number : {i, count + i}) {
      auto& parameter = combiner.instructions[static_cast<size_t>(combiner.parameters[number])];
      parameter.attributes = ParameterAttributes{static_cast<int64_t>(number)};
    }
  }
  return combiner;
}

class Folder {
 public:
  Folder(Module module, const std::vector<ScanRecursion>& scans)
      : result_(std::move(module)), from_(result_.entry_computation()), scans_(scans) {
    for (size_t s = 0; s < scans.size(); ++s) {
      for (size_t i = 0; i < scans[s].results.size(); ++i) {
        if (scans[s].results[i] >= 0) part_of_[scans[s].results[i]] = {s, i};
      }
    }
    windows_.assign(scans.size(), -1);
    moved_.assign(from_.instructions.size(), -1);
    for (const Instruction& it : from_.instructions) asked_[it.name] = 0;
  }

  /// Instructions come in an order of their own: a window comes after all arrays that it scans.
  Module run() {
    entry_.name = from_.name;
    for (const InstructionId id : from_.parameters) {
      moved_[static_cast<size_t>(id)] = append(from_[id]);
      entry_.parameters.push_back(moved_[static_cast<size_t>(id)]);
    }
    entry_.root = move(from_.root);
    return extract_module(result_, entry_);
  }

 private:
  struct Part {
    size_t scan = 0, array = 0;
  };

  /// Whether all arrays of a scan are reversed along it, and nothing else.
  bool is_reversed(const ScanRecursion& scan) const {
    for (size_t i = 0; i < scan.inputs.size(); ++i) {
      if (!reverses(scan.inputs[i], scan.axes[i])) return false;
    }
    return true;
  }
  bool reverses(InstructionId id, int64_t dimension) const {
    const Instruction& it = from_[id];
    return it.opcode == Opcode::Reverse && it.dimensions() == std::vector{dimension};
  }

  const Part* part(InstructionId id) const {
    const auto found = part_of_.find(id);
    return found == part_of_.end() ? nullptr : &found->second;
  }

  /// The result of a scan from the end that an instruction turns round.
  const Part* turned_part(InstructionId id) const {
    const Instruction& it = from_[id];
    const Part* of = it.opcode == Opcode::Reverse ? part(it.operands[0]) : nullptr;
    const bool both = of != nullptr && reverses(id, scans_[of->scan].dimension) && is_reversed(scans_[of->scan]);
    return both ? of : nullptr;
  }

  /// What must be moved before an instruction.
  std::vector<InstructionId> needed(InstructionId id) const {
    const Part* of = part(id) != nullptr ? part(id) : turned_part(id);
    if (of == nullptr) return from_[id].operands;
    std::vector<InstructionId> inputs = scans_[of->scan].inputs;
    if (is_reversed(scans_[of->scan])) {
      for (InstructionId& input : inputs) input = from_[input].operands[0];
    }
    return inputs;
  }

  InstructionId move(InstructionId root) {
    std::vector<InstructionId> pending{root};
    while (!pending.empty()) {
      const InstructionId id = pending.back();
      if (moved_[static_cast<size_t>(id)] >= 0) {
        pending.pop_back();
        continue;
      }
      const size_t before = pending.size();
      for (const InstructionId one : needed(id)) {
        if (moved_[static_cast<size_t>(one)] < 0) pending.push_back(one);
      }
      if (pending.size() != before) continue;
      pending.pop_back();
      moved_[static_cast<size_t>(id)] = made(id);
    }
    return moved_[static_cast<size_t>(root)];
  }

  InstructionId made(InstructionId id) {
    const Instruction& it = from_[id];
    if (const Part* of = turned_part(id)) return result_of(*of);
    if (const Part* of = part(id)) {
      const ScanRecursion& scan = scans_[of->scan];
      const InstructionId result = result_of(*of);
      if (!is_reversed(scan)) return result;
      return add("reverse", Opcode::Reverse, it.shape, {result}, DimensionsAttributes{{scan.dimension}});
    }
    Instruction copy = it;
    for (InstructionId& operand : copy.operands) operand = moved_[static_cast<size_t>(operand)];
    return append(std::move(copy));
  }

  InstructionId result_of(const Part& of) {
    InstructionId& window = windows_[of.scan];
    if (window < 0) window = window_of(scans_[of.scan]);
    const Shape& shape = entry_[window].shape;
    if (!shape.is_tuple()) return window;
    const size_t element = of.array + 1;
    return add("scanned", Opcode::GetTupleElement, shape.elements[element], {window},
               TupleIndexAttributes{static_cast<int64_t>(element)});
  }

  InstructionId window_of(const ScanRecursion& scan) {
    const bool reverse = is_reversed(scan);
    std::vector<InstructionId> elements, initial;
    for (size_t i = 0; i < scan.inputs.size(); ++i) {
      const InstructionId input = reverse ? from_[scan.inputs[i]].operands[0] : scan.inputs[i];
      elements.push_back(repeated(moved_[static_cast<size_t>(input)], scan.places[i], from_[scan.inputs[0]].shape));
    }
    WindowAttributes attributes;
    attributes.window.resize(entry_[elements[0]].shape.dims.size());
    WindowDimension& along = attributes.window[static_cast<size_t>(scan.dimension)];
    along.size = scan.length;
    (reverse ? along.pad_high : along.pad_low) = scan.length - 1;
    Computation combiner = reverse ? turned(scan.combiner) : scan.combiner;
    const std::optional<Opcode> opcode = only_operator(combiner);
    const Shape first = entry_[elements[0]].shape;
    const std::optional<Literal> value = opcode ? neutral_value(*opcode, first.type) : std::nullopt;
    if (value) {
      initial.push_back(add("neutral", Opcode::Constant, value->shape(), {}, ConstantAttributes{*value, false}));
    } else {
      combiner = optional_combiner(combiner);
      Literal flag(array_shape(ElementType::Pred, {}));
      initial.push_back(add("nothing", Opcode::Constant, flag.shape(), {}, ConstantAttributes{flag, false}));
      const InstructionId is_there = add("something", Opcode::Constant, flag.shape(), {},
                                         ConstantAttributes{literal_of<uint64_t>(flag.shape(), {1}), false});
      for (const InstructionId one : elements) {
        const Literal zero(array_shape(entry_[one].shape.type, {}));
        initial.push_back(add("zero", Opcode::Constant, zero.shape(), {}, ConstantAttributes{zero, false}));
      }
      Shape flags = first;
      flags.type = ElementType::Pred;
      elements.insert(elements.begin(), add("there", Opcode::Broadcast, flags, {is_there}, DimensionsAttributes{}));
    }
    std::vector<Shape> shapes;
    for (const InstructionId one : elements) {
      shapes.push_back(first);
      shapes.back().type = entry_[one].shape.type;
    }
    combiner.name += "_" + std::to_string(result_.computations.size());
    result_.computations.push_back(std::move(combiner));
    const auto called = static_cast<ComputationId>(result_.computations.size()) - 1;
    const Shape shape = shapes.size() == 1 ? shapes[0] : tuple_shape(shapes);
    elements.insert(elements.end(), initial.begin(), initial.end());
    return add("scan", Opcode::ReduceWindow, shape, elements, attributes, {called});
  }

  /// As an array of the sizes of another, along whose dimensions it lies.
  InstructionId repeated(InstructionId id, const std::vector<int64_t>& places, const Shape& like) {
    Shape shape = like;
    shape.type = entry_[id].shape.type;
    if (same_dims(entry_[id].shape, like)) return id;
    std::vector<int64_t> dims, kept;
    for (size_t d = 0; d < places.size(); ++d) {
      if (entry_[id].shape.dims[d] == 1) continue;
      dims.push_back(entry_[id].shape.dims[d]);
      kept.push_back(places[d]);
    }
    const InstructionId bare =
        dims == entry_[id].shape.dims ? id : add("bare", Opcode::Reshape, array_shape(shape.type, dims), {id}, {});
    return add("repeated", Opcode::Broadcast, shape, {bare}, DimensionsAttributes{kept});
  }

  InstructionId append(Instruction it) {
    entry_.instructions.push_back(std::move(it));
    return static_cast<InstructionId>(entry_.instructions.size()) - 1;
  }

  InstructionId add(const std::string& base, Opcode opcode, Shape shape, std::vector<InstructionId> operands,
                    Attributes attributes, std::vector<ComputationId> called = {}) {
    std::string name = base;
    while (asked_.contains(name)) name = base + "." + std::to_string(++asked_[base]);
    asked_[name] = 0;
    return append({name, opcode, std::move(shape), std::move(operands), std::move(called), std::move(attributes), {}});
  }

  Module result_;
  const Computation from_;
  const std::vector<ScanRecursion>& scans_;
  std::map<InstructionId, Part> part_of_;  ///< by result
  std::vector<InstructionId> windows_;     ///< by scan, of the new entry
  std::vector<InstructionId> moved_;
  std::map<std::string, int> asked_;  ///< names that are taken, and how often each was asked for
  Computation entry_;
};

}  // namespace

int64_t longest_scan_recursion(const Module& module) {
  const auto interleaves = [](const Instruction& it) {
    if (it.opcode != Opcode::Pad) return false;
    const std::vector<int64_t>& interior = it.as<PadAttributes>().interior;
    return std::find(interior.begin(), interior.end(), 1) != interior.end();
  };
  const bool may_have = std::any_of(module.computations.begin(), module.computations.end(), [&](const auto& one) {
    return std::any_of(one.instructions.begin(), one.instructions.end(), interleaves);
  });
  if (!may_have || !check_calls(module)) return 0;
  int64_t longest = 0;
  for (const ScanRecursion& scan : find_scan_recursions(inline_calls(module).entry_computation()))
    longest = std::max(longest, scan.length);
  return longest;
}

Module fold_associative_scans(const Module& module, const IsAssociative& is_associative) {
  Module flat = inline_calls(module);
  std::vector<ScanRecursion> scans = find_scan_recursions(flat.entry_computation());
  std::erase_if(scans, [&](const ScanRecursion& scan) { return !is_associative(scan.combiner); });
  if (scans.empty()) return module;
  return Folder(std::move(flat), scans).run();
}

}  // namespace strata::hlo
