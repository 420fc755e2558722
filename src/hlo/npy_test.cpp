#include "hlo/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/temporary_folder.h"

namespace strata::hlo {
namespace {

TEST(HloNpy, EveryTypeComesBack) {
  const TemporaryFolder folder("strata-hlo-npy");
  Random random(3);
  for (int t = 0; t < static_cast<int>(ElementType::Token); ++t) {
    const Shape shape = array_shape(static_cast<ElementType>(t), {2, 3});
    const Literal literal = typical_literal(shape, random);
    const std::string path = (folder.path() / "x.npy").string();
    std::ofstream(path, std::ios::binary) << npy_bytes(literal);
    const auto read = read_npy(path, shape);
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_TRUE(identical(*read, literal)) << to_string(shape) << print(*read) << print(literal);
  }
}

TEST(HloNpy, NamesWhatDoesNotFit) {
  const TemporaryFolder folder("strata-hlo-npy");
  const std::string path = (folder.path() / "x.npy").string();
  std::ofstream(path, std::ios::binary) << npy_bytes(*parse_value("s32[2] {1, 300}"));
  const auto error = [&](const Shape& shape) {
    const auto read = read_npy(path, shape);
    return read ? "none" : read.error().message;
  };
  EXPECT_THAT(error(array_shape(ElementType::S8, {2})), testing::HasSubstr("do not fit s8"));
  EXPECT_THAT(error(array_shape(ElementType::F32, {2})), testing::HasSubstr("of type '<i4', not f32"));
  EXPECT_THAT(error(array_shape(ElementType::S32, {3})), testing::HasSubstr("has shape [2]; expected s32[3]"));
  EXPECT_EQ(error(array_shape(ElementType::U16, {2})), "none");
}

}  // namespace
}  // namespace strata::hlo
