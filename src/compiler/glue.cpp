#include "compiler/glue.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "ops/op_def.h"
#include "ops/reduction.h"
#include "superopt/codegen/glue_operators.h"

namespace strata::compiler {
namespace {

/// The text of a module.
class HloText {
 public:
  /// The name of a new instruction of the entry.
  std::string add(const std::string& type, const std::string& operation) {
    std::string name = fmt::format("v{}", count_++);
    lines_ += fmt::format("  {} = {} {}\n", name, type, operation);
    return name;
  }
  /// The name of a computation that combines two scalars.
  std::string combiner(std::string_view type, std::string_view operation) {
    std::string name = fmt::format("{}_{}", operation, type);
    combiners_[name] =
        fmt::format("{0} {{\n  a = {1}[] parameter(0)\n  b = {1}[] parameter(1)\n  ROOT both = {1}[] {2}(a, b)\n}}\n",
                    name, type, operation);
    return name;
  }
  /// All of it, with a tuple of these instructions of these types as its result.
  std::string module(const std::vector<std::string>& results, const std::vector<std::string>& types) const {
    std::string text = "HloModule glue\n";
    for (const auto& [name, computation] : combiners_) text += computation;
    return text + fmt::format("ENTRY glue {{\n{}  ROOT results = ({}) tuple({})\n}}\n", lines_, fmt::join(types, ", "),
                              fmt::join(results, ", "));
  }

 private:
  std::map<std::string, std::string> combiners_;  ///< by name
  std::string lines_;
  int count_ = 0;
};

std::string type_of(std::string_view element, const Shape& shape) {
  return fmt::format("{}[{}]", element, fmt::join(shape, ","));
}

std::string list(const std::vector<int64_t>& numbers) { return fmt::format("{{{}}}", fmt::join(numbers, ",")); }

class GlueBuilder {
 public:
  GlueBuilder(const Graph& graph, const std::vector<size_t>& of, const std::vector<bool>& views,
              const std::map<TensorId, int64_t>& starts)
      : graph_(graph), of_(of.begin(), of.end()), views_(views) {
    for (const auto& [id, start] : starts) {
      const Operation& op = graph.operations()[static_cast<size_t>(graph.tensor(id).producer)];
      Shape& rest = rests_[id] = graph.type(id).shape;
      rest[static_cast<size_t>(op.attributes.integer("dim"))] -= start;
    }
  }

  Result<Glue> run() {
    for (const size_t i : of_) {
      const Operation& op = graph_.operations()[i];
      if (!is_glue(op) && !is_emitted_product(op))
        return unsupported("{} is computed by kernels of its own", op.name());
    }
    for (const size_t i : of_) {
      for (const TensorId id : graph_.operations()[i].operands) find_inputs(id);
    }
    for (const TensorId id : inputs_) {
      const std::string type = type_of(name_of(graph_.type(id).dtype), graph_.type(id).shape);
      stored_[id] = text_.add(type, fmt::format("parameter({})", made_.inputs.size()));
      made_.inputs.push_back(id);
    }
    std::vector<std::string> results, types;
    for (const size_t i : of_) {
      const TensorId id = graph_.operations()[i].results[0];
      compute(graph_.operations()[i]);
      if (!is_read_outside(id)) continue;
      made_.outputs.push_back(id);
      const auto reduced = reduced_.find(id);
      const bool as_reduced = reduced != reduced_.end() && !is_narrow(id);
      results.push_back(as_reduced ? reduced->second.instruction : stored(id));
      types.push_back(type_of(name_of(graph_.type(id).dtype), as_reduced ? reduced->second.shape : shape(id)));
    }
    made_.module = text_.module(results, types);
    return std::move(made_);
  }

 private:
  bool is_view(TensorId id) const {
    const int producer = graph_.tensor(id).producer;
    return producer >= 0 && views_[static_cast<size_t>(producer)];
  }
  bool is_ours(TensorId id) const {
    const int producer = graph_.tensor(id).producer;
    return producer >= 0 && of_.count(static_cast<size_t>(producer)) > 0;
  }

  void find_inputs(TensorId id) {
    if (is_ours(id) || graph_.type(id).iota) return;
    if (!is_view(id)) {
      inputs_.insert(id);
      return;
    }
    find_inputs(graph_.operations()[static_cast<size_t>(graph_.tensor(id).producer)].operands[0]);
  }

  /// Views are read by those who read what they are made of.
  bool is_read_outside(TensorId id) const {
    const auto& outputs = graph_.outputs();
    if (std::find(outputs.begin(), outputs.end(), id) != outputs.end()) return true;
    for (size_t r = 0; r < graph_.operations().size(); ++r) {
      const Operation& reader = graph_.operations()[r];
      if (std::find(reader.operands.begin(), reader.operands.end(), id) == reader.operands.end()) continue;
      if (views_[r] ? is_read_outside(reader.results[0]) : of_.count(r) == 0) return true;
    }
    return false;
  }

  /// Of numbers while they are computed.
  std::string_view wide_type(TensorId id) const { return graph_.type(id).dtype == DType::F64 ? "f64" : "f32"; }
  bool is_narrow(TensorId id) const { return name_of(graph_.type(id).dtype) != wide_type(id); }
  /// Of what is made of a tensor.
  const Shape& shape(TensorId id) const {
    const auto rest = rests_.find(id);
    return rest == rests_.end() ? graph_.type(id).shape : rest->second;
  }

  /// A value as it is: of a view or an iota, made where it is first read.
  void need(TensorId id) {
    if (stored_.count(id) > 0 || wide_.count(id) > 0) return;
    if (const auto& counted = graph_.type(id).iota) {
      wide_[id] = iota(*counted, type_of(wide_type(id), shape(id)), wide_type(id));
    } else {
      compute(graph_.operations()[static_cast<size_t>(graph_.tensor(id).producer)]);
    }
  }

  /// Exact, whatever the tensor's own type is.
  std::string iota(const Iota& of, const std::string& type, std::string_view element) {
    if (of.step == 0) return all(type, element, of.start.to_double());
    std::string value = text_.add(type, fmt::format("iota(), iota_dimension={}", of.dim));
    if (of.step != 1)
      value = text_.add(type, fmt::format("multiply({}, {})", value, all(type, element, static_cast<double>(of.step))));
    if (of.start.num == 0) return value;
    return text_.add(type, fmt::format("add({}, {})", value, all(type, element, of.start.to_double())));
  }

  /// An array of one value.
  std::string all(const std::string& type, std::string_view element, double value) {
    const std::string scalar = text_.add(fmt::format("{}[]", element), fmt::format("constant({:.17g})", value));
    return text_.add(type, fmt::format("broadcast({}), dimensions={{}}", scalar));
  }

  std::string stored(TensorId id) {
    need(id);
    const auto known = stored_.find(id);
    if (known != stored_.end()) return known->second;
    const std::string type = type_of(name_of(graph_.type(id).dtype), shape(id));
    return stored_[id] = text_.add(type, fmt::format("convert({})", wide_.at(id)));
  }

  std::string wide(TensorId id) {
    need(id);
    const auto known = wide_.find(id);
    if (known != wide_.end()) return known->second;
    if (!is_narrow(id)) return wide_[id] = stored(id);
    return wide_[id] = text_.add(type_of(wide_type(id), shape(id)), fmt::format("convert({})", stored_.at(id)));
  }

  /// An operand in the shape of the result, by the rules of NumPy.
  std::string broadcast(TensorId id, TensorId to) { return broadcast(wide(id), wide_type(to), shape(id), shape(to)); }

  std::string broadcast(const std::string& value, std::string_view type, const Shape& from, const Shape& to) {
    if (from == to) return value;
    std::vector<int64_t> sizes, dimensions;
    const size_t missing = to.size() - from.size();
    for (size_t d = 0; d < from.size(); ++d) {
      if (from[d] != to[missing + d]) continue;
      sizes.push_back(from[d]);
      dimensions.push_back(static_cast<int64_t>(missing + d));
    }
    const std::string flat = sizes == from ? value : text_.add(type_of(type, sizes), fmt::format("reshape({})", value));
    return text_.add(type_of(type, to), fmt::format("broadcast({}), dimensions={}", flat, list(dimensions)));
  }

  void compute(const Operation& op) {
    const TensorId result = op.results[0];
    if (op_def(op.kind).traits.elementwise) {
      std::vector<std::string> operands;
      for (const TensorId id : op.operands) operands.push_back(broadcast(id, result));
      wide_[result] = element(op, operands, result);
      if (!is_narrow(result)) stored_[result] = wide_[result];
      return;
    }
    if (is_reduction(op_def(op.kind))) {
      wide_[result] = reduction(op, result);
      if (!is_narrow(result)) stored_[result] = wide_[result];
      return;
    }
    if (is_emitted_product(op)) {
      stored_[result] = product(op, result);
      return;
    }
    // What moves elements takes them as they are.
    const bool as_wide = std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId id) {
      need(id);
      return stored_.count(id) == 0;
    });
    std::vector<std::string> operands;
    for (const TensorId id : op.operands) operands.push_back(as_wide ? wide(id) : stored(id));
    const std::string_view type = as_wide ? wide_type(result) : name_of(graph_.type(result).dtype);
    const std::string moved = movement(op, operands, type);
    const std::string instruction = text_.add(type_of(type, shape(result)), moved);
    if (as_wide) {
      wide_[result] = instruction;
    } else {
      stored_[result] = instruction;
    }
  }

  /// Of the tensors' own type, as it is written whatever reads it; its sums are wide. Operands that lack dimensions of
  /// the batch are repeated along them, which the emitters undo (emitters/library/unbatched_products.h).
  std::string product(const Operation& op, TensorId result) {
    std::vector<int64_t> batch;
    for (size_t d = 0; d + 2 < shape(result).size(); ++d) batch.push_back(static_cast<int64_t>(d));
    const std::string_view type = name_of(graph_.type(result).dtype);
    std::vector<std::string> operands;
    for (const TensorId id : op.operands) {
      Shape whole = shape(result);
      std::copy(shape(id).end() - 2, shape(id).end(), whole.end() - 2);
      operands.push_back(broadcast(stored(id), type, shape(id), whole));
    }
    return text_.add(type_of(type, shape(result)),
                     fmt::format("dot({0}), lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={{{2}}}, "
                                 "rhs_contracting_dims={{{3}}}",
                                 fmt::join(operands, ", "), list(batch), batch.size() + 1, batch.size()));
  }

  /// In the result's shape. Where the dimension is reduced to size 1, HLO's reduction is without it: in memory that is
  /// the same, so there the reduction itself is the result, and no kernel gives it another shape.
  std::string reduction(const Operation& op, TensorId result) {
    const std::string_view type = wide_type(result);
    const OpTraits& traits = op_def(op.kind).traits;
    const std::string combiner = text_.combiner(type, traits.lax.maximum ? "maximum" : "add");
    auto dim = static_cast<size_t>(op.attributes.integer("dim"));
    std::string from = wide(op.operands[0]);
    Shape groups = shape(op.operands[0]);
    const int64_t every = reduction_extent(groups, op.attributes);
    if (every < groups[dim]) {
      groups[dim] /= every;
      groups.insert(groups.begin() + static_cast<std::ptrdiff_t>(++dim), every);
      from = text_.add(type_of(type, groups), fmt::format("reshape({})", from));
    }
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(dim));
    const std::string first =
        text_.add(fmt::format("{}[]", type), traits.lax.maximum ? "constant(-inf)" : "constant(0)");
    std::string reduced = text_.add(type_of(type, groups), fmt::format("reduce({}, {}), dimensions={{{}}}, to_apply={}",
                                                                       from, first, dim, combiner));
    reduced_[result] = {reduced, groups};
    return groups == shape(result) ? reduced
                                   : text_.add(type_of(type, shape(result)), fmt::format("reshape({})", reduced));
  }

  std::string movement(const Operation& op, const std::vector<std::string>& operands, std::string_view type) {
    const std::string& x = operands[0];
    const Shape& from = shape(op.operands[0]);
    const Attributes& with = op.attributes;
    if (op.kind == OpKind::Transpose) return fmt::format("transpose({}), dimensions={}", x, list(with.list("perm")));
    if (op.kind == OpKind::Reshape) return fmt::format("reshape({})", x);
    const auto dim = static_cast<size_t>(with.integer("dim"));
    if (op.kind == OpKind::Concat && rests_.count(op.results[0]) > 0) return rest_of(op, dim, operands, type);
    if (op.kind == OpKind::Concat)
      return fmt::format("concatenate({}), dimensions={{{}}}", fmt::join(operands, ", "), dim);
    if (op.kind == OpKind::Slice) {
      std::vector<std::string> ranges;
      for (size_t d = 0; d < from.size(); ++d) {
        const int64_t start = d == dim ? with.integer("start") : 0;
        ranges.push_back(fmt::format("[{}:{}]", start, start + (d == dim ? with.integer("size") : from[d])));
      }
      return fmt::format("slice({}), slice={{{}}}", x, fmt::join(ranges, ", "));
    }
    // Times in a row: along a dimension before its own.
    Shape rows = from;
    rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(dim), with.integer("times"));
    std::vector<int64_t> dimensions;
    for (size_t d = 0; d < rows.size(); ++d) {
      if (d != dim) dimensions.push_back(static_cast<int64_t>(d));
    }
    const std::string repeated =
        text_.add(type_of(type, rows), fmt::format("broadcast({}), dimensions={}", x, list(dimensions)));
    return fmt::format("reshape({})", repeated);
  }

  /// A concatenation without the most of its first operand.
  std::string rest_of(const Operation& op, size_t dim, std::vector<std::string> operands, std::string_view type) {
    const int64_t start = graph_.type(op.results[0]).shape[dim] - shape(op.results[0])[dim];
    Shape left = shape(op.operands[0]);
    const int64_t end = left[dim];
    left[dim] -= start;
    if (left[dim] == 0) {
      operands.erase(operands.begin());
    } else {
      std::vector<std::string> ranges;
      for (size_t d = 0; d < left.size(); ++d)
        ranges.push_back(d == dim ? fmt::format("[{}:{}]", start, end) : fmt::format("[0:{}]", left[d]));
      operands.front() = text_.add(type_of(type, left),
                                   fmt::format("slice({}), slice={{{}}}", operands.front(), fmt::join(ranges, ", ")));
    }
    return fmt::format("concatenate({}), dimensions={{{}}}", fmt::join(operands, ", "), dim);
  }

  std::string element(const Operation& op, const std::vector<std::string>& x, TensorId result) {
    const std::string_view element_type = wide_type(result);
    const std::string type = type_of(element_type, shape(result));
    const auto put = [&](const std::string& operation) { return text_.add(type, operation); };
    const auto constant = [&](double value) { return all(type, element_type, value); };
    const auto two = [&](std::string_view name, const std::string& a, const std::string& b) {
      return put(fmt::format("{}({}, {})", name, a, b));
    };
    const auto one = [&](std::string_view name, const std::string& a) { return put(fmt::format("{}({})", name, a)); };
    const auto where = [&](const std::string& a, const std::string& b, const char* is) {
      return text_.add(type_of("pred", shape(result)), fmt::format("compare({}, {}), direction={}", a, b, is));
    };
    const auto choose = [&](const std::string& p, const std::string& a, const std::string& b) {
      return put(fmt::format("select({}, {}, {})", p, a, b));
    };
    switch (op.kind) {
      case OpKind::Add:
        return two("add", x[0], x[1]);
      case OpKind::Sub:
        return two("subtract", x[0], x[1]);
      case OpKind::Mul:
        return two("multiply", x[0], x[1]);
      case OpKind::Div:
        return two("divide", x[0], x[1]);
      case OpKind::Max:
        return two("maximum", x[0], x[1]);
      case OpKind::Sqr:
        return two("multiply", x[0], x[0]);
      case OpKind::Scale:
        return two("multiply", x[0], constant(op.attributes.rational("factor").to_double()));
      case OpKind::AddConstant:
        return two("add", x[0], constant(op.attributes.rational("value").to_double()));
      case OpKind::Relu:
        return two("maximum", x[0], constant(0));
      case OpKind::Exp:
        return one("exponential", x[0]);
      case OpKind::Sqrt:
        return one("sqrt", x[0]);
      case OpKind::Rsqrt:
        return one("rsqrt", x[0]);
      case OpKind::SiLU:
        return two("multiply", x[0], one("logistic", x[0]));
      case OpKind::Gelu: {
        // x · logistic(2c·(x + 0.044715·x³)), with the operator's own constants.
        const std::string cube = two("multiply", x[0], two("multiply", x[0], x[0]));
        const std::string sum = two("add", x[0], two("multiply", constant(8943.0 / 200000), cube));
        return two("multiply", x[0], one("logistic", two("multiply", constant(123637.0 / 77478), sum)));
      }
      case OpKind::Greater:
        return choose(where(x[0], x[1], "GT"), constant(1), constant(0));
      case OpKind::Select:
        return choose(where(x[0], constant(0), "NE"), x[1], x[2]);
      default:
        return {};
    }
  }

  struct Reduced {
    std::string instruction;
    Shape shape;
  };

  const Graph& graph_;
  const std::set<size_t> of_;
  const std::vector<bool>& views_;
  std::map<TensorId, Shape> rests_;  ///< of concatenations that are not made from their beginning
  std::set<TensorId> inputs_;
  HloText text_;
  std::map<TensorId, Reduced> reduced_;            ///< results of reductions, without dimensions of size 1
  std::map<TensorId, std::string> stored_, wide_;  ///< instructions, in the tensor's type and in that of computation
  Glue made_;
};

}  // namespace

Result<Glue> glue(const Graph& graph, const std::vector<size_t>& of, const std::vector<bool>& views,
                  const std::map<TensorId, int64_t>& starts) {
  return GlueBuilder(graph, of, views, starts).run();
}

}  // namespace strata::compiler
