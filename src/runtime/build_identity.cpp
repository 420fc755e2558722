#include <fmt/format.h>
#include <link.h>

#include <cstring>

#include "runtime/own_file.h"
#include "runtime/result_cache.h"

namespace strata {
namespace {

/// The GNU build identity among the notes of one segment, in hexadecimal digits.
std::string find_in(const char* notes, size_t size) {
  for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes + at, sizeof head);
    const size_t name = at + sizeof head;
    const size_t content = name + (head.n_namesz + 3) / 4 * 4;
    const size_t end = content + (head.n_descsz + 3) / 4 * 4;
    if (end > size) break;
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0) {
      std::string text;
      for (size_t i = 0; i < head.n_descsz; ++i) {
        text += fmt::format("{:02x}", static_cast<unsigned char>(notes[content + i]));
      }
      return text;
    }
    at = end;
  }
  return {};
}

int visit(dl_phdr_info* object, size_t, void* result) {
  if (!is_own(*object)) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    // The loader gives addresses as numbers.
    const auto* notes = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);  // NOLINT
    auto* text = static_cast<std::string*>(result);
    if (text->empty()) *text = find_in(notes, segment.p_memsz);
  }
  return 1;
}

}  // namespace

std::string build_identity() {
  std::string found;
  dl_iterate_phdr(visit, &found);
  return fmt::format("strata {} {}", STRATA_VERSION, found);
}

}  // namespace strata
