#include "superopt/codegen/handover.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

namespace strata {
namespace {

constexpr int64_t kMostPairs = int64_t{1} << 20;
constexpr std::array kCoordinates{"block_x", "block_y", "block_z"};

using Coordinates = std::vector<int64_t>;

/// First elements and ends along each dimension of a tensor.
struct Box {
  std::vector<int64_t> first, end;
  bool meets(const Box& other) const {
    for (size_t d = 0; d < first.size(); ++d) {
      if (first[d] >= other.end[d] || other.first[d] >= end[d]) return false;
    }
    return true;
  }
};

std::vector<Coordinates> blocks_of_grid(const std::vector<int64_t>& grid) {
  std::vector<Coordinates> blocks{{}};
  for (int64_t size : grid) {
    std::vector<Coordinates> longer;
    for (const Coordinates& block : blocks) {
      for (int64_t i = 0; i < size; ++i) {
        longer.push_back(block);
        longer.back().push_back(i);
      }
    }
    blocks = std::move(longer);
  }
  return blocks;
}

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// What a block touches of a tensor in all iterations: the dimension is cut by the grid dimensions that `map` sends to
/// it, then by the loop if it is `fmap` (tile_position in emit.h).
Box box_of(const LaunchShape& launch, const Coordinates& block, const Shape& tile, const std::vector<int64_t>& map,
           int64_t fmap) {
  Box box;
  for (size_t d = 0; d < tile.size(); ++d) {
    int64_t position = 0;
    for (size_t g = 0; g < map.size(); ++g) {
      if (map[g] == static_cast<int64_t>(d)) position = position * launch.grid[g] + block[g];
    }
    const int64_t length = tile[d] * (fmap == static_cast<int64_t>(d) ? launch.loop : 1);
    box.first.push_back(position * length);
    box.end.push_back((position + 1) * length);
  }
  return box;
}

/// A tensor that both kernels touch: an out_saver of the first, an in_iter of the second.
struct Touch {
  const Operation* saver;
  const Operation* load;
};

std::vector<Touch> touches(const Operation& from, const Operation& to) {
  std::vector<Touch> found;
  const Graph& writer = *from.body;
  const Graph& reader = *to.body;
  for (size_t n = 0; n < from.results.size(); ++n) {
    const TensorId output = writer.outputs()[n];
    const Operation& saver = writer.operations()[static_cast<size_t>(writer.tensor(output).producer)];
    for (size_t m = 0; m < to.operands.size(); ++m) {
      if (to.operands[m] != from.results[n]) continue;
      for (const Operation& load : reader.operations()) {
        if (load.kind == OpKind::InIter && load.operands[0] == reader.inputs()[m]) found.push_back({&saver, &load});
      }
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

class Groups {
 public:
  Groups(const Operation& from, const Operation& to)
      : from_(from.body->launch()),
        to_(to.body->launch()),
        producers_(blocks_of_grid(from_.grid)),
        consumers_(blocks_of_grid(to_.grid)) {
    for (const Touch& touch : touches(from, to)) compare(*from.body, *to.body, touch);
  }

  HandoverGroups run() {
    join();
    HandoverGroups groups;
    for (int64_t size : from_.grid) groups.from.push_back({size, size, -1});
    for (int64_t size : to_.grid) groups.to.push_back({size, size, -1});
    for (size_t g = 0; g < groups.from.size(); ++g) divide(groups, g);
    for (const auto& axis : groups.from) groups.producers *= axis.chunk;
    for (const auto& axis : groups.to) groups.consumers *= axis.chunk;
    return groups;
  }

 private:
  void compare(const Graph& writer, const Graph& reader, const Touch& touch) {
    std::vector<Box> read;
    for (const Coordinates& block : consumers_) {
      read.push_back(box_of(to_, block, reader.type(touch.load->results[0]).shape, touch.load->attributes.list("imap"),
                            touch.load->attributes.integer_or("fmap", -1)));
    }
    for (size_t a = 0; a < producers_.size(); ++a) {
      const Box written = box_of(from_, producers_[a], writer.type(touch.saver->operands[0]).shape,
                                 touch.saver->attributes.list("omap"), -1);
      for (size_t b = 0; b < consumers_.size(); ++b) {
        if (written.meets(read[b])) needs_.emplace_back(a, b);
      }
    }
  }

  /// Blocks of the first kernel that one block of the second needs belong together, and so on: first_[a] names what a
  /// belongs to.
  void join() {
    first_.resize(producers_.size());
    std::iota(first_.begin(), first_.end(), size_t{0});
    std::vector<size_t> of_consumer(consumers_.size(), producers_.size());
    const auto root = [&](size_t a) {
      while (first_[a] != a) a = first_[a] = first_[first_[a]];
      return a;
    };
    for (const auto& [a, b] : needs_) {
      if (of_consumer[b] == producers_.size()) of_consumer[b] = a;
      first_[root(a)] = root(of_consumer[b]);
    }
    for (size_t a = 0; a < first_.size(); ++a) first_[a] = root(a);
  }

  /// Whether blocks that belong together lie in one chunk along dimension g.
  bool keeps_together(size_t g, int64_t chunk) const {
    for (size_t a = 0; a < first_.size(); ++a) {
      if (producers_[a][g] / chunk != producers_[first_[a]][g] / chunk) return false;
    }
    return true;
  }

  /// Cuts dimension g of the first grid into chunks, the smallest that some dimension of the second is cut like.
  void divide(HandoverGroups& groups, size_t g) const {
    const int64_t size = from_.grid[g];
    for (int64_t chunk = 1; chunk < size; ++chunk) {
      if (size % chunk != 0 || !keeps_together(g, chunk)) continue;
      for (size_t h = 0; h < to_.grid.size(); ++h) {
        const int64_t count = size / chunk;
        if (groups.to[h].group >= 0 || to_.grid[h] % count != 0) continue;
        const int64_t consumers = to_.grid[h] / count;
        const bool same = std::all_of(needs_.begin(), needs_.end(), [&](const auto& need) {
          return producers_[need.first][g] / chunk == consumers_[need.second][h] / consumers;
        });
        if (!same) continue;
        groups.from[g] = {size, chunk, static_cast<int>(groups.along.size())};
        groups.to[h] = {to_.grid[h], consumers, static_cast<int>(groups.along.size())};
        groups.along.push_back(count);
        return;
      }
    }
  }

  const LaunchShape& from_;
  const LaunchShape& to_;
  std::vector<Coordinates> producers_, consumers_;
  std::vector<std::pair<size_t, size_t>>
      needs_;  ///< numbers of a block of the first and one of the second that reads it
  std::vector<size_t> first_;
};

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
  int64_t behind = 1;  // of the dimensions behind this one
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

std::optional<HandoverGroups> handover_groups(const Graph& graph, const Operation& from, const Operation& to) {
  if (!from.body || !to.body || touches(from, to).empty()) return std::nullopt;
  for (TensorId id : to.operands) {
    if (is_view_of_results(graph, id, from)) return std::nullopt;
  }
  if (product(from.body->launch().grid) * product(to.body->launch().grid) > kMostPairs) return std::nullopt;
  return Groups(from, to).run();
}

}  // namespace strata
