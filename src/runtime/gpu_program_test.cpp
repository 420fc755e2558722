#include "runtime/gpu_program.h"

#include <gmock/gmock.h>

#include <sstream>

#include "runtime/device_probe.h"
#include "runtime/storage.h"
#include "runtime/test_driver.h"

namespace strata {
namespace {

using testing::HasSubstr;

constexpr const char* kManifest = R"({
  "buffers": [{"name": "A", "role": "input", "type": "f32", "shape": [2, 3]},
              {"name": "T", "role": "intermediate", "type": "f16", "shape": [4]},
              {"name": "O", "role": "output", "type": "f32", "shape": [2, 3]}],
  "kernels": [{"name": "first", "grid": [4, 2, 1], "threads": 128, "shared_bytes": 65536, "cluster": 2,
               "overlaps_previous": false, "arguments": ["A", "T"]},
              {"name": "second", "grid": [1, 1, 1], "threads": 32, "shared_bytes": 0, "cluster": 1,
               "overlaps_previous": true, "arguments": ["T", "O"]}]})";

LaunchManifest manifest() {
  auto parsed = parse_launch_manifest(kManifest);
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  return *parsed;
}

template <class T>
std::string message(const Result<T>& result) {
  return result ? "no error" : result.error().to_string();
}

using CudaDriverTest = FakeDriverTest;

TEST_F(CudaDriverTest, MissingLibraryIsAnErrorWithARemedy) {
  setenv("STRATA_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  const auto driver = open_cuda_driver();
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::Environment);
  EXPECT_THAT(message(driver), HasSubstr("the CUDA driver (/nowhere/libcuda.so.1) cannot be loaded"));
  EXPECT_THAT(driver.error().remedy, HasSubstr("STRATA_CUDA_DRIVER"));
  EXPECT_EQ(probe_device().target, nullptr);
  EXPECT_THAT(probe_device().finding, HasSubstr("no GPU: the CUDA driver (/nowhere/libcuda.so.1) cannot be loaded"));
  EXPECT_THAT(message(GpuDevice::open()), HasSubstr("cannot be loaded"));
}

TEST_F(CudaDriverTest, MissingFunctionIsNamed) {
  use("fake_cuda_old");
  const auto driver = open_cuda_driver();
  ASSERT_FALSE(driver);
  EXPECT_THAT(message(driver), HasSubstr("has no function cuGraphLaunch"));
  EXPECT_THAT(driver.error().remedy, HasSubstr("install a driver"));
  EXPECT_THAT(probe_device().finding, HasSubstr("no GPU: "));
}

TEST_F(CudaDriverTest, ProbeFindsTheDevice) {
  const DeviceProbe probe = probe_device();
  ASSERT_NE(probe.target, nullptr);
  EXPECT_EQ(probe.target->name, "sm_90a");
  EXPECT_EQ(probe.finding, "Fake GPU, compute capability 9.0");
  setenv("STRATA_FAKE_CUDA_DEVICES", "0", 1);
  EXPECT_EQ(probe_device().finding, "no GPU: the CUDA driver finds no device");
  EXPECT_THAT(message(GpuDevice::open()), HasSubstr("no GPU: CUDA error 100"));
}

TEST(LaunchManifest, MistakesAreErrors) {
  const LaunchManifest parsed = manifest();
  EXPECT_EQ(parsed.bytes(BufferRole::Input), 24);
  EXPECT_EQ(parsed.bytes(BufferRole::Intermediate), 8);
  EXPECT_EQ(parsed.steps[0].launch()->cluster, 2);
  EXPECT_TRUE(parsed.steps[1].launch()->overlaps_previous);
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kManifest;
    text.replace(text.find(from), from.size(), to);
    return message(parse_launch_manifest(text));
  };
  EXPECT_THAT(message(parse_launch_manifest("{")), HasSubstr("unreadable"));
  EXPECT_THAT(message(parse_launch_manifest("[1]")), HasSubstr("unreadable"));
  EXPECT_FALSE(parsed.steps[0].launch()->resident);
  EXPECT_THAT(with("intermediate", "scratch"), HasSubstr("'scratch' is no role"));
  EXPECT_THAT(with("f16", "i8"), HasSubstr("unknown element type 'i8'"));
  EXPECT_THAT(with("[4]", "[-1]"), HasSubstr("buffer 'T' has a dimension of size -1"));
  EXPECT_THAT(with("[\"A\", \"T\"]", "[\"A\", \"X\"]"), HasSubstr("kernel 'first' has an argument 'X'"));
  EXPECT_THAT(with("\"threads\": 128, ", ""), HasSubstr("unreadable"));
}

using GpuProgramTest = FakeDriverTest;

TEST_F(GpuProgramTest, CountersBeginAtZeroAndBlocksThatWaitRunTogether) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device) << message(device);
  LaunchManifest counting = manifest();
  counting.buffers[1].role = BufferRole::Counters;
  counting.steps[0].launch()->resident = true;
  const std::string log = (folder_.path() / "log").string();
  const auto program = GpuProgram::load(**device, "log " + log + "\n", counting);
  ASSERT_TRUE(program) << message(program);
  const auto buffers = (*program)->allocate();
  ASSERT_TRUE(buffers) << message(buffers);
  EXPECT_EQ(*buffers->at("T").download(), std::string(8, '\0'));
  ASSERT_TRUE((*program)->launch(*buffers));
  std::stringstream shapes;
  shapes << std::ifstream(log).rdbuf();
  EXPECT_THAT(shapes.str(), HasSubstr("first grid 4x2x1 threads 128 shared 65536 cluster 2 resident\n"));
}

TEST_F(GpuProgramTest, AGridIsCutToTheMultiprocessorsWhereFewerBlocksDo) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device) << message(device);
  const auto most = (*device)->attribute(CudaDriver::kMultiprocessors, "multiprocessors");
  ASSERT_TRUE(most) << message(most);
  LaunchManifest waiting = manifest();
  waiting.steps[0].launch()->cluster = 1;
  waiting.steps[0].launch()->grid = {*most + 5, 1, 1};
  waiting.steps[0].launch()->resident = waiting.steps[0].launch()->fewer_blocks = true;
  const auto text = print(waiting);
  ASSERT_TRUE(text) << message(text);
  const auto parsed = parse_launch_manifest(*text);
  ASSERT_TRUE(parsed) << message(parsed);
  const std::string log = (folder_.path() / "log").string();
  const auto program = GpuProgram::load(**device, "log " + log + "\n", *parsed);
  ASSERT_TRUE(program) << message(program);
  const auto buffers = (*program)->allocate();
  ASSERT_TRUE(buffers) << message(buffers);
  ASSERT_TRUE((*program)->launch(*buffers));
  std::stringstream shapes;
  shapes << std::ifstream(log).rdbuf();
  EXPECT_THAT(shapes.str(), HasSubstr(fmt::format("first grid {}x1x1 ", *most)));
}

TEST_F(GpuProgramTest, LaunchesInOrderWithTheirAttributes) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device) << message(device);
  EXPECT_EQ((*device)->name(), "Fake GPU");
  EXPECT_EQ((*device)->driver_version(), 13000);
  const std::string log = (folder_.path() / "log").string();
  const auto program = GpuProgram::load(**device, "log " + log + "\nkernel second\nfill 1 0\n", manifest());
  ASSERT_TRUE(program) << message(program);
  auto buffers = (*program)->allocate();
  ASSERT_TRUE(buffers) << message(buffers);
  EXPECT_EQ(*buffers->at("O").download(), std::string(24, '\xff'));
  ASSERT_TRUE((*program)->launch(*buffers));
  EXPECT_EQ(*buffers->at("O").download(), std::string(24, '\0'));
  EXPECT_EQ(*buffers->at("T").download(), std::string(8, '\xff'));
  std::stringstream shapes;
  shapes << std::ifstream(log).rdbuf();
  EXPECT_EQ(shapes.str(),
            "first grid 4x2x1 threads 128 shared 65536 cluster 2\n"
            "second grid 1x1x1 threads 32 shared 0 overlaps\n");
}

TEST_F(GpuProgramTest, TensorMapsAreArgumentsBehindThePointers) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device) << message(device);
  const auto with_map = [](const std::string& map) {
    std::string text = kManifest;
    const std::string last = "\"arguments\": [\"T\", \"O\"]";
    return text.replace(text.find(last), last.size(), last + ", \"tensor_maps\": [" + map + "]");
  };
  // The driver's stand-in begins a map with the tensor's address: filling argument 2 fills what the map describes.
  const auto run = [&](const std::string& map) -> Result<std::string> {
    STRATA_TRY(LaunchManifest parsed, parse_launch_manifest(with_map(map)));
    STRATA_TRY(const auto program, GpuProgram::load(**device, "kernel second\nfill 2 0\n", std::move(parsed)));
    STRATA_TRY(const auto buffers, program->allocate());
    STRATA_CHECK(program->launch(buffers));
    return buffers.at("O").download();
  };
  const std::string good =
      R"({"argument": 1, "element_bytes": 4, "sizes": [4, 8], "strides": [4, 16], "box": [4, 8], "swizzle": 0})";
  const auto filled = run(good);
  ASSERT_TRUE(filled) << message(filled);
  EXPECT_EQ(*filled, std::string(24, '\0'));
  const auto line =
      run(R"({"argument": 1, "element_bytes": 4, "sizes": [6], "strides": [4], "box": [4], "swizzle": 0})");
  EXPECT_TRUE(line) << message(line);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string map = good;
    return message(run(map.replace(map.find(from), from.size(), to)));
  };
  EXPECT_THAT(changed("[4, 16]", "[4, 12]"), HasSubstr("describing a tensor to TMA: CUDA error 1"));
  EXPECT_THAT(changed("[4, 16]", "[4]"), HasSubstr("kernel 'second' has a tensor map that fits none of its arguments"));
  EXPECT_THAT(changed("\"argument\": 1", "\"argument\": 2"), HasSubstr("fits none of its arguments"));
}

TEST_F(GpuProgramTest, TimesAreMediansOfOneRun) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  const auto program = GpuProgram::load(**device, "kernel first\ntime 4\nkernel second\ntime 2.5\n", manifest());
  ASSERT_TRUE(program);
  // 1 MiB of L2 and inputs of 24 bytes would take many more.
  ASSERT_EQ(*(*program)->cold_sets(), 64);
  std::vector<GpuBuffers> sets;
  for (int i = 0; i < 3; ++i) {
    auto buffers = (*program)->allocate();
    ASSERT_TRUE(buffers);
    sets.push_back(std::move(*buffers));
  }
  const auto cold = (*program)->microseconds(sets);
  ASSERT_TRUE(cold) << message(cold);
  EXPECT_NEAR(*cold, 6.5, 1e-3);
  EXPECT_NEAR(*(*program)->microseconds(std::span(sets).first(1)), 6.5, 1e-3);
}

TEST_F(GpuProgramTest, SlowProgramsRunLessOften) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  const std::string log = (folder_.path() / "log").string();
  const auto program =
      GpuProgram::load(**device, "kernel first\ntime 3e6\nkernel second\nlog " + log + "\n", manifest());
  ASSERT_TRUE(program);
  std::vector<GpuBuffers> sets;
  for (int i = 0; i < 2; ++i) sets.push_back(std::move(*(*program)->allocate()));
  EXPECT_NEAR(*(*program)->microseconds(sets), 3e6, 1);
  std::ifstream lines(log);
  const auto count = std::count(std::istreambuf_iterator<char>(lines), {}, '\n');
  EXPECT_LE(count, 6);  // two before the graph, one in each of a few replays
}

TEST_F(GpuProgramTest, ColdSetsFitTheMemory) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  LaunchManifest large = manifest();
  large.buffers[0].type.shape = {1 << 20};  // 4 MiB, and 256 MiB of memory
  EXPECT_EQ(*(*GpuProgram::load(**device, "", large))->cold_sets(), 2);
  large.buffers[2].type.shape = {40, 1 << 20};
  EXPECT_EQ(*(*GpuProgram::load(**device, "", large))->cold_sets(), 1);
  large.buffers[0].type.shape = {1 << 17};
  large.buffers[2].type.shape = {1};
  EXPECT_EQ(*(*GpuProgram::load(**device, "", large))->cold_sets(), 8);
}

TEST_F(GpuProgramTest, FailuresSayWhatFailed) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  EXPECT_THAT(message(GpuProgram::load(**device, "not a script\n", manifest())), HasSubstr("loading the cubin"));
  LaunchManifest other = manifest();
  other.steps[0].launch()->kernel = "missing";
  EXPECT_THAT(message(GpuProgram::load(**device, "", other)),
              HasSubstr("finding kernel 'missing': CUDA_ERROR_NOT_FOUND"));
  other = manifest();
  other.steps[0].launch()->shared_bytes = 1 << 20;
  EXPECT_THAT(message(GpuProgram::load(**device, "", other)),
              HasSubstr("1048576 bytes of shared memory for kernel 'first'"));
  const auto program = GpuProgram::load(**device, "kernel second\nerror 700\n", manifest());
  ASSERT_TRUE(program);
  const auto buffers = (*program)->allocate();
  ASSERT_TRUE((*program)->launch(*buffers));
  EXPECT_THAT(message((*device)->synchronize()),
              HasSubstr("running the kernels: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"));
  EXPECT_THAT(message((*program)->launch(*buffers)), HasSubstr("launching 'first'"));
}

TEST(Storage, RoundTripsAndErrors) {
  const Tensor<double> tensor({2, 2}, {1, -0.5, 65504, 0});
  for (DType type : {DType::F16, DType::F32, DType::F64}) {
    EXPECT_EQ(decode(encode(tensor, type), {type, {2, 2}}).data, tensor.data);
  }
  EXPECT_EQ(decode(encode(tensor, DType::BF16), {DType::BF16, {2, 2}}).data[1], -0.5);
  for (DType type : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    const std::string poison(static_cast<size_t>(size_of(type)), '\xff');
    EXPECT_TRUE(std::isnan(decode(poison, {type, {1}}).data[0]));
  }
  EXPECT_DOUBLE_EQ(relative_error(Tensor<double>({2}, {3, 5}), Tensor<double>({2}, {3, 4})), 0.2);
  EXPECT_EQ(relative_error(Tensor<double>({1}, {0.5}), Tensor<double>({1}, {0})), 0.5);
  EXPECT_TRUE(std::isnan(relative_error(Tensor<double>({1}, {std::nan("")}), Tensor<double>({1}, {1}))));
}

}  // namespace
}  // namespace strata
