#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/bindings.h"
#include "runtime/size_table.h"

namespace strata::python {
namespace {

/// sizes.json of a program's text and its entries.
std::string table_text(const std::string& program, const nb::list& entries) {
  SizeTable table;
  table.program = value_of(parse_program(program, "<program>"));
  for (const nb::handle one : entries) {
    table.entries.push_back({nb::cast<DimSizes>(one[0]), nb::cast<std::string>(one[1]), nb::cast<double>(one[2]),
                             nb::cast<std::string>(one[3])});
  }
  return print(table);
}

nb::list shapes_at(const SizeTable& table, TensorId id, const DimSizes& sizes) {
  nb::list shape;
  for (const SizeExpr& size : table.program.shapes[static_cast<size_t>(id)]) shape.append(value_of(size.size(sizes)));
  return shape;
}

/// Which entry serves inputs of these shapes, the steps to which each input is padded (fill, shape), and the shapes
/// that results are cut to.
nb::tuple dispatched(const SizeTable& table, const std::vector<Shape>& shapes) {
  const DimSizes sizes = value_of(table.program.sizes_of(shapes));
  const SizeDispatch chosen = value_of(dispatch(table, sizes));
  nb::list inputs, outputs;
  for (const TensorId id : table.program.graph->arguments()) {
    nb::list steps;
    DimSizes step = sizes;
    for (const auto& [dim, fill] : chosen.fills) {
      step[dim] = table.entries[chosen.entry].sizes.at(dim);
      steps.append(nb::make_tuple(std::string(name_of(fill)), nb::tuple(shapes_at(table, id, step))));
    }
    inputs.append(steps);
  }
  for (const TensorId id : table.program.graph->outputs()) outputs.append(nb::tuple(shapes_at(table, id, sizes)));
  return nb::make_tuple(chosen.entry, sizes, describe(table, chosen), inputs, outputs);
}

nb::list entries_of(const SizeTable& table) {
  nb::list entries;
  for (const SizeTable::Entry& one : table.entries)
    entries.append(nb::make_tuple(one.sizes, one.folder, one.seconds, one.origin));
  return entries;
}

}  // namespace

void bind_sizes(nb::module_& module) {
  using namespace nb::literals;
  const auto wrapped = [](Result<SizeExpr> (SizeExpr::*function)(const SizeExpr&) const) {
    return [function](const SizeExpr& a, const SizeExpr& b) { return value_of((a.*function)(b)); };
  };
  nb::class_<SizeExpr>(module, "SizeExpr", "A size as an expression of named ones.")
      .def(nb::init<int64_t>(), "number"_a)
      .def("plus", wrapped(&SizeExpr::plus), "other"_a)
      .def("minus", wrapped(&SizeExpr::minus), "other"_a)
      .def("times", wrapped(&SizeExpr::times), "other"_a)
      .def("divided_by", wrapped(&SizeExpr::divided_by), "other"_a)
      .def_prop_ro("is_constant", &SizeExpr::is_constant)
      .def("__str__", &SizeExpr::to_string);
  nb::class_<SizeTable>(module, "SizeTable", "Which of several artifacts serves inputs of some shapes.")
      .def(
          "__init__",
          [](SizeTable* table, const std::string& text, const std::string& file) {
            new (table) SizeTable(value_of(parse_size_table(text, file)));
          },
          "text"_a, "file"_a)
      .def("dispatch", &dispatched, "shapes"_a,
           "(entry, sizes, padding in words, steps (fill, shape) of each input, shapes of the results)")
      .def_prop_ro("entries", &entries_of, "(sizes, folder, estimated seconds, origin) of each.")
      .def_prop_ro("program", [](const SizeTable& table) { return print(table.program); });
  module.def("size_table_text", &table_text, "program"_a, "entries"_a);
}

}  // namespace strata::python
