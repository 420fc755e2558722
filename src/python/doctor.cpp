#include "compiler/doctor.h"

#include <nanobind/stl/string.h>

#include "python/bindings.h"

namespace strata::python {

void bind_doctor(nb::module_& module) {
  module.def(
      "examine_machine",
      [] {
        nb::list list;
        std::vector<Finding> findings = examine_machine();
        findings.push_back(compiler::llvm_finding());
        for (const Finding& one : findings)
          list.append(nb::make_tuple(one.name, one.version, one.path, one.missing, one.enables));
        return list;
      },
      "(name, version, path, why it is missing, what it is for) of what Strata can use.");
}

}  // namespace strata::python
