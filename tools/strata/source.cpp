#include "source.h"

#include <algorithm>
#include <filesystem>

#include "hlo/text.h"
#include "ir/validate.h"
#include "support/read_file.h"

namespace strata::cli {

Result<GraphPtr> Source::graph() const {
  STRATA_TRY(const SizedProgram made, program());
  return made.graph;
}

Result<SizedProgram> Source::program() const {
  STRATA_TRY(SizedProgram made, parse_program(text, shown_path(path)));
  STRATA_CHECK(validate_paths(*made.graph));
  return made;
}

Result<Source> read_source(const std::string& path) {
  STRATA_TRY(std::string text, read_file(path));
  const bool is_hlo = std::filesystem::path(path).extension() == ".hlo" || hlo::looks_like_module(text);
  return Source{path, std::move(text), is_hlo};
}

Result<void> check_standard_input(std::span<const std::string> paths) {
  const auto count = std::count(paths.begin(), paths.end(), kStandardInput);
  if (count > 1) {
    return with_remedy(invalid("'{}' is named {} times; the standard input can be read once", kStandardInput, count),
                       "name files for all but one of them");
  }
  return {};
}

}  // namespace strata::cli
