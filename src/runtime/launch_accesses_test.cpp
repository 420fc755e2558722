#include "runtime/launch_accesses.h"

#include <gmock/gmock.h>

namespace strata {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

indexing::IndexingMap map_of(const std::string& text) {
  auto map = indexing::parse_indexing_map(text);
  EXPECT_TRUE(map) << map.error().to_string();
  return map ? *map : indexing::IndexingMap();
}

constexpr const char* kRow = "(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 63]";

GpuLaunch launch(const std::string& kernel, std::vector<std::string> arguments, std::vector<GpuAccess> accesses) {
  GpuLaunch made;
  made.kernel = made.module = kernel;
  made.grid = {4, 1, 1};
  made.arguments = std::move(arguments);
  made.accesses = std::move(accesses);
  return made;
}

TEST(LaunchAccesses, IndicesOfTheSameMemory) {
  const indexing::IndexingMap map = map_of("(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 5]");
  EXPECT_EQ(indexing::to_string(of_same_memory(map, ArrayType("f32", 4, {4, 6}), ArrayType("f32", 4, {24}))),
            "(d0)[s0] -> (d0 * 6 + s0), domain: d0 in [0, 3], s0 in [0, 5]");
  EXPECT_EQ(indexing::to_string(of_same_memory(map, ArrayType("f32", 4, {4, 6}), ArrayType("f32", 4, {2, 2, 6}))),
            "(d0)[s0] -> (d0 floordiv 2, d0 mod 2, s0), domain: d0 in [0, 3], s0 in [0, 5]");
  // Columns that lie one after the other.
  EXPECT_EQ(indexing::to_string(of_same_memory(map, ArrayType("f32", 4, {4, 6}), ArrayType("f32", 4, {6, 4}, {0, 1}))),
            "(d0)[s0] -> (s0, d0), domain: d0 in [0, 3], s0 in [0, 5]");
}

/// y = f(x, w), z = g(y), out = h(z): y and out lie in the same memory.
LaunchManifest chain() {
  LaunchManifest made;
  const ArrayType type("f32", 4, {4, 64});
  made.buffers = {{"x", BufferRole::Input, type},
                  {"w", BufferRole::Constant, type, 0},
                  {"y", BufferRole::Intermediate, type, 0},
                  {"z", BufferRole::Intermediate, type, 1024},
                  {"out", BufferRole::Output, type, 0}};
  const GpuAccess reads{0, false, true, map_of(kRow)}, writes{1, true, true, map_of(kRow)};
  made.steps.emplace_back(
      launch("f", {"x", "w", "y"}, {reads, {1, false, true, map_of(kRow)}, {2, true, true, map_of(kRow)}}));
  made.steps.emplace_back(launch("g", {"y", "z"}, {reads, writes}));
  made.steps.emplace_back(launch("h", {"z", "out"}, {reads, writes}));
  classify_arguments(made, [](const GpuLaunch&) { return true; });
  return made;
}

std::string refusal(const LaunchManifest& manifest) {
  const auto checked = check_accesses(manifest);
  return checked ? "" : checked.error().to_string();
}

TEST(LaunchAccesses, ClassesFollowFromWhatIsWritten) {
  LaunchManifest made = chain();
  EXPECT_EQ(refusal(made), "");
  EXPECT_THAT(made.steps[0].launch()->classes,
              ElementsAre(ArgumentClass::Constant, ArgumentClass::Constant, ArgumentClass::Activation));
  EXPECT_THAT(made.steps[1].launch()->classes, ElementsAre(ArgumentClass::Activation, ArgumentClass::Activation));
  // A cache: an input over which a result is written.
  made.buffers[4].offset.reset();
  made.buffers[4].lies_in = "x";
  classify_arguments(made, [](const GpuLaunch&) { return true; });
  EXPECT_EQ(made.steps[0].launch()->classes[0], ArgumentClass::State);
  EXPECT_EQ(refusal(made), "");
}

TEST(LaunchAccesses, StepsInAnotherOrderAreRefused) {
  LaunchManifest made = chain();
  std::swap(made.steps[0], made.steps[1]);
  EXPECT_THAT(refusal(made), AllOf(HasSubstr("step 'g' reads 'y', which no step before it writes"),
                                   HasSubstr("make the program anew")));
  made = chain();
  std::swap(made.steps[1], made.steps[2]);
  EXPECT_THAT(refusal(made), HasSubstr("step 'h' reads 'z'"));
  // What is read after its memory has been given to another.
  made = chain();
  made.steps.push_back(made.steps[1]);
  EXPECT_THAT(refusal(made), HasSubstr("step 'g' reads 'y' after a step has written 'out', which has its memory"));
  // A part of the memory is enough.
  made = chain();
  made.buffers[4].offset = 512;
  EXPECT_EQ(refusal(made), "");
  made.steps.push_back(made.steps[1]);
  EXPECT_THAT(refusal(made), HasSubstr("'out', which has its memory"));
}

/// Two kernels in one launch: the second reads what the first has written, and not before.
TEST(LaunchAccesses, ALaunchReadsWhatItHasWrittenItself) {
  const GpuAccess write{1, true, true, map_of(kRow)}, read{1, false, true, map_of(kRow)};
  for (const bool after : {true, false}) {
    LaunchManifest made = chain();
    std::vector<GpuAccess>& accesses = made.steps[1].launch()->accesses;
    accesses = {accesses[0], after ? write : read, after ? read : write};
    EXPECT_EQ(refusal(made).find("step 'g' reads 'z', which no step before it writes") == std::string::npos, after);
  }
}

TEST(LaunchAccesses, ConstantsAreNotWritten) {
  LaunchManifest made = chain();
  made.steps[2].launch()->arguments[1] = "x";
  EXPECT_THAT(refusal(made), HasSubstr("kernel 'f' has 'x' as a constant, which a step writes"));
  made = chain();
  made.steps.emplace_back(GpuFill{"x", std::string(1, '\0')}, "", "");
  EXPECT_THAT(refusal(made), HasSubstr("kernel 'f' has 'x' as a constant, which a step writes"));
  made = chain();
  made.steps[1].launch()->classes[0] = ArgumentClass::Constant;
  EXPECT_THAT(refusal(made), HasSubstr("kernel 'g' has 'y' as a constant, which is made in the run"));
}

TEST(LaunchAccesses, RegionsAreOfTheGridAndTheBuffer) {
  for (const auto& [map, why] :
       {std::pair{"(d0)[s0] -> (d0, s0), domain: d0 in [0, 4], s0 in [0, 63]", "takes other blocks than the grid's 4"},
        {"(d0) -> (d0), domain: d0 in [0, 3]", "is no index of f32[4, 64]"},
        {"(d0)[s0] -> (d0, s0 + 1), domain: d0 in [0, 3], s0 in [0, 63]", "leaves"},
        {"(d0)[s0] -> (d0 + 1, s0), domain: d0 in [0, 3], s0 in [0, 63]", "leaves"}}) {
    LaunchManifest made = chain();
    made.steps[1].launch()->accesses[0].map = map_of(map);
    EXPECT_THAT(refusal(made), AllOf(HasSubstr("kernel 'g' reads 'y' by "), HasSubstr(why)));
  }
  // Conditions keep it inside.
  LaunchManifest made = chain();
  made.steps[1].launch()->accesses[0].map =
      map_of("(d0)[s0] -> (d0, s0 + 1), domain: d0 in [0, 3], s0 in [0, 63], s0 in [0, 62]");
  EXPECT_EQ(refusal(made), "");
  made.steps[1].launch()->classes.pop_back();
  EXPECT_THAT(refusal(made), HasSubstr("has 2 arguments, and classes of 1"));
}

TEST(LaunchAccesses, OfOtherLaunchesNothingIsKnown) {
  LaunchManifest made = chain();
  GpuLaunch& g = *made.steps[1].launch();
  g.classes.clear();
  EXPECT_THAT(refusal(made), HasSubstr("kernel 'g' has accesses, but no classes"));
  g.accesses.clear();
  EXPECT_EQ(refusal(made), "");
}

TEST(LaunchAccesses, AreReadAsTheyArePrinted) {
  LaunchManifest made = chain();
  made.steps[1].launch()->accesses[0].exact = false;
  const auto text = print(made);
  ASSERT_TRUE(text);
  const auto read = parse_launch_manifest(*text);
  ASSERT_TRUE(read) << read.error().to_string();
  for (size_t i = 0; i < made.steps.size(); ++i) {
    EXPECT_EQ(read->steps[i].launch()->accesses, made.steps[i].launch()->accesses);
    EXPECT_EQ(read->steps[i].launch()->classes, made.steps[i].launch()->classes);
  }
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string changed = *text;
    changed.replace(changed.find(from), from.size(), to);
    const auto parsed = parse_launch_manifest(changed);
    return parsed ? "" : parsed.error().to_string();
  };
  EXPECT_THAT(with("\"version\": 2", "\"version\": 3"), HasSubstr("this Strata reads 1 to 2"));
  EXPECT_THAT(with("\"constant\",\n        \"constant\"", "\"weights\""), HasSubstr("is no class of an argument"));
  EXPECT_THAT(with("\"argument\": 0", "\"argument\": 7"), HasSubstr("has an access of argument 7, and 3 arguments"));
  EXPECT_THAT(with("(d0)[s0]", "(d0)[s1]"), HasSubstr("indexing map"));
}

}  // namespace
}  // namespace strata
