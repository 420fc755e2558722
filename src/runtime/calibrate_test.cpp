// Calibration on the fake driver, whose kernels take exactly the time that a script says; and the files it is kept in.
#include "runtime/calibrate.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>

#include "runtime/calibrate_event_kernels.h"
#include "runtime/calibrate_events.h"
#include "runtime/calibration_file.h"
#include "runtime/compile.h"
#include "runtime/test_driver.h"
#include "support/read_file.h"

namespace strata {
namespace {

class CalibrateTest : public FakeDriverTest {
 protected:
  static CalibrateOptions options(const std::string& script) {
    CalibrateOptions made;
    made.memory_bytes = 20 << 20;  // the least is 17 MB
    made.product_size = 16;
    made.repeats = 2;
    made.compile = [script](const std::string& source, const Target&) -> Result<std::vector<char>> {
      EXPECT_NE(source.find("strata_handover"), std::string::npos);
      return std::vector<char>(script.begin(), script.end());
    };
    return made;
  }
  static double rate(const CalibrationRun& run, std::string_view name) {
    for (const MeasuredRate& one : run.calibration.rates) {
      if (one.name != name) continue;
      EXPECT_EQ(one.low, one.value);
      EXPECT_EQ(one.high, one.value);
      return one.value;
    }
    return 0;
  }
  std::string folder() const { return (folder_.path() / "cache").string(); }
};

constexpr const char* kScript =
    "time 1000\nkernel strata_empty\ntime 2\nkernel strata_touch\ntime 3\nkernel strata_touch_overlapped\ntime 1\n";

TEST_F(CalibrateTest, RatesFollowFromTimes) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device) << device.error().to_string();
  std::vector<std::string> names;
  CalibrateOptions with = options(kScript);
  with.progress = [&](const std::string& name) { names.push_back(name); };
  const Target& target = default_target();
  const auto run = calibrate(**device, target, "2026-11-23", with);
  ASSERT_TRUE(run) << run.error().to_string();
  EXPECT_EQ(run->calibration.gpu, "Fake GPU");
  EXPECT_EQ(run->calibration.target, "sm_90a");
  // The script's first line is of all kernels: each takes 1000 µs more.
  EXPECT_NEAR(rate(*run, "launch"), 1002e-6, 1e-9);
  EXPECT_NEAR(rate(*run, "kernel"), 1003e-6, 1e-9);
  EXPECT_NEAR(rate(*run, "overlapped_kernel"), 1001e-6, 1e-9);
  EXPECT_NEAR(rate(*run, "copy_bandwidth"), 2 * rate(*run, "memory_bandwidth"), 1);
  EXPECT_NEAR(rate(*run, "memory_bandwidth"), 16.0 * 4 * 2 * 132 * 1024 / 1e-3, 1e4);
  EXPECT_LE(rate(*run, "multiprocessor_bandwidth") * (target.multiprocessors / 4), rate(*run, "memory_bandwidth"));
  // Of 20 MB, and of a quarter of them, as many chunks as all blocks have equally many of.
  EXPECT_NEAR(rate(*run, "stream_bandwidth"), 9728.0 * 132 * 16 / 1e-3, 1e4);
  EXPECT_NEAR(rate(*run, "worker_bandwidth"), 9728.0 * 538 / 1e-3, 1e4);
  EXPECT_NEAR(rate(*run, "dependent_operation"), 1e-3 / (1 << 17), 1e-12);
  EXPECT_NEAR(rate(*run, "handover"), 1e-3 / 512, 1e-9);
  for (const MeasuredRate& one : run->calibration.rates) {
    EXPECT_GT(one.value, 0) << one.name;
    EXPECT_TRUE(std::count(names.begin(), names.end(), one.name)) << one.name;
  }
}

TEST_F(CalibrateTest, OnlyGpusThatOverlapKernelsAreAskedTo) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  const std::string log = (folder_.path() / "log").string();
  const auto run = calibrate(**device, **find_target("sm_80"), "", options("time 5\nlog " + log + "\n"));
  ASSERT_TRUE(run) << run.error().to_string();
  const auto text = read_file(log);
  ASSERT_TRUE(text);
  EXPECT_EQ(text->find("overlaps"), std::string::npos);
  EXPECT_EQ(text->find("strata_stream"), std::string::npos);
  EXPECT_NE(text->find("strata_read grid 216x1x1 threads 1024"),
            std::string::npos);  // two blocks of 108 multiprocessors
}

TEST_F(CalibrateTest, ErrorsAreErrors) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  const auto failed = calibrate(**device, default_target(), "", options("error 700\n"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::Environment);
}

TEST_F(CalibrateTest, TimesOfNothingAreNoRates) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  const auto failed = calibrate(**device, default_target(), "", options("kernel strata_read\ntime 0\n"));
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("took no time"), std::string::npos) << failed.error().message;
}

TEST_F(CalibrateTest, ProductsAreLeftOutWithoutTheLibrary) {
  setenv("STRATA_CUBLAS_LT", "/nowhere/libcublasLt.so", 1);
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  const auto run = calibrate(**device, default_target(), "", options(kScript));
  ASSERT_TRUE(run) << run.error().to_string();
  EXPECT_EQ(rate(*run, "matrix_rate"), 0);
  EXPECT_TRUE(run->notes.back().starts_with("matrix_rate was not measured: ")) << run->notes.back();
}

TEST(Calibrate, CompilesForEveryTarget) {
  for (const Target& target : targets()) {
    RegisterUse use;
    const auto cubin = compile_cubin(calibration_source(), target, {}, &use);
    ASSERT_TRUE(cubin) << cubin.error().to_string();
    EXPECT_EQ(use.spilled_bytes, 0) << target.name;
  }
}

TEST(Calibrate, EventsAreALineOverDoublings) {
  const auto line = [](std::span<const EventTime> times) { return fit_events(times); };
  const std::vector<EventTime> two{{1, 3e-6}, {8, 9e-6}};
  EXPECT_NEAR(line(two).least, 3e-6, 1e-15);
  EXPECT_NEAR(line(two).per_doubling, 2e-6, 1e-15);
  const std::vector<EventTime> three{{1, 3e-6}, {2, 8e-6}, {4, 7e-6}};  // 4, 6, 8 with as much above as below
  EXPECT_NEAR(line(three).least, 4e-6, 1e-15);
  EXPECT_NEAR(line(three).per_doubling, 2e-6, 1e-15);
}

/// The kernels of events, by what their arguments say.
class CalibrateEventsTest : public CalibrateTest {
 protected:
  static constexpr double kEpochs = 1024;
  static inline double drift_ = 1;     // each launch takes so many times what the one before took
  static inline double slower_ = 1;    // this one does
  static inline unsigned failed_ = 0;  // what a kernel leaves

  void SetUp() override {
    CalibrateTest::SetUp();
    drift_ = slower_ = 1;
    failed_ = 0;
  }
  /// Counters take 0.5 µs and 0.1 for each doubling, tagged words 0.2 and 0.05, and thrice that beside a stream.
  static void perform(const char* kernel, void** arguments) {
    static const auto spend = reinterpret_cast<void (*)(double)>(
        dlsym(dlopen(STRATA_BINARY_DIR "/lib/libfake_cuda.so", RTLD_NOW | RTLD_NOLOAD), "fakeCudaSpend"));
    const auto number = [&](int n) { return *static_cast<int64_t*>(arguments[n]); };
    const bool counts = std::string_view(kernel) == "strata_counters";
    const double doublings = std::log2(static_cast<double>(number(3)));
    const double microseconds = counts ? 0.5 + 0.1 * doublings : 0.2 + 0.05 * doublings;
    spend(static_cast<double>(number(4)) * microseconds * (number(1) > 0 ? 3 : 1) * slower_);
    slower_ *= drift_;
    *reinterpret_cast<unsigned*>(number(2) + kEventFailed) = failed_;
  }
  static std::string script() {
    std::string text = "time 1\n";
    for (const char* kernel : {"strata_counters", "strata_tagged"})
      text += fmt::format("kernel {}\ncall {:x} 5\n", kernel, reinterpret_cast<size_t>(&perform));
    return text;
  }
  static bool has(const CalibrationRun& run, std::string_view name) {
    return std::any_of(run.calibration.rates.begin(), run.calibration.rates.end(),
                       [&](const MeasuredRate& one) { return one.name == name; });
  }
  static int notes_with(const CalibrationRun& run, std::string_view part) {
    return static_cast<int>(std::count_if(run.notes.begin(), run.notes.end(), [&](const std::string& note) {
      return note.find(part) != std::string::npos;
    }));
  }
};

TEST_F(CalibrateEventsTest, RatesAreALineAndAFactor) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  const std::string log = (folder_.path() / "log").string();
  const auto run = calibrate(**device, default_target(), "", options("log " + log + "\n" + script()));
  ASSERT_TRUE(run) << run.error().to_string();
  EXPECT_TRUE(run->notes.empty()) << run->notes[0];
  const auto near = [&](const char* name, double value) {
    const auto& rates = run->calibration.rates;
    const auto at = std::find_if(rates.begin(), rates.end(), [&](const MeasuredRate& one) { return one.name == name; });
    ASSERT_NE(at, rates.end()) << name;
    EXPECT_NEAR(at->value / value, 1, 1e-3) << name;
  };
  // A launch takes 1 µs beside its events.
  const double start = 1e-6 / kEpochs;
  // Rates are the built-in ones times what these are of an H200's.
  const Rates rates;
  near("counter_event", rates.counter_event * (0.5e-6 + start) / 1.343e-6);
  near("counter_doubling", rates.counter_doubling * 0.1e-6 / 0.054e-6);
  near("tagged_event", rates.tagged_event * (0.2e-6 + start) / 0.977e-6);
  near("tagged_doubling", rates.tagged_doubling * 0.05e-6 / 0.1173e-6);
  near("counter event of 1, s", 0.5e-6 + start);
  near("counter event of 4, busy, s", 3 * 0.7e-6 + start);
  near("counter_at_full_memory", rates.counter_at_full_memory * ((3 * 0.7e-6 + start) / (0.7e-6 + start) - 1) / 1.933);
  near("tagged_at_full_memory", rates.tagged_at_full_memory * ((3 * 0.3e-6 + start) / (0.3e-6 + start) - 1) / 0.2834);
  // All 8 multiprocessors have a block at the same time, beside whose team a warp loads.
  const auto text = read_file(log);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("strata_counters grid 8x1x1 threads 256 shared 0 resident\n"), std::string::npos);
  EXPECT_NE(text->find("strata_tagged grid 8x1x1 threads 288 shared 0 resident\n"), std::string::npos);
}

TEST_F(CalibrateEventsTest, WhatOthersDisturbIsNotKept) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  drift_ = 1.01;
  CalibrateOptions with = options(script());
  with.progress = [](const std::string&) { slower_ = 1; };  // all numbers of triggers drift alike
  const auto run = calibrate(**device, default_target(), "", with);
  ASSERT_TRUE(run) << run.error().to_string();
  for (const char* name : {"counter_event", "counter_doubling", "tagged_event", "tagged_doubling"}) {
    EXPECT_FALSE(has(*run, name)) << name;
    EXPECT_EQ(notes_with(*run, fmt::format("{} was not measured: ", name)), 1) << name;
  }
  EXPECT_GE(notes_with(*run, "see that nothing else uses the GPU"), 4);
  EXPECT_TRUE(has(*run, "matrix_rate"));
}

TEST_F(CalibrateEventsTest, BlocksThatWaitForLongAreANote) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device);
  failed_ = kEventWaitedLong;
  const auto run = calibrate(**device, default_target(), "", options(script()));
  ASSERT_TRUE(run) << run.error().to_string();
  EXPECT_FALSE(has(*run, "counter_event"));
  EXPECT_EQ(notes_with(*run, "was not measured: "), 6);
  EXPECT_EQ(notes_with(*run, "a block waited for another for a second"), 6);
}

class CalibrationFileTest : public CalibrateTest {
 protected:
  std::optional<Calibration> find(const std::string& gpu = "NVIDIA H200", int driver = 13000,
                                  std::string_view target = "sm_90a") {
    notes_.clear();
    return find_calibration(folder(), gpu, driver, target, [&](const std::string& note) { notes_.push_back(note); });
  }
  const Calibration calibration_{"NVIDIA H200", 13000, "sm_90a", "2026-11-23", {{"launch", 2e-6, 1e-6, 3e-6}}};
  std::vector<std::string> notes_;
};

TEST_F(CalibrationFileTest, IsFoundByGpuAndDriver) {
  EXPECT_FALSE(has_calibrations(folder()));
  EXPECT_FALSE(find());
  const auto path = store_calibration(folder(), calibration_);
  ASSERT_TRUE(path) << path.error().to_string();
  EXPECT_EQ(*path, folder() + "/machine-NVIDIA_H200-13000.json");
  EXPECT_TRUE(has_calibrations(folder()));
  EXPECT_EQ(find(), calibration_);
  EXPECT_FALSE(find("NVIDIA H100"));
  EXPECT_FALSE(find("NVIDIA H200", 13010));
  EXPECT_FALSE(find("NVIDIA H200", 13000, "sm_80"));
  EXPECT_TRUE(notes_.empty());
}

TEST_F(CalibrationFileTest, RatesAreThoseOfTheGpuThatIsHere) {
  ASSERT_TRUE(store_calibration(folder(), calibration_));
  const Target& target = default_target();
  DeviceProbe probe;
  const auto launch = [&](const std::string& in) { return calibrated_here(target, in, probe, {}).rates.launch; };
  EXPECT_EQ(launch(folder()), target.rates.launch);  // no GPU
  probe.target = &target;
  probe.gpu = calibration_.gpu;
  probe.driver_version = calibration_.driver_version;
  EXPECT_EQ(launch(folder()), 2e-6);
  EXPECT_EQ(launch(""), target.rates.launch);
  EXPECT_EQ(calibrated_here(**find_target("sm_80"), folder(), probe, {}).identity(), "sm_80");
  probe.driver_version += 10;
  EXPECT_EQ(launch(folder()), target.rates.launch);
}

TEST_F(CalibrationFileTest, DamagedAndForeignFilesAreANote) {
  ASSERT_TRUE(store_calibration(folder(), calibration_));
  const std::string path = calibration_path(folder(), calibration_.gpu, calibration_.driver_version);
  const std::string good = *read_file(path);
  Calibration other = calibration_;
  other.gpu = "NVIDIA-H200";  // whose file has the same name
  std::string later = good;
  later.replace(later.find("calibration 1"), 13, "calibration 2");
  std::string changed = good;
  changed.replace(changed.find("2e-06"), 5, "9e-06");
  for (const std::string& text :
       {std::string(), std::string("{}"), good.substr(0, good.size() / 2), print(other), later, changed}) {
    file("cache/" + std::filesystem::path(path).filename().string(), text);
    EXPECT_FALSE(find());
    ASSERT_EQ(notes_.size(), 1) << text;
    EXPECT_TRUE(notes_[0].starts_with("the calibration '" + path + "' is not used: ")) << notes_[0];
  }
  file("cache/" + std::filesystem::path(path).filename().string(), good);
  EXPECT_EQ(find(), calibration_);
  chmod(path.c_str(), 0666);
  EXPECT_FALSE(find());  // anybody could have written it
  EXPECT_EQ(notes_.size(), 1);
}

TEST_F(CalibrationFileTest, FoldersThatCannotBeMadeAreAnError) {
  const std::string place = file("taken", "");
  const auto failed = store_calibration(place + "/cache", calibration_);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::Environment);
  EXPECT_FALSE(failed.error().remedy.empty());
}

}  // namespace
}  // namespace strata
