#include "superopt/codegen/handover.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "block/overlap.h"
#include "block/regions.h"

namespace strata {

using indexing::Expr;
using indexing::IndexingMap;

namespace {

constexpr std::array kCoordinates{"block_x", "block_y", "block_z"};

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// Which blocks of the second touch what blocks of the first write, for each out_saver of the first and each in_iter of
/// the second that reads its result.
std::vector<BlockOverlap> overlaps(const Operation& from, const Operation& to) {
  std::vector<BlockOverlap> found;
  const Graph& writer = *from.body;
  const Graph& reader = *to.body;
  for (const AccessRegion& read : block_regions(reader)) {
    if (read.writes) continue;
    for (const AccessRegion& written : block_regions(writer)) {
      if (!written.writes) continue;
      const auto operand = static_cast<size_t>(read.argument);
      const auto result = static_cast<size_t>(written.argument);
      if (to.operands[operand] != from.results[result]) continue;
      found.emplace_back(of_all_iterations(written), of_all_iterations(read),
                         reader.type(reader.inputs()[operand]).shape);
    }
  }
  return found;
}

bool is_view_of_results(const Graph& graph, TensorId id, const Operation& from) {
  const int producer = graph.tensor(id).producer;
  if (producer < 0 || graph.operations()[static_cast<size_t>(producer)].body) return false;
  const auto& operands = graph.operations()[static_cast<size_t>(producer)].operands;
  return std::any_of(operands.begin(), operands.end(), [&](TensorId operand) {
    return std::find(from.results.begin(), from.results.end(), operand) != from.results.end() ||
           is_view_of_results(graph, operand, from);
  });
}

/// Cuts dimension g of the first grid into chunks, the smallest that some dimension of the second is cut like.
void divide(HandoverGroups& groups, size_t g, const std::vector<BlockOverlap>& needs) {
  const int64_t size = groups.from[g].size;
  for (int64_t chunk = 1; chunk < size; ++chunk) {
    const int64_t count = size / chunk;
    if (size % chunk != 0) continue;
    for (size_t h = 0; h < groups.to.size(); ++h) {
      HandoverGroups::Axis& to = groups.to[h];
      if (to.group >= 0 || to.size % count != 0) continue;
      const int64_t consumers = to.size / count;
      const bool same = std::all_of(needs.begin(), needs.end(), [&](const BlockOverlap& overlap) {
        return overlap.keeps_parts(g, chunk, h, consumers);
      });
      if (!same) continue;
      const int along = static_cast<int>(groups.along.size());
      groups.from[g] = {size, chunk, along};
      to = {to.size, consumers, along};
      groups.along.push_back(count);
      return;
    }
  }
}

/// The number that digits make, of the most significant first; each is an expression and its count.
std::string number(const std::vector<std::pair<std::string, int64_t>>& digits) {
  std::string text;
  for (const auto& [digit, count] : digits) {
    text = text.empty() ? digit : fmt::format("({} * {} + {})", text, count, digit);
  }
  return text.empty() ? "0" : text;
}

}  // namespace

int64_t HandoverGroups::count() const { return product(along); }

std::string HandoverGroups::group() const {
  std::vector<std::pair<std::string, int64_t>> digits(along.size());
  for (size_t g = 0; g < from.size(); ++g) {
    if (from[g].group < 0) continue;
    const auto place = static_cast<size_t>(from[g].group);
    digits[place] = {from[g].chunk == 1 ? kCoordinates[g] : fmt::format("{} / {}", kCoordinates[g], from[g].chunk),
                     along[place]};
  }
  return number(digits);
}

std::string HandoverGroups::rank() const {
  std::vector<std::pair<std::string, int64_t>> digits;
  for (size_t g = 0; g < from.size(); ++g) {
    if (from[g].chunk == 1) continue;
    digits.emplace_back(
        from[g].chunk == from[g].size ? kCoordinates[g] : fmt::format("{} % {}", kCoordinates[g], from[g].chunk),
        from[g].chunk);
  }
  return number(digits);
}

std::string HandoverGroups::consumer(const std::string& n) const {
  std::array<std::string, 3> at{"0", "0", "0"};
  int64_t behind = 1;  // of the dimensions after this one
  for (size_t h = to.size(); h-- > 0;) {
    std::string inside;
    if (to[h].chunk > 1) {
      inside = behind == 1 ? n : fmt::format("{} / {}", n, behind);
      if (behind * to[h].chunk < consumers) inside += fmt::format(" % {}", to[h].chunk);
    }
    behind *= to[h].chunk;
    if (to[h].group >= 0) {
      const auto along_from =
          std::find_if(from.begin(), from.end(), [&](const Axis& axis) { return axis.group == to[h].group; });
      const auto g = static_cast<size_t>(along_from - from.begin());
      std::string group = from[g].chunk == 1 ? kCoordinates[g] : fmt::format("{} / {}", kCoordinates[g], from[g].chunk);
      if (to[h].chunk > 1) group = fmt::format("{} * {}", group, to[h].chunk);
      inside = inside.empty() ? group : group + " + " + inside;
    }
    if (!inside.empty()) at[h] = inside;
  }
  return fmt::format("{}", fmt::join(at, ", "));
}

IndexingMap HandoverGroups::counter(int64_t stride) const {
  IndexingMap map;
  std::vector<Expr> digits(along.size());
  for (size_t g = 0; g < from.size(); ++g) {
    map.dims.push_back(indexing::below(from[g].size));
    if (from[g].group >= 0)
      digits[static_cast<size_t>(from[g].group)] = floor_div(Expr::dim(static_cast<int>(g)), from[g].chunk);
  }
  Expr number;
  for (size_t place = 0; place < along.size(); ++place) number = number * along[place] + digits[place];
  map.results = {number * stride};
  return map;
}

IndexingMap HandoverGroups::consumers_of() const {
  IndexingMap map;
  for (const Axis& axis : from) map.dims.push_back(indexing::below(axis.size));
  for (size_t h = 0; h < to.size(); ++h) {
    map.ranges.push_back(indexing::below(to[h].chunk));
    Expr at = Expr::range(static_cast<int>(h));
    for (size_t g = 0; g < from.size() && to[h].group >= 0; ++g) {
      if (from[g].group == to[h].group)
        at = at + floor_div(Expr::dim(static_cast<int>(g)), from[g].chunk) * to[h].chunk;
    }
    map.results.push_back(at);
  }
  return map;
}

std::optional<HandoverGroups> handover_groups(const Graph& graph, const Operation& from, const Operation& to) {
  if (!from.body || !to.body) return std::nullopt;
  const std::vector<BlockOverlap> needs = overlaps(from, to);
  if (needs.empty()) return std::nullopt;
  for (TensorId id : to.operands) {
    if (is_view_of_results(graph, id, from)) return std::nullopt;
  }
  HandoverGroups groups;
  for (int64_t size : from.body->launch().grid) groups.from.push_back({size, size, -1});
  for (int64_t size : to.body->launch().grid) groups.to.push_back({size, size, -1});
  for (size_t g = 0; g < groups.from.size(); ++g) divide(groups, g, needs);
  for (const auto& axis : groups.from) groups.producers *= axis.chunk;
  for (const auto& axis : groups.to) groups.consumers *= axis.chunk;
  return groups;
}

}  // namespace strata
