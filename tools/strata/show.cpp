#include "commands.h"
#include "emitters.h"
#include "report/report.h"
#include "source.h"

namespace strata::cli {

void add_show(CLI::App& app, Action& action) {
  struct Options {
    std::string graph, format = "text";
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("show", "Print or draw a µGraph; print an HLO module");
  command->add_option("GRAPH", options->graph, "a .strata file, or HLO text; - is the standard input")->required();
  command->add_option("--format", options->format, "text (canonical), svg or html")
      ->check(CLI::IsMember({"text", "svg", "html"}))
      ->capture_default_str();
  command->callback([options, &action] {
    action = [options]() -> Result<int> {
      STRATA_TRY(const Source source, read_source(options->graph));
      if (source.is_hlo) {
        if (options->format != "text") {
          return with_remedy(invalid("HLO is shown as text only, not as {}", options->format), "leave --format out");
        }
        STRATA_TRY(const std::string text, canonical_module(source));
        fmt::print("{}", text);
        return kSuccess;
      }
      STRATA_TRY(const SizedProgram program, source.program());
      fmt::print("{}", options->format == "svg"    ? draw_svg(*program.graph)
                       : options->format == "html" ? draw_html(*program.graph)
                                                   : print(program));
      return kSuccess;
    };
  });
}

}  // namespace strata::cli
