#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/api.h"
#include "compiler/core/graph_function.h"
#include "compiler/core/optimize_program.h"
#include "compiler/fusion_kernels.h"
#include "ir/sized_program.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "runtime/device_probe.h"
#include "runtime/own_file.h"
#include "runtime/result_cache.h"
#include "support/read_file.h"
#include "support/write_file.h"

namespace strata::v1 {

struct Kernel::State {
  compiler::OptimizedProgram made;
};

namespace {

using nlohmann::json;

/// What the folder of a kernel holds beside the files of `strata optimize -o`; python/strata/kernel.py has the same.
constexpr const char* kSummary = "strata.json";
constexpr int kFormat = 1;

GraphPtr graph_of(const std::string& text, const std::string& file) {
  const GraphPtr graph = value_of(parse_graph(text, file));
  value_of(validate_paths(*graph));
  return graph;
}

/// bin/strata beside the library's folder, as `cmake --install` lays it.
std::vector<std::string> installed_worker() {
  const std::filesystem::path program = own_file().parent_path().parent_path() / "bin" / "strata";
  std::error_code failed;
  if (!std::filesystem::exists(program, failed)) return {};
  return {program.string(), "measure-worker"};
}

}  // namespace

Kernel::Kernel(std::shared_ptr<const State> state) : state_(std::move(state)) {}
Kernel::~Kernel() = default;
Kernel::Kernel(const Kernel&) = default;
Kernel::Kernel(Kernel&&) noexcept = default;
Kernel& Kernel::operator=(const Kernel&) = default;
Kernel& Kernel::operator=(Kernel&&) noexcept = default;

const std::string& Kernel::target() const { return state_->made.target; }
const std::string& Kernel::headline() const { return state_->made.headline; }
const std::string& Kernel::proof() const { return state_->made.proof; }
const std::string& Kernel::config() const { return state_->made.config; }
const std::vector<std::string>& Kernel::notes() const { return state_->made.notes; }
std::string Kernel::mugraph() const { return files().at("best.strata"); }
std::string Kernel::source() const { return files().at("best.cu"); }
const std::map<std::string, std::string>& Kernel::files() const { return state_->made.files; }

void Kernel::save(const std::string& folder) const {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) value_of<void>(environment("'{}' cannot be made: {}", folder, failed.message()));
  json names = json::array();
  for (const auto& [name, bytes] : files()) {
    value_of(write_file((std::filesystem::path(folder) / name).string(), bytes));
    names.push_back(name);
  }
  const json summary{{"format", kFormat},  {"strata", strata::build_identity()},
                     {"target", target()}, {"headline", headline()},
                     {"proof", proof()},   {"config", config()},
                     {"notes", notes()},   {"files", names}};
  value_of(write_file((std::filesystem::path(folder) / kSummary).string(), summary.dump(1)));
}

Function Kernel::function(Place place) const {
  const GraphPtr graph = graph_of(mugraph(), "best.strata");
  std::shared_ptr<GpuDevice> device = device_for(place);
  if (device == nullptr) return make_function(nullptr, compiler::GraphFunction::interpret(graph), {});
  const std::string architecture = value_of(architecture_of(*device));
  if (architecture != target()) {
    value_of<void>(with_remedy(environment("the code is for {}, and {} is {}", target(), device->name(), architecture),
                               "optimize the program with the target 'auto' on this machine"));
  }
  const auto cubin = files().find(fmt::format("best.{}.cubin", target()));
  if (cubin == files().end()) {
    const auto missing = std::find_if(notes().begin(), notes().end(),
                                      [](const std::string& note) { return note.starts_with("no cubin"); });
    if (missing != notes().end()) value_of<void>(environment("{}", *missing));
  }
  auto loaded = value_of(compiler::GraphFunction::load(graph, *device, cubin == files().end() ? "" : cubin->second,
                                                       files().at("best.launch.json")));
  return make_function(std::move(device), std::move(loaded), {});
}

Kernel optimize(std::string_view program, const OptimizeOptions& options) {
  compiler::OptimizeRequest request;
  request.target = options.target;
  request.search = options.search_seconds > 0;
  if (request.search) request.seconds = options.search_seconds;
  request.measure_seconds = options.measure_seconds;
  request.config = options.config;
  request.cache_folder = options.cache_folder;
  request.emitter = std::make_shared<compiler::FusionKernels>();
  request.measure_worker = options.measure_worker.empty() ? installed_worker() : options.measure_worker;
  // A program that is not `strata` must not be started as if it were: it is not measured then.
  if (request.measure_worker.empty()) request.measure_seconds = 0;
  request.stop = options.stop;
  request.progress = options.progress;
  auto state = std::make_shared<Kernel::State>();
  const SizedProgram read = value_of(parse_program(program, options.file));
  value_of(validate_paths(*read.graph));
  if (!read.dims.empty()) {
    value_of<void>(with_remedy(unsupported("'{}' has dims, and a Kernel is of one size", read.graph->name()),
                               "write numbers for the sizes, or make a table by `strata optimize --sizes`"));
  }
  state->made = value_of(compiler::optimize_program(read, request));
  const bool wanted = request.search && options.measure_seconds > 0;
  if (wanted && request.measure_worker.empty() && device_for(Place::Auto) != nullptr)
    state->made.notes.emplace_back("nothing is measured: the program `strata` is not installed beside the library");
  return Kernel(std::move(state));
}

Kernel load(const std::string& folder) {
  const std::filesystem::path place(folder);
  const auto refuse = [&](const std::string& why) {
    value_of<void>(
        with_remedy(invalid("'{}' holds no kernel that was saved: {}", folder, why), "Kernel::save writes one"));
  };
  const auto read = [&](const std::string& name) {
    Result<std::string> text = read_file((place / name).string());
    if (!text) refuse(text.error().message);
    return std::move(*text);
  };
  const json summary = json::parse(read(kSummary), nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object()) refuse(fmt::format("{} is no JSON object", kSummary));
  auto state = std::make_shared<Kernel::State>();
  compiler::OptimizedProgram& made = state->made;
  try {
    if (const int format = summary.at("format"); format != kFormat)
      refuse(fmt::format("it is of format {}, and this version reads {}", format, kFormat));
    made.target = summary.at("target");
    made.headline = summary.at("headline");
    made.proof = summary.at("proof");
    made.config = summary.at("config");
    made.notes = summary.at("notes").get<std::vector<std::string>>();
    for (const std::string& name : summary.at("files").get<std::vector<std::string>>()) {
      if (name.empty() || std::filesystem::path(name).filename() != name)
        refuse(fmt::format("it names the file '{}', which is not its own", name));
      made.files[name] = read(name);
    }
  } catch (const json::exception& why) {
    refuse(why.what());
  }
  for (const char* const needed : {"best.strata", "best.cu", "best.launch.json", "program.strata"}) {
    if (!made.files.contains(needed)) refuse(fmt::format("there is no {}", needed));
  }
  graph_of(made.files["best.strata"], (place / "best.strata").string());
  return Kernel(std::move(state));
}

}  // namespace strata::v1
