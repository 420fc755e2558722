#include "runtime/size_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace strata {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

Result<Shape> shape_at(const SizedProgram& program, TensorId id, const DimSizes& sizes) {
  Shape shape;
  for (const SizeExpr& size : program.shapes[static_cast<size_t>(id)]) {
    STRATA_TRY(shape.emplace_back(), size.size(sizes));
  }
  return shape;
}

/// The dims of an entry that are larger than the sizes; nothing where one is smaller.
std::optional<std::vector<std::string>> larger_dims(const DimSizes& entry, const DimSizes& sizes) {
  std::vector<std::string> dims;
  for (const auto& [name, size] : sizes) {
    const auto found = entry.find(name);
    if (found == entry.end() || found->second < size) return std::nullopt;
    if (found->second > size) dims.push_back(name);
  }
  return dims;
}

/// Of two entries that serve, the faster, or the one with less padding.
bool preferable(const SizeTable::Entry& a, const SizeTable::Entry& b) {
  const auto size = [](const SizeTable::Entry& of) {
    double product = 1;
    for (const auto& [name, one] : of.sizes) product *= static_cast<double>(one);
    return product;
  };
  return std::pair(a.seconds, size(a)) < std::pair(b.seconds, size(b));
}

/// The elements that both shapes have stay; what `to` has more is filled.
Tensor<double> refitted(const Tensor<double>& tensor, const Shape& to, Fill fill) {
  Tensor<double> result(to);
  const std::vector<int64_t> strides = row_major_strides(tensor.shape);
  std::vector<int64_t> index(to.size(), 0);
  for (int64_t linear = 0; linear < result.size(); ++linear) {
    int64_t from = 0;
    bool outside = false;
    for (size_t d = 0; d < to.size(); ++d) {
      outside |= index[d] >= tensor.shape[d];
      from += std::min(index[d], tensor.shape[d] - 1) * strides[d];
    }
    result[linear] = outside && fill == Fill::Zeros ? 0 : tensor[from];
    for (size_t d = to.size(); d-- > 0 && ++index[d] == to[d];) index[d] = 0;
  }
  return result;
}

}  // namespace

std::string print(const SizeTable& table) {
  Json json{{"format", kFormat}, {"program", print(table.program)}, {"entries", Json::array()}};
  for (const SizeTable::Entry& entry : table.entries) {
    json["entries"].push_back({{"sizes", entry.sizes},
                               {"folder", entry.folder},
                               {"estimated_seconds", entry.seconds},
                               {"origin", entry.origin}});
  }
  return json.dump(2) + "\n";
}

Result<SizeTable> parse_size_table(const std::string& text, const std::string& file) {
  const auto refuse = [&](const std::string& why) {
    return with_remedy(invalid("'{}' is no table of sizes: {}", file, why), "make it again by strata optimize");
  };
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat) return refuse(fmt::format("its format is not {}", kFormat));
    SizeTable table;
    auto program = parse_program(json.at("program").get<std::string>(), file);
    if (!program) return refuse(program.error().message);
    table.program = std::move(*program);
    for (const Json& one : json.at("entries")) {
      SizeTable::Entry entry{one.at("sizes"), one.at("folder"), one.at("estimated_seconds"), one.at("origin")};
      const bool plain = entry.folder.find_first_of("/\\") == std::string::npos && entry.folder != "..";
      if (entry.folder.empty() || !plain) return refuse(fmt::format("'{}' is no name of a folder", entry.folder));
      if (!table.program.at(entry.sizes) || entry.sizes.size() != table.program.dims.size())
        return refuse(fmt::format("the program has no sizes {}", to_string(entry.sizes)));
      table.entries.push_back(std::move(entry));
    }
    if (table.entries.empty()) return refuse("it has no entry");
    return table;
  } catch (const Json::exception& error) {
    return refuse(error.what());
  }
}

Result<SizeDispatch> dispatch(const SizeTable& table, const DimSizes& sizes) {
  SizeDispatch best{table.entries.size(), sizes, {}};
  std::optional<Error> refused;
  for (size_t e = 0; e < table.entries.size(); ++e) {
    const SizeTable::Entry& entry = table.entries[e];
    const auto dims = larger_dims(entry.sizes, sizes);
    if (!dims) continue;
    if (dims->empty()) return SizeDispatch{e, sizes, {}};
    if (best.entry < table.entries.size() && !preferable(entry, table.entries[best.entry])) continue;
    SizeDispatch made{e, sizes, {}};
    for (const std::string& dim : *dims) {
      const auto fill = padding_of(table.program, dim);
      if (!fill) {
        refused = fill.error();
        break;
      }
      made.fills.emplace_back(dim, *fill);
    }
    if (made.fills.size() == dims->size()) best = std::move(made);
  }
  if (best.entry < table.entries.size()) return best;
  const std::string remedy = fmt::format("its entries are {}; strata optimize --sizes makes others", entries_of(table));
  if (refused)
    return with_remedy(
        invalid("the table has no entry for {}, and a larger one would not do: {}", to_string(sizes), refused->message),
        remedy);
  return with_remedy(invalid("{} is beyond the table of '{}'", to_string(sizes), table.program.graph->name()), remedy);
}

std::string entries_of(const SizeTable& table) {
  std::string entries;
  for (const SizeTable::Entry& entry : table.entries) entries += (entries.empty() ? "" : "; ") + to_string(entry.sizes);
  return entries;
}

std::string describe(const SizeTable& table, const SizeDispatch& dispatch) {
  std::string text;
  for (const auto& [dim, fill] : dispatch.fills) {
    text += fmt::format("{}{}={} as {}, padded with {}", text.empty() ? "" : "; ", dim, dispatch.sizes.at(dim),
                        table.entries[dispatch.entry].sizes.at(dim), fill == Fill::Last ? "the last slice" : "zeros");
  }
  return text;
}

Result<Tensor<double>> padded(const SizeTable& table, const SizeDispatch& dispatch, TensorId input,
                              Tensor<double> tensor) {
  DimSizes sizes = dispatch.sizes;
  for (const auto& [dim, fill] : dispatch.fills) {
    sizes[dim] = table.entries[dispatch.entry].sizes.at(dim);
    STRATA_TRY(const Shape to, shape_at(table.program, input, sizes));
    if (to != tensor.shape) tensor = refitted(tensor, to, fill);
  }
  return tensor;
}

Result<Tensor<double>> cut(const SizeTable& table, const SizeDispatch& dispatch, TensorId output,
                           const Tensor<double>& tensor) {
  STRATA_TRY(const Shape to, shape_at(table.program, output, dispatch.sizes));
  return to == tensor.shape ? tensor : refitted(tensor, to, Fill::Last);
}

}  // namespace strata
