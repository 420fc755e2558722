// Regions of emitted kernels against the kernels themselves: an element of a result that changes when an element of an
// operand does is written by a block that reads that element.
#include "emitters/block_regions.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <set>

#include "block/overlap.h"
#include "emitters/emit.h"
#include "hlo/text.h"
#include "indexing/enumerate.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

EmittedFusion emitted(const std::string& body) {
  const auto module = hlo::parse_module("HloModule m\n" + body);
  EXPECT_TRUE(module) << module.error().to_string();
  auto fusion = emit_fusion(**module, (*module)->entry, "kernel");
  EXPECT_TRUE(fusion) << fusion.error().to_string();
  return *fusion;
}

std::vector<AccessRegion> only_kernel(const EmittedFusion& fusion) {
  const auto regions = fusion.regions();
  EXPECT_TRUE(regions) << regions.error().to_string();
  EXPECT_EQ(regions->size(), 1U);
  return (*regions)[0];
}

/// Memory of an array, aligned as kernels want it.
struct Array {
  explicit Array(const hlo::Shape& shape)
      : count(shape.element_count()),
        data(static_cast<float*>(std::aligned_alloc(256, (static_cast<size_t>(count) * 4 + 255) / 256 * 256))) {}
  int64_t count;
  std::unique_ptr<float, decltype([](float* p) { std::free(p); })> data;
};

class Check {
 public:
  explicit Check(const std::string& body) : fusion_(emitted(body)), regions_(only_kernel(fusion_)) {
    Random random(7);
    for (const hlo::Shape& shape : fusion_.inputs()) {
      inputs_.emplace_back(shape);
      for (int64_t i = 0; i < inputs_.back().count; ++i) {
        if (shape.type == hlo::ElementType::F32) {
          inputs_.back().data.get()[i] = static_cast<float>(0.5 + random.uniform());
        } else {
          const int32_t index = static_cast<int32_t>(random.below(5));
          std::memcpy(inputs_.back().data.get() + i, &index, sizeof index);
        }
      }
    }
    for (const AccessRegion& region : regions_) {
      const hlo::Shape& shape = this->shape(static_cast<size_t>(region.argument));
      indexing::for_each_point(region.map, [&](const indexing::Point& point) {
        const auto index = evaluate(region.map, point);
        int64_t position = 0;
        for (size_t d = 0; d < shape.dims.size(); ++d) {
          if (!indexing::below(shape.dims[d]).contains((*index)[d])) return true;
          position = position * shape.dims[d] + (*index)[d];
        }
        (region.writes ? written_ : read_)[{region.argument, position}].insert(point.dims[0]);
        return true;
      });
    }
  }

  const std::vector<AccessRegion>& regions() const { return regions_; }

  void run() {
    const std::vector<std::vector<float>> before = results();
    for (size_t n = 0; n < before.size(); ++n) {
      for (size_t i = 0; i < before[n].size(); ++i) EXPECT_FALSE(writers(n, i).empty()) << n << ", " << i;
    }
    Random random(8);
    for (size_t n = 0; n < inputs_.size(); ++n) {
      if (fusion_.inputs()[n].type != hlo::ElementType::F32) continue;
      for (int test = 0; test < 40; ++test) {
        const auto e = static_cast<int64_t>(random.below(static_cast<uint64_t>(inputs_[n].count)));
        float& element = inputs_[n].data.get()[e];
        const float kept = std::exchange(element, 9.0F);
        const auto after = results();
        element = kept;
        const std::set<int64_t> readers = read_[{static_cast<int>(n), e}];
        for (size_t m = 0; m < before.size(); ++m) {
          for (size_t i = 0; i < before[m].size(); ++i) {
            if (before[m][i] == after[m][i]) continue;
            const std::set<int64_t> by = writers(m, i);
            EXPECT_TRUE(std::any_of(by.begin(), by.end(), [&](int64_t block) { return readers.count(block) > 0; }))
                << "element " << e << " of operand " << n << " shows in " << i << " of result " << m;
          }
        }
      }
    }
  }

 private:
  const hlo::Shape& shape(size_t argument) const {
    const size_t inputs = fusion_.inputs().size();
    return argument < inputs ? fusion_.inputs()[argument] : fusion_.outputs()[argument - inputs];
  }

  std::set<int64_t> writers(size_t result, size_t element) {
    return written_[{static_cast<int>(inputs_.size() + result), static_cast<int64_t>(element)}];
  }

  std::vector<std::vector<float>> results() const {
    std::vector<Array> outputs;
    for (const hlo::Shape& one : fusion_.outputs()) outputs.emplace_back(one);
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const Array& input : inputs_) from.push_back(input.data.get());
    for (const Array& output : outputs) to.push_back(output.data.get());
    const auto ran = fusion_.run_on_cpu(from, to);
    EXPECT_TRUE(ran) << ran.error().to_string();
    std::vector<std::vector<float>> values;
    for (const Array& output : outputs) values.emplace_back(output.data.get(), output.data.get() + output.count);
    return values;
  }

  EmittedFusion fusion_;
  std::vector<AccessRegion> regions_;
  std::vector<Array> inputs_;
  std::map<std::pair<int, int64_t>, std::set<int64_t>> read_, written_;  ///< blocks, by argument and position
};

const char* const kAdd = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n";

TEST(BlockRegions, AreWhatKernelsReadAndWrite) {
  const std::string add = kAdd;
  for (const std::string& body :
       {std::string(
            "ENTRY e {\n  x = f32[40,70] parameter(0)\n  y = f32[70] parameter(1)\n  b = f32[40,70] broadcast(y), "
            "dimensions={1}\n  ROOT r = f32[40,70] multiply(x, b)\n}\n"),
        std::string(
            "ENTRY e {\n  x = f32[70,90] parameter(0)\n  t = f32[90,70] transpose(x), dimensions={1,0}\n  ROOT r "
            "= f32[90,70] negate(t)\n}\n"),
        add + "ENTRY e {\n  x = f32[50,130] parameter(0)\n  z = f32[] constant(0)\n  ROOT r = f32[50] reduce(x, z), "
              "dimensions={1}, to_apply=add\n}\n",
        add + "ENTRY e {\n  x = f32[64,200] parameter(0)\n  z = f32[] constant(0)\n  r = f32[64] reduce(x, z), "
              "dimensions={1}, to_apply=add\n  b = f32[64,200] broadcast(r), dimensions={0}\n  ROOT d = f32[64,200] "
              "divide(x, b)\n}\n",
        std::string("ENTRY e {\n  x = f32[30,40] parameter(0)\n  y = f32[30,40] parameter(1)\n  ROOT r = f32[60,40] "
                    "concatenate(x, y), dimensions={0}\n}\n"),
        std::string(
            "ENTRY e {\n  x = f32[60,40] parameter(0)\n  i = s32[] parameter(1)\n  z = s32[] constant(0)\n  s = "
            "f32[20,40] dynamic-slice(x, i, z), dynamic_slice_sizes={20,40}\n  ROOT r = f32[20,40] "
            "exponential(s)\n}\n")}) {
    SCOPED_TRACE(body);
    Check(body).run();
  }
}

/// Where nothing but the number of the block decides, regions are exact, and tell which blocks of the next kernel need
/// which: here those of the same number.
TEST(BlockRegions, OfElementwiseKernelsAreExact) {
  const std::vector<AccessRegion> regions =
      only_kernel(emitted("ENTRY e {\n  x = f32[1000,640] parameter(0)\n  ROOT r = f32[1000,640] exponential(x)\n}\n"));
  ASSERT_EQ(regions.size(), 2U);
  const AccessRegion& read = regions[0];
  const AccessRegion& written = regions[1];
  EXPECT_TRUE(read.exact && written.exact);
  EXPECT_TRUE(written.writes && !read.writes);
  const BlockOverlap overlap(written.map, read.map, {1000, 640});
  EXPECT_TRUE(overlap.exact()) << to_string(written.map);
  EXPECT_TRUE(overlap.is_one_to_one()) << to_string(written.map);
}

/// A value that is computed decides: all that it may be is read.
TEST(BlockRegions, OfGathersAreAllThatIndicesMayBe) {
  const Check check(
      "ENTRY e {\n  x = f32[60,40] parameter(0)\n  i = s32[] parameter(1)\n  z = s32[] constant(0)\n  ROOT s = "
      "f32[20,40] "
      "dynamic-slice(x, i, z), dynamic_slice_sizes={20,40}\n}\n");
  bool found = false;
  for (const AccessRegion& region : check.regions()) {
    if (region.argument != 0) continue;
    found = true;
    EXPECT_FALSE(region.exact);
    EXPECT_FALSE(region.map.runtime.empty());
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace strata::emitters
