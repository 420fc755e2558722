// What only an extension with the emitters has.
#pragma once

#include "python/bindings.h"

namespace strata::python {

void bind_hlo(nb::module_& module);
void bind_decoder(nb::module_& module);

}  // namespace strata::python
