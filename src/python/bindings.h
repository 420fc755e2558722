// What the files of the Python extension share. python/strata has what users see; here is no logic beside conversions.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <string>
#include <utility>

#include "support/error.h"

namespace strata::python {

namespace nb = nanobind;

/// Becomes strata.Error.
class Raised : public std::exception {
 public:
  explicit Raised(const Error& error) : text_(error.to_string()) {
    // "error: " is for terminals: Python names the exception itself.
    if (const size_t at = text_.find("error: " + error.message); at != std::string::npos) text_.erase(at, 7);
  }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// The value, or its error as an exception.
template <class T>
T value_of(Result<T> result) {
  if (!result) throw Raised(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

void bind_device(nb::module_& module);
void bind_function(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_optimize(nb::module_& module);
void bind_sizes(nb::module_& module);
void bind_commands(nb::module_& module);
/// What stands on the emitters, and `has_emitters`: of full/, or of core/ in a build without them.
void bind_emitters(nb::module_& module);

}  // namespace strata::python
