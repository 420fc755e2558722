#include "superopt/codegen/block_memory.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "ir/text.h"
#include "ir/validate.h"
#include "test_paths.h"

namespace strata {
namespace {

/// Tiles of a loop: a and b live until p is made, t after them; c stays, and so does the sum.
constexpr const char* kLoop = R"(graph g {
  input A: f32[32, 64]
  input B: f32[64, 32]
  input C: f32[32, 32]
  O = block(A, B, C, grid=[1], loop=2) {
    a = in_iter(A, imap=[_], fmap=1)
    b = in_iter(B, imap=[_], fmap=0)
    c = in_iter(C, imap=[_], fmap=_)
    p = matmul(a, b)
    t = mul(p, c)
    s = accum(t, kind=sum)
    e = exp(s)
    f = sqr(e)
    O = out_saver(f, omap=[_])
  }
  output O
}
)";

const Graph& first_body(const Graph& graph) { return *graph.operations().front().body; }

TensorId named(const Graph& body, const std::string& name) {
  for (size_t i = 0; i < body.tensors().size(); ++i) {
    if (body.tensors()[i].name == name && body.tensors()[i].level == Level::Block) return static_cast<TensorId>(i);
  }
  ADD_FAILURE() << name;
  return 0;
}

bool share_bytes(const Graph& body, const BlockMemory& memory, TensorId a, TensorId b) {
  const int64_t from_a = memory.tensors[static_cast<size_t>(a)];
  const int64_t from_b = memory.tensors[static_cast<size_t>(b)];
  return from_a < from_b + shared_memory_bytes(body, b) && from_b < from_a + shared_memory_bytes(body, a);
}

TEST(BlockMemory, TensorsOfOtherDepthsShareBytes) {
  const GraphPtr graph = *parse_graph(kLoop);
  const Graph& body = first_body(*graph);
  const BlockMemory memory = plan_block_memory(body, true);
  EXPECT_TRUE(memory.optimal);
  // c and s, and with them a, b and p: 4 KiB each.
  EXPECT_EQ(memory.bytes, 5 * 4096);
  EXPECT_EQ(memory.lower_bound, memory.bytes);
  EXPECT_EQ(shared_memory_bytes(body), 8 * 4096);
  EXPECT_EQ(plan_block_memory(body, false).bytes, 8 * 4096);
}

TEST(BlockMemory, WhatSurvivesIterationsSharesNothingInTheLoop) {
  const GraphPtr graph = *parse_graph(kLoop);
  const Graph& body = first_body(*graph);
  const BlockMemory memory = plan_block_memory(body, true);
  for (const char* kept : {"c", "s"}) {
    for (const char* other : {"a", "b", "p", "t"})
      EXPECT_FALSE(share_bytes(body, memory, named(body, kept), named(body, other))) << kept << " " << other;
  }
}

/// By the definition: a tensor's bytes are its own from the depth at which it is made to the last at which it is read.
TEST(BlockMemory, NoTensorIsOverwrittenWhileItIsNeeded) {
  int pairs = 0;
  for (const char* folder : {"/tests/data", "/programs"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(STRATA_SOURCE_DIR) + folder)) {
      if (entry.path().extension() != ".strata") continue;
      const auto graph = load_graph(entry.path().string());
      if (!graph) continue;
      for (const Operation& op : (*graph)->operations()) {
        if (!op.body) continue;
        const Graph& body = *op.body;
        const BlockMemory memory = plan_block_memory(body, true);
        EXPECT_LE(memory.bytes, shared_memory_bytes(body));
        const auto count = static_cast<TensorId>(body.tensors().size());
        const auto lives = [&](TensorId id, int depth) {
          bool after = false;
          for (size_t i = 0; i < body.operations().size(); ++i) {
            const auto& operands = body.operations()[i].operands;
            const bool reads = std::find(operands.begin(), operands.end(), id) != operands.end();
            after |= reads && memory.depths[i] >= depth;
          }
          const int made = memory.depths[static_cast<size_t>(body.tensor(id).producer)];
          return made == depth || (made < depth && after);
        };
        for (TensorId a = 0; a < count; ++a) {
          for (TensorId b = 0; b < a; ++b) {
            if (memory.tensors[static_cast<size_t>(a)] < 0 || memory.tensors[static_cast<size_t>(b)] < 0) continue;
            if (!share_bytes(body, memory, a, b)) continue;
            ++pairs;
            for (int depth : memory.depths) {
              EXPECT_FALSE(lives(a, depth) && lives(b, depth))
                  << entry.path() << ": " << body.tensor(a).name << " and " << body.tensor(b).name;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(pairs, 10);
}

}  // namespace
}  // namespace strata
