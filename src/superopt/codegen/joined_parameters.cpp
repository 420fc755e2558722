#include "superopt/codegen/joined_parameters.h"

#include <algorithm>

namespace strata {

JoinedParameters::JoinedParameters(const std::vector<const KernelLaunch*>& launches) {
  const auto place = [&](const std::string& buffer) {
    return static_cast<size_t>(std::find(arguments.begin(), arguments.end(), buffer) - arguments.begin());
  };
  for (const KernelLaunch* launch : launches) {
    std::vector<std::string>& own = tensors.emplace_back();
    places.emplace_back();
    for (size_t i = 0; i < launch->arguments.size(); ++i) {
      const size_t at = place(launch->arguments[i]);
      if (at == arguments.size()) {
        add(launch->arguments[i], launch->types[i], fmt::format("b{}", at));
      } else if (types[at].starts_with("const ")) {
        types[at] = launch->types[i];
      }
      own.push_back(names[at]);
      places.back().push_back(at);
    }
  }
  for (const KernelLaunch* launch : launches) {
    std::vector<std::string>& own = maps.emplace_back();
    for (GpuTensorMap map : launch->tensor_maps) {
      map.argument = place(launch->arguments[map.argument]);
      own.push_back(fmt::format("map_{}", tensor_maps.size()));
      tensor_maps.push_back(std::move(map));
    }
  }
}

void JoinedParameters::add(const std::string& argument, const std::string& type, const std::string& name) {
  arguments.push_back(argument);
  types.push_back(type);
  names.push_back(name);
}

std::vector<GpuAccess> JoinedParameters::accesses(size_t n, const KernelLaunch& launch) const {
  std::vector<GpuAccess> made = launch.block_accesses;
  for (GpuAccess& access : made) access.argument = places[n][access.argument];
  return made;
}

std::string JoinedParameters::declaration() const {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}[[maybe_unused]] {} {}", i == 0 ? "" : ", ", types[i], names[i]);
  for (size_t i = 0; i < tensor_maps.size(); ++i)
    text += fmt::format(", [[maybe_unused]] const strata_device::TensorMap* map_{}", i);
  return text;
}

std::vector<std::string> JoinedParameters::values() const {
  std::vector<std::string> all = names;
  for (const auto& own : maps) all.insert(all.end(), own.begin(), own.end());
  return all;
}

}  // namespace strata
