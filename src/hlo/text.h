// HLO text as XLA and JAX print it. docs/hlo.md says what is accepted.
#pragma once

#include <string>
#include <string_view>

#include "hlo/hlo.h"

namespace strata::hlo {

/// Parses and verifies (verify.h) a module. A module without ENTRY has its last computation for one. Errors carry
/// `file`, line, column, and what to do.
Result<ModulePtr> parse_module(std::string_view text, const std::string& file = "<input>");
/// Reads and parses a file. Error (Environment) where it cannot be read.
Result<ModulePtr> load_module(const std::string& path);
/// Whether a text begins, after comments, like a module or a computation of HLO.
bool looks_like_module(std::string_view text);

/// Text that parses to the same module and prints to the same bytes. What is dropped in parsing (metadata,
/// backend_config, sharding …) is not printed.
std::string print(const Module& module);
/// The elements, as in constant(…): "{1, 2}", "{ {true}, {false} }", "(1, {2})".
std::string print(const Literal& literal);
/// Reads "f32[2] {1, 2}": a shape and its elements.
Result<Literal> parse_value(std::string_view text, const std::string& file = "<input>");
/// One instruction, as in the text of its module.
std::string print(const Module& module, const Computation& computation, const Instruction& instruction);
/// What stands after its operands, but for the computations that it calls: ", dimensions={0}". A parameter's number and
/// a constant's value are not among them.
std::string print_attributes(const Module& module, const Instruction& instruction);

}  // namespace strata::hlo
