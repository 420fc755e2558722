// Code of the operators of a decode step: generated with their schedules, and run on the host for tiny models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/validate.h"
#include "megakernel/models/test_operators.h"
#include "runtime/storage.h"
#include "superopt/codegen/generate.h"
#include "superopt/codegen/test_host.h"
#include "superopt/codegen/tiles/tiles.h"

namespace strata::megakernel {
namespace {

Schedules schedules_of(const DecodeOperators& operators) {
  Schedules schedules(operators.graph->operations().size());
  size_t next = 0;
  for (size_t i = 0; i < schedules.size(); ++i) {
    if (operators.graph->operations()[i].body) schedules[i] = operators.operators[next++].schedule;
  }
  return schedules;
}

struct HostCase {
  ModelFamily family;
  int64_t batch;
  DecoderPart part;

  std::string name() const {
    return fmt::format("{}{}_{}", family == ModelFamily::Qwen3 ? "qwen3_" : "llama_", batch, name_of(part));
  }
  friend std::ostream& operator<<(std::ostream& out, const HostCase& host) { return out << host.name(); }
};

class GeneratedDecodeOperators : public testing::TestWithParam<HostCase> {};

/// On the host, packed as the schedule says.
TEST_P(GeneratedDecodeOperators, ComputeWhatTheInterpreterSays) {
  const auto& [family, batch, part] = GetParam();
  const DecodeOperators operators = value_of(decode_operators(tiny_config(family), {batch, 128}, part, {8, 8, 4096}));
  const GeneratedProgram program = value_of(generate_cuda(*operators.graph, targets().back(), schedules_of(operators)));
  EXPECT_THAT(program.source, testing::HasSubstr("load_bytes("));
  const HostOutputs outputs = host_outputs(*operators.graph, program, inputs_of(*operators.graph, 3), kPlainHost);
  ASSERT_EQ(outputs.found.size(), operators.graph->outputs().size());
  for (size_t n = 0; n < outputs.found.size(); ++n) {
    EXPECT_LT(relative_error(outputs.found[n], outputs.expected[n]), 1.5e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, GeneratedDecodeOperators,
                         testing::Values(HostCase{ModelFamily::Qwen3, 1, DecoderPart::NormQkv},
                                         HostCase{ModelFamily::Qwen3, 1, DecoderPart::Attention},
                                         HostCase{ModelFamily::Qwen3, 1, DecoderPart::OutputProjection},
                                         HostCase{ModelFamily::Qwen3, 1, DecoderPart::Head},
                                         HostCase{ModelFamily::Llama, 3, DecoderPart::NormQkv},
                                         HostCase{ModelFamily::Llama, 3, DecoderPart::Attention},
                                         HostCase{ModelFamily::Llama, 3, DecoderPart::GatedUp},
                                         HostCase{ModelFamily::Llama, 3, DecoderPart::Down}),
                         [](const auto& test) { return test.param.name(); });

/// With all schedules, batches and forms. Only shared memory keeps code from being generated: the emitter brings a
/// task's activations there whole.
TEST(DecodeOperatorsCode, IsGeneratedForKnownModels) {
  const Target& target = targets().back();
  Target roomy = target;
  roomy.shared_memory = int64_t{1} << 20;
  for (const std::string& name : preset_names()) {
    for (const int64_t batch : {1, 2, 4, 8, 16}) {
      for (const DecoderPart part : kOperatorParts) {
        const DecodeOperators operators = value_of(decode_operators(*preset_config(name), {batch, 1024}, part));
        for (const DecodeOperator& op : operators.operators) {
          SCOPED_TRACE(fmt::format("{} {} {}", name, op.name, batch));
          const auto legal = validate(*op.graph, target);
          EXPECT_TRUE(legal) << legal.error().to_string();
          const auto strides = operand_strides(*op.graph, op.operation());
          if (op.schedule.packed != 0) {
            const auto here = emit_tiles(op.operation(), "task", strides, op.schedule, target);
            if (!here) {
              EXPECT_THAT(here.error().message, testing::HasSubstr("bytes of shared memory"));
            }
          }
          const auto code = emit_in_registers(op.operation(), "task", strides, op.schedule, roomy);
          ASSERT_TRUE(code) << code.error().to_string();
          EXPECT_EQ(code->ring.has_value(), op.schedule.packed != 0);
          if (code->ring) {
            EXPECT_EQ(code->packing->bytes, op.tasks() * op.stages() * code->ring->slot_bytes);
            EXPECT_GE(code->ring->slot_bytes, op.stage_bytes());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::megakernel
