#include <charconv>

#include "hlo/parse_parts.h"

namespace strata::hlo {
namespace {

using Integers = std::vector<int64_t>;
using Entry = RawAttributeList::Entry;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

/// Numbers between underscores. Sizes are computed from them, so that they are limited; see verify.cpp.
Result<Integers> underscored(const Cursor& cursor, const Entry& entry, std::string_view text) {
  Integers numbers;
  for (std::string_view part : split(text, '_')) {
    int64_t value = 0;
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (status != std::errc{} || end != part.data() + part.size()) {
      return cursor.error_at(entry.offset, fmt::format("'{}' in {} is no number", part, entry.name));
    }
    if (value > (int64_t{1} << 40) || value < -(int64_t{1} << 40)) {
      return cursor.error_at(entry.offset, fmt::format("{} in {} is out of range", value, entry.name));
    }
    numbers.push_back(value);
  }
  return numbers;
}

/// One of the three parts of dim_labels: the places of two letters and of the digits 0, 1, ….
bool side(std::string_view labels, char first, char second, int64_t& first_dim, int64_t& second_dim,
          Integers& spatial) {
  if (labels.size() < 2 || labels.size() > 12) return false;
  const auto place = [&](char label, int64_t& dimension) {
    const size_t at = labels.find(label);
    dimension = static_cast<int64_t>(at);
    return at != std::string_view::npos;
  };
  if (!place(first, first_dim) || !place(second, second_dim)) return false;
  spatial.resize(labels.size() - 2);
  for (size_t d = 0; d < spatial.size(); ++d) {
    if (!place(static_cast<char>('0' + d), spatial[d])) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<WindowDimension>> parse_window(const Cursor& cursor, const Entry& entry) {
  std::vector<WindowDimension> dimensions;
  Cursor value = cursor.within(entry.value);
  STRATA_CHECK(value.expect("{"));
  while (!value.accept("}")) {
    const size_t place = value.offset();
    STRATA_TRY(const std::string_view key, value.word("a property of the window"));
    STRATA_CHECK(value.expect("="));
    STRATA_TRY(const std::string_view text, value.raw_value());
    const std::vector<std::string_view> parts = split(text, 'x');
    if (dimensions.empty()) dimensions.resize(parts.size());
    if (parts.size() != dimensions.size()) {
      return value.error_at(
          place, fmt::format("{} has {} entries, and the window {} dimensions", key, parts.size(), dimensions.size()));
    }
    for (size_t d = 0; d < parts.size(); ++d) {
      STRATA_TRY(const Integers numbers, underscored(cursor, entry, parts[d]));
      WindowDimension& dimension = dimensions[d];
      const size_t count = key == "pad" ? 2 : 1;
      if (numbers.size() != count) return value.error_at(place, fmt::format("'{}' is no value of {}", parts[d], key));
      if (key == "size") {
        dimension.size = numbers[0];
      } else if (key == "stride") {
        dimension.stride = numbers[0];
      } else if (key == "pad") {
        dimension.pad_low = numbers[0];
        dimension.pad_high = numbers[1];
      } else if (key == "lhs_dilate") {
        dimension.lhs_dilate = numbers[0];
      } else if (key == "rhs_dilate") {
        dimension.rhs_dilate = numbers[0];
      } else if (key == "rhs_reversal") {
        dimension.reversed = numbers[0] != 0;
      } else {
        return value.error_at(place, fmt::format("a window has no property '{}'", key),
                              "size, stride, pad, lhs_dilate, rhs_dilate and rhs_reversal are known");
      }
    }
  }
  return dimensions;
}

Result<PadAttributes> parse_padding(const Cursor& cursor, const Entry& entry) {
  PadAttributes result;
  for (std::string_view part : split(entry.value, 'x')) {
    STRATA_TRY(const Integers numbers, underscored(cursor, entry, part));
    if (numbers.size() != 2 && numbers.size() != 3) {
      return cursor.error_at(entry.offset, "each dimension has a padding low_high or low_high_interior");
    }
    result.low.push_back(numbers[0]);
    result.high.push_back(numbers[1]);
    result.interior.push_back(numbers.size() == 3 ? numbers[2] : 0);
  }
  return result;
}

bool parse_dim_labels(std::string_view text, ConvolutionAttributes& result) {
  const size_t underscore = text.find('_');
  const size_t arrow = text.find("->");
  if (underscore == std::string_view::npos || arrow == std::string_view::npos || arrow < underscore) return false;
  const std::string_view input = text.substr(0, underscore);
  const std::string_view kernel = text.substr(underscore + 1, arrow - underscore - 1);
  const std::string_view output = text.substr(arrow + 2);
  return input.size() == kernel.size() && input.size() == output.size() &&
         side(input, 'b', 'f', result.input_batch, result.input_feature, result.input_spatial) &&
         side(kernel, 'i', 'o', result.kernel_input_feature, result.kernel_output_feature, result.kernel_spatial) &&
         side(output, 'b', 'f', result.output_batch, result.output_feature, result.output_spatial);
}

}  // namespace strata::hlo
