#include "commands.h"
#include "report/read_report.h"
#include "terminal.h"

namespace strata::cli {
namespace {

struct Options {
  std::string report, html;
  bool json = false;
};

/// The text with its headings marked, where that can be seen.
void print_words(const Explanation& words) {
  const Style style = style_of(stdout);
  fmt::print("{}{}{}\n{}\n", style.strong, words.title, style.plain, words.headline);
  for (const Paragraph& paragraph : words.paragraphs) {
    fmt::print("\n{}{}{}\n", style.strong, paragraph.title, style.plain);
    for (const std::string& sentence : paragraph.sentences) fmt::print("  {}\n", sentence);
  }
}

Result<int> run(const Options& options) {
  STRATA_TRY(const ReadReport report, read_report(options.report));
  if (!options.html.empty()) STRATA_CHECK(write_file(options.html, page_of(report)));
  const Explanation words = explain(report);
  if (options.json) {
    fmt::print("{}\n", to_json(words).dump(2));
  } else {
    print_words(words);
  }
  return kSuccess;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("explain", "Say in words what a search, a module or a benchmark came to, and why");
  command
      ->add_option("REPORT", options->report,
                   "a folder that optimize or emit wrote, its report.json, or a file of bench/results; - is the "
                   "standard input")
      ->required();
  command->add_option("--html", options->html, "also write the report as a page to this file");
  command->add_flag("--json", options->json, "print one JSON object and nothing else");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace strata::cli
