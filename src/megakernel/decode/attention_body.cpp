#include "megakernel/decode/attention_body.h"

#include <fmt/format.h>

namespace strata::megakernel {
namespace {

constexpr int64_t kPlace = 1024;        // what tiles in scratch memory are aligned to
constexpr int64_t kTeam = 256;          // threads that compute
constexpr int64_t kBringers = 4;        // warps that bring a tile: tasks/device/strata_attention.h
constexpr int64_t kOwnTileBarrier = 3;  // where these meet the one that takes it; tasks have 1 and 2 (task_code.cpp)
constexpr const char* kTeamType = "BlockTeam<256, 0, 1>";

}  // namespace

int64_t own_tile_place(const TaskCode& code) { return ceil_div(code.scratch_bytes(), kPlace) * kPlace; }

TaskBody attention_body(const AttentionTask& task) {
  const ModelConfig& config = task.config;
  const DecodeOperator& op = task.op;
  const TaskCode& code = task.code;
  const std::vector<int64_t>& grid = op.operation().body->launch().grid;
  const bool is_prompt = task.rows > 1;
  const char* const norm = config.family == ModelFamily::Qwen3 ? "true" : "false";
  const int64_t keys = op.graph->type(op.graph->inputs()[1]).shape[1] / grid[0] / code.iterations;
  const std::string part = fmt::format(
      "      const int split = static_cast<int>(d.record.coordinates[0]);\n"
      "      const int g = static_cast<int>(d.record.coordinates[1]);\n"
      "      const int b = static_cast<int>(d.record.coordinates[2]);\n"
      "      const HistoryPart part = HistoryPart::of<{0}, {1}>({2}.position(b), split);\n",
      keys, grid[0], "{}");
  // Of a cache a split's tiles lie together, unlike packed constants.
  const std::string tiles =
      fmt::format("static_cast<int64>(split + {} * (g + {} * {})) * {}", grid[0], grid[1],
                  is_prompt ? fmt::format("(b / {})", task.rows) : "b", code.iterations * code.stage_bytes);
  TaskBody body;
  body.comment = "attention";
  body.load = fmt::format(fmt::runtime(part), "ring") +
              fmt::format(
                  "      ring.wait_for_history();\n"
                  "      run = history_run(argument<const unsigned char>(d, 7) + {}, part, {});\n",
                  tiles, code.stage_bytes);
  const Packing::Tile& key = code.packing.tiles[0];
  const Packing::Tile& value = code.packing.tiles[1];
  const std::string rows = fmt::format("HeadRows<bf16, Side, {}, {}>", config.head_dim, norm);
  const auto head_rows = [&](int number, int gain, const std::string& back = "") {
    return fmt::format("{0}{{words<bf16>(d, side, {1}), argument<const bf16>(d, {2}), cos{4}, sin{4}, {3}f}}", rows,
                       number, gain, fmt::format("{:.9e}", config.rms_norm_eps), back);
  };
  TaskCall call;
  call.tensors = {
      head_rows(0, 5), "static_cast<const bf16*>(nullptr)", "static_cast<const bf16*>(nullptr)",
      fmt::format("KeyMask<bf16, {}, {}, {}>{{part.left, 0, {}}}", keys, code.iterations, grid[0], task.capacity)};
  call.tensors.insert(call.tensors.end(), task.outs.begin(), task.outs.end());
  call.packed = "";
  call.iterations = "part.iterations";
  call.ring = "history";
  const int64_t own = own_tile_place(code);
  // Where all warps compute, the block function waits for copies and meets before its loop. Else the warps that bring
  // the tile may be others than those that compute, of which only the one that takes it waits for them.
  const bool apart = !is_prompt && code.threads <= kTeam - kBringers * 32;
  std::string meets, history = "HistoryRing<TaskRing<Side>>";
  if (apart) {
    history = fmt::format("HistoryRing<TaskRing<Side>, {}, {}>", kOwnTileBarrier, 32 * (1 + kBringers));
    meets = fmt::format(
        "      static_assert(kBringers == {3}, \"those of the host's text\");\n"
        "      if (part.own >= 0 && side.platform().rank() >= {0}) {{\n"
        "        commit_copies();\n        wait_copies<0>();\n        named_barrier_arrive({1}, {2});\n      }}\n",
        kTeam - kBringers * 32, kOwnTileBarrier, 32 * (1 + kBringers), kBringers);
  } else if (code.threads < kTeam) {
    meets = fmt::format(
        "      if (part.own >= 0) {{\n"
        "        commit_copies();\n        wait_copies<0>();\n        {}::meet();\n      }}\n",
        kTeamType);
  }
  const std::string cached = fmt::format("argument<unsigned char>(d, 7) + {} + part.own * {}", tiles, code.stage_bytes);
  const std::string append =
      is_prompt
          ? fmt::format(
                "      if (part.own >= 0) {{\n"
                "        append_rows_to_history<{0}, {1}, {2}, {3}>(\n"
                "            own, {4}, part.row, b % {5} + 1, bf16{{}},\n"
                "            [&](int n) {{ return {6} + ((b - n) * {7} + g) * {8}; }},\n"
                "            [&](int n) {{ return words<bf16>(d, side, 2) + ((b - n) * {7} + g) * {8}; }});\n"
                "      }}\n",
                kTeamType, key.type, value.type, value.offset, cached, task.rows,
                head_rows(1, 6, fmt::format(" - n * {}", config.head_dim)), config.num_key_value_heads, config.head_dim)
          : fmt::format(
                "      if (part.own >= 0) {{\n"
                "        append_to_history<{0}, {1}, {2}, {3}, {4}>(\n"
                "            own, {5},\n"
                "            {6} + (b * {7} + g) * {8}, words<bf16>(d, side, 2) + (b * {7} + g) * {8}, "
                "part.row);\n"
                "      }}\n",
                kTeamType, key.type, value.type, value.offset, code.stage_bytes, cached, head_rows(1, 6),
                config.num_key_value_heads, config.head_dim);
  body.compute = fmt::format(fmt::runtime(part), "side") +
                 fmt::format(
                     "      const int position = side.position(b);\n"
                     "      const bf16* const cos = argument<const bf16>(d, 3) + static_cast<int64>(position) * {0};\n"
                     "      const bf16* const sin = argument<const bf16>(d, 4) + static_cast<int64>(position) * {0};\n"
                     "      unsigned char* const own = side.scratch() + {1};\n"
                     "{2}{3}      {4} history{{ring, part.own, own}};\n",
                     config.head_dim, own, append, meets, history) +
                 compute_call(code, call);
  return body;
}

}  // namespace strata::megakernel
