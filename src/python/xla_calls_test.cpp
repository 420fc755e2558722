#include "python/xla_calls.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "python/xla_interface.h"
#include "runtime/test_driver.h"

namespace strata::python {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kCount = 6;
constexpr size_t kBytes = kCount * 4;

/// O = 10 · A. What the scripts of the fake driver call.
void run_kernel(const char*, void** arguments) {
  const auto floats = [&](int i) { return *static_cast<float**>(arguments[i]); };
  for (int64_t i = 0; i < kCount; ++i) floats(1)[i] = 10 * floats(0)[i];
}

/// XLA's side of a call on a GPU. Errors are texts.
struct FakeXla {
  static constexpr size_t kLent = 16;  ///< the largest alignment that XLA takes (kMaxAlignment of its ffi_api.cc)

  explicit FakeXla(const GpuDevice& device) : gpu(device) {
    api.struct_size = sizeof api;
    api.version.minor_version = 3;
    api.make_error = [](xla::ErrorArguments* of) { return error(of->message); };
    api.stream = [](xla::StreamArguments* of) -> xla::Error* {
      FakeXla& self = *reinterpret_cast<FakeXla*>(of->context);
      of->stream = self.stream;
      return self.has_stream ? nullptr : error("XLA has no stream");
    };
    api.allocate = [](xla::AllocateArguments* of) -> xla::Error* {
      FakeXla& self = *reinterpret_cast<FakeXla*>(of->context);
      if (of->alignment > kLent) return error("Unsupported alignment");
      auto memory = GpuMemory::allocate(self.gpu, static_cast<int64_t>(of->size + kLent));
      if (!self.has_memory || !memory) return error("XLA has no memory");
      of->data = reinterpret_cast<void*>(memory->pointer() + kLent);  // of no larger multiple
      self.lent.push_back(*std::move(memory));
      ++self.allocations;
      return nullptr;
    };
    api.free = [](xla::FreeArguments* of) -> xla::Error* {
      FakeXla& self = *reinterpret_cast<FakeXla*>(of->context);
      const auto place = reinterpret_cast<CudaPointer>(of->data);
      const auto found = std::find_if(self.lent.begin(), self.lent.end(), [&](const GpuMemory& one) {
        return one.pointer() + kLent == place && one.bytes() == static_cast<int64_t>(of->size + kLent);
      });
      if (found == self.lent.end()) return error("XLA has not lent this");
      std::vector<GpuMemory> left;
      for (GpuMemory& one : self.lent) {
        if (&one != &*found) left.push_back(std::move(one));
      }
      self.lent = std::move(left);
      return nullptr;
    };
  }
  static xla::Error* error(const char* text) { return reinterpret_cast<xla::Error*>(new std::string(text)); }

  const GpuDevice& gpu;
  xla::Api api{};
  CudaStream stream = nullptr;
  bool has_stream = true, has_memory = true;
  std::vector<GpuMemory> lent{};
  int allocations = 0;
};

using Handler = xla::Error* (*)(xla::Call*);

/// Arrays of floats with these sizes, as XLA describes them.
class Arrays {
 public:
  Arrays(const std::vector<CudaPointer>& places, int64_t size) : size_(size), buffers_(places.size()) {
    for (size_t i = 0; i < places.size(); ++i) {
      buffers_[i] = {sizeof(xla::Buffer), nullptr, 11, reinterpret_cast<void*>(places[i]), 1, &size_};
      pointers_.push_back(&buffers_[i]);
    }
  }
  Arrays(const Arrays&) = delete;
  xla::Buffers described() {
    return {sizeof(xla::Buffers), nullptr, static_cast<int64_t>(pointers_.size()), nullptr, pointers_.data()};
  }

 private:
  int64_t size_;
  std::vector<xla::Buffer> buffers_;
  std::vector<xla::Buffer*> pointers_;
};

class OfScript : public compiler::ArrayFunction {
 public:
  OfScript(std::unique_ptr<GpuFunction> function, int64_t size) {
    inputs_ = results_ = {hlo::Shape{hlo::ElementType::F32, {size}, {0}, {}}};
    gpu_ = std::move(function);
  }

 private:
  Result<void> call_on_cpu(std::span<std::byte* const>, std::span<std::byte* const>) const override { return {}; }
};

class XlaCallsTest : public FakeGpuTest {
 protected:
  void SetUp() override {
    FakeGpuTest::SetUp();
    xla_.emplace(*device_);
    ASSERT_EQ(device_->driver().create_stream(&xla_->stream, CudaDriver::kNonBlocking), 0);
  }
  void TearDown() override {
    device_->driver().destroy_stream(xla_->stream);
    EXPECT_TRUE(xla_->lent.empty()) << "memory was not given back";
    xla_.reset();
    unpublished_.reset();
    FakeGpuTest::TearDown();
  }

  LaunchManifest manifest(int64_t size = kCount) const {
    LaunchManifest made;
    made.buffers = {{"A", BufferRole::Input, {"f32", 4, {size}}}, {"O", BufferRole::Output, {"f32", 4, {size}}}};
    GpuLaunch launch;
    launch.kernel = "tenfold";
    launch.arguments = {"A", "O"};
    made.steps = {launch};
    return made;
  }

  /// Publishes it, for this test's device alone; its number.
  int64_t publish(LaunchManifest of, std::string script = "", int64_t size = kCount) {
    static int64_t number = 0;
    if (script.empty()) script = fmt::format("call {:x} 2\n", reinterpret_cast<uintptr_t>(&run_kernel));
    auto program = GpuProgram::load(*device_, script, std::move(of));
    EXPECT_TRUE(program) << program.error().to_string();
    auto function = GpuFunction::make(*std::move(program), {"A"});
    EXPECT_TRUE(function) << function.error().to_string();
    unpublished_ = std::make_unique<OfScript>(*std::move(function), size);
    publish_to_xla(++number, {unpublished_.get(), [](compiler::ArrayFunction*) {}}, "tenfold");
    return number;
  }

  /// XLA's call: the error, or nothing.
  std::string call(int64_t number, CudaPointer from, CudaPointer to, int64_t size = kCount,
                   void* handler = xla_gpu_handler()) {
    Arrays arguments({from}, size), results({to}, size);
    xla::Bytes name{"function", 8};
    xla::Bytes* names = &name;
    xla::Scalar scalar{xla::kS64, &number};
    void* value = &scalar;
    int type = xla::kScalar;
    xla::Call call{sizeof(xla::Call),   nullptr,
                   &xla_->api,          reinterpret_cast<xla::Context*>(&*xla_),
                   xla::kExecute,       arguments.described(),
                   results.described(), {sizeof(xla::Attributes), nullptr, 1, &type, &names, &value}};
    const std::unique_ptr<std::string> error(reinterpret_cast<std::string*>(reinterpret_cast<Handler>(handler)(&call)));
    return error ? *error : "";
  }

  /// Memory of XLA's for two arrays and what lies between; 7 at `at`, 1 elsewhere.
  GpuMemory memory(size_t at) const {
    auto made = GpuMemory::allocate(*device_, 1024);
    std::vector<float> values(256, 1);
    std::fill_n(values.begin() + static_cast<int64_t>(at / 4), kCount, 7.0F);
    EXPECT_TRUE(made->upload({reinterpret_cast<const char*>(values.data()), 1024}));
    return *std::move(made);
  }
  static std::vector<float> floats(const GpuMemory& memory) {
    std::vector<float> values(256);
    std::memcpy(values.data(), memory.download()->data(), 1024);
    return values;
  }

  std::optional<FakeXla> xla_;
  std::unique_ptr<OfScript> unpublished_;
};

TEST_F(XlaCallsTest, ReadsAndWritesArraysWhereTheyLie) {
  const int64_t number = publish(manifest());
  const GpuMemory arrays = memory(0);
  EXPECT_EQ(call(number, arrays.pointer(), arrays.pointer() + 256), "");
  std::vector<float> expected(256, 1);
  std::fill_n(expected.begin(), kCount, 7.0F);
  std::fill_n(expected.begin() + 64, kCount, 70.0F);
  EXPECT_EQ(floats(arrays), expected);
  EXPECT_EQ(xla_->allocations, 0);
}

TEST_F(XlaCallsTest, WorksOnXlasStream) {
  const int64_t number = publish(manifest());
  const GpuMemory arrays = memory(0);
  const CudaDriver& driver = device_->driver();
  // What is put on a stream that is being recorded does not run.
  ASSERT_EQ(driver.begin_capture(xla_->stream, CudaDriver::kCaptureThreadLocal), 0);
  EXPECT_EQ(call(number, arrays.pointer(), arrays.pointer() + 256), "");
  CudaGraph graph = nullptr;
  ASSERT_EQ(driver.end_capture(xla_->stream, &graph), 0);
  EXPECT_EQ(floats(arrays)[64], 1);
  driver.destroy_graph(graph);
}

TEST_F(XlaCallsTest, ArraysThatBeginAnywhereAreCopied) {
  const int64_t number = publish(manifest());
  for (const size_t from : {size_t{0}, size_t{16}, size_t{128}}) {
    for (const size_t to : {size_t{512}, size_t{516}, size_t{640}}) {
      const GpuMemory arrays = memory(from);
      xla_->allocations = 0;
      EXPECT_EQ(call(number, arrays.pointer() + from, arrays.pointer() + to), "");
      std::vector<float> expected(256, 1);
      std::fill_n(expected.begin() + static_cast<int64_t>(from / 4), kCount, 7.0F);
      std::fill_n(expected.begin() + static_cast<int64_t>(to / 4), kCount, 70.0F);
      EXPECT_EQ(floats(arrays), expected) << from << " " << to;
      EXPECT_EQ(xla_->allocations, (from % unpublished_->alignment() != 0) + (to % unpublished_->alignment() != 0));
    }
  }
}

TEST_F(XlaCallsTest, ArraysWithoutElementsBeginAnywhere) {
  LaunchManifest of = manifest(0);
  of.steps.clear();
  const int64_t number = publish(std::move(of), "", 0);
  for (const CudaPointer place : {CudaPointer{0}, CudaPointer{3}}) EXPECT_EQ(call(number, place, place, 0), "");
}

TEST_F(XlaCallsTest, AnotherGpusStreamIsRefused) {
  setenv("STRATA_FAKE_CUDA_DEVICES", "2", 1);
  const int64_t number = publish(manifest());
  const GpuMemory arrays = memory(0);
  const CudaDriver& driver = device_->driver();
  CudaContext second = nullptr;
  ASSERT_EQ(driver.context_retain(&second, 1), 0);
  ASSERT_EQ(driver.context_use(second), 0);
  const CudaStream first_stream = xla_->stream;
  ASSERT_EQ(driver.create_stream(&xla_->stream, CudaDriver::kNonBlocking), 0);
  EXPECT_THAT(call(number, arrays.pointer(), arrays.pointer() + 256),
              AllOf(HasSubstr("strata: tenfold: "), HasSubstr("the call is on another GPU"),
                    HasSubstr("\n  put the arrays on the first GPU")));
  EXPECT_EQ(floats(arrays)[64], 1);
  driver.destroy_stream(xla_->stream);
  xla_->stream = first_stream;
  // A call of the first one's, while the thread is at work on the second: its context is still current afterwards.
  EXPECT_EQ(call(number, arrays.pointer(), arrays.pointer() + 256), "");
  EXPECT_EQ(floats(arrays)[64], 70);
  CudaStream stream = nullptr;
  ASSERT_EQ(driver.create_stream(&stream, CudaDriver::kNonBlocking), 0);
  CudaContext now = nullptr;
  ASSERT_EQ(open_cuda_streams()->context_of(stream, &now), 0);
  EXPECT_EQ(now, second);
  driver.destroy_stream(stream);
  driver.context_use(device_->context());
}

TEST_F(XlaCallsTest, ErrorsOfXlaAreHandedBack) {
  const int64_t number = publish(manifest());
  const GpuMemory arrays = memory(0);
  xla_->has_memory = false;
  EXPECT_EQ(call(number, arrays.pointer(), arrays.pointer() + 256), "");
  EXPECT_EQ(call(number, arrays.pointer() + 4, arrays.pointer() + 256), "XLA has no memory");
  EXPECT_EQ(call(number, arrays.pointer(), arrays.pointer() + 260), "XLA has no memory");
  xla_->has_stream = false;
  EXPECT_EQ(call(number, arrays.pointer(), arrays.pointer() + 256), "XLA has no stream");
}

TEST_F(XlaCallsTest, ErrorsNameTheFunction) {
  const int64_t number = publish(manifest(), "error 700\n");
  const GpuMemory arrays = memory(0);
  const CudaPointer from = arrays.pointer(), to = from + 256;
  EXPECT_THAT(call(number, from, to, kCount + 1), HasSubstr("strata: tenfold: argument 0 is not f32[6]"));
  EXPECT_THAT(call(number, from, to, kCount, xla_handler()),
              HasSubstr("strata: tenfold: the function is compiled for the GPU"));
  EXPECT_THAT(call(-1, from, to), HasSubstr("the function was compiled in another process\n  trace it"));
  // A kernel's fault comes out at the next call that asks the driver.
  EXPECT_EQ(call(number, from, to), "");
  EXPECT_NE(device_->driver().synchronize(), 0);
  EXPECT_THAT(call(number, from, to), AllOf(HasSubstr("strata: tenfold: "), HasSubstr("CUDA_ERROR")));
}

TEST_F(XlaCallsTest, StepsOfTheHostAreDone) {
  LaunchManifest of = manifest();
  bool done = false;
  of.steps.emplace_back(HostStep{"no kernel",
                                 [&](const auto&) {
                                   done = true;
                                   return Result<void>();
                                 },
                                 {"O"}},
                        "sort", "");
  const int64_t number = publish(std::move(of));
  const GpuMemory arrays = memory(0);
  EXPECT_EQ(call(number, arrays.pointer(), arrays.pointer() + 256), "");
  EXPECT_TRUE(done);
  EXPECT_EQ(floats(arrays)[64], 70);
}

TEST_F(XlaCallsTest, IsNotRecordedByXla) {
  for (void* const handler : {xla_handler(), xla_gpu_handler()}) {
    xla::Metadata metadata{sizeof(xla::Metadata), {}, 77};
    xla::MetadataExtension extension{{sizeof(xla::MetadataExtension), xla::kMetadata, nullptr}, &metadata};
    xla::Call call{};
    call.extension_start = &extension.base;
    call.api = &xla_->api;
    EXPECT_EQ(reinterpret_cast<Handler>(handler)(&call), nullptr);
    EXPECT_EQ(metadata.traits, 0U);
    EXPECT_EQ(metadata.version.minor_version, 3);
    // Stages but execution, which have neither arrays nor a stream.
    call.extension_start = nullptr;
    call.stage = 1;
    EXPECT_EQ(reinterpret_cast<Handler>(handler)(&call), nullptr);
  }
}

}  // namespace
}  // namespace strata::python
