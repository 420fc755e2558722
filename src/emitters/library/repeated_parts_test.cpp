// Parts of dimensions along which values repeat their elements.
#include "emitters/library/repeated_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emitters/library/test_library_calls.h"
#include "hlo/compute.h"

namespace strata::emitters {
namespace {

using testing::ElementsAre;
using Parts = RepeatedParts::Parts;

/// Of the root of an entry.
Parts parts_of(const std::string& body, int64_t dimension) {
  const hlo::ModulePtr module = parsed("HloModule m\n\nENTRY e {\n" + body + "}\n");
  if (!module) return {};
  const hlo::Computation& entry = module->entry_computation();
  return RepeatedParts(entry).of(entry.root, dimension);
}

/// As Hugging Face's models and jnp.repeat write heads of keys for each head of queries.
TEST(RepeatedPartsTest, HeadsOfAGroupAreTheInnerPart) {
  const std::string text = R"(
  k = bf16[2,3,7,5] parameter(0)
  b = bf16[2,3,4,7,5] broadcast(k), dimensions={0,1,3,4}
  h = bf16[2,12,7,5] reshape(b)
  t = bf16[2,12,5,7] transpose(h), dimensions={0,1,3,2}
  w = f32[2,12,5,7] convert(t)
  ROOT r = f32[24,5,7] reshape(w)
)";
  EXPECT_THAT(parts_of(text, 0), ElementsAre(DimensionPart{1, 4}));
  EXPECT_THAT(parts_of(text, 1), ElementsAre());
}

/// jnp.tile, and concatenations of one array.
TEST(RepeatedPartsTest, ATiledArrayIsTheOuterPart) {
  EXPECT_THAT(parts_of(R"(
  k = f32[3,5] parameter(0)
  b = f32[4,3,5] broadcast(k), dimensions={1,2}
  ROOT r = f32[12,5] reshape(b)
)",
                       0),
              ElementsAre(DimensionPart{3, 12}));
  EXPECT_THAT(parts_of(R"(
  k = f32[3,5] parameter(0)
  ROOT r = f32[6,5] concatenate(k, k), dimensions={0}
)",
                       0),
              ElementsAre(DimensionPart{3, 6}));
}

/// An operator repeats what all its operands do.
TEST(RepeatedPartsTest, OperandsHaveTheirPartsInCommon) {
  EXPECT_THAT(parts_of(R"(
  a = f32[2] parameter(0)
  c = f32[3] parameter(1)
  x = f32[2,12] broadcast(a), dimensions={0}
  y = f32[3,4] broadcast(c), dimensions={0}
  z = f32[12] reshape(y)
  w = f32[2,12] broadcast(z), dimensions={1}
  s = f32[2,12] multiply(x, w)
  ROOT r = f32[24] reshape(s)
)",
                       0),
              ElementsAre(DimensionPart{1, 4}));
}

/// A module of operators that move elements, and what it computes them of.
class RandomMovement {
 public:
  explicit RandomMovement(uint64_t seed) : random_(seed) {
    for (int64_t i = 0, rank = 1 + below(3); i < rank; ++i) dims_.push_back(1 + below(4));
    add(fmt::format("parameter(0)"));
    for (int i = 0; i < 7; ++i) step();
  }

  std::string text() const {
    std::string lines = lines_;
    lines.insert(lines.rfind("  x"), "  ROOT");
    return "HloModule m\n\nENTRY e {\n" + lines + "}\n";
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(n))); }
  std::string last() const { return fmt::format("x{}", count_ - 1); }
  void add(const std::string& call) { lines_ += fmt::format("  x{} = s32{} {}\n", count_++, dims(dims_), call); }
  int64_t elements() const {
    int64_t all = 1;
    for (const int64_t size : dims_) all *= size;
    return all;
  }

  void step() {
    const std::string before = last();
    const std::vector<int64_t> old = dims_;
    const auto rank = std::ssize(dims_), d = below(rank);
    const auto at = static_cast<size_t>(d);
    switch (below(9)) {
      case 0: {
        if (elements() > 2000) return;
        std::vector<int64_t> kept;
        const int64_t place = below(rank + 1);
        for (int64_t i = 0; i <= rank; ++i) {
          if (i != place) kept.push_back(i);
        }
        dims_.insert(dims_.begin() + place, 2 + below(3));
        return add(fmt::format("broadcast({}), dimensions={}", before, list(kept)));
      }
      case 1: {
        std::vector<int64_t> order(dims_.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
        order = shuffled(order, random_);
        for (size_t i = 0; i < order.size(); ++i) dims_[i] = old[static_cast<size_t>(order[i])];
        return add(fmt::format("transpose({}), dimensions={}", before, list(order)));
      }
      case 2:
      case 3:  // two dimensions become one
        if (at + 1 == dims_.size()) return;
        dims_[at] *= dims_[at + 1];
        dims_.erase(dims_.begin() + d + 1);
        return add(fmt::format("reshape({})", before));
      case 4:  // one becomes two
        for (const int64_t size : {2, 3, 4}) {
          if (dims_[at] % size != 0 || dims_[at] == size) continue;
          dims_[at] /= size;
          dims_.insert(dims_.begin() + d + below(2), size);
          return add(fmt::format("reshape({})", before));
        }
        return;
      case 5: {
        if (elements() > 2000) return;
        const int64_t copies = 2 + below(2);
        std::string operands = before;
        for (int64_t i = 1; i < copies; ++i) operands += ", " + before;
        dims_[at] *= copies;
        return add(fmt::format("concatenate({}), dimensions={{{}}}", operands, d));
      }
      case 6: {
        add(fmt::format("iota(), iota_dimension={}", d));
        return add(fmt::format("add({}, {})", before, last()));
      }
      case 7:
        add(fmt::format("negate({})", before));
        return add(fmt::format("multiply({}, {})", last(), before));
      default: {
        std::vector<std::string> slices;
        if (dims_[at] == 1) return;
        --dims_[at];
        for (size_t i = 0; i < dims_.size(); ++i) slices.push_back(fmt::format("[0:{}]", dims_[i]));
        return add(fmt::format("slice({}), slice={{{}}}", before, fmt::join(slices, ",")));
      }
    }
  }

  Random random_;
  std::vector<int64_t> dims_;
  std::string lines_;
  int count_ = 0;
};

/// Elements that differ in the digits of a part alone are one.
TEST(RepeatedPartsTest, RandomValuesRepeatTheirParts) {
  int found = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const std::string text = RandomMovement(seed).text();
    const hlo::ModulePtr module = parsed(text);
    ASSERT_NE(module, nullptr) << text;
    const hlo::Computation& entry = module->entry_computation();
    const hlo::Shape& given = entry[entry.parameters[0]].shape;
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < given.element_count(); ++i) numbers.push_back(1000 + 37 * i);
    const auto value = hlo::evaluate(*module, std::vector{hlo::literal_of<int64_t>(given, numbers)});
    ASSERT_TRUE(value) << value.error().to_string();
    const hlo::Shape& shape = value->shape();
    const std::vector<int64_t> strides = hlo::row_major_strides(shape.dims);
    RepeatedParts repeated(entry);
    for (int64_t d = 0; d < shape.rank(); ++d) {
      int64_t end = 1;
      for (const DimensionPart& part : repeated.of(entry.root, d)) {
        ++found;
        ASSERT_EQ(part.low % end, 0) << text;
        ASSERT_TRUE(part.low < part.high && part.high % part.low == 0 && shape.dim(d) % part.high == 0) << text;
        end = part.high;
        const int64_t step = strides[static_cast<size_t>(d)] * part.low;
        for (int64_t i = 0; i < shape.element_count(); ++i) {
          const int64_t first = i - i / step % part.size() * step;
          ASSERT_EQ(value->get_integer(i), value->get_integer(first)) << text << d;
        }
      }
    }
  }
  EXPECT_GT(found, 200);
}

}  // namespace
}  // namespace strata::emitters
