#include "runtime/gpu_function.h"

#include <gmock/gmock.h>

#include <cstring>

#include "runtime/test_driver.h"

namespace strata {
namespace {

using testing::HasSubstr;

constexpr int64_t kCount = 6;

template <class T>
std::string message(const Result<T>& result) {
  return result ? "no error" : result.error().to_string();
}

float* floats(void* argument) { return *static_cast<float**>(argument); }

/// first: T = A + 1; second: O = 10 · T. What the scripts of the fake driver call.
void run_kernel(const char* kernel, void** arguments) {
  const bool first = std::strcmp(kernel, "first") == 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const float x = floats(arguments[0])[i];
    floats(arguments[1])[i] = first ? x + 1 : 10 * x;
  }
}

GpuBuffer buffer(const std::string& name, BufferRole role) { return {name, role, {"f32", 4, {kCount}}}; }

GpuLaunch launch(const std::string& kernel, std::vector<std::string> arguments) {
  GpuLaunch made;
  made.kernel = kernel;
  made.arguments = std::move(arguments);
  return made;
}

/// O = 10 · (A + 1); results may name any buffer.
LaunchManifest manifest(std::vector<std::pair<std::string, std::string>> results) {
  LaunchManifest made;
  made.buffers = {buffer("A", BufferRole::Input), buffer("T", BufferRole::Intermediate),
                  buffer("O", BufferRole::Output)};
  made.steps = {launch("first", {"A", "T"}), launch("second", {"T", "O"})};
  made.results = std::move(results);
  return made;
}

class GpuFunctionTest : public FakeGpuTest {
 protected:
  Result<std::unique_ptr<GpuFunction>> make(LaunchManifest of, const std::vector<std::string>& inputs = {"A"}) const {
    const std::string script = fmt::format("call {:x} 2\n", reinterpret_cast<uintptr_t>(&run_kernel));
    STRATA_TRY(std::unique_ptr<GpuProgram> program, GpuProgram::load(*device_, script, std::move(of)));
    return GpuFunction::make(std::move(program), inputs);
  }

  /// An array in the caller's memory.
  GpuMemory array(float value) const {
    auto memory = GpuMemory::allocate(*device_, kCount * 4);
    const std::vector<float> values(kCount, value);
    EXPECT_TRUE(memory->upload({reinterpret_cast<const char*>(values.data()), kCount * 4}));
    return *std::move(memory);
  }
  static float first_of(const GpuMemory& memory) {
    float value = 0;
    std::memcpy(&value, memory.download()->data(), sizeof value);
    return value;
  }
};

TEST_F(GpuFunctionTest, WorksOnTheCallersMemory) {
  const auto function = make(manifest({{"O", "O"}}));
  ASSERT_TRUE(function) << message(function);
  const GpuMemory input = array(2);
  const GpuMemory one = array(0);
  const GpuMemory other = array(0);
  for (const GpuMemory* result : {&one, &other}) {
    const auto called = (*function)->call({{input.pointer()}}, {{result->pointer()}}, nullptr);
    ASSERT_TRUE(called) << message(called);
    EXPECT_EQ(first_of(*result), 30);
  }
  EXPECT_EQ(first_of(input), 2);
  // The intermediate alone: 24 bytes.
  EXPECT_EQ((*function)->held_bytes(), kCount * 4);
}

TEST_F(GpuFunctionTest, ResultsThatHaveNoMemoryOfTheirOwnAreCopied) {
  const auto function = make(manifest({{"x", "A"}, {"y", "O"}, {"again", "O"}, {"t", "T"}}));
  ASSERT_TRUE(function) << message(function);
  const GpuMemory input = array(2);
  const std::vector<GpuMemory> results = [&] {
    std::vector<GpuMemory> made;
    for (int i = 0; i < 4; ++i) made.push_back(array(0));
    return made;
  }();
  std::vector<CudaPointer> places;
  for (const GpuMemory& one : results) places.push_back(one.pointer());
  ASSERT_TRUE((*function)->call({{input.pointer()}}, places, nullptr));
  EXPECT_EQ(first_of(results[0]), 2);
  EXPECT_EQ(first_of(results[1]), 30);
  EXPECT_EQ(first_of(results[2]), 30);
  EXPECT_EQ(first_of(results[3]), 3);
}

TEST_F(GpuFunctionTest, IsRecordedWithTheCallersStream) {
  const auto function = make(manifest({{"O", "O"}}));
  ASSERT_TRUE(function) << message(function);
  const GpuMemory input = array(2);
  const GpuMemory result = array(0);
  const CudaDriver& driver = device_->driver();
  CudaStream stream = nullptr;
  ASSERT_EQ(driver.create_stream(&stream, CudaDriver::kNonBlocking), 0);
  ASSERT_EQ(driver.begin_capture(stream, CudaDriver::kCaptureThreadLocal), 0);
  const auto called = (*function)->call({{input.pointer()}}, {{result.pointer()}}, stream);
  CudaGraph graph = nullptr;
  ASSERT_EQ(driver.end_capture(stream, &graph), 0);
  ASSERT_TRUE(called) << message(called);
  EXPECT_EQ(first_of(result), 0) << "recorded, not run";
  driver.destroy_graph(graph);
  driver.destroy_stream(stream);
}

TEST_F(GpuFunctionTest, CallsThatComeBackAreGraphs) {
  LaunchManifest of = manifest({});
  of.steps.insert(of.steps.begin(), launch("first", {"A", "T"}));
  auto function = make(of);
  ASSERT_TRUE(function) << message(function);
  const GpuMemory a = array(1), b = array(2), to = array(0);
  const auto call = [&](const GpuMemory& from) -> float {
    const CudaPointer input = from.pointer(), result = to.pointer();
    EXPECT_TRUE(to.clear());
    EXPECT_TRUE((*function)->call({&input, 1}, {&result, 1}, nullptr));
    return first_of(to);
  };
  // More than kRecordedCall of each, in turn: what is launched is always that of this call's arrays.
  for (int i = 0; i < 3 * LaunchGraphs::kRecordedCall; ++i) {
    EXPECT_EQ(call(a), 20) << i;
    EXPECT_EQ(call(b), 30) << i;
  }
  // Contents count, not what they were when the graph was recorded.
  const std::vector<float> fives(kCount, 5);
  ASSERT_TRUE(a.upload({reinterpret_cast<const char*>(fives.data()), kCount * 4}));
  EXPECT_EQ(call(a), 60);
}

TEST_F(GpuFunctionTest, ManyArraysInTurnAreLaunchedStepByStep) {
  LaunchManifest of = manifest({});
  of.steps.insert(of.steps.begin(), launch("first", {"A", "T"}));
  auto function = make(of);
  ASSERT_TRUE(function) << message(function);
  std::vector<GpuMemory> arrays;
  for (size_t i = 0; i < 2 * LaunchGraphs::kMostSets; ++i) arrays.push_back(array(static_cast<float>(i)));
  const GpuMemory to = array(0);
  for (int round = 0; round < 2 * LaunchGraphs::kRecordedCall; ++round) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      const CudaPointer input = arrays[i].pointer(), result = to.pointer();
      ASSERT_TRUE((*function)->call({&input, 1}, {&result, 1}, nullptr));
      EXPECT_EQ(first_of(to), 10 * (static_cast<float>(i) + 1));
    }
  }
}

TEST_F(GpuFunctionTest, StepsOfTheHostCannotBeRecorded) {
  LaunchManifest with_host = manifest({{"O", "O"}});
  with_host.steps.emplace_back(HostStep{"no kernel", [](const auto&) { return Result<void>(); }, {"O"}}, "sort", "");
  const auto function = make(std::move(with_host));
  ASSERT_TRUE(function) << message(function);
  const GpuMemory input = array(2);
  const GpuMemory result = array(0);
  EXPECT_TRUE((*function)->call({{input.pointer()}}, {{result.pointer()}}, nullptr));
  const CudaDriver& driver = device_->driver();
  CudaStream stream = nullptr;
  ASSERT_EQ(driver.create_stream(&stream, CudaDriver::kNonBlocking), 0);
  ASSERT_EQ(driver.begin_capture(stream, CudaDriver::kCaptureThreadLocal), 0);
  const auto called = (*function)->call({{input.pointer()}}, {{result.pointer()}}, stream);
  CudaGraph graph = nullptr;
  ASSERT_EQ(driver.end_capture(stream, &graph), 0);
  EXPECT_THAT(message(called), HasSubstr("a CUDA graph cannot hold this program"));
  driver.destroy_graph(graph);
  driver.destroy_stream(stream);
}

TEST_F(GpuFunctionTest, WrongArgumentsAreErrors) {
  const auto function = make(manifest({{"O", "O"}}));
  ASSERT_TRUE(function) << message(function);
  const GpuMemory input = array(2);
  const CudaPointer place = input.pointer();
  EXPECT_THAT(message((*function)->call({}, {{place}}, nullptr)), HasSubstr("there are 1 inputs, not 0"));
  EXPECT_THAT(message((*function)->call({{place}}, {{place + 4}}, nullptr)),
              HasSubstr("result 0 does not begin at a multiple of 256 bytes"));
  EXPECT_THAT(message((*function)->call({{CudaPointer{0}}}, {{place}}, nullptr)), HasSubstr("input 0 lies nowhere"));
  EXPECT_THAT(message(make(manifest({}), {"O"})), HasSubstr("'O' is no input"));
  EXPECT_THAT(message(make(manifest({}), {"X"})), HasSubstr("the program has no buffer 'X'"));
}

}  // namespace
}  // namespace strata
