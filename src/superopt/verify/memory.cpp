#include "superopt/verify/memory.h"

#include <algorithm>

#include "interpret/work.h"
#include "support/host_memory.h"

namespace strata {
namespace {

/// A free maximum is remembered by its value: a node of a hash map and its place in the table.
constexpr double kBytesOfMaximum = 64;
/// Arguments of roots, divisors and what maxima compare are listed; a vector that grows is there twice.
constexpr double kBytesOfListed = 3 * sizeof(FieldArithmetic::Value);
/// Both programs' tensors are there at a time where intermediates are looked at, exact and with noise.
constexpr double kRealCopies = 2;

/// Bytes of what a test remembers beside the tensors.
double bytes_of_lists(const Graph& graph) {
  double bytes = 0;
  for (const Operation& op : graph.operations()) {
    if (op.body) continue;
    double entries = 0;
    for (TensorId id : op.operands) entries = std::max(entries, static_cast<double>(graph.type(id).elements()));
    const LaxProperty& lax = op_def(op.kind).traits.lax;
    if (lax.maximum) bytes += entries * kBytesOfMaximum;
    if (lax.maximum || lax.root || lax.divides) bytes += entries * kBytesOfListed;
  }
  return bytes;
}

}  // namespace

Result<void> check_field_memory(const Graph& reference, const Graph& candidate) {
  double bytes = 0;
  for (const Graph* graph : {&reference, &candidate}) {
    bytes += execution_bytes(*graph, sizeof(FieldArithmetic::Value)) + bytes_of_lists(*graph);
  }
  return check_host_memory(bytes, "a random test over finite fields");
}

Result<void> check_real_memory(const Graph& reference, const Graph& candidate) {
  return check_host_memory(kRealCopies * (execution_bytes(reference) + execution_bytes(candidate)),
                           "comparing the programs in float64");
}

}  // namespace strata
