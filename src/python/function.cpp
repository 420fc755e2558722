#include "python/function.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "compiler/core/graph_function.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "python/bindings.h"
#include "python/xla_calls.h"
#include "runtime/result_cache.h"

namespace strata::python {
namespace {

/// On the GPU the kernels of a folder that `strata optimize` wrote, on the processor the reference executor.
std::unique_ptr<Function> load_graph(const std::string& text, std::shared_ptr<GpuDevice> device, const nb::bytes& cubin,
                                     const std::string& manifest) {
  const std::string code(cubin.c_str(), cubin.size());
  nb::gil_scoped_release unlocked;
  auto made = std::make_unique<Function>();
  made->device = std::move(device);
  const GraphPtr graph = value_of(parse_graph(text, "best.strata"));
  if (made->device == nullptr) {
    value_of(validate_paths(*graph));
    made->function = compiler::GraphFunction::interpret(graph);
  } else {
    made->function = value_of(compiler::GraphFunction::load(graph, *made->device, code, manifest));
  }
  return made;
}

nb::tuple tuple_of(const std::vector<int64_t>& values) {
  nb::list list;
  for (const int64_t value : values) list.append(value);
  return nb::tuple(list);
}

/// (name, element type, sizes, strides in elements; None for the row-major ones)
nb::list describe(const std::vector<hlo::Shape>& shapes, const std::vector<std::string>& names) {
  nb::list list;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const hlo::Shape& shape = shapes[i];
    const nb::object strides =
        shape.has_default_layout() ? nb::object(nb::none()) : nb::object(tuple_of(hlo::memory_strides(shape)));
    const std::string name = i < names.size() ? names[i] : std::string();
    list.append(nb::make_tuple(name, std::string(hlo::name(shape.type)), tuple_of(shape.dims), strides));
  }
  return list;
}

void call(const Function& of, const std::vector<uintptr_t>& inputs, const std::vector<uintptr_t>& results,
          uintptr_t stream) {
  nb::gil_scoped_release unlocked;
  value_of(of.function->call(inputs, results, reinterpret_cast<CudaStream>(stream)));
}

/// Calls of XLA's programs with this number, from now to the end of the process.
void publish(const Function& of, int64_t number, const std::string& name) {
  const auto keep = [function = of.function, device = of.device](compiler::ArrayFunction*) {};
  publish_to_xla(number, std::shared_ptr<compiler::ArrayFunction>(of.function.get(), keep), name);
}

}  // namespace

void bind_function(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Function>(module, "Function", "A compiled program that takes addresses of arrays.")
      .def_static("load_graph", &load_graph, "text"_a, "device"_a.none(), "cubin"_a, "manifest"_a,
                  "A µGraph's kernels on the device; where it is None, the reference executor on the processor.")
      .def_prop_ro("on_gpu", [](const Function& of) { return of.function->on_gpu(); })
      .def_prop_ro("inputs",
                   [](const Function& of) { return describe(of.function->inputs(), of.function->input_names()); })
      .def_prop_ro("results", [](const Function& of) { return describe(of.function->results(), {}); })
      .def_prop_ro("alignment", [](const Function& of) { return of.function->alignment(); })
      .def_prop_ro("held_bytes", [](const Function& of) { return of.function->held_bytes(); })
      .def_prop_ro("explanation", [](const Function& of) { return of.function->explanation(); })
      .def_ro("notes", &Function::notes)
      .def("call", &call, "inputs"_a, "results"_a, "stream"_a,
           "Addresses of arrays, and the CUDA stream as a number. The GIL is released.")
      .def("publish", &publish, "number"_a, "name"_a = "",
           "Takes the calls of XLA's programs with this number, for good. Errors call it by the name.");
  module.def(
      "xla_handler", [] { return nb::capsule(xla_handler(), "xla._CUSTOM_CALL_TARGET"); },
      "What serves the calls on the processor, as jax.ffi.register_ffi_target takes it.");
  module.def(
      "xla_gpu_handler", [] { return nb::capsule(xla_gpu_handler(), "xla._CUSTOM_CALL_TARGET"); },
      "What serves the calls on a GPU.");
  module.def("default_cache_folder", &default_cache_folder, "'' where no home is known.");
  module.def("build_identity", &build_identity, "Tells builds of Strata apart.");
}

}  // namespace strata::python
