// Loops as one kernel, on this processor, against the interpreter.
#include "emitters/loop_kernel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <random>

#include "emitters/buffers.h"
#include "emitters/program_image.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "runtime/nv_jit_link.h"

namespace strata::emitters {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Made {
  hlo::ModulePtr module;
  EmittedProgram program;
  EmittedImage image;
};

/// The image, whose modules are PTX.
Made made_of(const std::string& text) {
  Made made;
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return made;
  made.module = *module;
  auto program = emit_program(*made.module);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return made;
  made.program = *std::move(program);
  auto image = image_of(
      made.program, {}, [](const EmittedFusion& of) { return of.text(Form::Ptx); }, nullptr, ResultMemory::Own,
      [](const LoopKernel& of) { return of.ptx(); });
  EXPECT_TRUE(image) << image.error().to_string();
  if (image) made.image = *std::move(image);
  return made;
}

/// Of a module that is a loop over its parameters and constants: the kernel, whose results are the interpreter's.
/// Memory that nothing was written to is NaN.
std::optional<LoopKernel> checked(const std::string& text, uint64_t seed = 1) {
  const Made made = made_of(text);
  EXPECT_EQ(made.image.loops.size(), 1U);
  if (made.image.loops.size() != 1) return std::nullopt;
  const LoopKernel& loop = made.image.loops.front();
  const LaunchManifest& manifest = made.image.image.manifest;
  const auto arguments = hlo::typical_arguments(made.module->entry_computation(), seed);
  const auto expected = hlo::evaluate(*made.module, arguments);
  EXPECT_TRUE(expected);
  if (!expected) return std::nullopt;

  std::map<std::string, Buffer> memory;
  const auto at = [&](const std::string& name) {
    const GpuBuffer* root = manifest.find(name);
    while (!root->lies_in.empty()) root = manifest.find(root->lies_in);
    return memory.try_emplace(root->name, static_cast<size_t>(root->type.bytes())).first->second.data();
  };
  for (const GpuBuffer& buffer : manifest.buffers) {
    const auto bytes = static_cast<size_t>(buffer.type.bytes());
    EXPECT_NE(buffer.role, BufferRole::Carried) << buffer.name;
    if (buffer.role == BufferRole::Counters) std::memset(at(buffer.name), 0, bytes);
    if (buffer.role == BufferRole::Constant)
      std::memcpy(at(buffer.name), made.image.image.constants.data() + *buffer.offset, bytes);
  }
  for (size_t i = 0; i < made.program.buffers.size(); ++i) {
    const ProgramBuffer& it = made.program.buffers[i];
    if (it.parameter < 0 || made.image.buffers[i].empty()) continue;
    const Buffer bytes = to_buffer(arguments[static_cast<size_t>(it.parameter)], it.shape);
    std::memcpy(at(made.image.buffers[i]), bytes.data(), bytes.size());
  }
  std::vector<void*> pointers;
  const auto pointers_of = [&](const std::vector<int>& buffers) {
    std::vector<void*> all;
    for (const int one : buffers) all.push_back(at(made.image.buffers[static_cast<size_t>(one)]));
    return all;
  };
  for (const ProgramStep& step : made.program.steps) {
    if (!step.loop) {  // whether there is a first iteration
      EXPECT_TRUE(step.fusion && step.temporaries.empty() && step.fusion->decision().preparations.empty());
      const std::vector<void*> inputs = pointers_of(step.inputs);
      EXPECT_TRUE(
          step.fusion->run_on_cpu(std::vector<const void*>(inputs.begin(), inputs.end()), pointers_of(step.outputs)));
      continue;
    }
    for (const std::string& name : manifest.steps.back().launch()->arguments) pointers.push_back(at(name));
    const Result<void> ran = loop.run_on_cpu(pointers);
    EXPECT_TRUE(ran) << ran.error().to_string();
  }
  std::vector<hlo::Literal> results;
  for (const int result : made.program.results) {
    const hlo::Shape& shape = made.program.buffers[static_cast<size_t>(result)].shape;
    Buffer bytes(byte_count(shape));
    std::memcpy(bytes.data(), at(made.image.buffers[static_cast<size_t>(result)]), bytes.size());
    results.push_back(from_buffer(bytes, shape));
  }
  EXPECT_EQ(hlo::difference(assemble_results(made.program, results), *expected, 8).value_or(""), "") << text;
  // The code for the GPU is one that the linker takes.
  if (nv_jit_link_version()) {
    const auto cubin = cubin_of(loop, "sm_90a");
    EXPECT_TRUE(cubin) << cubin.error().to_string();
  }
  return loop;
}

/// x ← a step of each element until the largest change is small or `most` steps are done.
std::string until_small(int64_t rows, int64_t columns, int64_t most, const std::string& begins = "0") {
  return fmt::format(R"(HloModule until
greatest {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}}
condition {{
  s = (f32[{0},{1}], f32[], s32[], f32[{0},{1}]) parameter(0)
  moved = f32[] get-tuple-element(s), index=1
  i = s32[] get-tuple-element(s), index=2
  little = f32[] constant(0.001)
  most = s32[] constant({2})
  moves = pred[] compare(moved, little), direction=GT
  more = pred[] compare(i, most), direction=LT
  ROOT r = pred[] and(moves, more)
}}
body {{
  s = (f32[{0},{1}], f32[], s32[], f32[{0},{1}]) parameter(0)
  x = f32[{0},{1}] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=2
  y = f32[{0},{1}] get-tuple-element(s), index=3
  half.1 = f32[] constant(0.5)
  half = f32[{0},{1}] broadcast(half.1), dimensions={{}}
  sum = f32[{0},{1}] add(x, y)
  next = f32[{0},{1}] multiply(sum, half)
  step = f32[{0},{1}] subtract(next, x)
  size = f32[{0},{1}] abs(step)
  least = f32[] constant(-inf)
  moved = f32[] reduce(size, least), dimensions={{0,1}}, to_apply=greatest
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (f32[{0},{1}], f32[], s32[], f32[{0},{1}]) tuple(next, moved, j, y)
}}
ENTRY e {{
  x = f32[{0},{1}] parameter(0)
  y = f32[{0},{1}] parameter(1)
  moved = f32[] constant(inf)
  i = s32[] constant({3})
  s = (f32[{0},{1}], f32[], s32[], f32[{0},{1}]) tuple(x, moved, i, y)
  w = (f32[{0},{1}], f32[], s32[], f32[{0},{1}]) while(s), condition=condition, body=body
  last = f32[{0},{1}] get-tuple-element(w), index=0
  count = s32[] get-tuple-element(w), index=2
  ROOT r = (f32[{0},{1}], s32[]) tuple(last, count)
}}
)",
                     rows, columns, most, begins);
}

TEST(LoopKernel, RunsUntilNothingMoves) {
  for (const int64_t most : {0, 1, 2, 5, 50}) {
    SCOPED_TRACE(most);
    const auto loop = checked(until_small(7, 11, most));
    ASSERT_TRUE(loop);
    EXPECT_EQ(loop->blocks(), 1);  // nothing to wait for
  }
}

TEST(LoopKernel, BlocksWaitForEachOtherOnceAnIteration) {
  for (const int64_t most : {0, 3, 4}) {
    SCOPED_TRACE(most);
    const auto loop = checked(until_small(401, 173, most));
    ASSERT_TRUE(loop);
    EXPECT_GT(loop->blocks(), 1);
    const auto ptx = loop->ptx();
    ASSERT_TRUE(ptx) << ptx.error().to_string();
    // The one before the first iteration, that of an iteration, and what clears the counters.
    size_t arrivals = 0;
    for (size_t p = ptx->find("atom.relaxed.gpu.add"); p != std::string::npos;
         p = ptx->find("atom.relaxed.gpu.add", p + 1))
      ++arrivals;
    EXPECT_EQ(arrivals, 3U);
    EXPECT_THAT(*ptx, Not(HasSubstr("ld.global.nc")));
  }
}

/// A loop of `most` iterations and one more array in its state, a pred; elements are of [rows, columns], [rows],
/// [columns] and [].
class RandomLoop {
 public:
  RandomLoop(uint64_t seed, int64_t rows, int64_t columns)
      : random_(seed),
        shapes_{fmt::format("f32[{},{}]", rows, columns), fmt::format("f32[{},{}]", rows, columns),
                fmt::format("f32[{}]", rows), fmt::format("f32[{}]", columns), "f32[]"},
        rows_(rows),
        columns_(columns) {}

  std::string text() {
    std::string state = "(";
    for (const std::string& shape : shapes_) state += shape + ", ";
    state += "s32[])";
    std::string body, next, parameters, given, results, shapes;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      body += fmt::format("  x{0} = {1} get-tuple-element(s), index={0}\n", i, shapes_[i]);
      parameters += fmt::format("  p{0} = {1} parameter({0})\n", i, shapes_[i]);
      given += fmt::format("p{}, ", i);
      results += fmt::format("  r{0} = {1} get-tuple-element(w), index={0}\n", i, shapes_[i]);
      shapes += (i > 0 ? ", r" : "r") + std::to_string(i);
    }
    for (size_t i = 0; i < shapes_.size(); ++i) next += value(i, body) + ", ";
    const int64_t most = below(6);
    return fmt::format(R"(HloModule random
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}
greatest {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}}
condition {{
  s = {0} parameter(0)
  x = f32[] get-tuple-element(s), index=4
  i = s32[] get-tuple-element(s), index={6}
  far = f32[] constant(1e6)
  most = s32[] constant({7})
  near = pred[] compare(x, far), direction=LT
  more = pred[] compare(i, most), direction=LT
  ROOT r = pred[] and(near, more)
}}
body {{
  s = {0} parameter(0)
  i = s32[] get-tuple-element(s), index={6}
{1}  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = {0} tuple({2}j)
}}
ENTRY e {{
{3}  i = s32[] constant(0)
  s = {0} tuple({4}i)
  w = {0} while(s), condition=condition, body=body
{5}  count = s32[] get-tuple-element(w), index={6}
  ROOT r = tuple({8}, count)
}}
)",
                       state, body, next, parameters, given, results, shapes_.size(), most, shapes);
  }

 private:
  int64_t below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random_); }

  /// The name of the next value of `i`, of what the state has; what computes it is added to the body.
  std::string value(size_t i, std::string& body) {
    const std::string& shape = shapes_[i];
    const std::string name = fmt::format("y{}", i);
    const auto add = [&](const std::string& suffix, const std::string& of, const std::string& text) {
      body += fmt::format("  {}{} = {} {}\n", name, suffix, of, text);
      return name + suffix;
    };
    const auto bounded = [&](const std::string& value) { return add("", shape, "cosine(" + value + ")"); };
    const std::string other = i == 0 ? "x1" : "x0";
    const std::string zero = add(".zero", "f32[]", "constant(0)"), least = add(".least", "f32[]", "constant(-inf)");
    if (i < 2) {
      switch (below(5)) {
        case 0:
          return other;  // it moves
        case 1: {
          const std::string wide = add(".wide", shape, fmt::format("broadcast(x2), dimensions={{0}}"));
          return bounded(add(".sum", shape, fmt::format("add({}, {})", other, wide)));
        }
        case 2: {
          const std::string wide = add(".wide", shape, fmt::format("broadcast(x3), dimensions={{1}}"));
          return bounded(add(".sum", shape, fmt::format("add(x{}, {})", i, wide)));
        }
        case 3: {
          const std::string row = add(".row", fmt::format("f32[1,{}]", columns_), "reshape(x3)");
          const std::string at = add(".at", "s32[]", "constant(0)");
          return add("", shape, fmt::format("dynamic-update-slice(x{}, {}, i, {})", i, row, at));
        }
        default:
          return bounded(add(".back", shape, fmt::format("reverse({}), dimensions={{0}}", other)));
      }
    }
    if (i == 4) {
      const std::string sum =
          add(".sum", shape, fmt::format("reduce(x{}, {}), dimensions={{0,1}}, to_apply=greatest", below(2), least));
      return below(2) == 0 ? sum : add("", shape, fmt::format("add({}, x4)", sum));
    }
    if (below(4) == 0) return fmt::format("x{}", i);
    const std::string sum = add(
        ".sum", shape, fmt::format("reduce(x{}, {}), dimensions={{{}}}, to_apply=add", below(2), zero, i == 2 ? 1 : 0));
    // Means: errors of the sums stay those of the last places, whatever the order, over all iterations.
    const std::string number =
        add(".number", "f32[]", fmt::format("constant({})", 1.0 / static_cast<double>(i == 2 ? columns_ : rows_)));
    const std::string share = add(".share", shape, fmt::format("broadcast({}), dimensions={{}}", number));
    const std::string mean = add(".mean", shape, fmt::format("multiply({}, {})", sum, share));
    return bounded(add(".more", shape, fmt::format("add({}, x{})", mean, i)));
  }

  std::mt19937_64 random_;
  std::vector<std::string> shapes_;
  int64_t rows_, columns_;
};

TEST(LoopKernel, RandomBodiesAreWhatTheInterpreterComputes) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const bool large = seed % 3 == 2;
    checked(RandomLoop(seed, large ? 301 : 7, large ? 129 : 5).text(), seed);
  }
}

/// Two sums that do not need each other.
TEST(LoopKernel, SumsRowsOfTwoLengths) {
  const auto loop = checked(R"(HloModule rows
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
condition {
  s = (f32[256,4096], f32[64,16384], f32[256], f32[64], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=4
  n = f32[256] get-tuple-element(s), index=2
  some = f32[1] slice(n), slice={[0:1]}
  first = f32[] reshape(some)
  far = f32[] constant(1e6)
  most = s32[] constant(3)
  near = pred[] compare(first, far), direction=LT
  more = pred[] compare(i, most), direction=LT
  ROOT r = pred[] and(near, more)
}
body {
  s = (f32[256,4096], f32[64,16384], f32[256], f32[64], s32[]) parameter(0)
  x = f32[256,4096] get-tuple-element(s), index=0
  y = f32[64,16384] get-tuple-element(s), index=1
  p = f32[256] get-tuple-element(s), index=2
  q = f32[64] get-tuple-element(s), index=3
  i = s32[] get-tuple-element(s), index=4
  zero = f32[] constant(0)
  part = f32[] constant(0.001)
  p.all = f32[256,4096] broadcast(p), dimensions={0}
  q.all = f32[64,16384] broadcast(q), dimensions={0}
  x.p = f32[256,4096] add(x, p.all)
  y.q = f32[64,16384] add(y, q.all)
  x.c = f32[256,4096] cosine(x.p)
  y.c = f32[64,16384] cosine(y.q)
  xs = f32[256] reduce(x.c, zero), dimensions={1}, to_apply=add
  ys = f32[64] reduce(y.c, zero), dimensions={1}, to_apply=add
  parts.p = f32[256] broadcast(part), dimensions={}
  parts.q = f32[64] broadcast(part), dimensions={}
  xm = f32[256] multiply(xs, parts.p)
  ym = f32[64] multiply(ys, parts.q)
  pn = f32[256] add(p, xm)
  qn = f32[64] add(q, ym)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (f32[256,4096], f32[64,16384], f32[256], f32[64], s32[]) tuple(x, y, pn, qn, j)
}
ENTRY e {
  x = f32[256,4096] parameter(0)
  y = f32[64,16384] parameter(1)
  p = f32[256] parameter(2)
  q = f32[64] parameter(3)
  i = s32[] constant(0)
  s = (f32[256,4096], f32[64,16384], f32[256], f32[64], s32[]) tuple(x, y, p, q, i)
  w = (f32[256,4096], f32[64,16384], f32[256], f32[64], s32[]) while(s), condition=condition, body=body
  pw = f32[256] get-tuple-element(w), index=2
  qw = f32[64] get-tuple-element(w), index=3
  ROOT r = (f32[256], f32[64]) tuple(pw, qw)
}
)");
  ASSERT_TRUE(loop);
}

TEST(LoopKernel, OthersStayLoops) {
  // Of iterations that are counted, and of so much work that kernels of their own are better.
  std::string counted = until_small(7, 11, 20);
  counted.replace(counted.find("and(moves, more)"), 16, "compare(i, most), direction=LT");
  EXPECT_TRUE(made_of(counted).image.loops.empty());
  EXPECT_TRUE(made_of(until_small(20000, 10000, 20)).image.loops.empty());
}

}  // namespace
}  // namespace strata::emitters
