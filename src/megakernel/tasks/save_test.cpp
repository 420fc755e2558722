// Results of tasks as tagged words, on the host: tiles whose columns or whose rows are neighbours in memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "megakernel/tasks/task_code.h"
#include "superopt/codegen/emit.h"
#include "superopt/codegen/test_host.h"

namespace strata::megakernel {
namespace {

/// A matrix [rows, columns] that a warp saves; `transposed`: the rows of its tile in registers are the matrix's
/// columns.
struct Form {
  int64_t rows, columns;
  bool transposed;
  DType dtype;
};

/// A launch that saves element 64 · row + column of the matrix to words without tags.
void add(const Form& form, GeneratedProgram& program) {
  const std::string type = storage_type(form.dtype);
  const auto [rows, columns, transposed, dtype] = form;
  KernelLaunch launch;
  launch.kernel = launch.function = fmt::format("save_{}", program.launches.size());
  launch.arguments = {fmt::format("out_{}", program.launches.size())};
  launch.types = {type + "*"};
  launch.grid = {1, 1, 1};
  launch.threads = 32;
  program.source += fmt::format(
      "static STRATA_DEVICE void {7}({0}* out, long long, long long, long long, unsigned char*) {{\n"
      "  using namespace strata_device;\n  Side side;\n  using Registers = Tile<1, {1}, {2}>;\n  Registers tile;\n"
      "  for (int i = 0; i < Registers::kRegisters; ++i)\n"
      "    tile.v[i] = static_cast<float>({3} * Registers::row(i) + {4} * Registers::column(i));\n"
      "  save<0, {5}, {6}>(WordsOut<{0}, Side>{{reinterpret_cast<Side::TaggedWord*>(out), &side, 0}}, tile);\n}}\n",
      type, transposed ? columns : rows, transposed ? rows : columns, transposed ? 1 : 64, transposed ? 64 : 1,
      transposed ? 1 : columns, transposed ? columns : 1, launch.function);
  program.outputs.push_back({launch.arguments[0], {dtype, {rows, columns}}});
  program.launches.push_back(std::move(launch));
}

TEST(SavedWords, HoldWhatTilesOfEitherOrderDo) {
  const Form forms[] = {{16, 24, false, DType::BF16}, {16, 24, true, DType::BF16}, {8, 12, true, DType::BF16},
                        {3, 16, true, DType::BF16},   {3, 16, false, DType::BF16}, {5, 10, true, DType::F32}};
  GeneratedProgram program;
  for (const std::string_view library : {device_library(), device_registers(), device_bulk(), task_library()})
    program.source += library;
  program.source +=
      "struct Side {\n  struct TaggedWord { unsigned data[2]; };\n"
      "  static void write(TaggedWord& word, unsigned low, unsigned high) { word = {{low, high}}; }\n};\n";
  for (const Form& form : forms) add(form, program);
  const auto found = run_on_host(program, {}, kSanitizedHost);
  ASSERT_TRUE(found) << found.error().to_string();
  for (size_t f = 0; f < std::size(forms); ++f) {
    const Form& form = forms[f];
    SCOPED_TRACE(fmt::format("{} × {}, transposed: {}", form.rows, form.columns, form.transposed));
    ASSERT_EQ(std::ssize((*found)[f].data), form.rows * form.columns);
    for (int64_t n = 0; n < form.rows * form.columns; ++n) {
      const auto value = static_cast<double>(64 * (n / form.columns) + n % form.columns);
      ASSERT_EQ((*found)[f].data[static_cast<size_t>(n)], round_to(value, form.dtype)) << n;
    }
  }
}

}  // namespace
}  // namespace strata::megakernel
