#include "python/bindings.h"

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);  // modules that live to the end of the process are no mistake
  module.doc() = "Strata's compiler. Use the package strata; this module changes without notice.";
  nanobind::exception<strata::python::Raised>(module, "Error", PyExc_RuntimeError);
  strata::python::bind_device(module);
  strata::python::bind_function(module);
  strata::python::bind_sizes(module);
  strata::python::bind_graph(module);
  strata::python::bind_optimize(module);
  strata::python::bind_commands(module);
  strata::python::bind_emitters(module);
}
