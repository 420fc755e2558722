#include "hlo/indexing/serial_terms.h"

#include <algorithm>

#include "hlo/scan_window.h"
#include "hlo/terms.h"

namespace strata::indexing {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// Without overflow: of more than 2³¹ each nobody asks how many.
int64_t product(int64_t a, int64_t b) {
  constexpr int64_t kMost = int64_t{1} << 31;
  return std::min(a, kMost) * std::min(b, kMost);
}

/// A reduction, or a window that grows with the index: emitters compute both by several threads together.
bool is_combined(const hlo::Computation& computation, const Instruction& it) {
  return it.opcode == Opcode::Reduce || hlo::scan_window(computation, it).has_value();
}

void take_longer(SerialTerms& longest, const SerialTerms& other) {
  longest.all = std::max(longest.all, other.all);
  longest.combined = std::max(longest.combined, other.combined);
}

}  // namespace

std::vector<SerialTerms> serial_terms(const hlo::Computation& computation, const std::vector<InstructionId>& once) {
  std::vector<SerialTerms> result(static_cast<size_t>(computation.root) + 1);
  for (InstructionId id = 0; id <= computation.root; ++id) {
    if (std::find(once.begin(), once.end(), id) != once.end()) continue;
    const Instruction& it = computation[id];
    const bool reduces = it.opcode == Opcode::Reduce || it.opcode == Opcode::ReduceWindow;
    const size_t initial = reduces ? it.operands.size() / 2 : it.operands.size();
    SerialTerms each, before;  // of a term, and of initial values
    for (size_t k = 0; k < it.operands.size(); ++k)
      take_longer(k < initial ? each : before, result[static_cast<size_t>(it.operands[k])]);
    const int64_t terms = hlo::terms_of(computation, it);
    SerialTerms& its = result[static_cast<size_t>(id)];
    its.all = product(each.all, terms);
    its.combined = is_combined(computation, it) ? its.all : product(each.combined, terms);
    take_longer(its, before);
  }
  return result;
}

}  // namespace strata::indexing
