#include "report/read_report.h"

#include <filesystem>

#include "report/bench_rows.h"
#include "report/pages.h"
#include "support/read_file.h"

namespace strata {
namespace {

constexpr const char* kRemedy =
    "name a folder that strata optimize or strata emit wrote, its report.json, or a file of bench/results";

Result<ReportKind> kind_of(const Json& json, const std::string& name) {
  const std::string kind = text(json, "kind");
  const auto lists = [&](const char* member) { return at(json, {member}).is_array(); };
  if (kind == "module" && lists("steps")) return ReportKind::Module;
  if (at(json, {"shard"}).is_object()) {
    return with_remedy(invalid("'{}' is of one shard of a search, which has no result yet", name),
                       "merge the shards' checkpoints and search with the merged one: docs/search.md");
  }
  // Of versions before, which did not say what they are.
  if (at(json, {"search"}).is_object() && lists("candidates")) return ReportKind::Search;
  if (!bench_rows(json).empty()) return ReportKind::Bench;
  return with_remedy(invalid("'{}' is no report", name), kRemedy);
}

}  // namespace

Result<ReadReport> read_report(const std::string& path) {
  std::error_code failed;
  const bool folder = std::filesystem::is_directory(path, failed);
  const std::string file = folder ? path + "/report.json" : path;
  if (folder && !std::filesystem::exists(file, failed))
    return with_remedy(environment("'{}' has no report.json", path), kRemedy);
  STRATA_TRY(const std::string bytes, read_file(file));
  ReadReport made;
  made.json = Json::parse(bytes, nullptr, false);
  if (!made.json.is_object()) return with_remedy(invalid("'{}' is no JSON object", shown_path(file)), kRemedy);
  STRATA_TRY(made.kind, kind_of(made.json, shown_path(file)));
  // What such a file is of, its name says best.
  if (made.kind == ReportKind::Bench && path != kStandardInput)
    made.json["file"] = std::filesystem::path(path).stem().string();
  if (!folder || made.kind != ReportKind::Search) return made;
  // The page is whole without it.
  if (auto source = read_file(path + "/best.cu")) made.source = *std::move(source);
  return made;
}

Explanation explain(const ReadReport& report) {
  return report.kind == ReportKind::Search   ? explain_search(report.json)
         : report.kind == ReportKind::Module ? explain_module(report.json)
                                             : explain_bench(report.json);
}

std::string page_of(const ReadReport& report) {
  return report.kind == ReportKind::Search   ? search_page(report.json, report.source)
         : report.kind == ReportKind::Module ? module_page(report.json)
                                             : bench_page(report.json);
}

}  // namespace strata
