#include "emitters/image_accesses.h"

#include <map>

#include "runtime/launch_accesses.h"

namespace strata::emitters {

GpuLaunch placed_launch(GpuLaunch launch, const LaunchManifest& from,
                        const std::function<const GpuBuffer&(const std::string&)>& stands_for) {
  launch.classes.clear();  // by the order of another program
  for (GpuAccess& access : launch.accesses) {
    const std::string& name = launch.arguments[access.argument];
    access.map = of_same_memory(std::move(access.map), from.find(name)->type, stands_for(name).type);
  }
  for (std::string& argument : launch.arguments) argument = stands_for(argument).name;
  return launch;
}

Result<void> add_accesses(LaunchManifest& manifest, const std::vector<const EmittedFusion*>& fusions) {
  std::map<std::string, std::vector<AccessRegion>> regions;  // by kernel
  for (const EmittedFusion* fusion : fusions) {
    STRATA_TRY(std::vector<std::vector<AccessRegion>> of, fusion->regions());
    const std::vector<std::string> kernels = fusion->kernel_names();
    for (size_t i = 0; i < kernels.size(); ++i) regions[kernels[i]] = std::move(of[i]);
  }
  const auto find = [&](const GpuLaunch& launch) {
    return launch.module.empty() || launch.library ? regions.end() : regions.find(launch.kernel);
  };
  for_each_step(manifest.steps, [&](GpuStep& step) {
    GpuLaunch* launch = step.launch();
    if (launch == nullptr || !launch->accesses.empty()) return;  // the superoptimizer's say it already
    const auto found = find(*launch);
    if (found == regions.end()) return;
    for (const AccessRegion& region : found->second)
      launch->accesses.push_back({static_cast<size_t>(region.argument), region.writes, region.exact, region.map});
  });
  classify_arguments(
      manifest, [&](const GpuLaunch& launch) { return find(launch) != regions.end() || !launch.accesses.empty(); });
  return check_accesses(manifest);
}

}  // namespace strata::emitters
