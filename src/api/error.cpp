#include "api/api.h"

namespace strata::v1 {

// Out of line, so that there is one type of exception in the program.
Error::Error(ErrorCode code, const std::string& text, std::string message, std::string remedy, int line, int column)
    : std::runtime_error(text),
      code_(code),
      message_(std::move(message)),
      remedy_(std::move(remedy)),
      line_(line),
      column_(column) {}
Error::Error(const Error&) = default;
Error::~Error() = default;

namespace {

ErrorCode public_code(strata::ErrorCode code) {
  switch (code) {
    case strata::ErrorCode::InvalidInput:
      return ErrorCode::InvalidInput;
    case strata::ErrorCode::Unsupported:
      return ErrorCode::Unsupported;
    case strata::ErrorCode::Environment:
      return ErrorCode::Environment;
    case strata::ErrorCode::Interrupted:
      return ErrorCode::Interrupted;
  }
  return ErrorCode::InvalidInput;
}

}  // namespace

void raise(const strata::Error& error) {
  const bool known = error.location.known();
  throw Error(public_code(error.code), error.to_string(), error.message, error.remedy, known ? error.location.line : 0,
              known ? error.location.column : 0);
}

}  // namespace strata::v1
