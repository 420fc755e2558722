#include "commands.h"
#include "ir/text.h"
#include "report/report.h"

namespace strata::cli {

void add_show(CLI::App& app, Action& action) {
  struct Options {
    std::string graph, format = "text";
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("show", "Print or draw a µGraph");
  command->add_option("GRAPH", options->graph, "a .strata file")->required();
  command->add_option("--format", options->format, "text (canonical), svg or html")
      ->check(CLI::IsMember({"text", "svg", "html"}))
      ->capture_default_str();
  command->callback([options, &action] {
    action = [options]() -> Result<int> {
      STRATA_TRY(const GraphPtr graph, load_graph(options->graph));
      fmt::print("{}", options->format == "svg"    ? draw_svg(*graph)
                       : options->format == "html" ? draw_html(*graph)
                                                   : print(*graph));
      return kSuccess;
    };
  });
}

}  // namespace strata::cli
