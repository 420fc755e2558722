#include "hlo/input_output_alias.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "hlo/text.h"

namespace strata::hlo {

std::optional<int64_t> leaf_at(const Shape& shape, const std::vector<int64_t>& index) {
  const Shape* at = &shape;
  int64_t leaf = 0;
  for (const int64_t element : index) {
    if (!at->is_tuple() || element < 0 || element >= static_cast<int64_t>(at->elements.size())) return std::nullopt;
    leaf += at->elements.first_leaf(static_cast<size_t>(element));
    at = &at->elements[static_cast<size_t>(element)];
  }
  return at->is_array() ? std::optional(leaf) : std::nullopt;
}

Result<void> verify(const Module& module, const InputOutputAliases& aliases) {
  const Computation& entry = module.entry_computation();
  const Shape& result = entry.root_instruction().shape;
  std::set<int64_t> outputs;
  std::set<std::pair<int64_t, int64_t>> parameters;
  const auto text = [](const std::vector<int64_t>& index) { return fmt::format("{{{}}}", fmt::join(index, ",")); };
  for (const InputOutputAlias& alias : aliases) {
    const auto output = leaf_at(result, alias.output);
    if (!output) {
      return invalid("input_output_alias: {} names no array of the result {}", text(alias.output),
                     to_string_without_layout(result));
    }
    const bool known = alias.parameter >= 0 && alias.parameter < std::ssize(entry.parameters);
    if (!known) {
      return invalid("input_output_alias: there is no parameter {}; '{}' has {}", alias.parameter, entry.name,
                     entry.parameters.size());
    }
    const Shape& shape = entry[entry.parameters[static_cast<size_t>(alias.parameter)]].shape;
    const auto leaf = leaf_at(shape, alias.parameter_index);
    if (!leaf) {
      return invalid("input_output_alias: {} names no array of parameter {}, {}", text(alias.parameter_index),
                     alias.parameter, to_string_without_layout(shape));
    }
    const Shape& from = leaf_of(shape, *leaf);
    const Shape& to = leaf_of(result, *output);
    if (!same_shape(from, to)) {
      return invalid("input_output_alias: result {} is {}, and parameter {} is {}", text(alias.output),
                     to_string_without_layout(to), alias.parameter, to_string_without_layout(from));
    }
    if (!outputs.insert(*output).second) {
      return invalid("input_output_alias: result {} is given two parameters", text(alias.output));
    }
    if (!parameters.emplace(alias.parameter, *leaf).second)
      return invalid("input_output_alias: parameter {} is given to two results", alias.parameter);
  }
  return {};
}

std::string print(const InputOutputAliases& aliases) {
  std::string text;
  for (const InputOutputAlias& alias : aliases) {
    text += fmt::format("{} {{{}}}: ({}, {{{}}}, {}-alias)", text.empty() ? "" : ",", fmt::join(alias.output, ","),
                        alias.parameter, fmt::join(alias.parameter_index, ","), alias.must ? "must" : "may");
  }
  return "{" + text + " }";
}

std::string print(const Module& module, const InputOutputAliases& aliases) {
  std::string text = print(module);
  if (aliases.empty()) return text;
  return text.insert(text.find('\n'), ", input_output_alias=" + print(aliases));
}

}  // namespace strata::hlo
