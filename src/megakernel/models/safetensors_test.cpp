#include "megakernel/models/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "support/random.h"
#include "support/temporary_folder.h"
#include "support/write_file.h"

namespace strata::megakernel {
namespace {

using testing::HasSubstr;

/// A file's bytes: the length, the header, so many bytes of data.
std::string file_of(const std::string& header, size_t data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  bytes += header;
  for (size_t i = 0; i < data; ++i) bytes += static_cast<char>(i);
  return bytes;
}

class Safetensors : public testing::Test {
 protected:
  Result<SafetensorsFile> open(const std::string& bytes) {
    const auto written = write_file(path_, bytes, Sync::None);
    if (!written) ADD_FAILURE() << written.error().to_string();
    return SafetensorsFile::open(path_);
  }
  std::string error_of(const std::string& bytes) {
    const auto file = open(bytes);
    return file ? "none" : file.error().message;
  }

  TemporaryFolder folder_{"strata-safetensors"};
  std::string path_ = (folder_.path() / "x.safetensors").string();
};

TEST_F(Safetensors, ReadsWhatTheFormatSays) {
  const auto file =
      open(file_of(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[],"data_offsets":[12,16]},)"
                   R"("a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
                   R"("none":{"dtype":"I64","shape":[3,0],"data_offsets":[12,12]}}   )",
                   16));
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->metadata().at("format"), "pt");
  const SafeTensor* a = file->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, "BF16");
  EXPECT_THAT(a->shape, testing::ElementsAre(2, 3));
  ASSERT_EQ(a->bytes.size(), 12u);
  EXPECT_EQ(static_cast<int>(a->bytes[11]), 11);
  EXPECT_EQ(static_cast<int>(file->find("b")->bytes[0]), 12);
  EXPECT_TRUE(file->find("none")->bytes.empty());
  EXPECT_EQ(file->find("c"), nullptr);
}

TEST_F(Safetensors, WhatIsWrittenComesBack) {
  Random random(1);
  const std::pair<const char*, int64_t> types[] = {{"BF16", 2}, {"F32", 4}, {"U8", 1}, {"F64", 8}};
  for (int test = 0; test < 30; ++test) {
    std::vector<std::vector<std::byte>> data;
    std::vector<SafeTensor> tensors;
    for (uint64_t n = random.below(6); n > 0; --n) {
      const auto& [type, bytes] = types[random.below(std::size(types))];
      SafeTensor tensor{fmt::format("t\"{}é", n), type, {}, {}};
      int64_t size = bytes;
      for (uint64_t d = random.below(4); d > 0; --d) {
        tensor.shape.push_back(static_cast<int64_t>(random.below(5)));
        size *= tensor.shape.back();
      }
      auto& values = data.emplace_back(static_cast<size_t>(size));
      for (std::byte& value : values) value = static_cast<std::byte>(random.below(256));
      tensors.push_back(std::move(tensor));
    }
    for (size_t n = 0; n < tensors.size(); ++n) tensors[n].bytes = data[n];
    ASSERT_TRUE(write_safetensors(path_, tensors, {{"seed", "1"}}));
    const auto file = SafetensorsFile::open(path_);
    ASSERT_TRUE(file) << file.error().to_string();
    EXPECT_EQ(file->tensors().size(), tensors.size());
    EXPECT_EQ(file->metadata(), (std::map<std::string, std::string>{{"seed", "1"}}));
    for (const SafeTensor& tensor : tensors) {
      const SafeTensor* found = file->find(tensor.name);
      ASSERT_NE(found, nullptr) << tensor.name;
      EXPECT_EQ(found->dtype, tensor.dtype);
      EXPECT_EQ(found->shape, tensor.shape);
      EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
    }
  }
}

TEST_F(Safetensors, TheWriterRefusesWhatNoFileCanSay) {
  const std::vector<std::byte> four(4);
  const auto error = [](const std::vector<SafeTensor>& tensors) {
    const auto bytes = safetensors_bytes(tensors);
    return bytes ? "none" : bytes.error().message;
  };
  EXPECT_EQ(error({{"a", "BF16", {2}, four}}), "none");
  EXPECT_THAT(error({{"a", "BF16", {3}, four}}), HasSubstr("'a' has 4 bytes"));
  EXPECT_THAT(error({{"a", "BF17", {2}, four}}), HasSubstr("the dtype 'BF17'"));
  EXPECT_THAT(error({{"a", "BF16", {2}, four}, {"a", "F32", {1}, four}}), HasSubstr("'a' is taken"));
  EXPECT_THAT(error({{"__metadata__", "BF16", {2}, four}}), HasSubstr("is taken"));
  EXPECT_THAT(error({{"a\xff", "BF16", {2}, four}}), HasSubstr("UTF-8"));
}

TEST_F(Safetensors, DamageIsNamed) {
  const auto one = [](const std::string& entry, size_t data = 12) { return file_of("{\"a\":" + entry + "}", data); };
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return fmt::format(R"({{"dtype":{},"shape":{},"data_offsets":{}}})", dtype, shape, offsets);
  };
  const auto two = [&](const char* first, const char* second, size_t data) {
    return file_of(fmt::format(R"({{"a":{},"b":{}}})", entry("\"U8\"", "[4]", first), entry("\"U8\"", "[4]", second)),
                   data);
  };
  EXPECT_EQ(error_of(one(entry("\"BF16\"", "[2,3]", "[0,12]"))), "none");
  EXPECT_EQ(error_of(two("[0,4]", "[4,8]", 8)), "none");
  EXPECT_EQ(error_of(two("[4,8]", "[0,4]", 8)), "none");
  const std::pair<std::string, const char*> cases[] = {
      {"", "0 bytes are too few"},
      {"1234567", "7 bytes are too few"},
      {std::string(8, '\xff'), "the header has 18446744073709551615 bytes"},
      {file_of("{}", 0).substr(0, 9), "the header has 2 bytes, the file 9"},
      {file_of("", 0), "the header:1:1: this is no JSON"},
      {file_of("[]", 0), "no JSON object"},
      {file_of(" {}", 0), "no JSON object"},
      {file_of("{\"a\":", 0), "the header:1:6: this is no JSON"},
      {file_of("{} x", 0), "the header:1:4: this is no JSON"},
      {file_of("{\"a\":{\"b\":[[[[[[1]]]]]]}}", 0), "nested more than 3 deep"},
      {file_of("{\"a\":" + std::string(100000, '['), 0), "nested more than 3 deep"},
      {file_of("{\"__metadata__\":{\"a\":\"\"},\"__metadata__\":{}}", 0), "the key \"__metadata__\" twice"},
      {file_of("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0), "the key \"a\" twice"},
      {file_of("{\"__metadata__\":3}", 0), "'__metadata__' is no object"},
      {file_of("{\"__metadata__\":{\"a\":3}}", 0), "'a' of '__metadata__' is no text"},
      {one("3"), "tensor 'a' has no 'dtype'"},
      {one("{\"dtype\":\"U8\",\"shape\":[12]}"), "tensor 'a' has no 'data_offsets'"},
      {one(R"({"dtype":"U8","shape":[12],"data_offsets":[0,12],"x":1})"), "keys that the format does not know"},
      {one(entry("3", "[2,3]", "[0,12]")), "dtype of tensor 'a' is no text"},
      {one(entry("\"F4\"", "[2,3]", "[0,12]")), "has the dtype 'F4'"},
      {one(entry("\"BF16\"", "6", "[0,12]")), "shape of tensor 'a' is no list"},
      {one(entry("\"BF16\"", "[2,-3]", "[0,12]")), "shape of tensor 'a' is no list"},
      {one(entry("\"BF16\"", "[2,3.0]", "[0,12]")), "shape of tensor 'a' is no list"},
      {one(entry("\"BF16\"", "[18446744073709551615]", "[0,12]")), "shape of tensor 'a' is no list"},
      {one(entry("\"BF16\"", "[4611686018427387904,2]", "[0,12]")), "which no file holds"},
      {one(entry("\"BF16\"", "[9223372036854775807,9223372036854775807,0]", "[0,0]")), "which no file holds"},
      {one(entry("\"BF16\"", "[2,3]", "[0]")), "no two data_offsets"},
      {one(entry("\"BF16\"", "[2,3]", "[0,12,12]")), "no two data_offsets"},
      {one(entry("\"BF16\"", "[2,3]", "[-1,11]")), "no two data_offsets"},
      {one(entry("\"BF16\"", "[2,3]", "[12,0]")), "lies at [12, 0)"},
      {one(entry("\"BF16\"", "[2,3]", "[1,13]")), "lies at [1, 13) of 12 bytes"},
      {one(entry("\"BF16\"", "[2,3]", "[0,10]")), "has 10 bytes; BF16[2, 3] has 12"},
      {one(entry("\"BF16\"", "[2,3]", "[0,12]"), 13), "1 bytes after the last tensor"},
      {one(entry("\"BF16\"", "[2,3]", "[2,14]"), 14), "2 bytes before tensor 'a'"},
      {two("[0,4]", "[3,7]", 7), "tensors 'a' and 'b' overlap"},
      {two("[0,4]", "[0,4]", 4), "tensors 'a' and 'b' overlap"},
      {two("[0,4]", "[6,10]", 10), "2 bytes before tensor 'b'"},
  };
  for (const auto& [bytes, message] : cases) EXPECT_THAT(error_of(bytes), HasSubstr(message)) << bytes.substr(0, 80);
  EXPECT_EQ(SafetensorsFile::open("/nowhere").error().code, ErrorCode::Environment);
}

/// What is accepted, however the bytes were changed, lies in the file and is as long as its shape says.
TEST_F(Safetensors, ChangedBytesAreAnErrorOrAFile) {
  Random random(2);
  const std::vector<std::byte> data(64);
  const auto whole = safetensors_bytes({{"weight", "BF16", {4, 4}, std::span(data).first(32)},
                                        {"bias", "F32", {4}, std::span(data).first(16)},
                                        {"scale", "U8", {1, 16}, std::span(data).first(16)}},
                                       {{"format", "pt"}});
  ASSERT_TRUE(whole);
  int accepted = 0;
  constexpr int kTests = 4000;
  for (int test = 0; test < kTests; ++test) {
    std::string bytes = *whole;
    for (uint64_t n = 1 + random.below(3); n > 0; --n) {
      const size_t at = random.below(bytes.size());
      const char digits[] = "0123456789[]{},:\"";
      switch (random.below(5)) {
        case 0:
          bytes.resize(at + 1);
          break;
        case 1:
          bytes.insert(at, 1, digits[random.below(std::size(digits) - 1)]);
          break;
        case 2:
          bytes.erase(at, 1);
          break;
        case 3:
          bytes[at] = digits[random.below(std::size(digits) - 1)];
          break;
        default:
          bytes[at] = static_cast<char>(random.below(256));
      }
      if (bytes.empty()) bytes = "x";
    }
    const auto file = open(bytes);
    if (!file) {
      EXPECT_FALSE(file.error().remedy.empty());
      continue;
    }
    ++accepted;
    size_t covered = 0;
    for (const auto& [name, tensor] : file->tensors()) {
      covered += tensor.bytes.size();
      int64_t elements = 1;
      for (const int64_t size : tensor.shape) elements *= size;
      EXPECT_EQ(static_cast<int64_t>(tensor.bytes.size()) % std::max<int64_t>(1, elements), 0);
      for (const std::byte b : tensor.bytes) covered += b == std::byte{255} ? 0 : 0;  // a sanitizer sees each read
    }
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    EXPECT_EQ(covered, bytes.size() - 8 - header);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, kTests);
}

}  // namespace
}  // namespace strata::megakernel
