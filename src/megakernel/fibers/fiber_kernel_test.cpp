// The mega-kernel on the host's fibers, with block functions written for this: what runs, and what must end with a
// report.
#include "megakernel/fibers/fiber_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "superopt/codegen/test_host.h"

namespace strata::megakernel {
namespace {

using testing::HasSubstr;

/// Function 0 loads two stages of 4 KB and writes the sum of their floats, by warps, as tagged words; function 1 adds
/// these and publishes the sum and the position as the step's tokens.
constexpr const char* kFunctions = R"(
namespace strata::megakernel {
template <class Load>
STRATA_DEVICE void load_task(const Descriptor& task, Load& side) {
  if (task.record.function != 0) return;
  for (int n = 0; n < 2; ++n) side.push(static_cast<const char*>(task.arguments[0]) + n * 4096, 4096);
}
template <class Compute>
STRATA_DEVICE void compute_task(const Descriptor& task, Compute& side) {
  auto& platform = side.platform();
  auto* const words = static_cast<CudaTaggedWord*>(task.arguments[1]);
  if (task.record.function == 0) {
    float sum = 0;
    for (int n = 0; n < 2; ++n) {
      const auto* const stage = reinterpret_cast<const float*>(side.stage(n, 4096));
      for (int i = platform.rank(); i < 1024; i += platform.size()) sum += stage[i];
      side.release(n, 8);
    }
    side.advance(2, 4096);
    for (int mask = 1; mask < 32; mask *= 2) sum += strata_device::shuffle_xor(sum, mask);
    FAULT
    const int word = static_cast<int>(task.record.coordinates[0]) * 8 + platform.warp();
    if (platform.leads_warp()) side.write(words[word], static_cast<unsigned>(sum), 0);
  } else {
    unsigned sum = 0;
    if (platform.warp() == 0) {
      side.read(words, 16, [&](int, const Tagged& word) { sum += word.data[0]; });
      for (int mask = 1; mask < 32; mask *= 2) sum += strata_device::shuffle_xor(sum, mask);
    }
    if (platform.leads()) side.put_token(0, static_cast<int>(sum));
    if (platform.leads()) side.put_token(1, side.position(0));
  }
}
}
STRATA_KERNEL void __launch_bounds__(64) fill_kernel(float* to, const float* from) {
  to[blockIdx.x * 64 + strata_device::thread()] = from == nullptr ? 1.0f : from[blockIdx.x];
}
)";

/// Two tasks, each on a worker of its own, and the one that ends the step.
Plan plan_of_three() {
  Plan plan;
  plan.name = "three";
  plan.workers = 2;
  plan.functions = {{.name = "sum", .stages = 2, .stage_bytes = 4096, .scratch_bytes = 0, .stores_for_copies = false},
                    {.name = "end", .stages = 0, .stage_bytes = 0, .scratch_bytes = 0, .stores_for_copies = false}};
  plan.operators = {"sums", "end"};
  plan.events = {{.triggers = 2, .first = 2, .end = 3, .hand_off = HandOff::Counter}};
  plan.tasks.resize(3);
  for (int n = 0; n < 3; ++n) {
    Task& task = plan.tasks[static_cast<size_t>(n)];
    task.function = task.op = n / 2;
    task.coordinates = {n % 2, 0, 0};
    if (n < 2) task.signal = 0;
    if (n == 2) task.waits = {0};
  }
  plan.queues = {{0, 2}, {1}};
  return plan;
}

struct Launched {
  std::vector<std::vector<int>> tokens;
  std::string error;
};

/// `fault` is a statement of function 0.
Result<std::unique_ptr<FiberCode>> compiled(const std::string& fault) {
  std::string text = kFunctions;
  text.replace(text.find("FAULT"), 5, fault);
  const std::vector<std::string> kernels{"fill_kernel"};
  return FiberCode::compile(text, kernels, false, kPlainHost);
}

/// Three steps.
Launched launch(const Result<std::unique_ptr<FiberCode>>& code, const std::string& order, int lost_event = -1) {
  auto device = FiberDevice::open();
  if (!code || !device) return {{}, code ? device.error().to_string() : code.error().to_string()};
  (*device)->set_order(order);
  auto constants = (*device)->allocate(8192);
  auto words = (*device)->allocate(16 * 16);
  if (!constants || !words) return {{}, "no memory"};
  const std::array<uint64_t, 2> fill{constants->address(), 0};
  auto filled = (*device)->start(**code, "fill_kernel", {32, 1, 1}, 64, 0, fill);
  const auto end = filled ? filled->wait() : Result<Process::End>(tl::unexpected(filled.error()));
  if (!end || !end->succeeded()) return {{}, end ? end->text : end.error().to_string()};
  KernelOptions options;
  options.operators.resize(2);
  for (OperatorRecord& record : options.operators) {
    record.arguments[0] = reinterpret_cast<void*>(constants->address());
    record.arguments[1] = reinterpret_cast<void*>(words->address());
  }
  options.lengths = {40};
  options.tokens_per_step = 2;
  options.lost_event = lost_event;
  auto kernel = FiberKernel::make(**device, plan_of_three(), **code, options);
  if (!kernel) return {{}, kernel.error().to_string()};
  const auto started = (*kernel)->launch(3);
  if (!started) return {{}, started.error().to_string()};
  const auto done = (*kernel)->wait();
  if (!done) return {{}, done.error().to_string()};
  Launched launched;
  for (uint32_t step = 0; step < *done; ++step) {
    const auto tokens = (*kernel)->tokens(step);
    launched.tokens.emplace_back(tokens.begin(), tokens.end());
  }
  return launched;
}

TEST(FiberKernel, RunsBlockFunctionsInAnyOrder) {
  const auto code = compiled("");
  for (const char* order : {"forward", "backward", "1", "2"}) {
    SCOPED_TRACE(order);
    const Launched launched = launch(code, order);
    EXPECT_EQ(launched.error, "");
    const std::vector<std::vector<int>> expected{{4096, 40}, {4096, 41}, {4096, 42}};
    EXPECT_EQ(launched.tokens, expected);
  }
  // A signal that is lost ends it with the watchdog's report.
  const Launched launched = launch(code, "forward", 0);
  EXPECT_THAT(launched.error, HasSubstr("was aborted"));
  EXPECT_THAT(launched.error, HasSubstr("(end)"));
  EXPECT_THAT(launched.error, HasSubstr("waits for event 0"));
}

TEST(FiberKernel, ThreadsThatDoNotMeetAreNamed) {
  const Launched other = launch(compiled("if (platform.warp() > 0) platform.meet();"), "backward");
  EXPECT_THAT(other.error, HasSubstr("executes a barrier with a vote for 256 threads while threads 352-575 wait at "
                                     "named_barrier, 224 of 256"));
  const Launched none = launch(compiled("if (platform.warp() > 0) strata_device::named_barrier(3, 256);"), "forward");
  EXPECT_THAT(none.error, HasSubstr("no thread can go on"));
  EXPECT_THAT(none.error, HasSubstr("wait at named_barrier, 224 of 256"));
}

TEST(FiberKernel, AFaultEndsTheLaunchAlone) {
  const Launched launched = launch(compiled("*static_cast<volatile int*>(nullptr) = 0;"), "forward");
  EXPECT_THAT(launched.error, HasSubstr("ended by signal 11"));
}

/// As under ulimit -v, which batch systems set.
TEST(FiberDevice, SaysWhichLimitIsTooLow) {
  rlimit own{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &own), 0);
  const rlimit low{rlim_t{1} << 34, own.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  const auto device = FiberDevice::open();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &own), 0);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::Environment);
  EXPECT_THAT(device.error().to_string(),
              testing::AllOf(HasSubstr("64 GB of addresses"), HasSubstr("raise the limit of addresses (ulimit -v")));
}

TEST(FiberCode, SaysWhatTheCompilerSays) {
  const auto code = FiberCode::compile("int x = unheard_of;\n", {}, false, kPlainHost);
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().to_string(), HasSubstr("unheard_of"));
}

}  // namespace
}  // namespace strata::megakernel
