// Errors as values. Every function that can fail because of its caller's input returns Result<T>;
// assert() is for invariants of our own. An Error says what is wrong, where, and how to mend it.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace strata {

/// A place in a text: 1-based line and column; line 0 means "no place known".
struct SourceLocation {
  std::shared_ptr<const std::string> file;
  int line = 0;
  int column = 0;

  bool known() const { return line > 0; }
};

/// What kind of failure this is; the command line maps it to an exit code.
enum class ErrorCode {
  InvalidInput,  ///< the user's program, file or option is wrong
  Unsupported,   ///< correct, but outside what this build can do
  Environment,   ///< a file, library or device is missing or refuses
  Interrupted,   ///< the user or a time limit stopped the work
};

struct Error {
  ErrorCode code = ErrorCode::InvalidInput;
  std::string message;        ///< what is wrong, naming operator and tensor
  std::string remedy;         ///< what to do about it; may be empty
  SourceLocation location{};  ///< where; may be unknown

  /// "file:line:column: error: message" and, on a second line, the remedy.
  std::string to_string() const;
  /// The same error with `where` as its place, unless it already has one.
  Error at(const SourceLocation& where) const;
  /// The same error with "context: " before its message.
  Error within(const std::string& context) const;
};

template <class T>
using Result = tl::expected<T, Error>;

template <class... Args>
tl::unexpected<Error> invalid(fmt::format_string<Args...> text, Args&&... args) {
  return tl::unexpected(Error{ErrorCode::InvalidInput, fmt::format(text, std::forward<Args>(args)...), {}, {}});
}

template <class... Args>
tl::unexpected<Error> unsupported(fmt::format_string<Args...> text, Args&&... args) {
  return tl::unexpected(Error{ErrorCode::Unsupported, fmt::format(text, std::forward<Args>(args)...), {}, {}});
}

template <class... Args>
tl::unexpected<Error> environment(fmt::format_string<Args...> text, Args&&... args) {
  return tl::unexpected(Error{ErrorCode::Environment, fmt::format(text, std::forward<Args>(args)...), {}, {}});
}

/// The same error with what to do about it.
inline tl::unexpected<Error> with_remedy(tl::unexpected<Error> error, std::string remedy) {
  error.value().remedy = std::move(remedy);
  return error;
}

}  // namespace strata

// Propagates an error, or binds the value: STRATA_TRY(auto x, compute());
#define STRATA_CONCAT_INNER(a, b) a##b
#define STRATA_CONCAT(a, b) STRATA_CONCAT_INNER(a, b)
#define STRATA_TRY(declaration, expression) \
  STRATA_TRY_IMPL(STRATA_CONCAT(strata_result_, __LINE__), declaration, expression)
#define STRATA_TRY_IMPL(temporary, declaration, expression)            \
  auto temporary = (expression);                                       \
  if (!temporary) return tl::unexpected(std::move(temporary).error()); \
  declaration = std::move(temporary).value()
#define STRATA_CHECK(expression) \
  if (auto strata_check = (expression); !strata_check) return tl::unexpected(std::move(strata_check).error())
