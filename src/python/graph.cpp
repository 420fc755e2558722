#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ir/sized_program.h"
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

/// A number, or an expression of dims.
SizeExpr size_of(nb::handle value) {
  return nb::isinstance<SizeExpr>(value) ? nb::cast<SizeExpr>(value) : SizeExpr(nb::cast<int64_t>(value));
}

/// An integer, None for `_`, a text that is a number or a word, a list of integers, or expressions of dims in the place
/// of numbers; these go to `named` too, one for each number.
AttributeValue attribute_of(nb::handle value, AttributeKind kind, const Place& place, const DimSizes& declared,
                            std::vector<SizeExpr>& named) {
  const auto at_place = [&](auto result) {
    if (!result) throw Raised(result.error().at(place.location()));
    return *result;
  };
  const auto integer = [&](nb::handle of) -> int64_t {
    if (of.is_none()) return kReplicate;
    named.push_back(size_of(of));
    return at_place(named.back().size(declared));
  };
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    std::vector<int64_t> list;
    for (const nb::handle one : value) list.push_back(integer(one));
    return list;
  }
  if (kind == AttributeKind::Rational) {
    if (nb::isinstance<SizeExpr>(value)) {
      named.push_back(nb::cast<SizeExpr>(value));
      return at_place(named.back().evaluate(declared));
    }
    return at_place(parse_rational(nb::cast<std::string>(nb::str(value))));
  }
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  return integer(value);
}

/// Its name, element type, sizes, and the expressions of these where the program has dims.
nb::tuple describe(const Graph& graph, TensorId id, const SizedProgram& sized) {
  const TensorInfo& tensor = graph.tensor(id);
  nb::list sizes, named;
  for (const int64_t size : tensor.type.shape) sizes.append(size);
  if (!sized.dims.empty()) {
    for (const SizeExpr& size : sized.shapes[static_cast<size_t>(id)]) named.append(size);
  }
  return nb::make_tuple(tensor.name, std::string(name_of(tensor.type.dtype)), nb::tuple(sizes), nb::tuple(named));
}

/// A kernel graph that grows statement by statement. Each is checked by the compiler's own rules.
class Builder {
 public:
  explicit Builder(std::string name) : builder_(Level::Kernel, std::move(name)) {}

  /// A program or µGraph that was written as text, to go on from.
  static Builder read(const std::string& text, const std::string& file) {
    const SizedProgram program = value_of(parse_program(text, file));
    const GraphPtr& graph = program.graph;
    value_of(validate_paths(*graph));
    Builder made(graph->name());
    made.sized_.dims = program.dims;
    const bool sized = !program.dims.empty();
    GraphBuilder& to = made.builder_;
    std::vector<TensorId> known(graph->tensors().size(), -1);
    const auto keep = [&](TensorId from, TensorId id) {
      known[static_cast<size_t>(from)] = id;
      if (sized) made.keep_sizes(id, program.shapes[static_cast<size_t>(from)]);
    };
    for (size_t i = 0; i < graph->inputs().size(); ++i) {
      const TensorId id = graph->inputs()[i];
      const Comments comments = i < graph->input_comments().size() ? graph->input_comments()[i] : Comments{};
      keep(id, value_of(to.input(graph->tensor(id).name, graph->type(id), SourceLocation{}, comments)));
    }
    for (size_t o = 0; o < graph->operations().size(); ++o) {
      const Operation& op = graph->operations()[o];
      std::vector<TensorId> operands;
      for (const TensorId id : op.operands) operands.push_back(known[static_cast<size_t>(id)]);
      std::vector<std::string> names;
      for (const TensorId id : op.results) names.push_back(graph->tensor(id).name);
      std::vector<TensorId> results;
      if (op.body) {
        results = value_of(to.add(op.body, operands, names, op.location, op.comments));
      } else {
        results = {value_of(to.add(op.kind, operands, op.attributes, names.front(), op.location, op.comments))};
        if (sized) made.sized_.attributes.push_back(program.attributes[o]);
      }
      for (size_t i = 0; i < results.size(); ++i) keep(op.results[i], results[i]);
    }
    for (const TensorId id : graph->outputs()) value_of(to.output(known[static_cast<size_t>(id)]));
    to.comment(graph->comments(), graph->output_comments(), graph->closing_comments());
    return made;
  }

  /// A name for a size; before inputs and operators.
  SizeExpr dim(const std::string& name, int64_t size, const Place& place) {
    const auto refuse = [&](const std::string& what, const std::string& remedy) {
      return Raised(Error{ErrorCode::InvalidInput, what, remedy, place.location()});
    };
    if (size < 1) throw refuse(fmt::format("{}={} is below 1", name, size), "every size is at least 1");
    if (sized_.find_dim(name) != nullptr) throw refuse(fmt::format("the dim '{}' is named twice", name), "keep one");
    if (!graph().tensors().empty())
      throw refuse(fmt::format("the dim '{}' comes after an input or an operator", name), "name sizes first");
    sized_.dims.push_back({name, size, place.location(), {}});
    declared_ = sized_.declared();
    return SizeExpr::dim(name);
  }

  TensorId input(const std::string& name, const std::string& dtype, const nb::list& shape, const Place& place) {
    return new_input(name, dtype, shape, std::nullopt, place);
  }

  /// An input whose elements are known: `start` is a number as programs write it. An empty name is made up.
  TensorId iota(const std::string& name, const std::string& dtype, const nb::list& shape, int64_t dim,
                const std::string& start, int64_t step, const Place& place) {
    const Result<Rational> first = parse_rational(start);
    if (!first) throw Raised(first.error().at(place.location()));
    return new_input(name, dtype, shape, Iota{dim, *first, step}, place);
  }

  TensorId add(const std::string& name, const std::vector<TensorId>& operands, const nb::dict& attributes,
               const std::string& result, const Place& place) {
    const OpDef* op = find_op(name);
    if (op == nullptr) throw Raised(Error{ErrorCode::InvalidInput, "unknown operator '" + name + "'", {}, {}});
    Attributes given;
    SizedProgram::AttributeSizes sizes;
    for (const auto& [key, value] : attributes) {
      const auto attribute = nb::cast<std::string>(key);
      std::vector<SizeExpr> named;
      given.set(attribute, attribute_of(value, kind_of(*op, attribute), place, declared_, named));
      for (const SizeExpr& one : named) check_dims(one, place);
      if (std::any_of(named.begin(), named.end(), [](const SizeExpr& one) { return !one.is_constant(); }))
        sizes[attribute] = std::move(named);
    }
    // The table's order is the one in which they are printed.
    Attributes ordered;
    for (const AttributeSpec& spec : op->attributes) {
      if (const AttributeValue* value = given.find(spec.name)) ordered.set(spec.name, *value);
    }
    for (const auto& [key, value] : given.entries()) {
      if (!ordered.has(key)) ordered.set(key, value);
    }
    if (sized_.dims.empty())
      return value_of(builder_.add(op->kind, operands, std::move(ordered), result, place.location()));
    // In a graph of its own first: what is refused for its sizes must not stay in the program.
    GraphBuilder alone(Level::Kernel, graph().name());
    std::vector<TensorId> same;
    std::vector<std::vector<SizeExpr>> of_operands;
    for (const TensorId one : operands) {
      const std::string& known = graph().tensor(one).name;
      const auto there = alone.peek().find_tensor(known);
      same.push_back(there ? *there : value_of(alone.input(known, graph().type(one))));
      of_operands.push_back(sized_.shapes[static_cast<size_t>(one)]);
    }
    value_of(alone.add(op->kind, same, ordered, result, place.location()));
    auto made = result_sizes(alone.peek(), alone.peek().operations().back(), of_operands, sizes);
    if (!made) throw Raised(made.error().within(name).at(place.location()));
    const TensorId id = value_of(builder_.add(op->kind, operands, std::move(ordered), result, place.location()));
    keep_sizes(id, std::move(*made));
    sized_.attributes.push_back(std::move(sizes));
    return id;
  }

  void output(TensorId id, const Place& place) { value_of(builder_.output(id, place.location())); }

  const Graph& graph() const { return builder_.peek(); }
  nb::tuple tensor(TensorId id) const { return describe(graph(), id, sized_); }
  std::string text() const {
    if (sized_.dims.empty()) return print(graph());
    SizedProgram program = sized_;
    program.graph = GraphPtr(GraphPtr{}, &graph());  // it lives as long as this
    return print(program);
  }
  std::vector<std::pair<std::string, int64_t>> dims() const {
    std::vector<std::pair<std::string, int64_t>> found;
    for (const SizedProgram::Dim& dim : sized_.dims) found.emplace_back(dim.name, dim.size);
    return found;
  }

 private:
  TensorId new_input(const std::string& name, const std::string& dtype, const nb::list& shape, std::optional<Iota> iota,
                     const Place& place) {
    const Result<DType> type = parse_dtype(dtype);
    if (!type) throw Raised(type.error().at(place.location()));
    std::vector<SizeExpr> named;
    Shape sizes;
    for (const nb::handle one : shape) {
      named.push_back(size_of(one));
      check_dims(named.back(), place);
      const auto size = named.back().size(declared_);
      if (!size) throw Raised(size.error().at(place.location()));
      sizes.push_back(*size);
    }
    const TensorId id = value_of(builder_.input(name, {*type, sizes, std::move(iota)}, place.location()));
    if (!sized_.dims.empty()) keep_sizes(id, std::move(named));
    return id;
  }

  void keep_sizes(TensorId id, std::vector<SizeExpr> sizes) {
    sized_.shapes.resize(static_cast<size_t>(id) + 1);
    sized_.shapes.back() = std::move(sizes);
  }

  /// Sizes may be of another Graph.
  void check_dims(const SizeExpr& size, const Place& place) const {
    for (const std::string& dim : size.dims()) {
      if (sized_.find_dim(dim) != nullptr) continue;
      throw Raised(Error{ErrorCode::InvalidInput, fmt::format("'{}' is no dim of '{}'", dim, graph().name()),
                         fmt::format("name the size first: graph.dim(\"{}\", 16)", dim), place.location()});
    }
  }

  GraphBuilder builder_;
  SizedProgram sized_;  ///< without its graph, which `builder_` has
  DimSizes declared_;
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
      .def("iota", &Builder::iota, "name"_a, "dtype"_a, "shape"_a, "dim"_a, "start"_a, "step"_a, "place"_a)
      .def("add", &Builder::add, "operator"_a, "operands"_a, "attributes"_a, "name"_a, "place"_a)
      .def("output", &Builder::output, "tensor"_a, "place"_a)
      .def("dim", &Builder::dim, "name"_a, "size"_a, "place"_a)
      .def("tensor", &Builder::tensor, "tensor"_a,
           "Its name, element type, sizes, and the expressions of these where the program has dims.")
      .def_prop_ro("dims", &Builder::dims)
      .def_prop_ro("name", [](const Builder& of) { return of.graph().name(); })
      .def_prop_ro("inputs", [](const Builder& of) { return of.graph().arguments(); })
      .def_prop_ro("outputs", [](const Builder& of) { return of.graph().outputs(); })
      .def_prop_ro("tensor_count", [](const Builder& of) { return of.graph().tensors().size(); })
      .def("text", &Builder::text);
  module.def("operators", &operators,
             "The operators of kernel graphs: (name, operands, [(attribute, required, help)], meaning); "
             "-1 operands are two or more.");
}

}  // namespace strata::python
