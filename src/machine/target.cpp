#include "machine/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "support/hash.h"

namespace strata {
namespace {

constexpr const char* kAsMeasuredElsewhere = "as an H200's: not measured";

/// Rates of a GPU that none was measured on: those given are public, all others an H200's.
void set_public(Target& target, std::initializer_list<std::pair<double Rates::*, double>> values, const char* source) {
  for (const RateDescription& rate : rate_descriptions()) {
    const auto known =
        std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == rate.member; });
    if (known == values.end()) {
      target.set_rate(rate, target.rates.*rate.member, kAsMeasuredElsewhere);
    } else {
      target.set_rate(rate, known->second, source);
    }
  }
}

Target a100() {
  Target target{.name = "sm_80",
                .gpu = "NVIDIA A100 80GB",
                .multiprocessors = 108,
                .threads_per_multiprocessor = 2048,
                .blocks_per_multiprocessor = 32,
                .shared_memory = 163 << 10,
                .multiprocessor_shared_memory = 164 << 10,
                .reserved_shared_memory = 1 << 10,
                .registers = 65536,
                .l2_bytes = 40 << 20,
                .device_memory = int64_t{80} << 30,
                .cluster = 1,
                .large_cluster = 2,
                .cluster_multiprocessors = 108,
                .wide_products = false,
                .overlapping_kernels = false,
                .bulk_copies = false,
                .vector_atomics = false,
                .plan = false};
  // Nine tenths of the datasheet's 2.04 TB/s, and eight of its 312 Tflop/s; launches as others report them.
  set_public(target,
             {{&Rates::memory_bandwidth, 1.8e12},
              {&Rates::copy_bandwidth, 1.8e12},
              {&Rates::matrix_rate, 250e12},
              {&Rates::scalar_rate, 19.5e12},
              {&Rates::launch, 1.6e-6}},
             "public data of the A100: not measured");
  return target;
}

Target h200() {
  return {.name = "sm_90a",
          .gpu = "NVIDIA H200",
          .multiprocessors = 132,
          .threads_per_multiprocessor = 2048,
          .blocks_per_multiprocessor = 32,
          .shared_memory = 227 << 10,
          .multiprocessor_shared_memory = 228 << 10,
          .reserved_shared_memory = 1 << 10,
          .registers = 65536,
          .l2_bytes = 50 << 20,
          .device_memory = int64_t{141} << 30,
          .cluster = 8,
          .large_cluster = 4,
          .cluster_multiprocessors = 120,
          .wide_products = true,
          .overlapping_kernels = true,
          .bulk_copies = true,
          .vector_atomics = true,
          .plan = false};
}

Target b200() {
  Target target{.name = "sm_100a",
                .gpu = "NVIDIA B200",
                .multiprocessors = 148,
                .threads_per_multiprocessor = 2048,
                .blocks_per_multiprocessor = 32,
                .shared_memory = 227 << 10,
                .multiprocessor_shared_memory = 228 << 10,
                .reserved_shared_memory = 1 << 10,
                .registers = 65536,
                .l2_bytes = 126 << 20,
                .device_memory = int64_t{180} << 30,
                .cluster = 8,
                .large_cluster = 4,
                .cluster_multiprocessors = 148,
                .wide_products = false,  // wgmma is sm_90a's alone; tcgen05 takes its place
                .overlapping_kernels = true,
                .bulk_copies = true,
                .vector_atomics = true,
                .plan = true};
  // The datasheet's 8 TB/s, 2250 Tflop/s of 16 bits and 75 of f32, in the shares that an H200 reaches of its own.
  set_public(target,
             {{&Rates::memory_bandwidth, 7.3e12},
              {&Rates::copy_bandwidth, 7e12},
              {&Rates::matrix_rate, 1550e12},
              {&Rates::scalar_rate, 67e12}},
             "public data of the B200: not measured");
  return target;
}

std::string names_of(const std::vector<Target>& list) {
  std::vector<std::string_view> names;
  for (const Target& target : list) names.push_back(target.name);
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

const Target* find(const std::vector<Target>& list, std::string_view name) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const Target& target) { return target.name == name; });
  return at == list.end() ? nullptr : &*at;
}

}  // namespace

void Target::set_rate(const RateDescription& rate, double value, std::string source) {
  rates.*rate.member = value;
  const auto known =
      std::find_if(sources.begin(), sources.end(), [&](const Source& s) { return s.rate == rate.member; });
  if (known == sources.end()) {
    sources.push_back({rate.member, std::move(source)});
  } else {
    known->text = std::move(source);
  }
}

std::string_view Target::source_of(const RateDescription& rate) const {
  const auto known =
      std::find_if(sources.begin(), sources.end(), [&](const Source& s) { return s.rate == rate.member; });
  return known == sources.end() ? rate.source : std::string_view(known->text);
}

std::string Target::identity() const {
  const Target* built_in = find(described_targets(), name);
  if (built_in != nullptr && built_in->rates == rates) return std::string(name);
  std::string values;
  for (const RateDescription& rate : rate_descriptions()) values += fmt::format(" {}", rates.*rate.member);
  return fmt::format("{} calibrated {:016x}", name, Hasher().add(values).value());
}

const std::vector<Target>& targets() {
  static const std::vector<Target> table = {a100(), h200()};
  return table;
}

const std::vector<Target>& described_targets() {
  static const std::vector<Target> table = [] {
    std::vector<Target> all = targets();
    all.push_back(b200());
    return all;
  }();
  return table;
}

Result<const Target*> find_target(std::string_view name) {
  if (const Target* target = find(targets(), name)) return target;
  const std::string names = names_of(targets());
  if (const Target* target = find(described_targets(), name)) {
    return with_remedy(unsupported("target {} ({}) is a plan: no code is generated for it", name, target->gpu),
                       fmt::format("write {}; strata machine --target {} prints what is planned", names, name));
  }
  return with_remedy(invalid("unknown target '{}'; expected {}", name, names), "write one of them");
}

Result<const Target*> find_described_target(std::string_view name) {
  if (const Target* target = find(described_targets(), name)) return target;
  return with_remedy(invalid("unknown target '{}'; expected {}", name, names_of(described_targets())),
                     "write one of them");
}

const Target& default_target() { return targets().back(); }

}  // namespace strata
