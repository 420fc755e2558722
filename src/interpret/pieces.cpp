#include "interpret/pieces.h"

#include <cmath>

#include "interpret/work.h"

namespace strata {
namespace {

/// Of one piece: entries that are computed, of which the slowest arithmetic makes a million a second; and multiply-adds
/// of products, of which it makes a hundred times as many.
constexpr double kEntries = 1 << 17;
constexpr double kProducts = 1 << 24;

/// The only dimension with a label, or Pieces::kWhole where there is none; nothing where there are several.
std::optional<int> only(const std::vector<int>& labels, int label) {
  const auto count = std::count(labels.begin(), labels.end(), label);
  if (count > 1) return std::nullopt;
  if (count == 0) return Pieces::kWhole;
  return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

/// The dimensions of the operands that walk with one of the result; nothing where no slice of the result is the
/// operator's result of slices of its operands.
std::optional<std::vector<int>> tied_to(const Graph& graph, const Operation& op, const IndexLabels& labels,
                                        size_t dim) {
  const int label = labels.result[dim];
  if (label == IndexLabels::kFree || only(labels.result, label) != static_cast<int>(dim)) return std::nullopt;
  const int64_t extent = graph.type(op.results[0]).shape[dim];
  std::vector<int> operands;
  for (size_t n = 0; n < op.operands.size(); ++n) {
    const auto tied = only(labels.operands[n], label);
    if (!tied) return std::nullopt;
    if (*tied != Pieces::kWhole && graph.type(op.operands[n]).shape[static_cast<size_t>(*tied)] != extent) {
      return std::nullopt;
    }
    operands.push_back(*tied);
  }
  const bool any = std::any_of(operands.begin(), operands.end(), [](int d) { return d != Pieces::kWhole; });
  return any ? std::optional(operands) : std::nullopt;
}

}  // namespace

std::optional<Pieces> pieces_of(const Graph& graph, const Operation& op) {
  if (graph.level() != Level::Kernel || op.body || is_accumulator(op.kind)) return std::nullopt;
  auto entries = static_cast<double>(graph.type(op.results[0]).elements());
  for (TensorId id : op.operands) entries = std::max(entries, static_cast<double>(graph.type(id).elements()));
  const double count = std::ceil(std::max(entries / kEntries, operation_work(graph, op) / kProducts));
  if (count <= 1) return std::nullopt;
  const IndexLabels labels = op_def(op.kind).labels(graph.types(op.operands), op.attributes);
  const Shape& shape = graph.type(op.results[0]).shape;
  std::optional<Pieces> best;
  for (size_t d = 0; d < shape.size(); ++d) {
    // Of two the outer one, whose slices lie together, if it is cut as finely as it should be.
    if (shape[d] < 2 || (best && static_cast<double>(shape[best->dim]) >= count)) continue;
    if (best && shape[d] <= shape[best->dim]) continue;
    auto operands = tied_to(graph, op, labels, d);
    if (!operands) continue;
    const auto size = static_cast<int64_t>(std::ceil(static_cast<double>(shape[d]) / count));
    best = Pieces{d, size, std::move(*operands)};
  }
  return best;
}

}  // namespace strata
