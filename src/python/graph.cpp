#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ir/text.h"
#include "ir/validate.h"
#include "python/bindings.h"

namespace strata::python {
namespace {

/// Where a statement stands in the user's file.
struct Place {
  std::string file;
  int line = 0;
  int column = 0;

  SourceLocation location() const { return {std::make_shared<const std::string>(file), line, column}; }
};

AttributeKind kind_of(const OpDef& op, const std::string& attribute) {
  for (const AttributeSpec& spec : op.attributes) {
    if (spec.name == attribute) return spec.kind;
  }
  return AttributeKind::Int;  // there is none: the builder says so
}

/// An integer, None for `_`, a text that is a number or a word, or a list of integers.
AttributeValue attribute_of(nb::handle value, AttributeKind kind, const Place& place) {
  const auto integer = [&](nb::handle of) -> int64_t { return of.is_none() ? kReplicate : nb::cast<int64_t>(of); };
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    std::vector<int64_t> list;
    for (const nb::handle one : value) list.push_back(integer(one));
    return list;
  }
  if (kind == AttributeKind::Rational) {
    const Result<Rational> number = parse_rational(nb::cast<std::string>(nb::str(value)));
    if (!number) throw Raised(number.error().at(place.location()));
    return *number;
  }
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  return integer(value);
}

nb::tuple describe(const Graph& graph, TensorId id) {
  const TensorInfo& tensor = graph.tensor(id);
  nb::list sizes;
  for (const int64_t size : tensor.type.shape) sizes.append(size);
  return nb::make_tuple(tensor.name, std::string(name_of(tensor.type.dtype)), nb::tuple(sizes));
}

/// A kernel graph that grows statement by statement. Each is checked by the compiler's own rules.
class Builder {
 public:
  explicit Builder(std::string name) : builder_(Level::Kernel, std::move(name)) {}

  /// A program or µGraph that was written as text, to go on from.
  static Builder read(const std::string& text, const std::string& file) {
    const GraphPtr graph = value_of(parse_graph(text, file));
    value_of(validate_paths(*graph));
    Builder made(graph->name());
    GraphBuilder& to = made.builder_;
    std::vector<TensorId> known(graph->tensors().size(), -1);
    for (size_t i = 0; i < graph->inputs().size(); ++i) {
      const TensorId id = graph->inputs()[i];
      const Comments comments = i < graph->input_comments().size() ? graph->input_comments()[i] : Comments{};
      known[static_cast<size_t>(id)] =
          value_of(to.input(graph->tensor(id).name, graph->type(id), SourceLocation{}, comments));
    }
    for (const Operation& op : graph->operations()) {
      std::vector<TensorId> operands;
      for (const TensorId id : op.operands) operands.push_back(known[static_cast<size_t>(id)]);
      std::vector<std::string> names;
      for (const TensorId id : op.results) names.push_back(graph->tensor(id).name);
      std::vector<TensorId> results;
      if (op.body) {
        results = value_of(to.add(op.body, operands, names, op.location, op.comments));
      } else {
        results = {value_of(to.add(op.kind, operands, op.attributes, names.front(), op.location, op.comments))};
      }
      for (size_t i = 0; i < results.size(); ++i) known[static_cast<size_t>(op.results[i])] = results[i];
    }
    for (const TensorId id : graph->outputs()) value_of(to.output(known[static_cast<size_t>(id)]));
    to.comment(graph->comments(), graph->output_comments(), graph->closing_comments());
    return made;
  }

  TensorId input(const std::string& name, const std::string& dtype, const Shape& shape, const Place& place) {
    const Result<DType> type = parse_dtype(dtype);
    if (!type) throw Raised(type.error().at(place.location()));
    return value_of(builder_.input(name, {*type, shape}, place.location()));
  }

  TensorId add(const std::string& name, const std::vector<TensorId>& operands, const nb::dict& attributes,
               const std::string& result, const Place& place) {
    const OpDef* op = find_op(name);
    if (op == nullptr) throw Raised(Error{ErrorCode::InvalidInput, "unknown operator '" + name + "'", {}, {}});
    Attributes given;
    for (const auto& [key, value] : attributes) {
      const auto attribute = nb::cast<std::string>(key);
      given.set(attribute, attribute_of(value, kind_of(*op, attribute), place));
    }
    // The table's order is the one in which they are printed.
    Attributes ordered;
    for (const AttributeSpec& spec : op->attributes) {
      if (const AttributeValue* value = given.find(spec.name)) ordered.set(spec.name, *value);
    }
    for (const auto& [key, value] : given.entries()) {
      if (!ordered.has(key)) ordered.set(key, value);
    }
    return value_of(builder_.add(op->kind, operands, std::move(ordered), result, place.location()));
  }

  void output(TensorId id, const Place& place) { value_of(builder_.output(id, place.location())); }

  const Graph& graph() const { return builder_.peek(); }

 private:
  GraphBuilder builder_;
};

/// The operators of kernel graphs: (name, operands (−1: two or more), [(attribute, required, help)], meaning).
nb::list operators() {
  nb::list list;
  for (const OpDef* op : all_ops()) {
    if (!op->traits.levels.kernel) continue;
    nb::list attributes;
    for (const AttributeSpec& spec : op->attributes)
      attributes.append(nb::make_tuple(std::string(spec.name), spec.required, std::string(spec.help)));
    list.append(
        nb::make_tuple(std::string(op->traits.name), op->traits.arity, attributes, std::string(op->traits.summary)));
  }
  return list;
}

}  // namespace

void bind_graph(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Place>(module, "Place", "Where a statement stands in the user's file.")
      .def(
          "__init__",
          [](Place* place, std::string file, int line, int column) {
            new (place) Place{std::move(file), line, column};
          },
          "file"_a, "line"_a, "column"_a);
  nb::class_<Builder>(module, "Builder", "A kernel graph that grows; tensors are numbers.")
      .def(nb::init<std::string>(), "name"_a)
      .def_static("read", &Builder::read, "text"_a, "file"_a)
      .def("input", &Builder::input, "name"_a, "dtype"_a, "shape"_a, "place"_a)
      .def("add", &Builder::add, "operator"_a, "operands"_a, "attributes"_a, "name"_a, "place"_a)
      .def("output", &Builder::output, "tensor"_a, "place"_a)
      .def(
          "tensor", [](const Builder& of, TensorId id) { return describe(of.graph(), id); }, "tensor"_a,
          "Its name, element type and sizes.")
      .def_prop_ro("name", [](const Builder& of) { return of.graph().name(); })
      .def_prop_ro("inputs", [](const Builder& of) { return of.graph().arguments(); })
      .def_prop_ro("outputs", [](const Builder& of) { return of.graph().outputs(); })
      .def_prop_ro("tensor_count", [](const Builder& of) { return of.graph().tensors().size(); })
      .def("text", [](const Builder& of) { return print(of.graph()); });
  module.def("operators", &operators,
             "The operators of kernel graphs: (name, operands, [(attribute, required, help)], meaning); "
             "-1 operands are two or more.");
}

}  // namespace strata::python
