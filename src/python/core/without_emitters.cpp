#include "python/bindings.h"

namespace strata::python {

void bind_emitters(nb::module_& module) { module.attr("has_emitters") = false; }

}  // namespace strata::python
