// What Strata's functions throw.
#pragma once

#include <stdexcept>
#include <string>

#include "strata/export.h"

STRATA_NAMESPACE_BEGIN

/// What kind of failure an Error is. `strata` exits with 2, 2, 3 and 130 for them.
enum class ErrorCode {
  InvalidInput,  ///< the program, an option or an array is wrong
  Unsupported,   ///< correct, but outside what this version can do
  Environment,   ///< a file, a library, a GPU or memory is missing or refuses
  Interrupted,   ///< the caller or a time limit stopped the work
};

/// what() is "file:line:column: error: message" and, on a second line, what to do about it.
class STRATA_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text, std::string message, std::string remedy, int line, int column);
  Error(const Error&);
  ~Error() override;

  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }  ///< what is wrong
  const std::string& remedy() const noexcept { return remedy_; }    ///< what to do about it; may be empty
  int line() const noexcept { return line_; }                       ///< of the program's text, from 1; 0: not known
  int column() const noexcept { return column_; }

 private:
  ErrorCode code_;
  std::string message_, remedy_;
  int line_, column_;
};

STRATA_NAMESPACE_END
