#include "emitters/fusion/recompute.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "emitters/fusion/instruction_roles.h"
#include "hlo/inline_calls.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

constexpr int64_t kLeastBytes = 1 << 16;  ///< of an array: smaller ones are not looked at
constexpr size_t kMostOperators = 32;     ///< that are copied for one reader of an array
constexpr int kMostRounds = 8;
constexpr size_t kMostTries = 4;

/// An array between kernels that those which read it are to compute themselves.
struct Recomputed {
  InstructionId value = 0;
  std::map<size_t, std::set<InstructionId>> copies;  ///< for each part that reads it: what is copied, itself included
  double bytes_saved = 0;
};

int64_t bytes_of(const Instruction& it) {
  return it.shape.is_array() ? it.shape.element_count() * hlo::byte_width(it.shape.type) : 0;
}

bool only_moves(Opcode opcode) {
  return opcode == Opcode::Broadcast || opcode == Opcode::Reshape || opcode == Opcode::Convert;
}

/// Whether a gather takes whole rows of memory: a kernel that reads rows of a table moves no more than one that reads
/// them where they were put together.
bool gathers_rows(const Computation& computation, const Instruction& it) {
  constexpr int64_t kSectorBytes = 32;
  if (it.opcode != Opcode::Gather) return false;
  const hlo::Shape& table = computation.operand_shape(it, 0);
  const auto& a = it.as<hlo::GatherAttributes>();
  if (!table.has_default_layout() || !it.shape.has_default_layout() || table.rank() == 0) return false;
  const int64_t row = a.slice_sizes.back();
  const bool is_last = !a.offset_dims.empty() && a.offset_dims.back() == it.shape.rank() - 1;
  return is_last && row == table.dims.back() && row * hlo::byte_width(table.type) >= kSectorBytes;
}

/// Operators that are worth no array: each element takes a few operations on few elements.
bool is_cheap(const Computation& computation, const Instruction& it) {
  if (!it.shape.is_array()) return false;
  if (it.opcode == Opcode::Gather) return gathers_rows(computation, it);
  if (it.opcode == Opcode::Reshape) {
    return it.shape.has_default_layout() && computation.operand_shape(it, 0).has_default_layout();
  }
  if (it.opcode == Opcode::BitcastConvert) return it.shape.dims == computation.operand_shape(it, 0).dims;
  return hlo::is_elementwise(it.opcode) || it.opcode == Opcode::Broadcast || it.opcode == Opcode::Iota;
}

/// Whether kernels that compute it have a form of their own, into which nothing may come.
bool has_form(const Instruction& it) {
  switch (it.opcode) {
    case Opcode::Sort:
    case Opcode::TopK:
    case Opcode::DynamicUpdateSlice:
    case Opcode::Dot:
    case Opcode::Convolution:
    case Opcode::Call:
    case Opcode::Transpose:
    case Opcode::Concatenate:
      return true;
    default:
      return false;
  }
}

class Recomputer {
 public:
  Recomputer(const hlo::Module& module, const std::vector<ProgramPart>& parts, const Target& target)
      : module_(module),
        computation_(module.entry_computation()),
        parts_(parts),
        target_(target),
        known_(known_values(computation_)) {
    const size_t count = computation_.instructions.size();
    part_of_.assign(count, -1);
    stored_.assign(count, false);
    closed_.assign(parts.size(), false);
    for (size_t p = 0; p < parts.size(); ++p) {
      closed_[p] = parts[p].interpreted;
      for (const InstructionId id : parts[p].instructions) {
        part_of_[static_cast<size_t>(id)] = static_cast<int>(p);
        closed_[p] = closed_[p] || has_form(computation_[id]);
      }
      for (const ArrayValue& output : parts[p].outputs) stored_[static_cast<size_t>(output.instruction)] = true;
    }
    readers_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      for (const InstructionId operand : computation_.instructions[i].operands)
        readers_[static_cast<size_t>(operand)].push_back(static_cast<InstructionId>(i));
    }
  }

  /// What saves most, first.
  std::vector<Recomputed> find() const {
    std::vector<Recomputed> found;
    for (size_t p = 0; p < parts_.size(); ++p) {
      for (const ArrayValue& output : parts_[p].outputs) {
        if (auto one = look_at(p, output.instruction)) found.push_back(*std::move(one));
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Recomputed& a, const Recomputed& b) { return a.bytes_saved > b.bytes_saved; });
    return found;
  }

  /// The module with these arrays computed where they are read.
  hlo::Module with(std::span<const Recomputed> all) const {
    std::map<InstructionId, const Recomputed*> of;
    for (const Recomputed& one : all) of[one.value] = &one;
    Computation entry = computation_;
    entry.instructions.clear();
    std::set<std::string> names;
    for (const Instruction& it : computation_.instructions) names.insert(it.name);
    std::vector<InstructionId> moved;
    std::map<std::pair<size_t, InstructionId>, InstructionId> copied;  // of a part
    const auto add = [&](Instruction it) {
      entry.instructions.push_back(std::move(it));
      return static_cast<InstructionId>(entry.instructions.size()) - 1;
    };
    // An operand of an instruction of a part: the copy, with all that it is computed of.
    const auto copy = [&](size_t part, const Recomputed& one) {
      for (const InstructionId id : one.copies.at(part)) {
        if (copied.contains({part, id})) continue;
        Instruction again = computation_[id];
        for (InstructionId& operand : again.operands) {
          const auto known = copied.find({part, operand});
          operand = known != copied.end() ? known->second : moved[static_cast<size_t>(operand)];
        }
        const std::string base = again.name + ".again";
        again.name = base;
        for (int n = 1; !names.insert(again.name).second; ++n) again.name = base + "." + std::to_string(n);
        copied[{part, id}] = add(std::move(again));
      }
      return copied.at({part, one.value});
    };
    for (size_t i = 0; i < computation_.instructions.size(); ++i) {
      Instruction it = computation_.instructions[i];
      const int part = part_of_[i];
      for (InstructionId& operand : it.operands) {
        const auto recomputed = of.find(operand);
        const bool outside = recomputed != of.end() && part >= 0 && part_of_[static_cast<size_t>(operand)] != part;
        operand = outside ? copy(static_cast<size_t>(part), *recomputed->second) : moved[static_cast<size_t>(operand)];
      }
      moved.push_back(add(std::move(it)));
    }
    for (InstructionId& parameter : entry.parameters) parameter = moved[static_cast<size_t>(parameter)];
    entry.root = moved[static_cast<size_t>(computation_.root)];
    return hlo::extract_module(module_, entry);
  }

 private:
  std::optional<Recomputed> look_at(size_t part, InstructionId value) const {
    const Instruction& it = computation_[value];
    if (parts_[part].interpreted || value == computation_.root || bytes_of(it) < kLeastBytes || !is_worth_no_array(it))
      return std::nullopt;
    Recomputed result{value, {}, static_cast<double>(bytes_of(it))};
    for (const InstructionId reader : readers_[static_cast<size_t>(value)]) {
      const int to = part_of_[static_cast<size_t>(reader)];
      if (to == static_cast<int>(part)) continue;
      // Results, loops' states and the like are read by what is in no part.
      if (to < 0 || closed_[static_cast<size_t>(to)]) return std::nullopt;
      if (result.copies.contains(static_cast<size_t>(to))) continue;
      std::set<InstructionId>& copies = result.copies[static_cast<size_t>(to)];
      double more = 0;
      if (!copy_for(part, static_cast<size_t>(to), value, copies, more)) return std::nullopt;
      result.bytes_saved += static_cast<double>(bytes_of(it)) - more;
    }
    if (result.copies.empty() || !(result.bytes_saved > 0)) return std::nullopt;
    return result;
  }

  /// What the part `to` needs of the part `from` to compute a value of it, and how many more bytes move then.
  bool copy_for(size_t from, size_t to, InstructionId value, std::set<InstructionId>& copies, double& more) const {
    const int64_t small = bytes_of(computation_[value]) / 8;
    std::vector<InstructionId> stack{value};
    std::set<InstructionId> read, indices;
    while (!stack.empty()) {
      const InstructionId id = stack.back();
      stack.pop_back();
      if (!copies.insert(id).second) continue;
      if (copies.size() > kMostOperators) return false;
      for (const InstructionId operand : computation_[id].operands) {
        const Instruction& it = computation_[operand];
        if (!it.shape.is_array()) return false;
        const bool gathers = computation_[id].opcode == Opcode::Gather;
        const bool of_table = gathers && operand == computation_[id].operands[0];
        if ((gathers && !of_table) || indices.contains(id)) indices.insert(operand);
        // Every kernel has it.
        if (known_[static_cast<size_t>(operand)]) continue;
        const int part = part_of_[static_cast<size_t>(operand)];
        // In no part: parameters.
        const bool elsewhere = part != static_cast<int>(from);
        const bool is_small = bytes_of(it) <= small;
        const bool few = is_small && !only_moves(it.opcode) && !indices.contains(operand);
        const bool again = !elsewhere && is_worth_no_array(it) && !few;
        if (again) {
          stack.push_back(operand);
          continue;
        }
        if (!elsewhere && !is_small && !stored_[static_cast<size_t>(operand)]) return false;
        if (!read.insert(operand).second || reads(to, operand)) continue;
        const bool written = !elsewhere && !stored_[static_cast<size_t>(operand)];
        const int64_t rows = of_table ? std::min(bytes_of(it), bytes_of(computation_[id])) : bytes_of(it);
        more += static_cast<double>(rows) + (written ? static_cast<double>(bytes_of(it)) : 0);
      }
    }
    return true;
  }

  /// Rows that are gathered of a table are still in the cache when they are read, unless they are very many.
  bool is_worth_no_array(const Instruction& it) const {
    return is_cheap(computation_, it) && (it.opcode != Opcode::Gather || bytes_of(it) >= target_.l2_bytes / 2);
  }

  bool reads(size_t part, InstructionId id) const {
    return std::any_of(parts_[part].inputs.begin(), parts_[part].inputs.end(),
                       [&](const ArrayValue& input) { return input.instruction == id; });
  }

  const hlo::Module& module_;
  const Computation& computation_;
  const std::vector<ProgramPart>& parts_;
  const Target& target_;
  std::vector<int> part_of_;
  std::vector<bool> known_;   ///< of each instruction whether its value is known beforehand
  std::vector<bool> stored_;  ///< of each instruction whether it is an output of its part
  std::vector<bool> closed_;  ///< parts that take nothing in
  std::vector<std::vector<InstructionId>> readers_;
};

/// Whether another instruction of the same kind and operands has the same value.
bool is_pure(const Instruction& it) {
  return it.opcode != Opcode::Rng && hlo::family(it.opcode) != hlo::Family::Unsupported && it.shape.is_array();
}

/// The module with each value that kernels write more than once written by the first of them; nothing where there is
/// none. Passes make copies for each reader, of which some are stored after all, and texts have equal values.
std::optional<hlo::Module> with_equal_values_once(const FusedModule& fused, Ratings& ratings) {
  Computation entry = fused.module.entry_computation();
  const size_t count = entry.instructions.size();
  std::vector<bool> stored(count, false);
  for (const ProgramPart& part : fused.parts) {
    for (const ArrayValue& output : part.outputs) stored[static_cast<size_t>(output.instruction)] = true;
  }
  std::map<std::vector<int64_t>, int64_t> numbers;  // of a kind and the values of its operands
  std::map<int64_t, InstructionId> first;           // of a value that is stored
  std::vector<int64_t> value(count, -1);
  std::vector<InstructionId> instead(count);
  bool changed = false;
  for (size_t i = 0; i < count; ++i) {
    Instruction& it = entry.instructions[i];
    const auto id = static_cast<InstructionId>(i);
    instead[i] = id;
    std::vector<int64_t> key{is_pure(it) ? ratings.kind_of(fused.module, it) : -1 - static_cast<int64_t>(i)};
    for (InstructionId& operand : it.operands) {
      key.push_back(value[static_cast<size_t>(operand)]);
      operand = instead[static_cast<size_t>(operand)];
    }
    value[i] = numbers.try_emplace(std::move(key), std::ssize(numbers)).first->second;
    if (!stored[i] || !is_pure(it)) continue;
    instead[i] = first.try_emplace(value[i], id).first->second;
    changed = changed || instead[i] != id;
  }
  if (!changed) return std::nullopt;
  entry.root = instead[static_cast<size_t>(entry.root)];
  return hlo::extract_module(fused.module, entry);
}

/// Of all that kernels write.
int64_t stored_bytes(const FusedModule& fused) {
  int64_t bytes = 0;
  for (const ProgramPart& part : fused.parts) {
    for (const ArrayValue& output : part.outputs) {
      const hlo::Shape& whole = fused.module.entry_computation()[output.instruction].shape;
      const hlo::Shape& shape = hlo::leaf_of(whole, output.element);
      if (shape.is_array()) bytes += shape.element_count() * hlo::byte_width(shape.type);
    }
  }
  return bytes;
}

/// fuse(), and again with operators copied for their readers, as long as that takes less time. `time`: what it takes.
FusedModule fused_recomputing(const hlo::Module& module, Ratings& ratings, Parameters parameters, Ties ties,
                              double& time) {
  const auto parts_of = [&](const hlo::Module& whole) {
    return fuse(whole, ratings, parameters, /*work=*/nullptr, kMostInstructions, ties);
  };
  FusedModule best{module, parts_of(module)};
  time = microseconds(best.parts);
  const auto improves = [&](hlo::Module changed) {
    FusedModule other{std::move(changed), {}, true};
    other.parts = parts_of(other.module);
    const double then = microseconds(other.parts);
    // Of two that take as long by the model, the one that stores less: memory has other work, too.
    if (then > time || (then == time && stored_bytes(other) >= stored_bytes(best))) return false;
    time = then;
    best = std::move(other);
    return true;
  };
  const auto merges = [&] {
    std::optional<hlo::Module> merged = with_equal_values_once(best, ratings);
    return merged && improves(*std::move(merged));
  };
  merges();
  for (int round = 0; round < kMostRounds && std::isfinite(time); ++round) {
    const Recomputer recomputer(best.module, best.parts, ratings.target());
    const std::vector<Recomputed> found = recomputer.find();
    if (found.empty()) break;
    if (improves(recomputer.with(found))) continue;
    // Not all of them together: one, of those that save most.
    bool improved = false;
    for (size_t i = 0; found.size() > 1 && i < std::min(found.size(), kMostTries) && !improved; ++i)
      improved = improves(recomputer.with(std::span(found).subspan(i, 1)));
    if (!improved) break;
  }
  merges();
  return best;
}

}  // namespace

double microseconds(const std::vector<ProgramPart>& parts) {
  double sum = 0;
  for (const ProgramPart& part : parts) sum += part.interpreted ? 0 : part.microseconds;
  return sum;
}

FusedModule fuse_recomputing(const hlo::Module& module, Ratings& ratings, Parameters parameters) {
  double time = 0, then = 0;
  FusedModule best = fused_recomputing(module, ratings, parameters, Ties::InOrder, time);
  // A second fusion takes as long as the first. In large modules the order of a few pairs matters little.
  if (module.entry_computation().instructions.size() > kFewInstructions) return best;
  FusedModule other = fused_recomputing(module, ratings, parameters, Ties::ReadersLast, then);
  return then < time ? std::move(other) : std::move(best);
}

FusedModule fuse_recomputing(const hlo::Module& module, const Target& target, Parameters parameters) {
  Ratings ratings(target);
  return fuse_recomputing(module, ratings, parameters);
}

}  // namespace strata::emitters
