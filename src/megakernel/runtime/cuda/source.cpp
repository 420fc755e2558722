#include "megakernel/runtime/cuda/source.h"

#include "megakernel/runtime/cuda/words.h"

namespace strata {

// The texts, which CMake embeds.
std::string_view megakernel_core_text();
std::string_view megakernel_words_text();
std::string_view megakernel_platform_text();
std::string_view megakernel_block_text();
std::string_view megakernel_kernel_text();

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

std::string agreement_source(std::string_view platform, bool profile) {
  return fmt::format(
      "namespace strata::megakernel {{\n"
      "constexpr bool kProfile = {};\n"
      "static_assert(sizeof(Program<{}>) == {} && sizeof(Descriptor) == {});\n"
      "}}  // namespace strata::megakernel\n",
      profile, platform, sizeof(Program<CudaWords>), sizeof(Descriptor));
}

std::string cuda_source(std::string_view functions, bool profile) {
  std::string text = core_source();
  append_headers(text, megakernel_platform_text());
  text += agreement_source("CudaPlatform", profile);
  append_headers(text, functions);
  text += "\n" + block_source();
  append_headers(text, megakernel_kernel_text());
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
