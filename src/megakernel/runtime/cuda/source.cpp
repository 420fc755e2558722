#include "megakernel/runtime/cuda/source.h"

#include <cstdlib>

#include "megakernel/runtime/cuda/graph_words.h"

namespace strata {

// The texts, which CMake embeds.
std::string_view megakernel_core_text();
std::string_view megakernel_words_text();
std::string_view megakernel_platform_text();
std::string_view megakernel_block_text();
std::string_view megakernel_kernel_text();
std::string_view megakernel_graph_text();
std::string_view megakernel_graph_kernel_text();

namespace megakernel {

void append_headers(std::string& text, std::string_view headers) {
  while (!headers.empty()) {
    const size_t end = std::min(headers.find('\n'), headers.size() - 1) + 1;
    const std::string_view line = headers.substr(0, end);
    headers.remove_prefix(end);
    if (!line.starts_with("#include \"") && !line.starts_with("#pragma once")) text += line;
  }
}

std::string core_source() {
  std::string text;
  append_headers(text, megakernel_core_text());
  append_headers(text, megakernel_words_text());
  return text;
}

std::string block_source() {
  std::string text;
  append_headers(text, megakernel_block_text());
  return text;
}

std::string graph_source() {
  std::string text;
  append_headers(text, megakernel_graph_text());
  return text + fmt::format("static_assert(sizeof(strata::megakernel::GraphLaunch) == {});\n", sizeof(GraphLaunch));
}

std::string agreement_source(std::string_view platform, bool profile) {
  return fmt::format(
      "namespace strata::megakernel {{\n"
      "constexpr bool kProfile = {};\n"
      "static_assert(sizeof(Program<{}>) == {} && sizeof(Descriptor) == {});\n"
      "}}  // namespace strata::megakernel\n",
      profile, platform, sizeof(Program<CudaWords>), sizeof(Descriptor));
}

std::string cuda_source(std::string_view functions, bool profile, int graph_functions) {
  std::string text = core_source();
  append_headers(text, megakernel_platform_text());
  text += agreement_source("CudaPlatform", profile);
  append_headers(text, functions);
  text += "\n" + block_source();
  if (graph_functions == 0) {
    append_headers(text, megakernel_kernel_text());
    return text;
  }
  text += graph_source();
  append_headers(text, megakernel_graph_kernel_text());
  for (int n = 0; n < graph_functions; ++n) {
    text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(strata::megakernel::kGraphThreads, "
        "strata::megakernel::kGraphBlocks)\n"
        "    strata_graph_{0}(const __grid_constant__ strata::megakernel::Program<strata::megakernel::CudaPlatform> "
        "program,\n                   const __grid_constant__ strata::megakernel::GraphLaunch launch) {{\n"
        "  strata::megakernel::run_graph<{0}>(program, launch);\n}}\n",
        n);
  }
  return text;
}

Result<CudaCode> compile_cuda_code(std::string_view functions, const Target& target, bool profile, int most_spilled,
                                   ResultCache* cache, int graph_functions) {
  CudaCode code{.target = std::string(target.name), .profile = profile, .cubin = {}, .use = {}};
  std::string text = cuda_source(functions, profile, graph_functions);
  if (std::getenv("STRATA_EACH_LANE_RELEASES") != nullptr) text.insert(0, "#define STRATA_EACH_LANE_RELEASES\n");
  STRATA_TRY(code.cubin, cubin_of(text, target, cache, {}, &code.use));
  if (code.use.spilled_bytes > most_spilled)
    return with_remedy(unsupported("the mega-kernel's block functions take more than the {} registers that a thread "
                                   "has: {} bytes are spilled",
                                   code.use.registers, code.use.spilled_bytes),
                       "choose schedules with smaller tiles");
  return code;
}

}  // namespace megakernel
}  // namespace strata
