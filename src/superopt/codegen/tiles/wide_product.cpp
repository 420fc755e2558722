#include <fmt/format.h>

#include "superopt/codegen/block_code.h"

namespace strata {

std::string WideProduct::name() const { return fmt::format("Wide{}{}", columns, across ? "Across" : "Along"); }

std::string WideProduct::text() const {
  // Registers of the results: for every 8 columns two of the first eight rows, two of the last.
  const int64_t registers = columns / 2;
  std::string list;
  std::string operands;
  for (int64_t i = 0; i < registers; ++i) {
    list += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    operands += fmt::format("{}\"+f\"(d.v[D::at(0, {}, {}, {})])", i == 0 ? "" : ", ", i / 2 % 2, i / 4, i % 2);
  }
  const auto function = [&](const char* type) {
    return fmt::format(
        "  template <bool kAdd, class D>\n"
        "  STRATA_DEVICE static void run(D& d, const unsigned (&a)[4], unsigned long long b, {0}) {{\n"
        "    asm volatile(\"wgmma.mma_async.sync.aligned.m64n{1}k16.f32.{0}.{0} {{{2}}}, {{%{3}, %{4}, %{5}, %{6}}}, "
        "\"\n"
        "                 \"%{7}, %{10}, 1, 1, {8};\"\n"
        "                 : {9}\n"
        "                 : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), "
        "\"n\"(kAdd ? 1 : 0));\n"
        "  }}\n",
        type, columns, list, registers, registers + 1, registers + 2, registers + 3, registers + 4, across ? 1 : 0,
        operands, registers + 5);
  };
  const auto both_shared = [&](const char* type) {
    return fmt::format(
        "  template <bool kAcross, bool kAdd, class D>\n"
        "  STRATA_DEVICE static void run(D& d, unsigned long long a, unsigned long long b, {0}) {{\n"
        "    asm volatile(\"wgmma.mma_async.sync.aligned.m64n{1}k16.f32.{0}.{0} {{{2}}}, %{3}, %{4}, %{8}, 1, 1, %{5}, "
        "{6};\"\n"
        "                 : {7}\n"
        "                 : \"l\"(a), \"l\"(b), \"n\"(kAcross ? 1 : 0), \"n\"(kAdd ? 1 : 0));\n"
        "  }}\n",
        type, columns, list, registers, registers + 1, registers + 2, across ? 1 : 0, operands, registers + 3);
  };
  return fmt::format(
      "namespace strata_device {{\n"
      "/// wgmma m64n{}k16: D += A * B, A in registers or in shared memory, B in shared memory.\n"
      "struct {} {{\n"
      "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)\n{}{}{}{}#endif\n}};\n}}  // namespace strata_device\n\n",
      columns, name(), function("f16"), function("bf16"), both_shared("f16"), both_shared("bf16"));
}

}  // namespace strata
