// What a build without emitters says where they are asked for.
#include "../commands.h"
#include "../emitters.h"

namespace strata::cli {
namespace {

tl::unexpected<Error> missing(std::string_view what) {
  return with_remedy(unsupported("this build has no emitters, which {}", what), std::string(kBuildEmitters));
}

/// A command that is here by name alone: it takes any options.
void add_missing(CLI::App& app, Action& action, const std::string& name, const std::string& does) {
  auto* command = app.add_subcommand(name, "Not in this build: " + does);
  command->allow_extras();
  command->callback([does, &action] { action = [does]() -> Result<int> { return missing(does + " takes"); }; });
}

}  // namespace

void add_emit(CLI::App& app, Action& action) { add_missing(app, action, "emit", "generating kernels of HLO modules"); }

void add_decode(CLI::App& app, Action& action) { add_missing(app, action, "decode", "decoding tokens of a model"); }

std::shared_ptr<const KernelEmitter> kernel_emitter() { return nullptr; }

Finding emitters_finding() {
  return {"emitters", {}, {}, fmt::format("not in this build\n{}", kBuildEmitters), "HLO modules, decoding"};
}

Result<std::string> canonical_module(const Source&) { return missing("reading HLO takes"); }

Result<std::string> shown_plans(const std::string&, const PlanShow&) { return missing("reading plans takes"); }

Result<int> run_module(const Source&, const ModuleRunOptions&) { return missing("running HLO takes"); }

Result<int> run_folder(const std::string&, const ModuleRunOptions&) { return missing("running a folder's code takes"); }

}  // namespace strata::cli
