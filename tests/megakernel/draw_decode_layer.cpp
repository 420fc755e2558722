// The drawing of docs/megakernel.md, a layer of a real model's step as `strata show` draws it: writes it, or with
// --check says whether a file is it.
#include <cstdio>
#include <string_view>

#include "megakernel/decode/step_plan.h"
#include "megakernel/models/config.h"
#include "megakernel/tgraph/plan_view.h"
#include "megakernel/tgraph/print.h"
#include "support/read_file.h"
#include "support/write_file.h"

namespace strata::megakernel {
namespace {

constexpr int64_t kLayer = 1;

Result<void> run(const std::string& file, bool only_check) {
  STRATA_TRY(const ModelConfig config, preset_config("llama-3.2-1b"));
  STRATA_TRY(const StepPlan step, plan_step(config, {}, default_target()));
  STRATA_TRY(const TaskGraph layer, layer_of(step.compiled.plan, kLayer));
  const std::string drawing = to_svg(layer);
  if (!only_check) return write_file(file, drawing);
  STRATA_TRY(const std::string known, read_file(file));
  if (known == drawing) return {};
  return with_remedy(invalid("{} is not what is drawn now", file),
                     "make it again: cmake --build FOLDER -t docs_drawings");
}

}  // namespace
}  // namespace strata::megakernel

int main(int argc, char** argv) {
  const bool only_check = argc == 3 && std::string_view(argv[1]) == "--check";
  if (argc != 2 && !only_check) {
    std::fprintf(stderr, "usage: draw_decode_layer [--check] FILE\n");
    return 2;
  }
  const auto done = strata::megakernel::run(argv[argc - 1], only_check);
  if (done) return 0;
  std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return 1;
}
