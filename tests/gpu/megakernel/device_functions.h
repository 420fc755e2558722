// The block functions of the GPU tests as the mega-kernel's code on a GPU calls them; see cuda_source.
#pragma once

namespace strata::megakernel {

STRATA_DEVICE void load_task(const Descriptor& task, CudaLoad& side) { testing::test_load(task, side); }
STRATA_DEVICE void compute_task(const Descriptor& task, CudaCompute& side) { testing::test_compute(task, side); }

}  // namespace strata::megakernel
