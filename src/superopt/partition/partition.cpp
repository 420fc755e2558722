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

/// Whether what is made of iotas alone, which is set apart for the search (prologues.h), counts not; a normalisation
/// counts as one. `known` is by tensor, `operations` ascend.
int count_operators(const Graph& program, const std::vector<bool>& known, const std::vector<int>& operations) {
  auto count = static_cast<int>(std::count_if(operations.begin(), operations.end(), [&](int i) {
    return !known[static_cast<size_t>(program.operations()[static_cast<size_t>(i)].results[0])];
  }));
  const auto inside = [&](TensorId id, OpKind kind) -> const Operation* {
    const int at = program.tensor(id).producer;
    if (!std::binary_search(operations.begin(), operations.end(), at)) return nullptr;
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

/// Groups of operators that grow by merging neighbours. A group goes by the number of its first operator. What is asked
/// of a group is answered from its members and their edges, never by a walk over the program: long programs have as
/// many groups as operators.
class Groups {
 public:
  Groups(const Graph& program, const PartitionLimits& limits)
      : program_(program), limits_(limits), known_(known_tensors(program)), is_output_(program.tensors().size()) {
    const size_t count = program.operations().size();
    for (const TensorId id : program.outputs()) is_output_[static_cast<size_t>(id)] = true;
    group_.resize(count);
    std::iota(group_.begin(), group_.end(), 0);
    std::map<int, int> first;  // operator of a given part
    for (size_t i = 0; i < count; ++i) {
      if (is_given(static_cast<int>(i))) group_[i] = first.emplace(limits.given[i], static_cast<int>(i)).first->second;
    }
    members_.resize(count);
    for (size_t i = 0; i < count; ++i) members_[static_cast<size_t>(group_[i])].push_back(static_cast<int>(i));
    for (size_t i = 0; i < count; ++i) {
      for (TensorId id : program.operations()[i].operands) {
        const int producer = program.tensor(id).producer;
        if (producer >= 0) edges_.push_back({id, producer, static_cast<int>(i), program.type(id).bytes()});
      }
    }
    // What saves most goes first; limits then cut where the least crosses.
    std::stable_sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.bytes > b.bytes; });
    into_.resize(count);
    out_of_.resize(count);
    for (size_t e = 0; e < edges_.size(); ++e) {
      into_[static_cast<size_t>(edges_[e].to)].push_back(e);
      out_of_[static_cast<size_t>(edges_[e].from)].push_back(e);
    }
    for (size_t i = 0; i < count; ++i) {
      predefined_.push_back(i < limits.apart.size() && limits.apart[i]
                                ? left_apart(program, program.operations()[i])
                                : not_searched(program, program.operations()[i], limits));
      if (!predefined_[i].empty()) continue;
      auto reason = not_one_part({static_cast<int>(i)});
      if (reason) predefined_[i] = *reason;
    }
  }

  /// Merges until no two neighbours can be merged: a merge may clear the way for one refused before.
  void merge_all() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Edge& edge : edges_) {
        if (group(edge.from) == group(edge.to) || why_cut(edge)) continue;
        const int into = std::min(group(edge.from), group(edge.to));
        const int gone = std::max(group(edge.from), group(edge.to));
        std::vector<int> both = merged(into, gone);
        members_[static_cast<size_t>(gone)].clear();
        for (const int i : both) group_[static_cast<size_t>(i)] = into;
        members_[static_cast<size_t>(into)] = std::move(both);
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
    return not_one_part(merged(group(edge.from), group(edge.to)));
  }

  int group(int operation) const { return group_[static_cast<size_t>(operation)]; }
  const std::string& predefined(int operation) const { return predefined_[static_cast<size_t>(operation)]; }
  const std::vector<Edge>& edges() const { return edges_; }

  /// Ascending.
  const std::vector<int>& members(int of) const { return members_[static_cast<size_t>(of)]; }

  /// These operators, ascending, as a part.
  Part part_of(const std::vector<int>& operations) const {
    return make_part(program_, operations, [&](TensorId id) {
      if (is_output_[static_cast<size_t>(id)]) return true;
      const std::vector<size_t>& readers = out_of_[static_cast<size_t>(program_.tensor(id).producer)];
      return std::any_of(readers.begin(), readers.end(), [&](size_t e) {
        return edges_[e].tensor == id && !std::binary_search(operations.begin(), operations.end(), edges_[e].to);
      });
    });
  }

  /// Groups in an order in which they can be executed, the earliest first where there is a choice.
  std::vector<int> order() const {
    std::vector<int> waits(group_.size(), 0);  // by group: edges from groups that did not come yet
    for (const Edge& e : edges_) waits[static_cast<size_t>(group(e.to))] += group(e.from) != group(e.to);
    std::set<int> ready;
    for (const int g : group_) {
      if (waits[static_cast<size_t>(g)] == 0) ready.insert(g);
    }
    std::vector<int> result;
    while (!ready.empty()) {
      const int g = *ready.begin();
      ready.erase(ready.begin());
      result.push_back(g);
      for (const int i : members(g)) {
        for (const size_t e : out_of_[static_cast<size_t>(i)]) {
          const int next = group(edges_[e].to);
          if (next != g && --waits[static_cast<size_t>(next)] == 0) ready.insert(next);
        }
      }
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
    const std::vector<int>& readers = members(reader);
    return std::any_of(readers.begin(), readers.end(), [&](int i) {
      const auto& operands = program_.operations()[static_cast<size_t>(i)].operands;
      return program_.tensor(id).producer >= 0 && std::find(operands.begin(), operands.end(), id) != operands.end();
    });
  }

  /// The operators of two groups, ascending.
  std::vector<int> merged(int a, int b) const {
    std::vector<int> both;
    std::merge(members(a).begin(), members(a).end(), members(b).begin(), members(b).end(), std::back_inserter(both));
    return both;
  }

  /// Whether a value is an input, an output, or read by a group that does not make it.
  bool in_memory(TensorId id) const {
    const int producer = program_.tensor(id).producer;
    if (producer < 0 || is_output_[static_cast<size_t>(id)]) return true;
    const std::vector<size_t>& readers = out_of_[static_cast<size_t>(producer)];
    return std::any_of(readers.begin(), readers.end(),
                       [&](size_t e) { return edges_[e].tensor == id && group(edges_[e].to) != group(producer); });
  }

  /// The order of groups stays without cycles: what the operator reads came before its readers already.
  bool pull(int operation) {
    const Operation& op = program_.operations()[static_cast<size_t>(operation)];
    const TensorId result = op.results[0];
    if (!predefined(operation).empty() || is_output_[static_cast<size_t>(result)]) return false;
    std::set<int> readers;
    for (const size_t e : out_of_[static_cast<size_t>(operation)]) {
      if (edges_[e].tensor == result) readers.insert(group(edges_[e].to));
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
    std::vector<int> shrunk = members(from);
    std::erase(shrunk, operation);
    members_[static_cast<size_t>(from)].clear();
    members_[static_cast<size_t>(to)].clear();
    // Groups go by their first operators.
    for (std::vector<int>* now : {&shrunk, &grown}) {
      if (now->empty()) continue;
      const int first = now->front();
      for (const int i : *now) group_[static_cast<size_t>(i)] = first;
      members_[static_cast<size_t>(first)] = std::move(*now);
    }
    return true;
  }

  /// The last value on a path between two groups through a third; merging them would close a cycle.
  std::optional<std::string> way_around(int from, int to) const {
    std::vector<bool> reached(group_.size(), false);
    std::vector<int> open{from};
    bool any = false;
    while (!open.empty()) {
      const int g = open.back();
      open.pop_back();
      for (const int i : members(g)) {
        for (const size_t e : out_of_[static_cast<size_t>(i)]) {
          const int next = group(edges_[e].to);
          if (next == from || next == to || reached[static_cast<size_t>(next)]) continue;
          reached[static_cast<size_t>(next)] = any = true;
          open.push_back(next);
        }
      }
    }
    if (!any) return std::nullopt;
    std::optional<size_t> first;
    for (const int i : members(to)) {
      for (const size_t e : into_[static_cast<size_t>(i)]) {
        if (reached[static_cast<size_t>(group(edges_[e].from))]) first = std::min(first.value_or(e), e);
      }
    }
    return first ? std::optional(program_.tensor(edges_[*first].tensor).name) : std::nullopt;
  }

  std::optional<std::string> not_one_part(const std::vector<int>& operations) const {
    if (count_operators(program_, known_, operations) > limits_.max_operators) {
      return fmt::format("limit of {} operators in a part", limits_.max_operators);
    }
    const Part part = part_of(operations);
    if (static_cast<int>(part.graph->arguments().size()) > limits_.max_inputs) {
      return fmt::format("limit of {} inputs of a part", limits_.max_inputs);
    }
    return not_fusible(*part.graph, limits_);
  }

  const Graph& program_;
  const PartitionLimits& limits_;
  const std::vector<bool> known_;          ///< by tensor
  std::vector<bool> is_output_;            ///< by tensor
  std::vector<int> group_;                 ///< by operation
  std::vector<std::vector<int>> members_;  ///< by group
  std::vector<std::string> predefined_;    ///< by operation
  std::vector<Edge> edges_;
  std::vector<std::vector<size_t>> into_;    ///< by operation: edges
  std::vector<std::vector<size_t>> out_of_;  ///< by operation: edges
};

}  // namespace

int counted_operators(const Graph& program, const std::vector<int>& operations) {
  return count_operators(program, known_tensors(program), operations);
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
    Part part = groups.part_of(groups.members(g));
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
