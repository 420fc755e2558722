#include "module_report.h"

#include "report/pages.h"
#include "support/write_file.h"

namespace strata::cli {

Result<void> write_module_report(const std::string& path, const std::string& json) {
  return write_file(path, path.ends_with(".json") ? json : module_page(Json::parse(json)));
}

}  // namespace strata::cli
