#include "superopt/codegen/running_reference.h"

#include <algorithm>
#include <map>

namespace strata {
namespace {

/// How a value depends on the reference value m.
enum class Use { None, Reference, Shifted /* x − m */, Proportional /* c · exp(−m) */, Other };

Use combine(OpKind kind, const std::vector<Use>& uses) {
  const auto count = [&](Use use) { return std::count(uses.begin(), uses.end(), use); };
  const auto total = static_cast<int64_t>(uses.size());
  if (count(Use::None) == total) return Use::None;
  if (is_matrix_product(kind)) kind = OpKind::Mul;  // as each of its products of elements
  switch (kind) {
    case OpKind::Sub:
      if (uses[0] == Use::None && uses[1] == Use::Reference) return Use::Shifted;
      return count(Use::Proportional) == total ? Use::Proportional : Use::Other;
    case OpKind::Exp:
      return uses[0] == Use::Shifted ? Use::Proportional : Use::Other;
    case OpKind::Sum:
    case OpKind::Scale:
    case OpKind::Add:
      return count(Use::Proportional) == total ? Use::Proportional : Use::Other;
    case OpKind::Mul:
      return count(Use::Proportional) == 1 && count(Use::None) == 1 ? Use::Proportional : Use::Other;
    case OpKind::Div:
      return uses[0] == Use::Proportional && uses[1] == Use::None ? Use::Proportional : Use::Other;
    default:
      return Use::Other;
  }
}

/// Uses of a graph's tensors, given those of its inputs; nothing where a value leaves as anything but agreed.
class Tracer {
 public:
  explicit Tracer(TensorId reference) : reference_(reference) {}

  bool block(const Graph& body) {
    std::map<TensorId, Use> uses;
    for (const Operation& op : body.operations()) {
      std::vector<Use> of;
      for (TensorId id : op.operands) of.push_back(id == reference_ ? Use::Reference : uses[id]);
      if (op.body) {
        if (!thread(op, of, uses)) return false;
        continue;
      }
      const bool independent = std::all_of(of.begin(), of.end(), [](Use use) { return use == Use::None; });
      Use use = Use::None;
      if (op.kind == OpKind::AccumRescale) {
        if (!independent && !(of[0] == Use::Proportional && of[1] == Use::Reference)) return false;
      } else if (op.kind == OpKind::Accum) {
        if (!independent && !(of[0] == Use::Reference && op.attributes.word("kind") == "max")) return false;
      } else if (op.kind != OpKind::InIter && !independent) {
        use = combine(op.kind, of);
        if (use == Use::Other) return false;
      }
      uses[op.results[0]] = use;
    }
    return true;
  }

 private:
  static bool thread(const Operation& op, const std::vector<Use>& operands, std::map<TensorId, Use>& outer) {
    const Graph& graph = *op.body;
    std::map<TensorId, Use> uses;
    for (size_t n = 0; n < graph.inputs().size(); ++n) uses[graph.inputs()[n]] = operands[n];
    for (const Operation& inner : graph.operations()) {
      std::vector<Use> of;
      for (TensorId id : inner.operands) of.push_back(uses[id]);
      const bool passes = inner.kind == OpKind::InIter || inner.kind == OpKind::OutSaver;
      const Use use = passes ? of[0] : combine(inner.kind, of);
      if (use == Use::Other) return false;
      uses[inner.results[0]] = use;
    }
    for (size_t n = 0; n < graph.outputs().size(); ++n) {
      const Use use = uses[graph.outputs()[n]];
      if (use == Use::Reference) return false;  // another name of it: not followed
      outer[op.results[n]] = use;
    }
    return true;
  }

  TensorId reference_;
};

}  // namespace

bool runs_along(const Graph& body, TensorId reference) { return Tracer(reference).block(body); }

}  // namespace strata
