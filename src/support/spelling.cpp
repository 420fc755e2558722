#include "support/spelling.h"

#include <algorithm>
#include <vector>

namespace strata {
namespace {

/// What is far longer than any name is none of them, and comparing it would take long.
constexpr size_t kLongest = 64;

/// Damerau and Levenshtein's distance, without substrings that are edited twice.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string closest_name(std::string_view word, std::span<const std::string> names) {
  if (word.size() > kLongest) return {};
  size_t best = word.size() / 3 + 2;
  std::string_view found;
  for (const std::string& name : names) {
    if (name.size() > kLongest) continue;
    const size_t far = distance(word, name);
    if (far > best || (far == best && found == name)) continue;
    found = far == best ? std::string_view() : std::string_view(name);
    best = far;
  }
  return std::string(found);
}

std::vector<std::string> nearest_first(std::string_view word, std::vector<std::string> names) {
  if (word.size() > kLongest) return names;
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string& a, const std::string& b) { return distance(word, a) < distance(word, b); });
  return names;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names) {
  const std::string name = closest_name(word, names);
  return name.empty() ? std::string() : "; did you mean '" + name + "'?";
}

}  // namespace strata
