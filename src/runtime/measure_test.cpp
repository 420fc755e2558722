#include "runtime/measure.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "interpret/npy.h"
#include "runtime/measure_worker.h"
#include "runtime/storage.h"
#include "runtime/test_driver.h"
#include "test_paths.h"

namespace strata {
namespace {

using testing::HasSubstr;

constexpr const char* kManifest = R"({
  "buffers": [{"name": "A", "role": "input", "type": "f16", "shape": [4]},
              {"name": "O", "role": "output", "type": "f16", "shape": [4]}],
  "kernels": [{"name": "k", "grid": [1, 1, 1], "threads": 32, "shared_bytes": 0, "cluster": 1,
               "overlaps_previous": false, "arguments": ["A", "O"]}]})";

class MeasureTest : public FakeDriverTest {
 protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    request_.manifest = file("launch.json", kManifest);
    request_.inputs["A"] = file("A.npy", npy_bytes(Tensor<double>({4}, {1, 2, 3, 4})));
    request_.expected["O"] = file("O.npy", npy_bytes(expected_));
    right_ = "write 1 " + file("O.raw", encode(expected_, DType::F16)) + "\n";
  }
  static MeasureOptions options(const std::string& mode = {}) {
    MeasureOptions options;
    options.command = {STRATA_BINARY_DIR "/bin/fake_measure_worker"};
    if (!mode.empty()) options.command.push_back(mode);
    options.timeout = 60;
    return options;
  }
  /// What becomes of a "cubin".
  Measurement measure(MeasureWorker& worker, const std::string& script) {
    request_.cubin = file("program.cubin", script);
    const auto measurement = worker.measure(request_);
    EXPECT_TRUE(measurement) << measurement.error().to_string();
    return measurement ? *measurement : Measurement{};
  }

  Tensor<double> expected_{{4}, {2, 4, 6, 8}};
  std::string right_;
  MeasureRequest request_;
};

TEST_F(MeasureTest, RightKernelsAreTimed) {
  MeasureWorker worker(options());
  const auto device = worker.start();
  ASSERT_TRUE(device) << device.error().to_string();
  EXPECT_EQ(device->name, "Fake GPU");
  EXPECT_EQ(device->driver_version, 13000);
  for (const double us : {7.5, 3.25}) {
    const Measurement m = measure(worker, right_ + fmt::format("time {}\n", us));
    EXPECT_EQ(m.verdict, MeasureVerdict::Right) << m.reason;
    EXPECT_EQ(m.reason, "");
    EXPECT_EQ(m.error, 0);
    EXPECT_NEAR(m.cold_us, us, 1e-3);
    EXPECT_NEAR(m.hot_us, us, 1e-3);
  }
  EXPECT_EQ(worker.starts(), 1);
}

TEST_F(MeasureTest, WrongOutputsAreWrong) {
  MeasureWorker worker(options());
  const Tensor<double> off({4}, {2, 4, 6, 9});
  const Measurement wrong = measure(worker, "write 1 " + file("off.raw", encode(off, DType::F16)));
  EXPECT_EQ(wrong.verdict, MeasureVerdict::Wrong);
  EXPECT_NEAR(wrong.error, 1 / std::sqrt(120.0), 1e-9);
  EXPECT_EQ(wrong.reason, "O: error 9.13e-02, above 5e-03");
  EXPECT_EQ(wrong.cold_us, 0);
  // Rounding is not.
  const Tensor<double> rounded({4}, {2, 4, 6, 8.0078125});
  EXPECT_EQ(measure(worker, "write 1 " + file("rounded.raw", encode(rounded, DType::F16))).verdict,
            MeasureVerdict::Right);
  EXPECT_EQ(worker.starts(), 1);
}

TEST_F(MeasureTest, WhatIsNotWrittenIsNaN) {
  MeasureWorker worker(options());
  const std::string half = file("half.raw", encode(Tensor<double>({2}, {2, 4}), DType::F16));
  // Also after a run that left right values in the same process's memory.
  for (const std::string& script : {std::string("time 1\n"), right_ + "time 1\n", "write 1 " + half + "\n"}) {
    const Measurement m = measure(worker, script);
    if (script.starts_with(right_)) continue;
    EXPECT_EQ(m.verdict, MeasureVerdict::Wrong);
    EXPECT_TRUE(std::isnan(m.error));
    EXPECT_EQ(m.reason, "O holds NaN");
  }
  // Where there is nothing to compare with, too.
  request_.expected.clear();
  EXPECT_EQ(measure(worker, "time 1\n").verdict, MeasureVerdict::Wrong);
  EXPECT_EQ(measure(worker, right_).verdict, MeasureVerdict::Right);
}

TEST_F(MeasureTest, FaultsEndOneProcessAndNotTheWork) {
  MeasureWorker worker(options());
  const auto failed = [&](const std::string& script) {
    const Measurement m = measure(worker, script);
    EXPECT_EQ(m.verdict, MeasureVerdict::Failed);
    // Whatever happened, the next one is measured.
    EXPECT_EQ(measure(worker, right_ + "time 2\n").verdict, MeasureVerdict::Right);
    return m.reason;
  };
  EXPECT_THAT(failed("error 700\n"), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_EQ(worker.starts(), 2);
  EXPECT_THAT(failed("abort\n"), HasSubstr("its process died: Aborted"));
  EXPECT_EQ(worker.starts(), 3);
  // What the driver refuses does no harm.
  EXPECT_THAT(failed("refuse 218\n"), HasSubstr("loading the cubin: CUDA error 218"));
  EXPECT_EQ(worker.starts(), 3);
}

TEST_F(MeasureTest, HangsEndWithTheTimeLimit) {
  MeasureOptions quick = options();
  quick.timeout = 5;
  MeasureWorker worker(quick);
  const Measurement m = measure(worker, "hang\n");
  EXPECT_EQ(m.verdict, MeasureVerdict::Timeout);
  EXPECT_EQ(m.reason, "no answer in 5 s");
  EXPECT_EQ(measure(worker, right_).verdict, MeasureVerdict::Right);
  EXPECT_EQ(worker.starts(), 2);
}

TEST_F(MeasureTest, StopsWhenAsked) {
  MeasureWorker worker(options());
  request_.cubin = file("program.cubin", "hang\n");
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = worker.measure(request_, stop.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::Interrupted);
  EXPECT_EQ(measure(worker, right_).verdict, MeasureVerdict::Right);
}

TEST_F(MeasureTest, SavesOutputs) {
  MeasureWorker worker(options());
  request_.expected.clear();
  request_.save["O"] = (folder_.path() / "saved.npy").string();
  EXPECT_EQ(measure(worker, right_).verdict, MeasureVerdict::Right);
  const auto saved = read_npy(request_.save["O"]);
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->data, expected_.data);
}

TEST_F(MeasureTest, MalformedRequestsFailAlone) {
  MeasureWorker worker(options());
  const auto reason = [&] {
    request_.cubin = file("program.cubin", right_);
    const auto m = worker.measure(request_);
    EXPECT_TRUE(m);
    EXPECT_EQ(m->verdict, MeasureVerdict::Failed);
    return m->reason;
  };
  const MeasureRequest good = request_;
  request_.manifest = file("bad.json", "{\"buffers\": 3}");
  EXPECT_THAT(reason(), HasSubstr("the launch manifest is unreadable"));
  request_ = good;
  request_.manifest = "/nowhere/launch.json";
  EXPECT_THAT(reason(), HasSubstr("cannot read '/nowhere/launch.json'"));
  request_ = good;
  request_.inputs.clear();
  EXPECT_THAT(reason(), HasSubstr("no file for input 'A'"));
  request_.inputs["A"] = file("B.npy", npy_bytes(Tensor<double>({3}, {1, 2, 3})));
  EXPECT_THAT(reason(), HasSubstr("has shape [3]; A is f16[4]"));
  request_.inputs["A"] = file("text.npy", "no tensor");
  EXPECT_THAT(reason(), HasSubstr("is no .npy file"));
  request_ = good;
  EXPECT_EQ(measure(worker, right_).verdict, MeasureVerdict::Right);
  EXPECT_EQ(worker.starts(), 1);
}

/// The worker's answers to lines of text.
std::string talk(const std::string& lines) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  EXPECT_EQ(pipe(in.data()) + pipe(out.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(in[1]);
    _exit(run_measure_worker(in[0], out[1]));
  }
  close(in[0]);
  close(out[1]);
  EXPECT_EQ(write(in[1], lines.data(), lines.size()), std::ssize(lines));
  close(in[1]);
  std::string answers;
  std::array<char, 512> block{};
  for (ssize_t count = 0; (count = read(out[0], block.data(), block.size())) > 0;)
    answers.append(block.data(), static_cast<size_t>(count));
  close(out[0]);
  waitpid(child, nullptr, 0);
  return answers;
}

TEST_F(MeasureTest, TheWorkerAnswersNonsense) {
  std::istringstream answers(talk("nonsense\n{}\n[]\n{\"cubin\": 3}\nnot ended"));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(answers, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0].at("device"), "Fake GPU");
  for (size_t i = 1; i < lines.size(); ++i) {
    EXPECT_THAT(lines[i].at("failed").get<std::string>(), HasSubstr("an unreadable request"));
    EXPECT_FALSE(lines[i].contains("lost"));
  }
}

TEST_F(MeasureTest, WorkersThatDoNotStartAreErrors) {
  const auto error = [&](MeasureOptions options) {
    MeasureWorker worker(std::move(options));
    const auto started = worker.start();
    EXPECT_FALSE(started);
    return started ? std::string() : started.error().message;
  };
  EXPECT_THAT(error(options("ends")), HasSubstr("ended with exit code 7"));
  EXPECT_THAT(error(options("nonsense")), HasSubstr("it says '[1, 2]'"));
  MeasureOptions silent = options("silent");
  silent.start_timeout = 0.2;
  EXPECT_THAT(error(silent), HasSubstr("did not start in 0.2 s"));
  MeasureOptions missing;
  missing.command = {"/nowhere/strata"};
  EXPECT_THAT(error(missing), HasSubstr("cannot start '/nowhere/strata'"));
  setenv("STRATA_FAKE_CUDA_DEVICES", "0", 1);
  EXPECT_THAT(error(options()), HasSubstr("does not start: no GPU"));
  MeasureWorker babbling(options("babbles"));
  request_.cubin = file("program.cubin", right_);
  EXPECT_EQ(babbling.measure(request_)->reason, "its process answers with nonsense");
}

}  // namespace
}  // namespace strata
