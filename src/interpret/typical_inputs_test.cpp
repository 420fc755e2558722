#include "interpret/typical_inputs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace strata {
namespace {

TEST(TypicalInputs, DoNotDependOnThreads) {
  // Enough elements for several threads; the same draws one after the other.
  Random random(5);
  const Tensor<double> tensor = typical_tensor({DType::F64, {1024, 1031}}, random);
  Random one(5);
  bool same = true;
  for (double value : tensor.data) {
    const double radius = std::sqrt(-2 * std::log(1 - one.uniform()));
    same = same && value == 1 / std::sqrt(1031.0) * radius * std::cos(2 * M_PI * one.uniform());
  }
  EXPECT_TRUE(same);
  EXPECT_EQ(random(), one());
}

}  // namespace
}  // namespace strata
