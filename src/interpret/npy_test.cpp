#include "interpret/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ops/arithmetic.h"
#include "support/random.h"

namespace strata {
namespace {

class Npy : public testing::Test {
 protected:
  // ctest runs each test in a process of its own, several at once.
  std::string path_ = (std::filesystem::temp_directory_path() / fmt::format("strata-npy-{}.npy", getpid())).string();
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
};

std::string file_of(const std::string& dictionary, const std::string& data) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += {static_cast<char>(dictionary.size() & 255), static_cast<char>(dictionary.size() >> 8)};
  return bytes + dictionary + data;
}

TEST_F(Npy, RoundTrip) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 4}, Shape{2, 3, 5}}) {
    Tensor<double> tensor(shape);
    Random random(1);
    for (double& value : tensor.data) value = random.uniform(-1, 1);
    write(npy_bytes(tensor));
    auto read = read_npy(path_);
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(read->shape, shape);
    EXPECT_EQ(read->data, tensor.data);
  }
}

TEST_F(Npy, NarrowTypesHoldWhatIsRoundedToThem) {
  // Large enough for several threads.
  for (const auto& [type, width] : {std::pair(DType::F16, 2), {DType::BF16, 4}, {DType::F32, 4}, {DType::F64, 8}}) {
    Tensor<double> tensor(Shape{1024, 1031});
    Random random(1);
    for (double& value : tensor.data) value = round_to(random.uniform(-1, 1), type);
    const std::string bytes = npy_bytes(tensor, type);
    EXPECT_EQ(bytes.size() % 64, tensor.data.size() * static_cast<size_t>(width) % 64);
    EXPECT_LT(bytes.size(), tensor.data.size() * static_cast<size_t>(width) + 256);
    write(bytes);
    const auto read = read_npy(path_);
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(read->shape, tensor.shape);
    EXPECT_TRUE(read->data == tensor.data) << name_of(type);
  }
}

TEST_F(Npy, HalvesAndFortranOrder) {
  const std::string data("\x00\x3c\x00\x40\x00\x42\x00\xc4\x01\x00\x00\x7c", 12);  // 1 2 3 −4 2^−24 ∞
  write(file_of("{'descr': '<f2', 'fortran_order': True, 'shape': (2, 3), }\n", data));
  auto read = read_npy(path_);
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->data, (std::vector<double>{1, 3, 0x1p-24, 2, -4, HUGE_VAL}));
}

TEST_F(Npy, VersionsOfTheHeader) {
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n";
  const std::string data("\x00\x00\x80\x3f", 4);
  for (int version = 0; version <= 4; ++version) {
    std::string bytes = file_of(dictionary, data);
    bytes[6] = static_cast<char>(version);
    if (version >= 2) bytes.insert(10, 2, '\0');  // the length has four bytes
    write(bytes);
    const auto read = read_npy(path_);
    ASSERT_EQ(read.has_value(), version >= 1 && version <= 3) << "version " << version;
    if (read) {
      EXPECT_EQ(read->data, std::vector<double>{1});
    }
  }
  write(file_of("{'descr': '<f4', 'shape': (1,), }\n", data));
  EXPECT_NE(read_npy(path_).error().message.find("Fortran"), std::string::npos);
}

TEST_F(Npy, DamagedFilesAreErrors) {
  Tensor<double> tensor(Shape{4, 4});
  const std::string good = npy_bytes(tensor);
  Random random(2);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (int n = 0; n < 3; ++n) bad[random.below(128)] = static_cast<char>(random());
    if (random.below(2) == 0) bad.resize(random.below(bad.size()));
    write(bad);
    refused += read_npy(path_) ? 0 : 1;
  }
  EXPECT_GT(refused, 500);
  write(file_of("{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }\n", "0000"));
  EXPECT_NE(read_npy(path_).error().message.find("<i4"), std::string::npos);
  EXPECT_EQ(read_npy("/nonexistent.npy").error().code, ErrorCode::Environment);
}

}  // namespace
}  // namespace strata
