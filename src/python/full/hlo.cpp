#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <stop_token>

#include "compiler/hlo_function.h"
#include "python/full/bindings.h"
#include "python/function.h"
#include "runtime/result_cache.h"

namespace strata::python {
namespace {

struct CompileRequest {
  std::string text;
  std::shared_ptr<GpuDevice> device;
  double search_seconds = 0;
  std::string cache_folder, file;
  bool gives_parameters = false;
  std::function<void(const std::string&)> progress;
  std::stop_token stop;
};

std::unique_ptr<Function> compile_unlocked(const CompileRequest& request) {
  auto made = std::make_unique<Function>();
  std::optional<ResultCache> cache;
  if (!request.cache_folder.empty())
    cache.emplace(request.cache_folder, [&](const std::string& warning) { made->notes.push_back(warning); });
  const compiler::HloOptions options{
      request.search_seconds,   cache ? &*cache : nullptr, request.file,
      request.gives_parameters, request.progress,          request.stop,
  };
  made->device = request.device;
  made->function = value_of(compiler::HloFunction::compile(request.text, made->device.get(), options));
  const auto& notes = made->function->notes();
  made->notes.insert(made->notes.end(), notes.begin(), notes.end());
  return made;
}

/// How often a signal is looked for while another thread compiles.
constexpr std::chrono::milliseconds kBetweenSignals{100};

std::unique_ptr<Function> compile(const std::string& text, std::shared_ptr<GpuDevice> device, double search_seconds,
                                  const std::string& cache_folder, const std::string& file, bool gives_parameters,
                                  const nb::object& progress) {
  std::stop_source stop;
  // The first error of Python, Ctrl-C among them, ends the search. It is raised when the rest is compiled.
  std::optional<nb::python_error> raised;
  CompileRequest request{text, std::move(device), search_seconds, cache_folder, file, gives_parameters, {}, {}};
  request.stop = stop.get_token();
  if (!progress.is_none()) {
    request.progress = [&](const std::string& line) {
      const nb::gil_scoped_acquire locked;
      if (raised) return;
      try {
        progress(line);
      } catch (nb::python_error& error) {
        raised.emplace(std::move(error));
        stop.request_stop();
      }
    };
  }
  // On a thread of its own, so that Python's main thread sees Ctrl-C.
  std::future<std::unique_ptr<Function>> made =
      std::async(std::launch::async, [&] { return compile_unlocked(request); });
  const auto has_ended = [&] {
    const nb::gil_scoped_release unlocked;
    return made.wait_for(kBetweenSignals) == std::future_status::ready;
  };
  while (!has_ended()) {
    if (raised || PyErr_CheckSignals() == 0) continue;
    raised.emplace();
    stop.request_stop();
  }
  if (raised) throw nb::python_error(std::move(*raised));
  return made.get();
}

}  // namespace

void bind_hlo(nb::module_& module) {
  using namespace nb::literals;
  module.def("compile_hlo", &compile, "text"_a, "device"_a.none(), "search_seconds"_a, "cache_folder"_a, "file"_a,
             "gives_parameters"_a = false, "progress"_a = nb::none(),
             "A Function for the device, or the processor where it is None. An empty cache_folder: no cache. "
             "gives_parameters: on a GPU, calls give away the parameters of the text's input_output_alias. "
             "progress: is called with a line of the search from any thread, with '' where one ends.");
}

}  // namespace strata::python
