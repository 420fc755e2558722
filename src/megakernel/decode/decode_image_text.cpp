#include "megakernel/decode/decode_image.h"
#include "superopt/codegen/emit.h"

namespace strata::megakernel {

int64_t DecodeImage::bytes() const {
  int64_t all = 0;
  for (const DecodeBuffer& buffer : buffers) all += buffer.bytes;
  return all;
}

std::string DecodeImage::text(const std::vector<std::string>& names) const {
  std::vector<TaskBody> ordered;
  for (const std::string& name : names) ordered.push_back(bodies.at(name));
  std::string all = "#define STRATA_TASKS\n";  // strata_cuda.h, thread_now
  for (const std::string_view library : {device_library(), device_registers(), device_bulk(), task_library(),
                                         attention_library(), caller_library(), sampling_library()})
    all += library;
  return all + functions + task_switch(ordered);
}

}  // namespace strata::megakernel
