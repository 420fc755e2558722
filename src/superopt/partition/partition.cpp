#include "superopt/partition/partition.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "superopt/partition/fusible.h"
#include "superopt/verify/decided.h"

namespace strata {
namespace {

/// A value from one operator to another.
struct Edge {
  TensorId tensor;
  int from, to;
  int64_t bytes;
};

std::string left_apart(const Graph& program, const Operation& op) {
  return fmt::format("'{}' = {} is left to a library", program.tensor(op.results[0]).name, op.name());
}

/// Groups of operators that grow by merging neighbours. A group goes by the number of its first operator.
class Groups {
 public:
  Groups(const Graph& program, const PartitionLimits& limits) : program_(program), limits_(limits) {
    const size_t count = program.operations().size();
    group_.resize(count);
    std::iota(group_.begin(), group_.end(), 0);
    for (size_t i = 0; i < count; ++i) {
      predefined_.push_back(i < limits.apart.size() && limits.apart[i]
                                ? left_apart(program, program.operations()[i])
                                : not_searched(program, program.operations()[i], limits));
      if (!predefined_[i].empty()) continue;
      auto reason = not_one_part({static_cast<int>(i)});
      if (reason) predefined_[i] = *reason;
    }
    std::map<int, int> first;  // operator of a given part
    for (size_t i = 0; i < count; ++i) {
      if (is_given(static_cast<int>(i))) group_[i] = first.emplace(limits.given[i], static_cast<int>(i)).first->second;
    }
    for (size_t i = 0; i < count; ++i) {
      for (TensorId id : program.operations()[i].operands) {
        const int producer = program.tensor(id).producer;
        if (producer >= 0) edges_.push_back({id, producer, static_cast<int>(i), program.type(id).bytes()});
      }
    }
    // What saves most goes first; limits then cut where the least crosses.
    std::stable_sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.bytes > b.bytes; });
  }

  /// Merges until no two neighbours can be merged: a merge may clear the way for one refused before.
  void merge_all() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Edge& edge : edges_) {
        if (group(edge.from) == group(edge.to) || why_cut(edge)) continue;
        const int into = std::min(group(edge.from), group(edge.to));
        const int gone = std::max(group(edge.from), group(edge.to));
        std::replace(group_.begin(), group_.end(), gone, into);
        changed = true;
      }
    }
  }

  /// Moves operators over a cut where less crosses then: H and sqr(H) go to the reader of both as H alone.
  void pull_all() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = group_.size(); i-- > 0;) changed |= pull(static_cast<int>(i));
    }
  }

  /// Why the groups at an edge's ends are not one; nothing where they could be.
  std::optional<std::string> why_cut(const Edge& edge) const {
    for (int end : {edge.from, edge.to}) {
      const std::string& reason = predefined_[static_cast<size_t>(end)];
      if (!reason.empty()) return reason;
    }
    for (int end : {edge.from, edge.to}) {
      if (is_given(end)) return fmt::format("the part of '{}' stays as it is", result_of(end));
    }
    if (auto way = way_around(group(edge.from), group(edge.to))) {
      return fmt::format("'{}' lies between the two on another path", *way);
    }
    std::vector<int> both = members(group(edge.from));
    const std::vector<int> more = members(group(edge.to));
    both.insert(both.end(), more.begin(), more.end());
    std::sort(both.begin(), both.end());
    return not_one_part(both);
  }

  int group(int operation) const { return group_[static_cast<size_t>(operation)]; }
  const std::string& predefined(int operation) const { return predefined_[static_cast<size_t>(operation)]; }
  const std::vector<Edge>& edges() const { return edges_; }

  std::vector<int> members(int of) const {
    std::vector<int> found;
    for (size_t i = 0; i < group_.size(); ++i) {
      if (group_[i] == of) found.push_back(static_cast<int>(i));
    }
    return found;
  }

  /// Groups in an order in which they can be executed, the earliest first where there is a choice.
  std::vector<int> order() const {
    std::set<int> left(group_.begin(), group_.end());
    std::vector<int> result;
    while (!left.empty()) {
      const auto ready = std::find_if(left.begin(), left.end(), [&](int g) {
        return std::none_of(edges_.begin(), edges_.end(), [&](const Edge& e) {
          return group(e.to) == g && group(e.from) != g && left.count(group(e.from)) != 0;
        });
      });
      result.push_back(*ready);
      left.erase(ready);
    }
    return result;
  }

 private:
  bool is_given(int operation) const {
    const auto i = static_cast<size_t>(operation);
    return i < limits_.given.size() && limits_.given[i] >= 0;
  }

  const std::string& result_of(int operation) const {
    return program_.tensor(program_.operations()[static_cast<size_t>(operation)].results[0]).name;
  }

  bool reads(int reader, TensorId id) const {
    return std::any_of(edges_.begin(), edges_.end(),
                       [&](const Edge& e) { return e.tensor == id && group(e.to) == reader; });
  }

  /// Whether a value is an input, an output, or read by a group that does not make it.
  bool in_memory(TensorId id) const {
    const int producer = program_.tensor(id).producer;
    const auto& outputs = program_.outputs();
    if (producer < 0 || std::find(outputs.begin(), outputs.end(), id) != outputs.end()) return true;
    return std::any_of(edges_.begin(), edges_.end(),
                       [&](const Edge& e) { return e.tensor == id && group(e.to) != group(producer); });
  }

  /// The order of groups stays without cycles: what the operator reads came before its readers already.
  bool pull(int operation) {
    const Operation& op = program_.operations()[static_cast<size_t>(operation)];
    const TensorId result = op.results[0];
    const auto& outputs = program_.outputs();
    if (!predefined(operation).empty() || std::find(outputs.begin(), outputs.end(), result) != outputs.end()) {
      return false;
    }
    std::set<int> readers;
    for (const Edge& e : edges_) {
      if (e.tensor == result) readers.insert(group(e.to));
    }
    if (readers.size() != 1 || *readers.begin() == group(operation)) return false;
    const int to = *readers.begin();
    if (!predefined(members(to)[0]).empty() || is_given(operation) || is_given(members(to)[0])) return false;
    // What crosses is written and read; what lies in memory anyway is read.
    int64_t more = 0;
    for (TensorId id : std::set<TensorId>(op.operands.begin(), op.operands.end())) {
      const int producer = program_.tensor(id).producer;
      if (reads(to, id) || (producer >= 0 && group(producer) == to)) continue;
      more += program_.type(id).bytes() * (in_memory(id) ? 1 : 2);
    }
    if (more >= 2 * program_.type(result).bytes()) return false;
    std::vector<int> grown = members(to);
    grown.insert(std::lower_bound(grown.begin(), grown.end(), operation), operation);
    if (not_one_part(grown)) return false;
    const int from = group(operation);
    group_[static_cast<size_t>(operation)] = to;
    // Groups go by their first operators.
    for (int g : {from, to}) {
      const std::vector<int> now = members(g);
      if (now.empty()) continue;
      for (int i : now) group_[static_cast<size_t>(i)] = now.front();
    }
    return true;
  }

  /// The last value on a path between two groups through a third; merging them would close a cycle.
  std::optional<std::string> way_around(int from, int to) const {
    std::set<int> reached;
    std::vector<int> open;
    const auto visit = [&](int g) {
      for (const Edge& e : edges_) {
        const int next = group(e.to);
        if (group(e.from) == g && next != from && !(g == from && next == to) && reached.insert(next).second) {
          open.push_back(next);
        }
      }
    };
    visit(from);
    while (!open.empty()) {
      const int g = open.back();
      open.pop_back();
      if (g != to) visit(g);
    }
    if (reached.count(to) == 0) return std::nullopt;
    for (const Edge& e : edges_) {
      const int last = group(e.from);
      if (group(e.to) == to && last != from && last != to && reached.count(last) != 0) {
        return program_.tensor(e.tensor).name;
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> not_one_part(const std::vector<int>& operations) const {
    if (counted_operators(program_, operations) > limits_.max_operators) {
      return fmt::format("limit of {} operators in a part", limits_.max_operators);
    }
    const Part part = make_part(program_, operations);
    if (static_cast<int>(part.graph->arguments().size()) > limits_.max_inputs) {
      return fmt::format("limit of {} inputs of a part", limits_.max_inputs);
    }
    return not_fusible(*part.graph, limits_);
  }

  const Graph& program_;
  const PartitionLimits& limits_;
  std::vector<int> group_;               ///< by operation
  std::vector<std::string> predefined_;  ///< by operation
  std::vector<Edge> edges_;
};

}  // namespace

int counted_operators(const Graph& program, const std::vector<int>& operations) {
  // What is made of iotas alone is set apart for the search (prologues.h).
  const std::vector<bool> known = known_tensors(program);
  auto count = static_cast<int>(std::count_if(operations.begin(), operations.end(), [&](int i) {
    return !known[static_cast<size_t>(program.operations()[static_cast<size_t>(i)].results[0])];
  }));
  const auto inside = [&](TensorId id, OpKind kind) -> const Operation* {
    const int at = program.tensor(id).producer;
    if (std::find(operations.begin(), operations.end(), at) == operations.end()) return nullptr;
    const Operation& op = program.operations()[static_cast<size_t>(at)];
    return op.kind == kind ? &op : nullptr;
  };
  for (int i : operations) {
    const Operation& root = program.operations()[static_cast<size_t>(i)];
    if (root.kind != OpKind::Sqrt) continue;
    const Operation* scale = inside(root.operands[0], OpKind::Scale);
    const Operation* sum = inside(scale != nullptr ? scale->operands[0] : root.operands[0], OpKind::Sum);
    const Operation* square = sum == nullptr ? nullptr : inside(sum->operands[0], OpKind::Sqr);
    if (square != nullptr) count -= scale != nullptr ? 4 : 3;
  }
  return count;
}

namespace {

/// Whether a part moves elements or computes each by itself.
bool is_glue(const Graph& part) {
  return std::all_of(part.operations().begin(), part.operations().end(), [](const Operation& op) {
    return op.kind == OpKind::Transpose || op_def(op.kind).traits.elementwise;
  });
}

}  // namespace

Result<Partition> partition(const GraphPtr& program, const PartitionLimits& limits) {
  for (const Operation& op : program->operations()) {
    if (op.body) {
      return tl::unexpected(Error{ErrorCode::Unsupported, "the program has a graph-defined operator already",
                                  "write it with predefined operators; `strata ops` lists them", op.location});
    }
  }
  Groups groups(*program, limits);
  groups.merge_all();
  groups.pull_all();
  groups.merge_all();
  Partition result;
  result.program = program;
  std::map<int, int> part_of_group;
  const std::vector<int> order = groups.order();
  for (int g : order) {
    part_of_group[g] = static_cast<int>(result.parts.size());
    Part part = make_part(*program, groups.members(g));
    part.predefined = groups.predefined(g);
    if (limits.glue_apart && order.size() > 1 && part.searchable() && is_glue(*part.graph))
      part.predefined = "emitters write its kernel: it has no product and no reduction";
    result.parts.push_back(std::move(part));
  }
  for (const Edge& edge : groups.edges()) {
    const int from = part_of_group[groups.group(edge.from)];
    const int to = part_of_group[groups.group(edge.to)];
    if (from != to) result.cuts.push_back({edge.tensor, from, to, *groups.why_cut(edge)});
  }
  const auto place = [](const Cut& cut) { return std::tuple(cut.tensor, cut.from, cut.to); };
  std::stable_sort(result.cuts.begin(), result.cuts.end(),
                   [&](const Cut& a, const Cut& b) { return place(a) < place(b); });
  result.cuts.erase(std::unique(result.cuts.begin(), result.cuts.end(),
                                [&](const Cut& a, const Cut& b) { return place(a) == place(b); }),
                    result.cuts.end());
  return result;
}

}  // namespace strata
