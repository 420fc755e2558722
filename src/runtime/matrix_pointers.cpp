#include "runtime/matrix_pointers.h"

namespace strata {
namespace {

constexpr unsigned kThreads = 128;

/// (to, first matrix of the first list, its bytes, of the second, its bytes, count), each of 64 bits. A thread for each
/// matrix of both lists.
constexpr const char* kPtx = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry matrix_pointers(.param .u64 to, .param .u64 first, .param .u64 bytes,
                                .param .u64 second, .param .u64 second_bytes, .param .u64 count)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<10>;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r0, %r1, %r2;
  cvt.u64.u32 %d0, %r3;
  ld.param.u64 %d1, [count];
  setp.ge.u64 %p0, %d0, %d1;
  @%p0 ret;
  ld.param.u64 %d2, [to];
  cvta.to.global.u64 %d2, %d2;
  ld.param.u64 %d3, [first];
  ld.param.u64 %d4, [bytes];
  mad.lo.u64 %d5, %d0, %d4, %d3;
  shl.b64 %d6, %d0, 3;
  add.u64 %d6, %d2, %d6;
  st.global.u64 [%d6], %d5;
  ld.param.u64 %d3, [second];
  ld.param.u64 %d4, [second_bytes];
  mad.lo.u64 %d5, %d0, %d4, %d3;
  shl.b64 %d7, %d1, 3;
  add.u64 %d6, %d6, %d7;
  st.global.u64 [%d6], %d5;
  ret;
}
)";

}  // namespace

Result<std::unique_ptr<MatrixPointers>> MatrixPointers::load(const CudaDriver& driver) {
  std::unique_ptr<MatrixPointers> made(new MatrixPointers(driver));
  STRATA_CHECK(driver.check(driver.load_module(&made->module_, kPtx), "loading the kernel of addresses"));
  STRATA_CHECK(driver.check(driver.get_function(&made->function_, made->module_, "matrix_pointers"),
                            "finding the kernel of addresses"));
  return made;
}

MatrixPointers::~MatrixPointers() {
  if (module_ != nullptr) driver_.unload_module(module_);
}

Result<void> MatrixPointers::write(CudaStream stream, CudaPointer to, const std::array<Matrices, 2>& matrices,
                                   int64_t count) const {
  std::array<uint64_t, 6> values{to,
                                 matrices[0].first,
                                 static_cast<uint64_t>(matrices[0].bytes),
                                 matrices[1].first,
                                 static_cast<uint64_t>(matrices[1].bytes),
                                 static_cast<uint64_t>(count)};
  std::array<void*, 6> arguments{};
  for (size_t i = 0; i < values.size(); ++i) arguments[i] = &values[i];
  CudaLaunchConfig config;
  config.grid[0] = (static_cast<unsigned>(count) + kThreads - 1) / kThreads;
  config.block[0] = kThreads;
  config.stream = stream;
  return driver_.check(driver_.launch(&config, function_, arguments.data(), nullptr), "writing addresses");
}

}  // namespace strata
