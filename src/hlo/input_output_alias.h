// What the header of a module says of its results and parameters: which result may lie in the memory of a parameter
// that the caller gives away. It says nothing of what the module computes, so it is no part of it.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// An array of the entry's result and one of its parameters, of the same shape.
struct InputOutputAlias {
  std::vector<int64_t> output;  ///< elements of tuples down to the array; empty where the result is one
  int64_t parameter = 0;
  std::vector<int64_t> parameter_index;
  bool must = false;  ///< must-alias, else may-alias

  friend bool operator==(const InputOutputAlias&, const InputOutputAlias&) = default;
};

using InputOutputAliases = std::vector<InputOutputAlias>;

struct ModuleText {
  ModulePtr module;
  InputOutputAliases aliases;
};

/// parse_module, with what its header says.
Result<ModuleText> parse_module_text(std::string_view text, const std::string& file = "<input>");

/// Error (InvalidInput) where an alias names no array, arrays of different shapes, or an array that another one names.
Result<void> verify(const Module& module, const InputOutputAliases& aliases);

/// "{ {0}: (1, {}, may-alias) }", as XLA prints it.
std::string print(const InputOutputAliases& aliases);
/// The module's text with them in its header.
std::string print(const Module& module, const InputOutputAliases& aliases);

/// The number of the leaf (leaf_of) that an index names; nothing where it names none.
std::optional<int64_t> leaf_at(const Shape& shape, const std::vector<int64_t>& index);

}  // namespace strata::hlo
