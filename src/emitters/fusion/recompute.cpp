#include "emitters/fusion/recompute.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

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

/// Operators that are worth no array: each element takes a few operations on few elements.
bool is_cheap(const Computation& computation, const Instruction& it) {
  if (!it.shape.is_array()) return false;
  if (it.opcode == Opcode::Reshape) {
    return it.shape.has_default_layout() && computation.operand_shape(it, 0).has_default_layout();
  }
  return hlo::is_elementwise(it.opcode) || it.opcode == Opcode::Broadcast || it.opcode == Opcode::Iota;
}

/// Whether kernels that compute it have a form of their own, into which nothing may come.
bool has_form(const Instruction& it) {
  switch (it.opcode) {
    case Opcode::Sort:
    case Opcode::TopK:
    case Opcode::Scatter:
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
  Recomputer(const hlo::Module& module, const std::vector<ProgramPart>& parts)
      : module_(module), computation_(module.entry_computation()), parts_(parts) {
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
    if (closed_[part] || value == computation_.root || bytes_of(it) < kLeastBytes || !is_cheap(computation_, it))
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
    std::set<InstructionId> read;
    while (!stack.empty()) {
      const InstructionId id = stack.back();
      stack.pop_back();
      if (!copies.insert(id).second) continue;
      if (copies.size() > kMostOperators) return false;
      for (const InstructionId operand : computation_[id].operands) {
        const Instruction& it = computation_[operand];
        if (!it.shape.is_array()) return false;
        const int part = part_of_[static_cast<size_t>(operand)];
        // In no part: parameters, and what is known beforehand.
        const bool elsewhere = part != static_cast<int>(from);
        const bool is_small = bytes_of(it) <= small;
        const bool again = !elsewhere && is_cheap(computation_, it) && (!is_small || only_moves(it.opcode));
        if (again) {
          stack.push_back(operand);
          continue;
        }
        if (!elsewhere && !is_small && !stored_[static_cast<size_t>(operand)]) return false;
        if (!read.insert(operand).second || reads(to, operand)) continue;
        const bool written = !elsewhere && !stored_[static_cast<size_t>(operand)];
        more += static_cast<double>(bytes_of(it)) * (written ? 2 : 1);
      }
    }
    return true;
  }

  bool reads(size_t part, InstructionId id) const {
    return std::any_of(parts_[part].inputs.begin(), parts_[part].inputs.end(),
                       [&](const ArrayValue& input) { return input.instruction == id; });
  }

  const hlo::Module& module_;
  const Computation& computation_;
  const std::vector<ProgramPart>& parts_;
  std::vector<int> part_of_;
  std::vector<bool> stored_;  ///< of each instruction whether it is an output of its part
  std::vector<bool> closed_;  ///< parts that take nothing in
  std::vector<std::vector<InstructionId>> readers_;
};

double microseconds(const std::vector<ProgramPart>& parts) {
  double sum = 0;
  for (const ProgramPart& part : parts) sum += part.interpreted ? 0 : part.microseconds;
  return sum;
}

}  // namespace

FusedModule fuse_recomputing(const hlo::Module& module, const Target& target, Parameters parameters) {
  // Most groups of a module are those of the module before it.
  Ratings ratings(target);
  FusedModule best{module, fuse(module, ratings, parameters)};
  double time = microseconds(best.parts);
  const auto improves = [&](const Recomputer& from, std::span<const Recomputed> which) {
    FusedModule other{from.with(which), {}, true};
    other.parts = fuse(other.module, ratings, parameters);
    const double then = microseconds(other.parts);
    if (!(then < time)) return false;
    time = then;
    best = std::move(other);
    return true;
  };
  for (int round = 0; round < kMostRounds && std::isfinite(time); ++round) {
    const Recomputer recomputer(best.module, best.parts);
    const std::vector<Recomputed> found = recomputer.find();
    if (found.empty()) break;
    if (improves(recomputer, found)) continue;
    // Not all of them together: one, of those that save most.
    bool improved = false;
    for (size_t i = 0; found.size() > 1 && i < std::min(found.size(), kMostTries) && !improved; ++i)
      improved = improves(recomputer, std::span(found).subspan(i, 1));
    if (!improved) break;
  }
  return best;
}

}  // namespace strata::emitters
