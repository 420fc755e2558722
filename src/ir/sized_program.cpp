#include "ir/sized_program.h"

#include <algorithm>

#include "support/spelling.h"

namespace strata {
namespace {

using Sizes = std::vector<SizeExpr>;

std::string shape_text(const Sizes& sizes) {
  std::string text;
  for (const SizeExpr& size : sizes) text += (text.empty() ? "" : ", ") + size.to_string();
  return "[" + text + "]";
}

tl::unexpected<Error> differ(const SizeExpr& a, const SizeExpr& b) {
  return with_remedy(invalid("the sizes {} and {} are equal for some sizes only", a.to_string(), b.to_string()),
                     "give both the same name");
}

/// NumPy's broadcasting: only what is 1 for all sizes repeats.
Result<Sizes> broadcast_sizes(const Sizes& a, const Sizes& b) {
  const Sizes& longer = a.size() >= b.size() ? a : b;
  const Sizes& shorter = a.size() >= b.size() ? b : a;
  Sizes result = longer;
  for (size_t d = 0; d < shorter.size(); ++d) {
    SizeExpr& to = result[longer.size() - shorter.size() + d];
    if (to == shorter[d] || shorter[d].is(1)) continue;
    if (!to.is(1)) return differ(to, shorter[d]);
    to = shorter[d];
  }
  return result;
}

/// An attribute's number, which may have a name.
SizeExpr attribute_size(const Operation& op, const SizedProgram::AttributeSizes& symbolic, std::string_view name) {
  const auto found = symbolic.find(name);
  return found != symbolic.end() ? found->second.front() : SizeExpr(op.attributes.integer(name));
}

Result<SizeExpr> elements(const Sizes& sizes) {
  SizeExpr product = 1;
  for (const SizeExpr& size : sizes) {
    STRATA_TRY(product, product.times(size));
  }
  return product;
}

Result<Sizes> matmul_sizes(const Sizes& a, const Sizes& b) {
  if (!(a.back() == b[b.size() - 2])) return differ(a.back(), b[b.size() - 2]);
  STRATA_TRY(Sizes result, broadcast_sizes({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}));
  result.push_back(a[a.size() - 2]);
  result.push_back(b.back());
  return result;
}

Result<Sizes> reshape_sizes(const Operation& op, const Sizes& from, const SizedProgram::AttributeSizes& attributes) {
  Sizes to;
  if (const auto named = attributes.find("shape"); named != attributes.end()) {
    to = named->second;
  } else {
    for (const int64_t size : op.attributes.list("shape")) to.emplace_back(size);
  }
  STRATA_TRY(const SizeExpr before, elements(from));
  STRATA_TRY(const SizeExpr after, elements(to));
  if (before == after) return to;
  return with_remedy(invalid("shape={} has {} elements, and the operand {}, which is equal for some sizes only",
                             shape_text(to), after.to_string(), before.to_string()),
                     "write the new shape with the names of the operand's sizes");
}

Result<Sizes> concat_sizes(const Operation& op, std::span<const Sizes> operands) {
  Sizes result = operands[0];
  const auto dim = static_cast<size_t>(op.attributes.integer("dim"));
  for (const Sizes& operand : operands.subspan(1)) {
    for (size_t d = 0; d < result.size(); ++d) {
      if (d == dim) {
        STRATA_TRY(result[d], result[d].plus(operand[d]));
      } else if (!(result[d] == operand[d])) {
        return differ(result[d], operand[d]);
      }
    }
  }
  return result;
}

Result<AttributeValue> value_at(const AttributeValue& declared, const Sizes& sizes, const DimSizes& dims) {
  if (std::holds_alternative<Rational>(declared)) {
    STRATA_TRY(const Rational number, sizes.front().evaluate(dims));
    return number;
  }
  if (std::holds_alternative<int64_t>(declared)) {
    STRATA_TRY(const int64_t number, sizes.front().size(dims));
    return number;
  }
  std::vector<int64_t> list;
  for (const SizeExpr& size : sizes) {
    STRATA_TRY(list.emplace_back(), size.size(dims));
  }
  return list;
}

Result<Shape> shape_at(const Sizes& sizes, const DimSizes& dims) {
  Shape shape;
  for (const SizeExpr& size : sizes) {
    STRATA_TRY(shape.emplace_back(), size.size(dims));
  }
  return shape;
}

}  // namespace

Result<Sizes> result_sizes(const Graph& graph, const Operation& op, std::span<const Sizes> operands,
                           const SizedProgram::AttributeSizes& attributes) {
  const OpDef& def = op_def(op.kind);
  if (def.traits.elementwise) {
    Sizes result = operands[0];
    for (const Sizes& operand : operands.subspan(1)) {
      STRATA_TRY(result, broadcast_sizes(result, operand));
    }
    return result;
  }
  Sizes result = operands[0];
  if (is_reduction(op.kind)) {
    SizeExpr& size = result[static_cast<size_t>(op.attributes.integer("dim"))];
    if (!op.attributes.has("every")) {
      size = 1;
    } else {
      STRATA_TRY(size, size.divided_by(attribute_size(op, attributes, "every")));
    }
    return result;
  }
  switch (op.kind) {
    case OpKind::Matmul:
      return matmul_sizes(operands[0], operands[1]);
    case OpKind::Reshape:
      return reshape_sizes(op, operands[0], attributes);
    case OpKind::Transpose:
      for (size_t d = 0; d < result.size(); ++d) {
        result[d] = operands[0][static_cast<size_t>(op.attributes.list("perm")[d])];
      }
      return result;
    case OpKind::Repeat: {
      SizeExpr& size = result[static_cast<size_t>(op.attributes.integer("dim"))];
      STRATA_TRY(size, size.times(attribute_size(op, attributes, "times")));
      return result;
    }
    case OpKind::Slice:
      result[static_cast<size_t>(op.attributes.integer("dim"))] = attribute_size(op, attributes, "size");
      return result;
    case OpKind::Concat:
      return concat_sizes(op, operands);
    default:
      break;
  }
  const auto named = [](const Sizes& sizes) {
    return std::any_of(sizes.begin(), sizes.end(), [](const SizeExpr& size) { return !size.is_constant(); });
  };
  if (std::any_of(operands.begin(), operands.end(), named) || !attributes.empty()) {
    return with_remedy(unsupported("{} takes no operand whose sizes have names", def.traits.name),
                       "write numbers for its sizes");
  }
  result.clear();
  for (const int64_t size : graph.type(op.results[0]).shape) result.emplace_back(size);
  return result;
}

const SizedProgram::Dim* SizedProgram::find_dim(std::string_view name) const {
  const auto found = std::find_if(dims.begin(), dims.end(), [&](const Dim& dim) { return dim.name == name; });
  return found == dims.end() ? nullptr : &*found;
}

DimSizes SizedProgram::declared() const {
  DimSizes sizes;
  for (const Dim& dim : dims) sizes[dim.name] = dim.size;
  return sizes;
}

Result<DimSizes> SizedProgram::with(const DimSizes& given) const {
  DimSizes sizes = declared();
  for (const auto& [name, size] : given) {
    const auto known = sizes.find(name);
    if (known == sizes.end()) {
      std::vector<std::string> names;
      for (const Dim& dim : dims) names.push_back(dim.name);
      return with_remedy(invalid("'{}' has no dim '{}'{}", graph->name(), name, did_you_mean(name, names)),
                         names.empty() ? fmt::format("name a size in the program: dim {} = {}", name, size)
                                       : fmt::format("its dims are {}", fmt::join(names, ", ")));
    }
    if (size < 1) return with_remedy(invalid("{}={} is below 1", name, size), "every size must be at least 1");
    known->second = size;
  }
  return sizes;
}

Result<GraphPtr> SizedProgram::at(const DimSizes& given) const {
  STRATA_TRY(const DimSizes sizes, with(given));
  if (sizes == declared()) return graph;
  const auto fail = [&](const Error& error, const SourceLocation& at) {
    return tl::unexpected(error.within("with " + to_string(sizes)).at(at));
  };
  GraphBuilder builder(Level::Kernel, graph->name());
  std::vector<TensorId> ids(graph->tensors().size(), -1);
  for (size_t i = 0; i < graph->inputs().size(); ++i) {
    const auto id = static_cast<size_t>(graph->inputs()[i]);
    const TensorInfo& info = graph->tensor(graph->inputs()[i]);
    auto shape = shape_at(shapes[id], sizes);
    if (!shape) return fail(shape.error().within(fmt::format("input '{}'", info.name)), {});
    const auto made =
        builder.input(info.name, {info.type.dtype, *shape, info.type.iota}, {}, graph->input_comments()[i]);
    if (!made) return fail(made.error(), {});
    ids[id] = *made;
  }
  for (size_t i = 0; i < graph->operations().size(); ++i) {
    const Operation& op = graph->operations()[i];
    std::vector<TensorId> operands;
    for (const TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    Attributes at = op.attributes;
    for (const auto& [name, of] : attributes[i]) {
      const auto value = value_at(*op.attributes.find(name), of, sizes);
      if (!value) return fail(value.error().within(fmt::format("{} of {}", name, op.name())), op.location);
      at.set(name, *value);
    }
    const TensorInfo& result = graph->tensor(op.results[0]);
    const auto made = builder.add(op.kind, std::move(operands), std::move(at), result.name, op.location, op.comments);
    if (!made) return fail(made.error(), op.location);
    const auto shape = shape_at(shapes[static_cast<size_t>(op.results[0])], sizes);
    if (!shape) return fail(shape.error().within(fmt::format("'{}'", result.name)), op.location);
    if (*shape != builder.type(*made).shape) {
      return fail(
          Error{ErrorCode::InvalidInput,
                fmt::format("'{}' is {}, not {}", result.name, to_string(builder.type(*made).shape), to_string(*shape)),
                "correct the names of its operands' sizes",
                {}},
          op.location);
    }
    ids[static_cast<size_t>(op.results[0])] = *made;
  }
  for (const TensorId id : graph->outputs()) STRATA_CHECK(builder.output(ids[static_cast<size_t>(id)]));
  builder.comment(graph->comments(), graph->output_comments(), graph->closing_comments());
  return builder.finish();
}

Result<DimSizes> SizedProgram::told_by(std::span<const std::optional<Shape>> inputs, const DimSizes& given) const {
  const std::vector<TensorId> arguments = graph->arguments();
  if (inputs.size() != arguments.size())
    return invalid("'{}' takes {} inputs; got {}", graph->name(), arguments.size(), inputs.size());
  const auto name_of_input = [&](size_t i) { return graph->tensor(arguments[i]).name; };
  const auto sizes_at = [&](size_t i) -> const Sizes& { return shapes[static_cast<size_t>(arguments[i])]; };
  DimSizes found = given;
  std::map<std::string, std::string> from;  // by dim, what told it
  for (const auto& [name, size] : given) from[name] = "as given";
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) continue;
      if (inputs[i]->size() != sizes_at(i).size()) {
        return with_remedy(
            invalid("input '{}' is {}; got {}", name_of_input(i), shape_text(sizes_at(i)), to_string(*inputs[i])),
            "give an array of as many dimensions");
      }
      for (size_t d = 0; d < inputs[i]->size(); ++d) {
        for (const std::string& dim : sizes_at(i)[d].dims()) {
          if (found.count(dim) > 0) continue;
          const auto size = sizes_at(i)[d].solve(dim, (*inputs[i])[d], found);
          if (!size || *size < 1) continue;
          found[dim] = *size;
          from[dim] = fmt::format("by input '{}'", name_of_input(i));
          more = true;
        }
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t d = 0; inputs[i] && d < inputs[i]->size(); ++d) {
      const SizeExpr& expr = sizes_at(i)[d];
      const int64_t got = (*inputs[i])[d];
      std::string why;
      for (const std::string& dim : expr.dims()) {
        if (found.count(dim) == 0) {
          return with_remedy(invalid("dimension {} of input '{}' is {}; no {} makes it {}", d, name_of_input(i),
                                     expr.to_string(), dim, got),
                             fmt::format("give arrays whose shapes fit {}", shape_text(sizes_at(i))));
        }
        why += fmt::format("{}{}={} {}", why.empty() ? ", and " : ", ", dim, found[dim], from[dim]);
      }
      const auto size = expr.size(found);
      if (size && *size == got) continue;
      return with_remedy(
          invalid("dimension {} of input '{}' is {}; got {}{}", d, name_of_input(i), expr.to_string(), got, why),
          "give arrays of sizes that do not contradict each other");
    }
  }
  return found;
}

Result<DimSizes> SizedProgram::sizes_of(std::span<const Shape> inputs) const {
  STRATA_TRY(DimSizes found, told_by(std::vector<std::optional<Shape>>(inputs.begin(), inputs.end()), {}));
  for (const Dim& dim : dims) {
    if (found.count(dim.name) > 0) continue;
    return with_remedy(invalid("no input tells the size of '{}'", dim.name), "name the size in the shape of an input");
  }
  return found;
}

Result<DimSizes> SizedProgram::sizes_of(std::span<const std::optional<Shape>> inputs, const DimSizes& given) const {
  STRATA_CHECK(with(given));
  STRATA_TRY(const DimSizes found, told_by(inputs, given));
  return with(found);
}

}  // namespace strata
