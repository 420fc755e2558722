#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "python/bindings.h"
#include "runtime/cuda_streams.h"
#include "runtime/device_probe.h"
#include "runtime/gpu_device.h"

namespace strata::python {

void bind_device(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<GpuDevice>(module, "Device", "The machine's first GPU.")
      .def_static(
          "open",
          [] {
            nb::gil_scoped_release unlocked;
            // Opening makes the device current: another one that the caller works on is made so again.
            CudaContext before = nullptr;
            const auto streams = open_cuda_streams();
            if (streams) streams->current_context(&before);
            std::shared_ptr<GpuDevice> device = value_of(GpuDevice::open());
            if (before != nullptr) device->driver().context_use(before);
            return device;
          },
          "Opens it. Error where there is no driver or no GPU.")
      .def_prop_ro("name", &GpuDevice::name)
      .def_prop_ro("driver_version", &GpuDevice::driver_version, "13000 for CUDA 13.0")
      .def_prop_ro(
          "architecture", [](const GpuDevice& device) { return value_of(architecture_of(device)); },
          "'sm_90a' or 'sm_80'. Error where kernels are not made for it.");
}

}  // namespace strata::python
