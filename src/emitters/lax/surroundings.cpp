#include "emitters/lax/surroundings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "emitters/fusion/pass.h"
#include "emitters/lax/known.h"
#include "hlo/inline_calls.h"
#include "hlo/users.h"
#include "superopt/codegen/libraries.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// Instructions around a part, in either direction: kernels are about that long.
constexpr size_t kMostAround = 32;

bool moves(Opcode opcode) {
  switch (opcode) {
    case Opcode::Bitcast:
    case Opcode::Broadcast:
    case Opcode::Concatenate:
    case Opcode::Copy:
    case Opcode::Pad:
    case Opcode::Reshape:
    case Opcode::Reverse:
    case Opcode::Slice:
    case Opcode::Transpose:
      return true;
    default:
      return false;
  }
}

/// Whether a kernel may compute it on its way.
bool is_on_the_way(const Instruction& it) {
  return it.shape.is_array() && (moves(it.opcode) || hlo::is_elementwise(it.opcode));
}

class Collector {
 public:
  Collector(const hlo::Module& module, const LaxPart& part)
      : module_(module),
        from_(module.entry_computation()),
        part_(part),
        all_(part.members.begin(), part.members.end()),
        users_(hlo::users_of(from_)) {
    const std::vector<Known> known = known_instructions(from_);
    for (const Known one : known) known_.push_back(one != Known::No);
  }

  Surroundings run() {
    copy_for_part();
    reach(part_.inputs, [&](InstructionId id) { return from_[id].operands; });
    std::vector<InstructionId> readers;
    for (const InstructionId id : users_[static_cast<size_t>(part_.result)])
      if (id != hlo::kCaller && !all_.contains(id)) readers.push_back(id);
    reach(readers, [&](InstructionId id) {
      return from_[id].opcode == Opcode::Reduce ? std::vector<InstructionId>{} : users_[static_cast<size_t>(id)];
    });
    // What is known when the module is compiled is part of each kernel that reads it.
    for (InstructionId id = *all_.rbegin(); id >= 0; --id) {
      if (!all_.contains(id)) continue;
      for (const InstructionId operand : from_[id].operands)
        if (known_[static_cast<size_t>(operand)]) all_.insert(operand);
    }
    return outline();
  }

 private:
  /// What the part computes anew: constants, other orders of its inputs.
  void copy_for_part() {
    std::vector<InstructionId> left = part_.members;
    while (!left.empty()) {
      const InstructionId id = left.back();
      left.pop_back();
      for (const InstructionId operand : from_[id].operands) {
        if (std::find(part_.inputs.begin(), part_.inputs.end(), operand) != part_.inputs.end()) continue;
        if (!all_.insert(operand).second) continue;
        copies_.insert(operand);
        left.push_back(operand);
      }
    }
  }

  /// Adds what is on the way from these on.
  template <class Next>
  void reach(const std::vector<InstructionId>& first, const Next& next) {
    std::deque<InstructionId> left(first.begin(), first.end());
    for (size_t added = 0; !left.empty() && added < kMostAround;) {
      const InstructionId id = left.front();
      left.pop_front();
      if (id == hlo::kCaller) continue;
      const bool sums = from_[id].opcode == Opcode::Reduce && from_[id].shape.is_array();
      if ((!is_on_the_way(from_[id]) && !(sums && id > part_.result)) || !all_.insert(id).second) continue;
      ++added;
      const auto more = next(id);
      left.insert(left.end(), more.begin(), more.end());
    }
  }

  Surroundings outline() const {
    Computation entry;
    entry.name = "surroundings";
    std::map<InstructionId, InstructionId> moved;
    const auto append = [&](Instruction it) {
      it.name = fmt::format("v{}", entry.instructions.size());
      it.location = {};
      entry.instructions.push_back(std::move(it));
      return static_cast<InstructionId>(entry.instructions.size()) - 1;
    };
    for (const InstructionId id : all_) {
      Instruction it = from_[id];
      for (InstructionId& operand : it.operands) {
        const auto [at, fresh] = moved.try_emplace(operand);
        if (fresh) {
          const hlo::ParameterAttributes number{std::ssize(entry.parameters)};
          at->second = append({"", Opcode::Parameter, from_[operand].shape, {}, {}, number, {}});
          entry.parameters.push_back(at->second);
        }
        operand = at->second;
      }
      moved[id] = append(std::move(it));
    }
    Instruction results{"", Opcode::Tuple, {}, {}, {}, hlo::NoAttributes{}, {}};
    std::vector<hlo::Shape> shapes;
    for (const InstructionId id : all_) {
      const auto& users = users_[static_cast<size_t>(id)];
      const bool leaves =
          std::any_of(users.begin(), users.end(), [&](InstructionId user) { return !all_.contains(user); });
      if (!leaves || known_[static_cast<size_t>(id)] || copies_.contains(id)) continue;
      results.operands.push_back(moved.at(id));
      shapes.push_back(from_[id].shape);
    }
    results.shape = hlo::tuple_shape(shapes);
    entry.root = append(std::move(results));

    Surroundings made{{}, part_};
    for (InstructionId& id : made.part.members) id = moved.at(id);
    for (InstructionId& id : made.part.inputs) id = moved.at(id);
    made.part.result = moved.at(part_.result);
    made.module = hlo::extract_module(module_, std::move(entry));
    made.module.name = "surroundings";
    return made;
  }

  const hlo::Module& module_;
  const Computation& from_;
  const LaxPart& part_;
  std::set<InstructionId> all_, copies_;
  const hlo::Users users_;
  std::vector<bool> known_;
};

}  // namespace

LaxTimes microseconds_of(const hlo::Module& module, const Target& target, LibraryUse libraries) {
  LibraryCalls calls{module, {}, {}};
  if (libraries != LibraryUse::Never)
    calls = find_library_calls(prepare_for_libraries(module, target, libraries), target, libraries);
  LaxTimes times;
  for (const ProgramPart& one : fuse(calls.module, target)) {
    const Instruction& root = one.module.entry_computation().root_instruction();
    if (root.opcode != Opcode::Call) {
      times.all += one.microseconds;
      continue;
    }
    const auto call = calls.calls.find(root.name);
    if (call == calls.calls.end()) continue;
    const double one_call = 1e6 * library_seconds(call->second.work, target);
    times.all += one_call;
    times.products += one_call;
  }
  return times;
}

Surroundings surroundings_of(const hlo::Module& module, const LaxPart& part) { return Collector(module, part).run(); }

double microseconds_around(const Surroundings& surroundings, const Target& target, LibraryUse libraries) {
  const auto price = [&](const hlo::Module& module) { return microseconds_of(module, target, libraries).all; };
  const double beside_call = price(with_lax_calls(surroundings.module, {surroundings.part}));
  const double beside_kernels = price(surroundings.module) - price(surroundings.part.module);
  const double around = beside_call - beside_kernels;
  return std::isfinite(around) ? around : 0;  // of what no model knows
}

}  // namespace strata::emitters
