// Calibration on the fake driver, whose kernels take exactly the time that a script says; and the files it is kept in.
#include "runtime/calibrate.h"

#include <sys/stat.h>

#include <filesystem>

#include "runtime/calibration_file.h"
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
  ASSERT_EQ(run->notes.size(), 1);
  EXPECT_TRUE(run->notes[0].starts_with("matrix_rate was not measured: ")) << run->notes[0];
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
