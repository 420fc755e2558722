// The description of a machine: its table, its text, and what a calibration changes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "machine/calibration.h"
#include "machine/machine_text.h"
#include "machine/target.h"

namespace strata {
namespace {

/// A positive number of any size that a rate may have.
rc::Gen<double> any_rate() {
  return rc::gen::apply([](int mantissa, int exponent) { return std::ldexp(mantissa, exponent); },
                        rc::gen::inRange(1, 1 << 30), rc::gen::inRange(-60, 20));
}

TEST(Machine, EveryRateHasANameAMeaningAndASource) {
  std::set<std::string_view> names;
  for (const RateDescription& rate : rate_descriptions()) {
    EXPECT_TRUE(names.insert(rate.name).second) << rate.name;
    EXPECT_FALSE(rate.meaning.empty()) << rate.name;
    EXPECT_FALSE(rate.source.empty()) << rate.name;
    EXPECT_EQ(find_rate(rate.name), &rate);
    for (const Target& target : described_targets()) EXPECT_FALSE(target.source_of(rate).empty()) << rate.name;
  }
  EXPECT_EQ(find_rate("speed"), nullptr);
}

TEST(Machine, OnlyWhatWasMeasuredSaysSo) {
  for (const Target& target : described_targets()) {
    for (const RateDescription& rate : rate_descriptions()) {
      const bool claims =
          target.source_of(rate).starts_with("measured") || target.source_of(rate).starts_with("fitted");
      EXPECT_TRUE(!claims || target.name == "sm_90a") << target.name << ": " << rate.name;
    }
  }
}

TEST(Machine, PlansHaveNoCode) {
  EXPECT_TRUE(find_described_target("sm_100a"));
  const auto plan = find_target("sm_100a");
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::Unsupported);
  EXPECT_NE(plan.error().message.find("is a plan"), std::string::npos) << plan.error().message;
  EXPECT_NE(plan.error().remedy.find("sm_80 or sm_90a"), std::string::npos) << plan.error().remedy;
  const auto unknown = find_target("sm_42");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "unknown target 'sm_42'; expected sm_80 or sm_90a");
  const auto undescribed = find_described_target("sm_42");
  ASSERT_FALSE(undescribed);
  EXPECT_EQ(undescribed.error().message, "unknown target 'sm_42'; expected sm_80, sm_90a or sm_100a");
}

TEST(Machine, KernelsThatOverlapCostLess) {
  for (const Target& target : described_targets()) {
    EXPECT_LT(target.rates.overlapped_kernel, target.rates.kernel);
    EXPECT_LT(target.rates.launch, target.rates.kernel);
    EXPECT_EQ(target.kernel_seconds(),
              target.overlapping_kernels ? target.rates.overlapped_kernel : target.rates.kernel);
  }
}

RC_GTEST_PROP(Machine, PrintedMachinesParseBack, ()) {
  Target target = *rc::gen::elementOf(described_targets());
  target.multiprocessors = *rc::gen::inRange(1, 1000);
  target.device_memory = *rc::gen::inRange<int64_t>(1, int64_t{1} << 40);
  target.bulk_copies = *rc::gen::arbitrary<bool>();
  for (const RateDescription& rate : rate_descriptions()) {
    if (*rc::gen::arbitrary<bool>()) target.set_rate(rate, *any_rate(), "a test");
  }
  const auto read = parse_machine(machine_json(target));
  if (!read) RC_FAIL(read.error().to_string());
  RC_ASSERT(read->rates == target.rates);
  RC_ASSERT(machine_json(*read) == machine_json(target));
  RC_ASSERT(read->identity() == target.identity());
}

TEST(Machine, ParsingNamesWhatIsWrong) {
  const std::string good = machine_json(default_target());
  const auto error = [](const std::string& text) {
    const auto read = parse_machine(text);
    return read ? std::string() : read.error().message;
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_EQ(error(good), "");
  EXPECT_EQ(error("{"), "the machine has no 'target'");
  EXPECT_EQ(error(replaced("\"sm_90a\"", "\"sm_42\"")), "unknown target 'sm_42'; expected sm_80, sm_90a or sm_100a");
  EXPECT_EQ(error(replaced("\"multiprocessors\": 132", "\"multiprocessors\": 0")), "'multiprocessors' is 0, below 1");
  EXPECT_EQ(error(replaced("\"multiprocessors\": 132", "\"multiprocessors\": 1.5")),
            "'multiprocessors' is no number of units");
  EXPECT_EQ(error(replaced("\"bulk_copies\": true", "\"bulk_copies\": 1")), "'bulk_copies' is neither true nor false");
  EXPECT_EQ(error(replaced("\"load_latency\"", "\"lateness\"")), "the machine has no 'load_latency'");
}

RC_GTEST_PROP(Calibration, PrintedCalibrationsParseBack, ()) {
  Calibration calibration{"NVIDIA H200", 13000, "sm_90a", "2026-11-23", {}};
  for (const RateDescription& rate : rate_descriptions()) {
    if (*rc::gen::arbitrary<bool>())
      calibration.rates.push_back({std::string(rate.name), *any_rate(), *any_rate(), *any_rate()});
  }
  calibration.rates.push_back({"an observation, B/s", 1e12, 1e12, 1e12});
  const auto read = parse_calibration(print(calibration));
  if (!read) RC_FAIL(read.error().to_string());
  RC_ASSERT(*read == calibration);
}

RC_GTEST_PROP(Calibration, DamagedTextIsAnError, ()) {
  Calibration calibration{"NVIDIA H200", 13000, "sm_90a", "2026-11-23", {{"launch", 2e-6, 1e-6, 3e-6}}};
  const std::string good = print(calibration);
  std::string text = good;
  const auto at = *rc::gen::inRange<size_t>(0, text.size());
  if (*rc::gen::arbitrary<bool>()) {
    text.resize(at);
  } else {
    text[at] = *rc::gen::elementOf(std::string("0 x\"\xff{]"));
  }
  const auto read = parse_calibration(text);
  RC_ASSERT(!read || *read == calibration);  // white space more or less changes nothing
}

TEST(Calibration, ReplacesRatesAndSaysSo) {
  const Target& target = default_target();
  const Calibration calibration{
      "NVIDIA H200", 13000, "sm_90a", "2026-11-23", {{"launch", 2e-6, 1e-6, 3e-6}, {"x", 1, 1, 1}}};
  const Target changed = calibrated(target, calibration);
  EXPECT_EQ(changed.rates.launch, 2e-6);
  EXPECT_EQ(changed.rates.load_latency, target.rates.load_latency);
  EXPECT_EQ(changed.source_of(*find_rate("launch")),
            "measured by strata calibrate, NVIDIA H200, 2026-11-23, driver 13.0");
  EXPECT_EQ(target.identity(), "sm_90a");
  EXPECT_NE(changed.identity(), target.identity());
  EXPECT_NE(describe(changed).find("measured by strata calibrate"), std::string::npos);
}

}  // namespace
}  // namespace strata
