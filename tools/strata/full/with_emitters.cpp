#include <algorithm>

#include "../emitters.h"
#include "compiler/doctor.h"
#include "compiler/fusion_kernels.h"
#include "megakernel/tgraph/plan_view.h"
#include "megakernel/tgraph/print.h"
#include "run_hlo.h"

namespace strata::cli {

std::shared_ptr<const KernelEmitter> kernel_emitter() { return std::make_shared<compiler::FusionKernels>(); }

Finding emitters_finding() { return compiler::llvm_finding(); }

Result<std::string> canonical_module(const Source& source) {
  STRATA_TRY(const hlo::ModuleText read, parse(source));
  return hlo::print(*read.module, read.aliases);
}

Result<std::string> shown_plans(const std::string& text, const PlanShow& options) {
  STRATA_TRY(const megakernel::PlanFile file, megakernel::parse_plan_file(text));
  if (!options.draws) return megakernel::to_text(file);
  const megakernel::Plan* const plan = file.find(options.batch);
  if (plan == nullptr)
    return with_remedy(invalid("no plan of {} is for {} sequences", file.name, options.batch),
                       "the file without --format names its batch sizes");
  const int64_t last = std::max<int64_t>(megakernel::layer_count(*plan) - 1, 0);
  STRATA_TRY(const megakernel::TaskGraph layer, megakernel::layer_of(*plan, std::min(options.layer, last)));
  return megakernel::to_svg(layer);
}

}  // namespace strata::cli
