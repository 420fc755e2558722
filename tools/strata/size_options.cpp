#include "size_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace strata::cli {
namespace {

/// More entries than anybody wants, each of which is compiled.
constexpr size_t kMostEntries = 256;

tl::unexpected<Error> malformed(std::string_view option, const std::string& text, std::string_view form) {
  return with_remedy(invalid("{} '{}' is not of the form {}", option, text, form),
                     fmt::format("write for example {} {}", option, form));
}

Result<int64_t> read_size(std::string_view option, const std::string& whole, std::string_view text,
                          std::string_view form) {
  int64_t size = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (status != std::errc{} || end != text.data() + text.size()) return malformed(option, whole, form);
  if (size < 1) return with_remedy(invalid("{} '{}': a size is below 1", option, whole), "every size is at least 1");
  return size;
}

}  // namespace

void add_dim_option(CLI::App& command, std::vector<std::string>& dims, const std::string& help) {
  command.add_option("--dim", dims, help)->allow_extra_args(false);
}

Result<DimSizes> read_dims(const std::vector<std::string>& dims) {
  DimSizes sizes;
  for (const std::string& dim : dims) {
    const size_t equals = dim.find('=');
    if (equals == std::string::npos || equals == 0) return malformed("--dim", dim, "tokens=64");
    const std::string name = dim.substr(0, equals);
    STRATA_TRY(const int64_t size, read_size("--dim", dim, std::string_view(dim).substr(equals + 1), "tokens=64"));
    if (!sizes.emplace(name, size).second)
      return with_remedy(invalid("--dim names '{}' twice", name), "leave one of the two out");
  }
  return sizes;
}

Result<std::vector<DimSizes>> read_size_table(const std::vector<std::string>& sizes, const DimSizes& fixed,
                                              const SizedProgram& program) {
  std::vector<DimSizes> table{fixed};
  DimSizes named = fixed;
  for (const std::string& text : sizes) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) return malformed("--sizes", text, "tokens=1,2,4");
    const std::string name = text.substr(0, equals);
    if (!named.emplace(name, 1).second)
      return with_remedy(invalid("'{}' gets sizes twice", name), "name it once, by --sizes or by --dim");
    std::vector<DimSizes> longer;
    std::string_view rest = std::string_view(text).substr(equals + 1);
    for (bool more = true; more;) {
      const size_t comma = rest.find(',');
      more = comma != std::string_view::npos;
      STRATA_TRY(const int64_t size, read_size("--sizes", text, rest.substr(0, comma), "tokens=1,2,4"));
      if (more) rest.remove_prefix(comma + 1);
      for (const DimSizes& one : table) {
        longer.push_back(one);
        longer.back()[name] = size;
      }
    }
    table = std::move(longer);
    if (table.size() > kMostEntries)
      return with_remedy(invalid("--sizes asks for {} entries, more than {}", table.size(), kMostEntries),
                         "make several tables");
  }
  for (DimSizes& one : table) {
    STRATA_TRY(one, program.with(one));
  }
  std::sort(table.begin(), table.end());
  table.erase(std::unique(table.begin(), table.end()), table.end());
  const DimSizes declared = program.declared();
  const auto distance = [&](const DimSizes& of) {
    double sum = 0;
    for (const auto& [name, size] : of)
      sum += std::abs(std::log(static_cast<double>(size) / static_cast<double>(declared.at(name))));
    return sum;
  };
  std::stable_sort(table.begin(), table.end(),
                   [&](const DimSizes& a, const DimSizes& b) { return distance(a) < distance(b); });
  return table;
}

std::string folder_of(const DimSizes& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, size);
  return text;
}

}  // namespace strata::cli
