#include "runtime/own_file.h"

#include <string>

namespace strata {
namespace {

int visit(dl_phdr_info* object, size_t, void* result) {
  if (!is_own(*object)) return 0;
  *static_cast<std::string*>(result) = object->dlpi_name;  // empty for the program itself
  return 1;
}

}  // namespace

bool is_own(const dl_phdr_info& object) {
  const auto here = reinterpret_cast<ElfW(Addr)>(&is_own);
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const ElfW(Addr) start = object.dlpi_addr + segment.p_vaddr;
    if (here >= start && here < start + segment.p_memsz) return true;
  }
  return false;
}

std::filesystem::path own_file() {
  std::string name;
  dl_iterate_phdr(visit, &name);
  std::error_code failed;
  return name.empty() ? std::filesystem::read_symlink("/proc/self/exe", failed)
                      : std::filesystem::absolute(name, failed);
}

}  // namespace strata
