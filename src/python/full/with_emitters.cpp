#include "python/full/bindings.h"

namespace strata::python {

void bind_emitters(nb::module_& module) {
  module.attr("has_emitters") = true;
  bind_hlo(module);
  bind_decoder(module);
}

}  // namespace strata::python
