// How much memory this process may use.
#pragma once

#include <cstdint>
#include <string>

#include "support/error.h"

namespace strata {

/// Bytes of the machine's memory, or of the control group's limit where that is less.
int64_t host_memory_bytes();

/// Error (Environment) where `bytes` is more than there is: what asks for it would be ended by the system, without a
/// word. `what` is the beginning of the message: "executing 'g'".
Result<void> check_host_memory(double bytes, const std::string& what, std::string remedy = "make the shapes smaller");

}  // namespace strata
