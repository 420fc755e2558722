#include "support/error.h"

namespace strata {

std::string Error::to_string() const {
  std::string text;
  if (location.known()) {
    const std::string& file = location.file ? *location.file : "<input>";
    text = fmt::format("{}:{}:{}: ", file, location.line, location.column);
  }
  text += "error: " + message;
  if (!remedy.empty()) text += "\n  " + remedy;
  return text;
}

Error Error::at(const SourceLocation& where) const {
  Error copy = *this;
  if (!copy.location.known()) copy.location = where;
  return copy;
}

Error Error::within(const std::string& context) const {
  Error copy = *this;
  copy.message = context + ": " + message;
  return copy;
}

}  // namespace strata
