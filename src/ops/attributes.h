// Attributes of operators: the compile-time arguments (dim=1, imap=[0, _], factor=1/64).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "support/error.h"
#include "support/rational.h"

namespace strata {

/// An integer list may hold kReplicate, written `_`; so may an integer of kind `dim or _`.
using AttributeValue = std::variant<int64_t, Rational, std::vector<int64_t>, std::string>;

/// "1", "1/64", "[0, _]", "sum".
std::string to_string(const AttributeValue& value);

enum class AttributeKind { Int, Rational, IntList, Word };

/// One row of an operator's attribute table; the parser, the printer and `strata ops` read it.
struct AttributeSpec {
  std::string_view name;
  AttributeKind kind;
  bool required;
  std::string_view help;
};

/// A few named values in the order of the operator's specification.
class Attributes {
 public:
  void set(std::string_view name, AttributeValue value);
  const AttributeValue* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  /// The value, which must exist with that type: the parser and the builder have checked it against the specification.
  int64_t integer(std::string_view name) const;
  int64_t integer_or(std::string_view name, int64_t fallback) const;
  const Rational& rational(std::string_view name) const;
  const std::vector<int64_t>& list(std::string_view name) const;
  const std::string& word(std::string_view name) const;

  const std::vector<std::pair<std::string, AttributeValue>>& entries() const { return entries_; }
  uint64_t hash() const;
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  std::vector<std::pair<std::string, AttributeValue>> entries_;
};

}  // namespace strata
