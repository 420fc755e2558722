#include <algorithm>

#include "commands.h"
#include "ops/op_def.h"

namespace strata::cli {
namespace {

std::string lax_text(const LaxProperty& lax) {
  if (!lax.inside) return "outside";
  std::string text = lax.exponentiations > 0 ? "exponential"
                     : lax.root              ? "root"
                     : lax.maximum           ? "maximum"
                                             : "multilinear";
  if (lax.divides) text = lax.exponentiations == 0 && !lax.root ? "division" : text + ", division";
  return text;
}

/// The laws that the solver may use; docs/solver.md.
std::string algebra_text(const Algebra& a) {
  std::vector<std::string_view> laws;
  if (a.linear != 0) laws.push_back("linear");
  if (a.associative) laws.push_back("associative");
  if (a.idempotent) laws.push_back("idempotent");
  if (a.increasing) laws.push_back("increasing");
  if (a.homogeneous) laws.push_back("homogeneous");
  if (a.translates) laws.push_back("translates");
  if (a.positive) laws.push_back("> 0");
  if (a.nonnegative && !a.positive) laws.push_back("≥ 0");
  if (a.exponential) laws.push_back("f(x+y)=f(x)f(y)");
  if (a.multiplicative) laws.push_back("f(xy)=f(x)f(y)");
  return laws.empty() ? "-" : fmt::format("{}", fmt::join(laws, ", "));
}

Result<int> print_table() {
  using Row = std::array<std::string, 8>;
  std::vector<Row> rows{
      {"operator", "operands", "levels", "Lax", "attributes", "abstract expression", "algebra", "meaning"}};
  // An input, not a row of the table.
  rows.push_back({"iota", "0", "K--", "inside", "dim?, start?, step?", "E(I)", "-",
                  "an input whose elements are known: start + step · index along dim; its type must be stated"});
  for (const OpDef* op : all_ops()) {
    const OpTraits& t = op->traits;
    std::string attributes;
    for (const AttributeSpec& spec : op->attributes) {
      attributes += fmt::format("{}{}{}", attributes.empty() ? "" : ", ", spec.name, spec.required ? "" : "?");
    }
    const std::string levels =
        fmt::format("{}{}{}", t.levels.kernel ? 'K' : '-', t.levels.block ? 'B' : '-', t.levels.thread ? 'T' : '-');
    rows.push_back({std::string(t.name), t.arity == OpTraits::kVariadic ? "2+" : std::to_string(t.arity), levels,
                    lax_text(t.lax), attributes, std::string(t.abstract_expression), algebra_text(t.algebra),
                    std::string(t.summary)});
  }
  std::array<size_t, std::tuple_size_v<Row>> width{};
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
