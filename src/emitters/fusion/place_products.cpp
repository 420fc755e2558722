#include "emitters/fusion/place_products.h"

#include <algorithm>
#include <span>

#include "emitters/kinds/product/product.h"
#include "hlo/users.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// From a product to the transpose that reads it; empty where there is none.
std::vector<InstructionId> way_to_transpose(const Computation& entry, const hlo::Users& users, InstructionId product) {
  std::vector<InstructionId> way{product};
  for (;;) {
    const auto user = hlo::only_user(users, way.back());
    if (!user) return {};
    const Instruction& it = entry[*user];
    way.push_back(*user);
    if (it.opcode == Opcode::Transpose) return way;
    if (!hlo::is_elementwise(it.opcode) || it.operands.size() != 1) return {};
  }
}

}  // namespace

hlo::Module place_products(const hlo::Module& module) {
  hlo::Module result = module;
  Computation& entry = result.computations[static_cast<size_t>(result.entry)];
  const hlo::Users users = hlo::users_of(entry);
  for (InstructionId id = 0; id < std::ssize(entry.instructions); ++id) {
    const auto shape = product_shape(entry, id);
    if (!shape || shape->columns.empty()) continue;
    const std::vector<InstructionId> way = way_to_transpose(entry, users, id);
    const bool as_written = std::ranges::all_of(
        way, [&](InstructionId one) { return entry[one].shape.is_array() && entry[one].shape.has_default_layout(); });
    if (way.empty() || !as_written) continue;
    const std::vector<int64_t>& permutation = entry[way.back()].dimensions();
    if (permutation.back() != shape->columns.back().in_result) continue;
    for (const InstructionId one : std::span(way).first(way.size() - 1))
      entry.instructions[static_cast<size_t>(one)].shape.minor_to_major = {permutation.rbegin(), permutation.rend()};
  }
  return result;
}

}  // namespace strata::emitters
