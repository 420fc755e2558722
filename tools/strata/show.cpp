#include "commands.h"
#include "emitters.h"
#include "options.h"
#include "report/report.h"
#include "source.h"

namespace strata::cli {

void add_show(CLI::App& app, Action& action) {
  struct Options {
    std::string graph, format = "text";
    PlanShow plans;
  };
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("show", "Print or draw a µGraph, or a plan of the mega-kernel; print an HLO module");
  command
      ->add_option("GRAPH", options->graph,
                   "a .strata file, HLO text, or plans (decode --plan); - is the standard input")
      ->required();
  command->add_option("--format", options->format, "text (canonical), svg or html")
      ->check(CLI::IsMember({"text", "svg", "html"}))
      ->capture_default_str();
  const CLI::Option* const batch = add_number<int64_t>(*command, "--batch", options->plans.batch, {1, 1 << 16},
                                                       "sequences of the plan that is drawn");
  const CLI::Option* const layer = add_number<int64_t>(*command, "--layer", options->plans.layer, {0, 1 << 20},
                                                       "of the plan, that is drawn; the last where there are fewer");
  command->callback([options, batch, layer, &action] {
    const bool chooses = batch->count() + layer->count() > 0;
    action = [options, chooses]() -> Result<int> {
      STRATA_TRY(const Source source, read_source(options->graph));
      const bool is_plan = source.is_plan();
      if (chooses && (!is_plan || options->format != "svg")) {
        return with_remedy(invalid("--batch and --layer say what is drawn of a file of plans"),
                           is_plan ? "add --format svg" : "leave them out");
      }
      if (is_plan) {
        if (options->format == "html")
          return with_remedy(invalid("plans are shown as text or svg, not as html"), "choose --format svg");
        options->plans.draws = options->format == "svg";
        STRATA_TRY(const std::string shown, shown_plans(source.text, options->plans));
        fmt::print("{}", shown);
        return kSuccess;
      }
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
