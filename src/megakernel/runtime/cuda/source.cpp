#include "megakernel/runtime/cuda/source.h"

#include "megakernel/runtime/cuda/words.h"

namespace strata {

// The texts, which CMake embeds.
std::string_view megakernel_core_text();
std::string_view megakernel_cuda_text();
std::string_view megakernel_kernel_text();

namespace megakernel {
namespace {

/// Headers follow each other in the order of their includes.
void append(std::string& text, std::string_view headers) {
  while (!headers.empty()) {
    const size_t end = std::min(headers.find('\n'), headers.size() - 1) + 1;
    const std::string_view line = headers.substr(0, end);
    headers.remove_prefix(end);
    if (!line.starts_with("#include \"") && !line.starts_with("#pragma once")) text += line;
  }
}

}  // namespace

std::string cuda_source(std::string_view functions, bool profile) {
  std::string text;
  append(text, megakernel_core_text());
  append(text, megakernel_cuda_text());
  // Host and device pass these to each other as bytes.
  text += fmt::format(
      "namespace strata::megakernel {{\n"
      "constexpr bool kProfile = {};\n"
      "static_assert(sizeof(Program<CudaPlatform>) == {} && sizeof(Descriptor) == {});\n"
      "}}  // namespace strata::megakernel\n",
      profile, sizeof(Program<CudaWords>), sizeof(Descriptor));
  append(text, functions);
  text += "\n";
  append(text, megakernel_kernel_text());
  return text;
}

Result<CudaCode> compile_cuda_code(std::string_view functions, const Target& target, bool profile, int most_spilled,
                                   ResultCache* cache) {
  if (!target.bulk_copies)
    return with_remedy(unsupported("a mega-kernel for {}, which has no bulk copies", target.name),
                       "choose a target from sm_90a on");
  CudaCode code{.target = std::string(target.name), .profile = profile, .cubin = {}, .use = {}};
  STRATA_TRY(code.cubin, cubin_of(cuda_source(functions, profile), target, cache, {}, &code.use));
  if (code.use.spilled_bytes > most_spilled)
    return with_remedy(unsupported("the mega-kernel's block functions take more than the {} registers that a thread "
                                   "has: {} bytes are spilled",
                                   code.use.registers, code.use.spilled_bytes),
                       "choose schedules with smaller tiles");
  return code;
}

}  // namespace megakernel
}  // namespace strata
