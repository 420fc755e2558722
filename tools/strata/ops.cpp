#include <algorithm>

#include "commands.h"
#include "ops/op_def.h"

namespace strata::cli {
namespace {

std::string lax_text(const LaxProperty& lax) {
  if (!lax.inside) return "outside";
  std::string text = lax.exponentiations > 0 ? "exponential" : lax.root ? "root" : "multilinear";
  if (lax.divides) text = lax.exponentiations == 0 && !lax.root ? "division" : text + ", division";
  return text;
}

Result<int> print_table() {
  using Row = std::array<std::string, 7>;
  std::vector<Row> rows{{"operator", "operands", "levels", "Lax", "attributes", "abstract expression", "meaning"}};
  for (const OpDef* op : all_ops()) {
    const OpTraits& t = op->traits;
    std::string attributes;
    for (const AttributeSpec& spec : op->attributes) {
      attributes += fmt::format("{}{}{}", attributes.empty() ? "" : ", ", spec.name, spec.required ? "" : "?");
    }
    const std::string levels =
        fmt::format("{}{}{}", t.levels.kernel ? 'K' : '-', t.levels.block ? 'B' : '-', t.levels.thread ? 'T' : '-');
    rows.push_back({std::string(t.name), t.arity == OpTraits::kVariadic ? "2+" : std::to_string(t.arity), levels,
                    lax_text(t.lax), attributes, std::string(t.abstract_expression), std::string(t.summary)});
  }
  std::array<size_t, 7> width{};
  const auto columns = [](const std::string& text) {
    // Columns, not bytes: continuation bytes of UTF-8 take none.
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  };
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], columns(row[i]));
  }
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(width[i] - columns(row[i]) + 2, ' ');
    }
    fmt::print("{}\n", line);
  }
  return kSuccess;
}

}  // namespace

void add_ops(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("ops", "Print the operator table");
  command->callback([&action] { action = print_table; });
}

}  // namespace strata::cli
