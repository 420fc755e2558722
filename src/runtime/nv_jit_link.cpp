#include "runtime/nv_jit_link.h"

#include <memory>

#include "machine/target.h"
#include "runtime/cuda_libraries.h"

namespace strata {
namespace {

/// The part of nvJitLink's C interface that is used here; see its documentation.
struct NvJitLink {
  using Handle = struct NvJitLinkTag*;
  static constexpr int kPtx = 2;  // NVJITLINK_INPUT_PTX

  int (*create)(Handle*, uint32_t, const char**);
  int (*destroy)(Handle*);
  int (*add)(Handle, int kind, const void*, size_t, const char* name);
  int (*complete)(Handle);
  int (*cubin_size)(Handle, size_t*);
  int (*cubin)(Handle, void*);
  int (*log_size)(Handle, size_t*);
  int (*log)(Handle, char*);
  int (*version)(unsigned*, unsigned*);
};

const CudaLibraryFiles& files() {
  static const CudaLibraryFiles files{"nvJitLink, CUDA's linker",
                                      "STRATA_NVJITLINK",
                                      {"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"},
                                      "install a CUDA toolkit, or run `make install`, or set STRATA_CUDA_ROOT to a "
                                      "folder with lib/libnvJitLink.so"};
  return files;
}

Result<NvJitLink> open() {
  STRATA_TRY(const CudaLibrary library, open_cuda_library(files()));
  FunctionBinder binder(library.handle);
  NvJitLink link{};
  // Without a version: what headers add to the names only guards against older libraries.
  binder.bind(link.create, {"nvJitLinkCreate"});
  binder.bind(link.destroy, {"nvJitLinkDestroy"});
  binder.bind(link.add, {"nvJitLinkAddData"});
  binder.bind(link.complete, {"nvJitLinkComplete"});
  binder.bind(link.cubin_size, {"nvJitLinkGetLinkedCubinSize"});
  binder.bind(link.cubin, {"nvJitLinkGetLinkedCubin"});
  binder.bind(link.log_size, {"nvJitLinkGetErrorLogSize"});
  binder.bind(link.log, {"nvJitLinkGetErrorLog"});
  binder.bind(link.version, {"nvJitLinkVersion"});
  STRATA_CHECK(check_complete(binder, files()));
  return link;
}

const Result<NvJitLink>& nv_jit_link() {
  static const Result<NvJitLink> link = open();
  return link;
}

}  // namespace

Result<std::vector<char>> link_ptx(const std::string& ptx, std::string_view arch) {
  // The library ends the process where it does not know an architecture.
  STRATA_CHECK(find_target(arch));
  const Result<NvJitLink>& link = nv_jit_link();
  if (!link) return tl::unexpected(link.error());
  const std::string option = fmt::format("-arch={}", arch);
  const char* options = option.c_str();
  NvJitLink::Handle handle = nullptr;
  if (const int status = link->create(&handle, 1, &options); status != 0)
    return unsupported("nvJitLink does not link for {}: error {}", arch, status);
  const auto destroy = [&](NvJitLink::Handle* h) { link->destroy(h); };
  const std::unique_ptr<NvJitLink::Handle, decltype(destroy)> owner(&handle, destroy);
  const auto refused = [&](int status) {
    size_t size = 0;
    link->log_size(handle, &size);
    std::string log(size, '\0');
    if (size > 0) link->log(handle, log.data());
    return unsupported("nvJitLink cannot make a cubin for {} from the PTX: error {}\n{}", arch, status, log.c_str());
  };
  // The text ends with its zero.
  int status = link->add(handle, NvJitLink::kPtx, ptx.c_str(), ptx.size() + 1, "program.ptx");
  if (status == 0) status = link->complete(handle);
  if (status != 0) return refused(status);
  size_t size = 0;
  if (status = link->cubin_size(handle, &size); status != 0) return refused(status);
  std::vector<char> cubin(size);
  if (status = link->cubin(handle, cubin.data()); status != 0) return refused(status);
  return cubin;
}

Result<std::string> nv_jit_link_version() {
  const Result<NvJitLink>& link = nv_jit_link();
  if (!link) return tl::unexpected(link.error());
  unsigned major = 0;
  unsigned minor = 0;
  if (link->version(&major, &minor) != 0) return environment("nvJitLink tells no version");
  return fmt::format("{}.{}", major, minor);
}

}  // namespace strata
