// Steps that are no launches, on the fake driver: fills, copies, loops, the host.
#include <gmock/gmock.h>

#include <cstring>

#include "runtime/gpu_program.h"
#include "runtime/memory_layout.h"
#include "runtime/program_folder.h"
#include "runtime/test_driver.h"
#include "support/read_file.h"
#include "support/temporary_folder.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
std::string message(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

/// Two kernels: "add" adds its first two arguments into the third, "less" compares the first with the second.
void kernel(const char* name, void** arguments) {
  const auto at = [&](size_t i) { return *static_cast<int32_t**>(arguments[i]); };
  if (std::string(name) == "add") {
    *at(2) = *at(0) + *at(1);
  } else {
    *reinterpret_cast<char*>(at(2)) = *at(0) < *at(1) ? 1 : 0;
  }
}

std::string cubin() { return fmt::format("call {:x} 3\n", reinterpret_cast<uintptr_t>(&kernel)); }

GpuStep launch(const std::string& name, const std::vector<std::string>& arguments) {
  GpuLaunch made;
  made.kernel = name;
  made.arguments = arguments;
  made.overlaps_previous = true;
  return {std::move(made), "", ""};
}

const ArrayType kNumber("s32", 4, {});

std::string bytes_of(std::initializer_list<int32_t> numbers) {
  return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(int32_t)};
}

int32_t number_in(const GpuBuffers& buffers, const std::string& name) {
  int32_t value = 0;
  EXPECT_TRUE(buffers.at(name).download(&value));
  return value;
}

/// The sum x + 0 + 1 + … + 4 by a loop of five iterations, or of one that asks whether the counter is below a limit.
LaunchManifest sum(bool counted) {
  LaunchManifest made;
  made.buffers = {
      {"x", BufferRole::Input, kNumber},           {"r", BufferRole::Output, kNumber},
      {"loop.i", BufferRole::Carried, kNumber},    {"loop.x", BufferRole::Carried, kNumber},
      {"loop.next", BufferRole::Carried, kNumber}, {"numbers", BufferRole::Constant, ArrayType("u8", 1, {6 * 4})},
      {"first", BufferRole::Constant, kNumber},    {"one", BufferRole::Constant, kNumber},
      {"limit", BufferRole::Constant, kNumber}};
  GpuLoop loop;
  loop.values.push_back({.initial = "first", .current = {"loop.i"}, .next = "loop.i"});
  loop.values.push_back({.initial = "x", .result = "r", .current = {"loop.x"}, .next = "loop.next"});
  loop.body = {launch("add", {"loop.x", "loop.i", "loop.next"})};
  if (counted) {
    loop.count = 5;
    loop.values[0].counted = "numbers";
    made.buffers.push_back({"scratch", BufferRole::Intermediate, kNumber});
    loop.scratch = {"scratch"};
  } else {
    for (const char* name : {"i", "spare.i", "spare.x", "answer"})
      made.buffers.push_back({name, BufferRole::Intermediate, kNumber});
    made.buffers.back().type = ArrayType("pred", 1, {});
    made.buffers.push_back({"loop.j", BufferRole::Carried, kNumber});
    loop.values[0].result = "i";
    loop.values[0].next = "loop.j";
    loop.values[0].spare = "spare.i";
    loop.values[1].spare = "spare.x";
    loop.body.push_back(launch("add", {"loop.i", "one", "loop.j"}));
    loop.condition = {launch("less", {"loop.i", "limit", "answer"})};
    loop.answer = "answer";
  }
  made.steps = {GpuStep(std::move(loop), "loop", "a loop")};
  place_buffers(made, /*outputs=*/true);
  return made;
}

ProgramImage image_of(LaunchManifest manifest) {
  ProgramImage image;
  image.constants.assign(static_cast<size_t>(layout_of(manifest).constant_bytes), '\0');
  const auto put = [&](const std::string& name, const std::string& bytes) {
    std::memcpy(image.constants.data() + *manifest.find(name)->offset, bytes.data(), bytes.size());
  };
  put("numbers", bytes_of({0, 1, 2, 3, 4, 5}));
  put("first", bytes_of({0}));
  put("one", bytes_of({1}));
  put("limit", bytes_of({5}));
  image.modules[""] = cubin();
  image.manifest = std::move(manifest);
  return image;
}

class GpuStepsTest : public FakeGpuTest {};

TEST_F(GpuStepsTest, LoopsAreCountedOrAsked) {
  for (const bool counted : {true, false}) {
    const auto program = GpuProgram::load(*device_, image_of(sum(counted)));
    ASSERT_TRUE(program) << message(program);
    const auto buffers = (*program)->allocate();
    ASSERT_TRUE(buffers) << message(buffers);
    for (const int32_t x : {100, -7}) {
      ASSERT_TRUE(buffers->at("x").upload(bytes_of({x})));
      const auto launched = (*program)->launch(*buffers);
      ASSERT_TRUE(launched) << message(launched);
      EXPECT_EQ(number_in(*buffers, "r"), x + 10);
      EXPECT_EQ(number_in(*buffers, "x"), x);
    }
    EXPECT_EQ((*program)->step_on_host().value_or("none"), "none");
    const auto replayed = (*program)->microseconds(std::span(&*buffers, 1));
    EXPECT_TRUE(replayed) << message(replayed);
    EXPECT_EQ(number_in(*buffers, "r"), 3);
    const auto times = (*program)->profile(*buffers, 2);
    ASSERT_TRUE(times);
    ASSERT_EQ(times->size(), 2U);
    EXPECT_EQ((*times)[0].name + ", " + (*times)[0].what, "loop, a loop");
    EXPECT_EQ((*times)[1].name, "all");
  }
}

TEST_F(GpuStepsTest, WhereNoGraphHasLoopsTheHostAsks) {
  const auto check = [&](const char* loops, const std::string& driver, const std::string& why) {
    SCOPED_TRACE(driver + " " + loops);
    device_.reset();
    use(driver);
    setenv("STRATA_FAKE_CUDA_LOOPS", loops, 1);
    device_ = *GpuDevice::open();
    const auto program = GpuProgram::load(*device_, image_of(sum(/*counted=*/false)));
    ASSERT_TRUE(program) << message(program);
    const auto buffers = (*program)->allocate();
    for (const int32_t x : {100, -7}) {
      ASSERT_TRUE(buffers->at("x").upload(bytes_of({x})));
      const auto launched = (*program)->launch(*buffers);
      ASSERT_TRUE(launched) << message(launched);
      EXPECT_EQ(number_in(*buffers, "r"), x + 10);
    }
    EXPECT_EQ((*program)->step_on_host().value_or("none"), why);
    EXPECT_EQ((*program)->microseconds(std::span(&*buffers, 1)).has_value(), why == "none");
  };
  check("serial", "fake_cuda", "none");
  check("0", "fake_cuda", "the condition of a loop is read on the host (instantiating a loop's graph: CUDA error 1)");
  check("old", "fake_cuda", "the condition of a loop is read on the host");
}

TEST_F(GpuStepsTest, TheFirstTimedRunShowsThatTheHostAsks) {
  setenv("STRATA_FAKE_CUDA_LOOPS", "0", 1);
  const auto program = GpuProgram::load(*device_, image_of(sum(/*counted=*/false)));
  const auto buffers = (*program)->allocate();
  ASSERT_TRUE(buffers->at("x").upload(bytes_of({1})));
  EXPECT_THAT(message((*program)->microseconds(std::span(&*buffers, 1))),
              HasSubstr("the condition of a loop is read on the host (instantiating"));
  EXPECT_EQ(number_in(*buffers, "r"), 11);
}

/// x + 4 · (0 + 1 + … + 4): the loop of sum() in one of four iterations, or in one that asks.
LaunchManifest nested(bool counted) {
  LaunchManifest made = sum(/*counted=*/false);
  GpuLoop inner = *made.steps[0].loop();
  inner.values[1].initial = "outer.x";
  inner.values[1].result = "outer.next";
  for (const char* name : {"outer.x", "outer.next", "outer.i"})
    made.buffers.push_back({name, BufferRole::Carried, kNumber});
  GpuLoop outer;
  outer.values.push_back({.initial = "first", .current = {"outer.i"}, .next = counted ? "outer.i" : "outer.j"});
  outer.values.push_back({.initial = "x", .result = "r", .current = {"outer.x"}, .next = "outer.next"});
  outer.body = {GpuStep(std::move(inner), "inner", "a loop")};
  if (counted) {
    outer.count = 4;
    outer.values[0].counted = "counters";
    made.buffers.push_back({"counters", BufferRole::Constant, ArrayType("u8", 1, {5 * 4})});
    made.buffers.push_back({"outer.scratch", BufferRole::Intermediate, kNumber});
    outer.scratch = {"outer.scratch"};
  } else {
    for (const char* name : {"outer.r", "outer.spare.i", "outer.spare.x", "outer.answer"})
      made.buffers.push_back({name, BufferRole::Intermediate, kNumber});
    made.buffers.back().type = ArrayType("pred", 1, {});
    made.buffers.push_back({"most", BufferRole::Constant, kNumber});
    made.buffers.push_back({"outer.j", BufferRole::Carried, kNumber});
    outer.values[0].result = "outer.r";
    outer.values[0].spare = "outer.spare.i";
    outer.values[1].spare = "outer.spare.x";
    outer.body.push_back(launch("add", {"outer.i", "one", "outer.j"}));
    outer.condition = {launch("less", {"outer.i", "most", "outer.answer"})};
    outer.answer = "outer.answer";
  }
  made.steps = {GpuStep(std::move(outer), "outer", "a loop")};
  for (GpuBuffer& buffer : made.buffers) buffer.offset.reset();
  place_buffers(made, /*outputs=*/true);
  return made;
}

TEST_F(GpuStepsTest, LoopsThatAskLieInEachOther) {
  for (const bool counted : {true, false}) {
    for (const char* loops : {"all", "0"}) {
      SCOPED_TRACE(std::string(counted ? "counted " : "asked ") + loops);
      setenv("STRATA_FAKE_CUDA_LOOPS", loops, 1);
      ProgramImage image = image_of(nested(counted));
      const std::string numbers = counted ? bytes_of({0, 1, 2, 3, 4}) : bytes_of({4});
      std::memcpy(image.constants.data() + *image.manifest.find(counted ? "counters" : "most")->offset, numbers.data(),
                  numbers.size());
      const auto program = GpuProgram::load(*device_, std::move(image));
      ASSERT_TRUE(program) << message(program);
      const auto buffers = (*program)->allocate();
      ASSERT_TRUE(buffers->at("x").upload(bytes_of({100})));
      const auto launched = (*program)->launch(*buffers);
      ASSERT_TRUE(launched) << message(launched);
      EXPECT_EQ(number_in(*buffers, "r"), 140);
      if (std::string(loops) == "0") continue;
      const auto replayed = (*program)->microseconds(std::span(&*buffers, 1));
      EXPECT_TRUE(replayed) << message(replayed);
      EXPECT_EQ(number_in(*buffers, "r"), 140);
    }
  }
}

/// While i < limit: (a, b, i, c) → (b, a + b, i + 1, a + b). Values move, and one that is written is two leaves' next.
LaunchManifest fibonacci() {
  LaunchManifest made = sum(/*counted=*/false);
  GpuLoop& loop = *made.steps[0].loop();
  for (const char* name : {"loop.a", "loop.c"}) made.buffers.push_back({name, BufferRole::Carried, kNumber});
  for (const char* name : {"a", "spare.a", "c", "spare.c"})
    made.buffers.push_back({name, BufferRole::Intermediate, kNumber});
  loop.values.push_back(
      {.initial = "first", .result = "a", .current = {"loop.a"}, .next = "loop.x", .spare = "spare.a"});
  loop.values.push_back(
      {.initial = "x", .result = "c", .current = {"loop.c"}, .next = "loop.next", .spare = "spare.c"});
  loop.body[0] = launch("add", {"loop.a", "loop.x", "loop.next"});
  made.buffers.push_back({"both", BufferRole::Output, kNumber});
  made.steps.push_back(launch("add", {"a", "c", "both"}));
  for (GpuBuffer& buffer : made.buffers) buffer.offset.reset();
  place_buffers(made, /*outputs=*/true);
  return made;
}

TEST_F(GpuStepsTest, ValuesLieByTurnsForAnyNumberOfIterations) {
  const std::vector<int32_t> numbers{0, 1, 1, 2, 3, 5, 8, 13, 21, 34};  // times x
  for (const char* loops : {"all", "serial", "0"}) {
    setenv("STRATA_FAKE_CUDA_LOOPS", loops, 1);
    for (const int32_t limit : {0, 1, 2, 3, 6, 7}) {
      SCOPED_TRACE(fmt::format("{} {}", loops, limit));
      ProgramImage image = image_of(fibonacci());
      std::memcpy(image.constants.data() + *image.manifest.find("limit")->offset, &limit, sizeof limit);
      const auto program = GpuProgram::load(*device_, std::move(image));
      ASSERT_TRUE(program) << message(program);
      const auto buffers = (*program)->allocate();
      const auto n = static_cast<size_t>(limit);
      for (const int32_t x : {100, -7}) {
        ASSERT_TRUE(buffers->at("x").upload(bytes_of({x})));
        const auto launched = (*program)->launch(*buffers);
        ASSERT_TRUE(launched) << message(launched);
        EXPECT_EQ(number_in(*buffers, "r"), x * numbers[n + 1]);
        // a, and c, which is r.
        EXPECT_EQ(number_in(*buffers, "both"), x * numbers[n + 2]);
        EXPECT_EQ(number_in(*buffers, "x"), x);
      }
      if (std::string(loops) == "0") continue;
      const auto replayed = (*program)->microseconds(std::span(&*buffers, 1));
      EXPECT_TRUE(replayed) << message(replayed);
      EXPECT_EQ(number_in(*buffers, "r"), -7 * numbers[n + 1]);
    }
  }
}

/// The loop of sum() with one iteration at most.
TEST_F(GpuStepsTest, ALoopMayRunOnceOrNotAtAll) {
  for (const char* loops : {"all", "serial", "0"}) {
    setenv("STRATA_FAKE_CUDA_LOOPS", loops, 1);
    for (const int32_t limit : {0, 5}) {
      SCOPED_TRACE(fmt::format("{} {}", loops, limit));
      LaunchManifest made = sum(/*counted=*/false);
      made.steps[0].loop()->once = true;
      for (GpuLoop::Value& value : made.steps[0].loop()->values) value.spare.clear();
      made.steps[0].loop()->body[0] = launch("add", {"loop.x", "one", "loop.next"});
      const auto printed = print(made);
      ASSERT_TRUE(printed) << message(printed);
      const auto read = parse_launch_manifest(*printed);
      ASSERT_TRUE(read) << message(read);
      ProgramImage image = image_of(*read);
      std::memcpy(image.constants.data() + *image.manifest.find("limit")->offset, &limit, sizeof limit);
      const auto program = GpuProgram::load(*device_, std::move(image));
      ASSERT_TRUE(program) << message(program);
      const auto buffers = (*program)->allocate();
      ASSERT_TRUE(buffers->at("x").upload(bytes_of({100})));
      for (int run = 0; run < 2; ++run) {
        const auto launched = (*program)->launch(*buffers);
        ASSERT_TRUE(launched) << message(launched);
        EXPECT_EQ(number_in(*buffers, "r"), limit == 0 ? 100 : 101);
        EXPECT_EQ(number_in(*buffers, "x"), 100);
      }
    }
  }
}

/// A value that the body writes over has one place, beside one that has two.
TEST_F(GpuStepsTest, ValuesInPlaceStayWhereTheyAre) {
  for (const char* loops : {"all", "0"}) {
    setenv("STRATA_FAKE_CUDA_LOOPS", loops, 1);
    LaunchManifest made = sum(/*counted=*/false);
    made.steps[0].loop()->values[1].over = 1;
    const auto program = GpuProgram::load(*device_, image_of(std::move(made)));
    ASSERT_TRUE(program) << message(program);
    const auto buffers = (*program)->allocate();
    ASSERT_TRUE(buffers->at("x").upload(bytes_of({100})));
    ASSERT_TRUE((*program)->launch(*buffers));
    EXPECT_EQ(number_in(*buffers, "r"), 110);
    EXPECT_EQ(number_in(*buffers, "x"), 100);
  }
}

TEST_F(GpuStepsTest, ALoopMayWriteOverItsFirstValue) {
  LaunchManifest made = sum(/*counted=*/true);
  GpuLoop& loop = *made.steps[0].loop();
  loop.values[1].over = 1;
  loop.values[1].in_place = true;
  made.buffers[1].lies_in = "x";
  made.buffers[1].offset.reset();
  const auto program = GpuProgram::load(*device_, image_of(made));
  ASSERT_TRUE(program) << message(program);
  const auto buffers = (*program)->allocate();
  ASSERT_TRUE(buffers->at("x").upload(bytes_of({1})));
  ASSERT_TRUE((*program)->launch(*buffers));
  EXPECT_EQ(number_in(*buffers, "r"), 11);
  EXPECT_EQ(buffers->at("r").pointer(), buffers->at("x").pointer());
}

TEST_F(GpuStepsTest, CopiesFillsAndTheHost) {
  LaunchManifest made;
  made.buffers = {
      {"x", BufferRole::Input, ArrayType("s32", 4, {2})},    {"y", BufferRole::Output, ArrayType("s32", 4, {2})},
      {"z", BufferRole::Output, ArrayType("c64", 8, {2})},   {"b", BufferRole::Output, ArrayType("u8", 1, {3})},
      {"h", BufferRole::Output, ArrayType("u16", 2, {2})},   {"w", BufferRole::Output, ArrayType("f32", 4, {2})},
      {"none", BufferRole::Output, ArrayType("f32", 4, {0})}};
  HostStep host{"no emitter has code for it", {}, {"x", "y"}};
  host.run = [&](const std::vector<CudaPointer>& pointers) -> Result<void> {
    STRATA_TRY(const std::string bytes, GpuArray(*device_, pointers[0], 8).download());
    return GpuArray(*device_, pointers[1], 8).upload(bytes.substr(4) + bytes.substr(0, 4));
  };
  made.steps = {GpuStep(GpuFill{"z", bytes_of({1, 2})}, "z", ""),
                GpuStep(GpuFill{"b", "\x05"}, "", ""),
                GpuStep(GpuFill{"h", "\x05\x06"}, "", ""),
                GpuStep(GpuFill{"w", bytes_of({7})}, "", ""),
                GpuStep(GpuFill{"none", bytes_of({7})}, "", ""),
                GpuStep(host, "swap", "interpreter"),
                GpuStep(GpuCopy{"y", "x"}, "", "")};
  const auto program = GpuProgram::load(*device_, ProgramImage{made});
  ASSERT_TRUE(program) << message(program);
  const auto buffers = (*program)->allocate();
  ASSERT_TRUE(buffers->at("x").upload(bytes_of({3, 4})));
  ASSERT_TRUE((*program)->launch(*buffers));
  EXPECT_EQ(*buffers->at("x").download(), bytes_of({4, 3}));
  EXPECT_EQ(*buffers->at("z").download(), bytes_of({1, 2, 1, 2}));
  EXPECT_EQ(*buffers->at("b").download(), "\x05\x05\x05");
  EXPECT_EQ(*buffers->at("h").download(), "\x05\x06\x05\x06");
  EXPECT_EQ(*buffers->at("w").download(), bytes_of({7, 7}));
  EXPECT_EQ((*program)->step_on_host(), "swap runs on the host");
  EXPECT_THAT(message(write_program(ProgramImage{made}, (folder_.path() / "f").string())),
              HasSubstr("step 'swap' runs on the host, which no manifest can say: no emitter has code for it"));
  EXPECT_FALSE(manifest_in((folder_.path() / "f").string()));
}

TEST(StepOnHost, WorkOfALibraryThatWaits) {
  GpuLaunch launch;
  launch.kernel = "values";
  const auto of = [&](SpectrumKind kind, int64_t n) {
    launch.library = MatrixSpectrum{kind, {}, n, n};
    return step_on_host({GpuStep(launch)}, /*device_asks=*/true).value_or("none");
  };
  EXPECT_EQ(of(SpectrumKind::Singular, 32), "none");
  EXPECT_EQ(of(SpectrumKind::Eigen, 512), "none");
  EXPECT_EQ(of(SpectrumKind::Eigen, 513), "values waits on the host");
}

TEST_F(GpuStepsTest, WhatDoesNotFitTogetherIsRefused) {
  const auto with = [&](const std::function<void(LaunchManifest&)>& change, bool counted = true) {
    ProgramImage image = image_of(sum(counted));
    change(image.manifest);
    return message(GpuProgram::load(*device_, std::move(image)));
  };
  const auto loop = [](LaunchManifest& m) -> GpuLoop& { return *m.steps[0].loop(); };
  EXPECT_EQ(with([&](auto& m) { loop(m).values[1].initial = "q"; }), "a step names 'q', which is no buffer");
  EXPECT_EQ(with([&](auto& m) { loop(m).values[1].result = "numbers"; }),
            "a loop's 'x' and 'numbers' are of different sizes");
  EXPECT_EQ(with([&](auto& m) { loop(m).values[1].current = {"x"}; }),
            "a loop hands on 'x', which has a place of its own");
  EXPECT_EQ(with([&](auto& m) { loop(m).values[1].next = "x"; }),
            "a loop's next value 'x' does not lie where the loop says");
  EXPECT_EQ(with([&](auto& m) { loop(m).values[1].over = 2; }), "a loop has no value 2");
  EXPECT_EQ(with([&](auto& m) { loop(m).count = 6; }), "a loop of 6 iterations has other counters");
  EXPECT_EQ(with([&](auto& m) { loop(m).count = -1; }), "a loop has -1 iterations");
  EXPECT_EQ(with([&](auto& m) { loop(m).scratch.clear(); }), "a loop has too little scratch memory");
  EXPECT_EQ(with([&](auto& m) { loop(m).values[1].spare = ""; }, false), "a loop has no room for values of 'x'");
  EXPECT_EQ(with([&](auto& m) { loop(m).answer = "x"; }, false), "the answer 'x' of a loop's condition is no pred");
  EXPECT_EQ(with([&](auto& m) { m.buffers[2].name = "loop.x"; }), "there are two buffers 'loop.x'");
  EXPECT_EQ(with([&](auto& m) {
              m.buffers.push_back({"c", BufferRole::Carried, kNumber});
            }),
            "no loop says where 'c' lies");
  EXPECT_THAT(with([&](auto& m) { m.buffers[5].offset = 1 << 20; }), HasSubstr("'numbers' lies beyond the"));
  EXPECT_EQ(with([&](auto& m) { loop(m).body[0].launch()->module = "other"; }),
            "kernel 'add' needs the module 'other', which is missing");
  EXPECT_EQ(with([&](auto& m) {
              m.steps.push_back(GpuStep(GpuCopy{"x", "numbers"}, "", ""));
            }),
            "'numbers' is to be copied from an array that is smaller");
  EXPECT_EQ(with([&](auto& m) {
              m.steps.push_back(GpuStep(GpuFill{"x", "12345678"}, "", ""));
            }),
            "'x' is filled with a pattern that does not divide it");
}

TEST_F(GpuStepsTest, FoldersRunWithoutWhatTheyWereMadeOf) {
  const std::string folder = (folder_.path() / "program").string();
  ProgramImage image = image_of(sum(/*counted=*/true));
  image.modules.clear();
  image.modules["step"] = cubin();  // no ELF: the driver's stand-in takes it for PTX
  image.manifest.steps[0].loop()->body[0].launch()->module = "step";
  image.manifest.target = "sm_90a";
  ASSERT_TRUE(write_program(image, folder));
  const auto read = read_program(folder, "sm_90a");
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(read->modules, image.modules);
  EXPECT_EQ(read->constants, image.constants);
  const auto program = GpuProgram::load(*device_, *read);
  ASSERT_TRUE(program) << message(program);
  const auto buffers = (*program)->allocate();
  ASSERT_TRUE(buffers->at("x").upload(bytes_of({32})));
  ASSERT_TRUE((*program)->launch(*buffers));
  EXPECT_EQ(number_in(*buffers, "r"), 42);
  EXPECT_THAT(message(read_program(folder, "sm_80")), HasSubstr("holds code for sm_90a, and the GPU is sm_80"));
  EXPECT_THAT(message(read_program(folder_.path().string(), "sm_90a")), HasSubstr("has neither program.json nor"));
  image.manifest.steps[0].loop()->body[0].launch()->module = "../step";
  ASSERT_FALSE(write_program(ProgramImage{image.manifest, {{"../step", ""}}}, folder));
  ASSERT_TRUE(write_program(ProgramImage{image.manifest}, folder));
  EXPECT_THAT(message(read_program(folder, "sm_90a")), HasSubstr("'../step' is no name of a module"));
}

}  // namespace
}  // namespace strata
