#include "machine/rates.h"

#include <algorithm>

namespace strata {

std::span<const RateDescription> rate_descriptions() {
  static constexpr RateDescription kRates[] = {
#define RATE(name, unit, value, meaning, source) {#name, unit, meaning, source, &Rates::name},
#include "machine/rates.def"
#undef RATE
  };
  static_assert(std::size(kRates) * sizeof(double) == sizeof(Rates));
  return kRates;
}

const RateDescription* find_rate(std::string_view name) {
  const auto all = rate_descriptions();
  const auto at = std::find_if(all.begin(), all.end(), [&](const RateDescription& one) { return one.name == name; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace strata
