// What the blocks of a generated program touch when it runs on the host, against what its manifest says of them. The
// compiler calls a function before each access to memory (-fsanitize=thread, without that sanitizer's runtime).
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "runtime/storage.h"
#include "superopt/codegen/emit.h"
#include "superopt/codegen/launcher.h"
#include "support/read_file.h"
#include "support/temporary_folder.h"
#include "support/write_file.h"

namespace strata {

/// Elements, row-major, by launch, buffer, whether they are written, and the block's number along x.
struct TouchKey {
  size_t launch = 0;
  std::string buffer;
  bool writes = false;
  int64_t block = 0;
  auto operator<=>(const TouchKey&) const = default;
};
using Touches = std::map<TouchKey, std::set<int64_t>>;

/// Called before accesses: notes the bytes of buffers, by the running block. Compiled without instrumentation.
constexpr const char* kTouchRecorder = R"(
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <tuple>
#include <vector>
extern "C" int probe_running_block();
namespace {
struct Buffer { const char* begin; std::size_t bytes; };
std::vector<Buffer> buffers;
int launch = -1;
bool busy = false;
std::map<int, long long> numbers;
std::map<std::tuple<int, std::size_t, bool, long long>, std::vector<bool>> touched;
void touch(const void* address, std::size_t bytes, bool writes) {
  if (launch < 0 || busy) return;
  busy = true;
  const char* at = static_cast<const char*>(address);
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (at < buffers[b].begin || at >= buffers[b].begin + buffers[b].bytes) continue;
    std::vector<bool>& marks = touched[{launch, b, writes, numbers[probe_running_block()]}];
    marks.resize(buffers[b].bytes);
    for (std::size_t i = 0; i < bytes; ++i) marks[static_cast<std::size_t>(at - buffers[b].begin) + i] = true;
  }
  busy = false;
}
}  // namespace
void probe_end() {
  busy = true;
  std::FILE* file = std::fopen(std::getenv("PROBE_FILE"), "w");
  for (const auto& [key, marks] : touched) {
    const auto& [of, buffer, writes, block] = key;
    std::fprintf(file, "%d %zu %d %lld", of, buffer, writes ? 1 : 0, block);
    for (std::size_t i = 0; i < marks.size(); ++i)
      if (marks[i] && (i == 0 || !marks[i - 1])) {
        std::size_t end = i;
        while (end < marks.size() && marks[end]) ++end;
        std::fprintf(file, " %zu %zu", i, end);
      }
    std::fprintf(file, "\n");
  }
  std::fclose(file);
}
void probe_buffer(const void* begin, std::size_t bytes) { buffers.push_back({static_cast<const char*>(begin), bytes}); }
void probe_launch(int number) { launch = number; numbers.clear(); }
void probe_block(long long x) { numbers[probe_running_block()] = x; }
#define ACCESS(N) \
  extern "C" void __tsan_read##N(void* p) { touch(p, N, false); } \
  extern "C" void __tsan_write##N(void* p) { touch(p, N, true); } \
  extern "C" void __tsan_unaligned_read##N(void* p) { touch(p, N, false); } \
  extern "C" void __tsan_unaligned_write##N(void* p) { touch(p, N, true); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)
extern "C" {
void __tsan_init() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
void __tsan_read_range(void* p, std::size_t bytes) { touch(p, bytes, false); }
void __tsan_write_range(void* p, std::size_t bytes) { touch(p, bytes, true); }
unsigned char __tsan_atomic8_load(const volatile unsigned char* p, int) { return *p; }
void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  touch(from, bytes, false);
  touch(to, bytes, true);
  return __real_memcpy(to, from, bytes);
}
}
)";

/// The host's program with calls of the recorder.
inline std::string recorded_program(const GeneratedProgram& program) {
  std::string text = host_program(program);
  const size_t main = text.rfind("\nint main(");
  std::string body = text.substr(main);
  text.resize(main);
  size_t buffers = 0;
  while (body.find(fmt::format("buffer_{}(", buffers)) != std::string::npos) ++buffers;
  std::string listed;
  for (size_t b = 0; b < buffers; ++b)
    listed += fmt::format("    probe_buffer(buffer_{0}.data(), buffer_{0}.size() * sizeof(buffer_{0}[0]));\n", b);
  const std::string call = "    strata_device::launch(", head = "unsigned char* shared) {\n";
  size_t at = 0;
  for (size_t launch = 0; (at = body.find(call, at)) != std::string::npos; ++launch) {
    const std::string before = (launch == 0 ? listed : std::string()) + fmt::format("    probe_launch({});\n", launch);
    body.insert(at, before);
    at = body.find(head, at) + head.size();
    body.insert(at, "      probe_block(x);\n");
  }
  body.insert(body.rfind("  return 0;"), "  probe_end();\n");
  return text +
         "\nvoid probe_buffer(const void*, std::size_t);\nvoid probe_launch(int);\nvoid probe_block(long long);\n"
         "void probe_end();\n"
         "extern \"C\" int probe_running_block() { return strata_host::team.block(); }\n" +
         body;
}

/// What the program touches on the host; nothing, and a failure, where it does not run.
inline Touches touched_on_host(const GeneratedProgram& program, const std::vector<Tensor<double>>& inputs) {
  const TemporaryFolder folder("strata-touched");
  const auto path = [&](const std::string& name) { return (folder.path() / name).string(); };
  EXPECT_TRUE(write_file(path("program.cpp"), recorded_program(program), Sync::None));
  EXPECT_TRUE(write_file(path("recorder.cpp"), kTouchRecorder, Sync::None));
  std::string run = fmt::format("PROBE_FILE={} {}", path("touched"), path("program"));
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    EXPECT_TRUE(write_file(path(fmt::format("in{}", i)), encode(inputs[i], program.inputs[i].type.dtype), Sync::None));
    run += " " + path(fmt::format("in{}", i));
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) run += " " + path(fmt::format("out{}", i));
  for (const std::string& command :
       {fmt::format(
            "c++ -std=c++20 -O1 -fsanitize=thread --param tsan-instrument-func-entry-exit=0 -c {0}.cpp -o {0}.o",
            path("program")),
        fmt::format("c++ -std=c++20 -O1 -c {0}.cpp -o {0}.o", path("recorder")),
        fmt::format("c++ -Wl,--wrap=memcpy {0}.o {1}.o -o {0}", path("program"), path("recorder")), run}) {
    if (std::system(fmt::format("{} > {} 2>&1", command, path("log")).c_str()) == 0) continue;
    ADD_FAILURE() << command << "\n" << read_file(path("log")).value_or("");
    return {};
  }
  // Buffers in the order of the host's program.
  std::vector<const DeviceBuffer*> buffers;
  std::vector<int64_t> element_bytes;
  const auto list = [&](const std::vector<DeviceBuffer>& of) {
    for (const DeviceBuffer& buffer : of) {
      const auto known = [&](const DeviceBuffer* other) { return other->name == buffer.name; };
      if (std::none_of(buffers.begin(), buffers.end(), known)) buffers.push_back(&buffer);
    }
  };
  for (const auto* of : {&program.inputs, &program.intermediates, &program.counters, &program.outputs}) list(*of);
  Touches touches;
  std::istringstream lines(read_file(path("touched")).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    TouchKey key;
    size_t buffer = 0;
    words >> key.launch >> buffer >> key.writes >> key.block;
    key.buffer = buffers.at(buffer)->name;
    const int64_t bytes = size_of(buffers[buffer]->type.dtype);
    std::set<int64_t>& elements = touches[key];
    for (int64_t begin = 0, end = 0; words >> begin >> end;) {
      for (int64_t i = begin / bytes; i * bytes < end; ++i) elements.insert(i);
    }
  }
  return touches;
}

/// What a launch's maps say: all that may be touched, and what is.
struct SaidTouches {
  Touches all, exact;
};

inline void enumerate(const GpuAccess& access, const Shape& shape, const TouchKey& key, SaidTouches& said) {
  const std::vector<int64_t> strides = row_major_strides(shape);
  std::vector<int64_t> dims{access.map.dims[0].lo}, ranges;
  for (const indexing::Interval& range : access.map.ranges) ranges.push_back(range.lo);
  const auto next = [&](std::vector<int64_t>& values, const std::vector<indexing::Interval>& bounds) {
    for (size_t i = values.size(); i-- > 0;) {
      if (++values[i] <= bounds[i].hi) return true;
      values[i] = bounds[i].lo;
    }
    return false;
  };
  TouchKey of = key;
  of.writes = access.writes;
  do {
    of.block = dims[0];
    std::set<int64_t>& all = said.all[of];
    std::set<int64_t>& exact = said.exact[of];
    do {
      const indexing::Point point{dims, ranges, {}};
      if (!indexing::in_domain(access.map, point)) continue;
      const auto index = indexing::evaluate(access.map, point);
      int64_t position = 0;
      for (size_t d = 0; d < shape.size(); ++d) position += (*index)[d] * strides[d];
      all.insert(position);
      if (access.exact) exact.insert(position);
    } while (next(ranges, access.map.ranges));
  } while (next(dims, access.map.dims));
}

inline SaidTouches said_touches(const LaunchManifest& manifest) {
  SaidTouches said;
  for (size_t i = 0; i < manifest.steps.size(); ++i) {
    const GpuLaunch& launch = *manifest.steps[i].launch();
    for (const GpuAccess& access : launch.accesses) {
      const std::string& name = launch.arguments[access.argument];
      enumerate(access, manifest.find(name)->type.shape, {i, name, false, 0}, said);
    }
  }
  return said;
}

/// "", or what the maps say wrongly: a block touches what none of them has, or leaves alone what an exact one has.
inline std::string difference(const SaidTouches& said, const Touches& found) {
  const auto missing = [](const Touches& these, const Touches& in, const char* what) {
    for (const auto& [key, elements] : these) {
      const auto there = in.find(key);
      for (const int64_t element : elements) {
        if (there != in.end() && there->second.count(element) > 0) continue;
        return fmt::format("launch {}, block {}: {} element {} of {}, which {}", key.launch, key.block,
                           key.writes ? "writes" : "reads", element, key.buffer, what);
      }
    }
    return std::string();
  };
  const std::string untold = missing(found, said.all, "its accesses do not say");
  return untold.empty() ? missing(said.exact, found, "it does not touch") : untold;
}

}  // namespace strata
