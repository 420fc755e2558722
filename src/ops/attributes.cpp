#include "ops/attributes.h"

#include <algorithm>

#include "ops/types.h"
#include "support/hash.h"

namespace strata {
namespace {

std::string dimension_text(int64_t value) { return value == kReplicate ? "_" : std::to_string(value); }

}  // namespace

std::string to_string(const AttributeValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return dimension_text(*integer);
  if (const auto* rational = std::get_if<Rational>(&value)) return rational->to_string();
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  std::string text = "[";
  for (int64_t entry : std::get<std::vector<int64_t>>(value)) {
    if (text.size() > 1) text += ", ";
    text += dimension_text(entry);
  }
  return text + "]";
}

void Attributes::set(std::string_view name, AttributeValue value) {
  const auto it = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.first == name; });
  if (it != entries_.end()) {
    it->second = std::move(value);
  } else {
    entries_.emplace_back(name, std::move(value));
  }
}

const AttributeValue* Attributes::find(std::string_view name) const {
  for (const auto& [key, value] : entries_) {
    if (key == name) return &value;
  }
  return nullptr;
}

int64_t Attributes::integer(std::string_view name) const { return std::get<int64_t>(*find(name)); }

int64_t Attributes::integer_or(std::string_view name, int64_t fallback) const {
  const AttributeValue* value = find(name);
  return value ? std::get<int64_t>(*value) : fallback;
}

const Rational& Attributes::rational(std::string_view name) const { return std::get<Rational>(*find(name)); }

const std::vector<int64_t>& Attributes::list(std::string_view name) const {
  return std::get<std::vector<int64_t>>(*find(name));
}

const std::string& Attributes::word(std::string_view name) const { return std::get<std::string>(*find(name)); }

uint64_t Attributes::hash() const {
  Hasher hasher;
  for (const auto& [name, value] : entries_) hasher.add(name).add(to_string(value));
  return hasher.value();
}

}  // namespace strata
