#include "commands.h"
#include "source.h"
#include "superopt/search/checkpoint.h"
#include "support/read_file.h"

namespace strata::cli {

void add_merge(CLI::App& app, Action& action) {
  struct Options {
    std::string to;
    std::vector<std::string> from;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("merge", "Join the checkpoints of a search's shards");
  command->add_option("OUT", options->to, "the file to write; give it to `optimize --checkpoint`")->required();
  command->add_option("IN", options->from, "checkpoints of `optimize --shard`")->required();
  command->callback([options, &action] {
    action = [options]() -> Result<int> {
      if (options->to == kStandardInput) {
        return with_remedy(invalid("'{}' is the standard input", options->to), "name a file to write");
      }
      STRATA_CHECK(check_standard_input(options->from));
      STRATA_TRY(const size_t units, merge_checkpoints(options->from, options->to));
      fmt::print("{}: {} searched spaces of {} files\n", options->to, units, options->from.size());
      return kSuccess;
    };
  });
}

}  // namespace strata::cli
