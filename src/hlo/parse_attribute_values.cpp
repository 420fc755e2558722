#include <algorithm>

#include "hlo/compute.h"
#include "hlo/parse_parts.h"

namespace strata::hlo {

using Entry = RawAttributeList::Entry;

Result<RawAttributeList> RawAttributeList::parse(Cursor& cursor) {
  RawAttributeList list;
  while (cursor.accept(",")) {
    Entry entry;
    entry.offset = cursor.offset();
    STRATA_TRY(entry.name, cursor.word("an attribute"));
    STRATA_CHECK(cursor.expect("="));
    cursor.skip();
    STRATA_TRY(entry.value, cursor.raw_value());
    if (list.take(entry.name) != nullptr) {
      return cursor.error_at(entry.offset, fmt::format("the attribute '{}' is given twice", entry.name));
    }
    list.entries_.push_back(entry);
  }
  for (Entry& entry : list.entries_) entry.used = false;
  return list;
}

const Entry* RawAttributeList::take(std::string_view name) {
  for (Entry& entry : entries_) {
    if (entry.name != name) continue;
    entry.used = true;
    return &entry;
  }
  return nullptr;
}

Result<AttributeValues::Integers> AttributeValues::integers(std::string_view name, bool optional) {
  const Entry* entry = list_.take(name);
  if (entry == nullptr) {
    if (optional) return Integers{};
    return missing(name);
  }
  Integers result;
  Cursor value = cursor_.within(entry->value);
  STRATA_CHECK(value.expect("{"));
  while (!value.accept("}")) {
    if (!result.empty()) STRATA_CHECK(value.expect(","));
    STRATA_TRY(const int64_t number, value.integer("a number"));
    result.push_back(number);
  }
  return result;
}

Result<int64_t> AttributeValues::integer(std::string_view name, int64_t otherwise) {
  const Entry* entry = list_.take(name);
  if (entry == nullptr) {
    if (otherwise >= 0) return otherwise;
    return missing(name);
  }
  Cursor value = cursor_.within(entry->value);
  STRATA_TRY(const int64_t number, value.integer("a number"));
  if (!value.done()) return value.expected("the end of a number");
  return number;
}

Result<bool> AttributeValues::flag(std::string_view name, bool otherwise) {
  const Entry* entry = list_.take(name);
  if (entry == nullptr) return otherwise;
  if (entry->value != "true" && entry->value != "false") return error(name, fmt::format("{} is true or false", name));
  return entry->value == "true";
}

Result<float> AttributeValues::real(std::string_view name) {
  const Entry* entry = list_.take(name);
  if (entry == nullptr) return missing(name);
  Cursor value = cursor_.within(entry->value);
  STRATA_TRY(const Literal number, parse_literal(value, array_shape(ElementType::F32, {})));
  if (!value.done()) return value.expected("the end of a number");
  return number.get<float>(0);
}

Result<size_t> AttributeValues::one_of(std::string_view name, std::initializer_list<std::string_view> words) {
  const Entry* entry = list_.take(name);
  if (entry == nullptr) return missing(name);
  const auto found = std::find(words.begin(), words.end(), entry->value);
  if (found == words.end()) {
    return error(name, fmt::format("{} is one of {}, not {}", name, fmt::join(words, ", "), entry->value));
  }
  return static_cast<size_t>(found - words.begin());
}

tl::unexpected<Error> AttributeValues::missing(std::string_view name) const {
  return tl::unexpected(Error{ErrorCode::InvalidInput,
                              fmt::format("{} needs {}=", hlo::name(instruction_.opcode), name),
                              {},
                              instruction_.location});
}

tl::unexpected<Error> AttributeValues::error(std::string_view name, std::string message) {
  const Entry* entry = list_.take(name);
  return cursor_.error_at(entry != nullptr ? entry->offset : cursor_.offset(), std::move(message));
}

}  // namespace strata::hlo
