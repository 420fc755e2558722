#include "superopt/verify/compare.h"

namespace strata {

std::optional<Counterexample> first_difference(const Graph& reference, const std::vector<FieldTensor>& expected,
                                               const std::vector<FieldTensor>& found, const PrimeField& field) {
  for (size_t o = 0; o < expected.size(); ++o) {
    for (int64_t i = 0; i < expected[o].size(); ++i) {
      const uint64_t a = expected[o][i].p;
      const uint64_t b = found[o][i].p;
      if (a == b) continue;
      Counterexample example{reference.tensor(reference.outputs()[o]).name,
                             {},
                             std::to_string(field.to_integer(a)),
                             std::to_string(field.to_integer(b)),
                             0};
      int64_t rest = i;
      for (int64_t stride : row_major_strides(expected[o].shape)) {
        example.index.push_back(rest / stride);
        rest %= stride;
      }
      return example;
    }
  }
  return std::nullopt;
}

}  // namespace strata
