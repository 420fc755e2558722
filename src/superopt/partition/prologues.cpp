#include "superopt/partition/prologues.h"

#include <algorithm>
#include <map>
#include <set>

#include "superopt/verify/decided.h"

namespace strata {
namespace {

bool reduces(const Operation& op) { return is_reduction(op.kind) && !op.attributes.has("every"); }

/// The operators that a value is computed by, ascending.
std::vector<int> cone_of(const Graph& program, TensorId value) {
  std::set<TensorId> needed{value};
  std::vector<int> cone;
  for (size_t i = program.operations().size(); i-- > 0;) {
    const Operation& op = program.operations()[i];
    if (needed.count(op.results[0]) == 0) continue;
    needed.insert(op.operands.begin(), op.operands.end());
    cone.insert(cone.begin(), static_cast<int>(i));
  }
  return cone;
}

/// Whether a block can compute the value from tiles: each operator works on whole rows or on single elements. Sets
/// `reduced` where one works on rows.
bool is_of_tiles(const Graph& program, TensorId value, bool& reduced) {
  const size_t rank = program.type(value).shape.size();
  reduced = false;
  for (int i : cone_of(program, value)) {
    const Operation& op = program.operations()[static_cast<size_t>(i)];
    if (op.body || program.type(op.results[0]).shape.size() != rank) return false;
    if (!reduces(op) && !op_def(op.kind).traits.elementwise) return false;
    reduced |= reduces(op);
  }
  return true;
}

bool is_prologue(const Graph& program, TensorId value) {
  bool reduced = false;
  return is_of_tiles(program, value, reduced) && reduced;
}

/// What depends on iotas alone and is read by something that does not, or by more than a block can compute of tiles.
std::vector<TensorId> known_values(const Graph& program) {
  const std::vector<bool> known = known_tensors(program);
  std::vector<TensorId> values;
  const auto add = [&](TensorId id) {
    bool reduced = false;
    const bool is = known[static_cast<size_t>(id)] && program.tensor(id).producer >= 0 &&
                    std::find(values.begin(), values.end(), id) == values.end() &&
                    std::find(program.outputs().begin(), program.outputs().end(), id) == program.outputs().end();
    if (is && is_of_tiles(program, id, reduced) && !reduced) values.push_back(id);
  };
  for (const Operation& op : program.operations()) {
    if (known[static_cast<size_t>(op.results[0])]) continue;
    for (TensorId id : op.operands) add(id);
  }
  return values;
}

/// The program with `values` as inputs.
Result<GraphPtr> core_of(const Graph& program, const std::vector<TensorId>& values) {
  GraphBuilder builder(Level::Kernel, program.name());
  std::set<TensorId> needed(program.outputs().begin(), program.outputs().end());
  const auto peeled = [&](TensorId id) { return std::find(values.begin(), values.end(), id) != values.end(); };
  std::vector<bool> kept(program.operations().size(), false);
  for (size_t i = kept.size(); i-- > 0;) {
    const Operation& op = program.operations()[i];
    kept[i] = needed.count(op.results[0]) != 0 && !peeled(op.results[0]);
    if (kept[i]) needed.insert(op.operands.begin(), op.operands.end());
  }
  std::map<TensorId, TensorId> ids;
  const auto input = [&](TensorId id) -> Result<void> {
    if (needed.count(id) == 0) return {};
    TensorType type = program.type(id);
    type.iota.reset();
    STRATA_TRY(ids[id], builder.input(program.tensor(id).name, std::move(type)));
    return {};
  };
  for (TensorId id : program.inputs()) STRATA_CHECK(input(id));
  for (TensorId id : values) STRATA_CHECK(input(id));
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    const Operation& op = program.operations()[i];
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids.at(id));
    STRATA_TRY(ids[op.results[0]],
               builder.add(op.kind, operands, op.attributes, program.tensor(op.results[0]).name, op.location));
  }
  for (TensorId id : program.outputs()) STRATA_CHECK(builder.output(ids.at(id)));
  return builder.finish();
}

/// What makes up one peeled value.
struct Prologue {
  TensorId value;
  std::vector<int> cone;
  std::vector<TensorId> leaves;  ///< inputs of the program
};

/// One block graph of the core with the prologues of the values that it reads.
class BlockWithPrologues {
 public:
  BlockWithPrologues(const Graph& program, const Graph& body, PrologueForm form)
      : program_(program), body_(body), form_(form), builder_(Level::Block, body.name(), body.launch()) {}

  /// `operands`: the prologue of each input of the body, or null; `types`: of what the body reads then.
  Result<GraphPtr> run(const std::vector<const Prologue*>& operands, const std::vector<TensorType>& types) {
    for (size_t n = 0; n < operands.size(); ++n) {
      const TensorId formal = body_.inputs()[n];
      const Prologue* prologue = operands[n];
      if (prologue == nullptr) {
        STRATA_TRY(ids_[formal], builder_.input(free_name(body_.tensor(formal).name), types[n]));
        continue;
      }
      for (TensorId leaf : prologue->leaves) {
        STRATA_TRY(const TensorId id, builder_.input(free_name(program_.tensor(leaf).name), program_.type(leaf)));
        leaves_[formal].push_back(id);
      }
      prologues_[formal] = prologue;
    }
    for (const Operation& op : body_.operations()) STRATA_CHECK(add(op));
    return builder_.finish();
  }

 private:
  /// A product's operand whose division waits for the product.
  struct Waiting {
    TensorId dividend;
    TensorId divisor;
  };

  std::string free_name(const std::string& wanted) {
    std::string name = wanted;
    const auto taken = [&] { return names_.count(name) != 0 || (name != wanted && body_.find_tensor(name)); };
    for (int n = 2; taken(); ++n) name = fmt::format("{}_{}", wanted, n);
    names_.insert(name);
    return name;
  }

  Result<void> add(const Operation& op) {
    if (op.body) return unsupported("thread graphs are formed after prologues are put in");
    const TensorId result = op.results[0];
    if (op.kind == OpKind::InIter && prologues_.count(op.operands[0]) != 0) return add_prologue(op);
    if (is_matrix_product(op.kind)) {
      std::vector<TensorId> operands;
      std::vector<TensorId> divisors;
      for (TensorId id : op.operands) {
        const auto waiting = waiting_.find(id);
        operands.push_back(waiting == waiting_.end() ? ids_.at(id) : waiting->second.dividend);
        if (waiting != waiting_.end()) divisors.push_back(waiting->second.divisor);
      }
      STRATA_TRY(TensorId product,
                 builder_.add(op.kind, operands, op.attributes, free_name(body_.tensor(result).name)));
      for (TensorId divisor : divisors) {
        const std::string name = free_name(body_.tensor(result).name);
        STRATA_TRY(product, builder_.add(OpKind::Div, {product, divisor}, {}, name));
      }
      ids_[result] = product;
      return {};
    }
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids_.at(id));
    STRATA_TRY(ids_[result],
               builder_.add(op.kind, operands, op.attributes, free_name(body_.tensor(result).name), op.location));
    return {};
  }

  Result<void> add_prologue(const Operation& in_iter) {
    const Prologue& prologue = *prologues_.at(in_iter.operands[0]);
    const Shape& whole = program_.type(prologue.value).shape;
    const std::vector<int64_t>& imap = in_iter.attributes.list("imap");
    const int64_t fmap = in_iter.attributes.integer_or("fmap", kReplicate);
    for (int i : prologue.cone) {
      const Operation& op = program_.operations()[static_cast<size_t>(i)];
      if (!reduces(op)) continue;
      const int64_t dim = op.attributes.integer("dim");
      if (dim == fmap || std::find(imap.begin(), imap.end(), dim) != imap.end()) {
        return unsupported("a block cuts what '{}' reduces", program_.tensor(op.results[0]).name);
      }
    }
    std::map<TensorId, TensorId> tiles;  // of the program's tensors
    for (size_t n = 0; n < prologue.leaves.size(); ++n) {
      const Shape& shape = program_.type(prologue.leaves[n]).shape;
      // Dimensions correspond from the last; those that are missing or 1 are broadcast.
      const auto of_leaf = [&](int64_t d) {
        const int64_t at = d - std::ssize(whole) + std::ssize(shape);
        return d == kReplicate || at < 0 || shape[static_cast<size_t>(at)] == 1 ? kReplicate : at;
      };
      Attributes attributes;
      std::vector<int64_t> maps;
      for (int64_t d : imap) maps.push_back(of_leaf(d));
      attributes.set("imap", maps);
      if (of_leaf(fmap) != kReplicate) attributes.set("fmap", of_leaf(fmap));
      const TensorId leaf = leaves_.at(in_iter.operands[0])[n];
      STRATA_TRY(tiles[prologue.leaves[n]], builder_.add(OpKind::InIter, {leaf}, attributes,
                                                         free_name(builder_.peek().tensor(leaf).name + "_tile")));
    }
    const TensorId tile = in_iter.results[0];
    for (int i : prologue.cone) {
      const Operation& op = program_.operations()[static_cast<size_t>(i)];
      std::vector<TensorId> operands;
      for (TensorId id : op.operands) operands.push_back(tiles.at(id));
      if (op.results[0] == prologue.value && fmap != kReplicate && waits(op, tile)) {
        waiting_[tile] = {operands[0], operands[1]};
        return {};
      }
      STRATA_TRY(tiles[op.results[0]],
                 builder_.add(op.kind, operands, op.attributes, free_name(program_.tensor(op.results[0]).name)));
    }
    ids_[tile] = tiles.at(prologue.value);
    return {};
  }

  /// Whether a division of a tile can be made of the products that read it instead: the divisor is one number for
  /// everything that a product sums over.
  bool waits(const Operation& division, TensorId tile) const {
    if (form_ != PrologueForm::BehindProducts || division.kind != OpKind::Div) return false;
    const Shape& dividend = program_.type(division.operands[0]).shape;
    const Shape& divisor = program_.type(division.operands[1]).shape;
    const size_t rank = dividend.size();
    if (rank < 2 || divisor.size() != rank || dividend != program_.type(division.results[0]).shape) return false;
    return std::all_of(body_.operations().begin(), body_.operations().end(), [&](const Operation& op) {
      const auto reads = std::count(op.operands.begin(), op.operands.end(), tile);
      if (reads == 0) return true;
      if (!is_matrix_product(op.kind) || reads > 1) return false;
      return divisor[rank - (op.operands[0] == tile ? 1 : 2)] == 1;
    });
  }

  const Graph& program_;
  const Graph& body_;
  PrologueForm form_;
  GraphBuilder builder_;
  std::set<std::string> names_;
  std::map<TensorId, TensorId> ids_;                  ///< of the body's tensors
  std::map<TensorId, std::vector<TensorId>> leaves_;  ///< inputs in the place of one
  std::map<TensorId, const Prologue*> prologues_;     ///< by input of the body
  std::map<TensorId, Waiting> waiting_;               ///< by tile of the body
};

/// A kernel graph for the core as one for the program.
class GraphWithPrologues {
 public:
  GraphWithPrologues(const Graph& program, const PeeledProgram& peeled, const Graph& core_graph, PrologueForm form)
      : program_(program), graph_(core_graph), form_(form), builder_(Level::Kernel, core_graph.name()) {
    for (TensorId value : peeled.values) {
      Prologue& prologue = prologues_[program.tensor(value).name];
      prologue = {value, cone_of(program, value), {}};
      std::set<TensorId> read;
      for (int i : prologue.cone) {
        for (TensorId id : program.operations()[static_cast<size_t>(i)].operands) {
          if (program.tensor(id).producer < 0 && read.insert(id).second) prologue.leaves.push_back(id);
        }
      }
    }
  }

  Result<GraphPtr> run() {
    for (TensorId id : program_.inputs()) {
      STRATA_TRY(of_program_[id], builder_.input(program_.tensor(id).name, program_.type(id)));
    }
    for (TensorId id : graph_.inputs()) {
      const std::string& name = graph_.tensor(id).name;
      if (prologues_.count(name) == 0) ids_[id] = of_program_.at(*program_.find_tensor(name));
    }
    for (const Operation& op : graph_.operations()) STRATA_CHECK(add(op));
    for (TensorId id : graph_.outputs()) {
      // An output of the core may be its input: a sum over a dimension of 1.
      if (prologue(id) != nullptr) STRATA_CHECK(in_memory(id));
      STRATA_CHECK(builder_.output(ids_.at(id)));
    }
    return builder_.finish();
  }

 private:
  const Prologue* prologue(TensorId id) const {
    if (graph_.tensor(id).producer >= 0) return nullptr;
    const auto found = prologues_.find(graph_.tensor(id).name);
    return found == prologues_.end() ? nullptr : &found->second;
  }

  Result<void> add(const Operation& op) {
    std::vector<TensorId> operands;
    if (!op.body) {
      for (TensorId id : op.operands) {
        if (prologue(id) != nullptr) STRATA_CHECK(in_memory(id));
        operands.push_back(ids_.at(id));
      }
      STRATA_TRY(ids_[op.results[0]],
                 builder_.add(op.kind, operands, op.attributes, graph_.tensor(op.results[0]).name));
      return {};
    }
    std::vector<const Prologue*> of_operands;
    std::vector<TensorType> types(op.operands.size());
    for (TensorId id : op.operands) {
      of_operands.push_back(ids_.count(id) == 0 ? prologue(id) : nullptr);
      if (of_operands.back() == nullptr) {
        operands.push_back(ids_.at(id));
        types[of_operands.size() - 1] = builder_.type(operands.back());  // an iota, where it is one
      } else {
        for (TensorId leaf : of_operands.back()->leaves) operands.push_back(of_program_.at(leaf));
      }
    }
    STRATA_TRY(GraphPtr body, BlockWithPrologues(program_, *op.body, form_).run(of_operands, types));
    std::vector<std::string> names;
    for (TensorId id : op.results) names.push_back(graph_.tensor(id).name);
    STRATA_TRY(const auto results, builder_.add(std::move(body), operands, names));
    for (size_t n = 0; n < results.size(); ++n) ids_[op.results[n]] = results[n];
    return {};
  }

  /// A peeled value that a predefined operator reads is computed by predefined operators.
  Result<void> in_memory(TensorId id) {
    if (ids_.count(id) != 0) return {};
    const Prologue& of = *prologue(id);
    for (int i : of.cone) {
      const Operation& op = program_.operations()[static_cast<size_t>(i)];
      if (of_program_.count(op.results[0]) != 0) continue;
      std::vector<TensorId> operands;
      for (TensorId operand : op.operands) operands.push_back(of_program_.at(operand));
      STRATA_TRY(of_program_[op.results[0]], builder_.add(op.kind, operands, op.attributes));
    }
    ids_[id] = of_program_.at(of.value);
    return {};
  }

  const Graph& program_;
  const Graph& graph_;
  PrologueForm form_;
  GraphBuilder builder_;
  std::map<std::string, Prologue> prologues_;  ///< by the name of the core's input
  std::map<TensorId, TensorId> of_program_;    ///< of the program's tensors
  std::map<TensorId, TensorId> ids_;           ///< of the core graph's tensors
};

}  // namespace

std::optional<PeeledProgram> peel_prologues(const Graph& program, bool norms) {
  PeeledProgram peeled{nullptr, known_values(program)};
  for (const Operation& op : program.operations()) {
    if (!norms || !is_matrix_product(op.kind)) continue;
    for (TensorId id : op.operands) {
      const bool known = std::find(peeled.values.begin(), peeled.values.end(), id) != peeled.values.end();
      if (!known && program.tensor(id).producer >= 0 && is_prologue(program, id)) peeled.values.push_back(id);
    }
  }
  const bool counts = program.arguments().size() < program.inputs().size();
  if (peeled.values.empty() && !counts) return std::nullopt;
  auto core = core_of(program, peeled.values);
  if (!core) return std::nullopt;
  peeled.core = *core;
  return peeled;
}

Result<GraphPtr> with_prologues(const Graph& program, const PeeledProgram& peeled, const Graph& core_graph,
                                PrologueForm form) {
  return GraphWithPrologues(program, peeled, core_graph, form).run();
}

}  // namespace strata
