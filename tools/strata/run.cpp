#include <algorithm>
#include <filesystem>
#include <map>

#include "commands.h"
#include "emitters.h"
#include "interpret/interpret.h"
#include "interpret/npy.h"
#include "interpret/typical_inputs.h"
#include "interpret/work.h"
#include "options.h"
#include "run_sizes.h"
#include "runtime/program_folder.h"
#include "size_options.h"
#include "source.h"

namespace strata::cli {
namespace {

struct Options {
  std::string graph, output, precision = "f64", device = "cpu", report;
  bool profile = false, no_libraries = false, hlo_option_given = false;
  bool with_inputs = false, precision_given = false, interpret = false, check = false;
  std::vector<std::string> inputs, dims;
  uint64_t seed = 1;
  double tolerance = 1;
  SearchFlags search;
};

/// The files of --input by the names of what they are for.
Result<std::map<std::string, std::string>> input_files(const Options& options) {
  std::map<std::string, std::string> files;
  for (const std::string& input : options.inputs) {
    const size_t equals = input.find('=');
    if (equals == std::string::npos) {
      return with_remedy(invalid("--input '{}' is not of the form NAME=FILE.npy", input),
                         "write the input's name and its file, for example --input X=x.npy");
    }
    const std::string name = input.substr(0, equals);
    if (!files.emplace(name, input.substr(equals + 1)).second) {
      return with_remedy(invalid("--input names '{}' twice", name), "leave one of the two out");
    }
  }
  return files;
}

Result<std::vector<Tensor<double>>> inputs_of(const Graph& graph, std::map<std::string, Tensor<double>> arrays,
                                              const std::map<std::string, std::string>& files, const Options& options) {
  std::vector<Tensor<double>> tensors;
  Random random(options.seed);
  for (TensorId id : graph.arguments()) {
    const TensorInfo& info = graph.tensor(id);
    Tensor<double> drawn = typical_tensor(info.type, random);
    const auto array = arrays.find(info.name);
    if (array == arrays.end()) {
      tensors.push_back(std::move(drawn));
      continue;
    }
    if (array->second.shape != info.type.shape) {
      return with_remedy(invalid("'{}' has shape {}; input {} is {}", files.at(info.name),
                                 to_string(array->second.shape), info.name, to_string(info.type)),
                         "save an array of the input's shape, or change the shape in the program");
    }
    tensors.push_back(std::move(array->second));
  }
  return tensors;
}

template <class Value>
Result<std::vector<Tensor<double>>> execute_in(const Graph& graph, const std::vector<Tensor<double>>& inputs,
                                               bool round_storage) {
  RealArithmetic<Value> arithmetic{round_storage};
  std::vector<Tensor<Value>> converted;
  for (const Tensor<double>& input : inputs) {
    converted.emplace_back(input.shape, std::vector<Value>(input.data.begin(), input.data.end()));
  }
  STRATA_TRY(const auto results, execute(graph, arithmetic, converted));
  std::vector<Tensor<double>> outputs;
  for (const auto& result : results) {
    outputs.emplace_back(result.shape, std::vector<double>(result.data.begin(), result.data.end()));
  }
  return outputs;
}

Result<int> run(const Options& options) {
  STRATA_TRY(auto files, input_files(options));
  std::vector<std::string> paths{options.graph};
  for (const auto& [name, path] : files) paths.push_back(path);
  STRATA_CHECK(check_standard_input(paths));
  STRATA_TRY(const DimSizes dims, read_dims(options.dims));
  const auto no_dims = [&] {
    return with_remedy(invalid("'{}' has no dims", options.graph), "leave --dim out: its sizes are numbers");
  };
  std::error_code error;
  if (std::filesystem::is_directory(options.graph, error)) {
    // Beside the code that optimize wrote lies the µGraph that it was made of.
    if (const auto graph = graph_in(options.graph); graph && options.interpret && !has_size_table(options.graph)) {
      Options of_graph = options;
      of_graph.graph = *graph;
      return run(of_graph);
    }
    if (!has_size_table(options.graph)) STRATA_CHECK(check_manifest_in(options.graph));
    if (options.precision_given || options.search.seconds > 0 || options.no_libraries || !options.report.empty()) {
      return with_remedy(invalid("'{}' holds code that is made already", options.graph),
                         "leave --precision, --search-seconds, --no-libraries and --report out");
    }
    if (has_size_table(options.graph)) {
      if (options.check || options.with_inputs)
        return with_remedy(invalid("'{}' holds code for several sizes", options.graph),
                           "leave --check and --with-inputs out, or run the program's text");
      return run_sizes(options.graph, {std::move(files), dims, options.seed, options.output, options.interpret,
                                       options.device, options.profile});
    }
    if (!dims.empty()) return no_dims();
    return run_folder(options.graph, {std::move(files), options.seed, options.output, options.with_inputs,
                                      options.interpret, options.check, options.device, options.profile});
  }
  STRATA_TRY(const Source source, read_source(options.graph));
  if (source.is_hlo) {
    if (!dims.empty()) return no_dims();
    if (options.precision_given) {
      return with_remedy(invalid("--precision does not apply to HLO, whose values have their own types"),
                         "leave --precision out");
    }
    return run_module(source, {std::move(files), options.seed, options.output, options.with_inputs, options.interpret,
                               options.check, options.device, options.profile, options.tolerance, !options.no_libraries,
                               options.search, options.report});
  }
  if (options.hlo_option_given) {
    return with_remedy(
        invalid("--check, --device, --profile, --report, --tolerance, --no-libraries and --search-seconds are for HLO"),
        "leave them out: a µGraph is run by the interpreter, and measured by strata optimize --profile");
  }
  STRATA_TRY(const SizedProgram program, source.program());
  STRATA_TRY(auto arrays, read_arrays(*program.graph, files));
  STRATA_TRY(const DimSizes sizes, program.dims.empty() ? program.with(dims) : sizes_of_run(program, arrays, dims));
  STRATA_TRY(const GraphPtr graph, program.at(sizes));
  STRATA_CHECK(check_execution_memory(*graph));
  STRATA_TRY(const auto inputs, inputs_of(*graph, std::move(arrays), files, options));
  STRATA_TRY(const auto outputs, options.precision == "f64"   ? execute_in<double>(*graph, inputs, false)
                                 : options.precision == "f32" ? execute_in<float>(*graph, inputs, false)
                                                              : execute_in<float>(*graph, inputs, true));
  if (!options.output.empty()) STRATA_CHECK(make_folder(options.output));
  for (size_t i = 0; i < inputs.size() && options.with_inputs && !options.output.empty(); ++i) {
    const std::string& name = graph->tensor(graph->arguments()[i]).name;
    STRATA_CHECK(write_file(options.output + "/" + name + ".npy", npy_bytes(inputs[i])));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorInfo& info = graph->tensor(graph->outputs()[i]);
    summarise(info.name, info.type, outputs[i]);
    if (options.output.empty()) continue;
    STRATA_CHECK(write_file(options.output + "/" + info.name + ".npy", npy_bytes(outputs[i])));
  }
  return kSuccess;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand(
      "run", "Execute a µGraph with the interpreter, an HLO module by its kernels, or the code in a folder");
  command
      ->add_option(
          "GRAPH", options->graph,
          "a .strata file, or HLO text (- is the standard input), or a folder with code, as optimize and emit write it")
      ->required();
  command->add_option("--input", options->inputs, "NAME=FILE.npy; may be repeated; other inputs are random")
      ->allow_extra_args(false);
  add_dim_option(*command, options->dims,
                 "NAME=N: the size of a dim, where no input of --input tells it; may be repeated");
  add_number<uint64_t>(*command, "--seed", options->seed, {}, "of random inputs");
  command->add_option("--output", options->output, "folder for the outputs, NAME.npy (µGraphs: in float64)");
  command->add_flag("--with-inputs", options->with_inputs, "write the inputs beside the outputs");
  command->add_flag("--interpret", options->interpret,
                    "HLO, and folders of strata optimize: by the interpreter, as µGraphs always are");
  command->add_flag("--check", options->check, "HLO: by kernels and the interpreter; exit code 1 if they differ");
  command->add_option("--precision", options->precision, "f64, f32, or own: f32 with tensors rounded to their types")
      ->check(CLI::IsMember({"f64", "f32", "own"}))
      ->capture_default_str();
  command->add_option("--device", options->device, "HLO: cpu, gpu, or auto: the GPU where there is one")
      ->check(CLI::IsMember({"cpu", "gpu", "auto"}))
      ->capture_default_str();
  add_number<double>(*command, "--tolerance", options->tolerance, {1e-6, 1e6},
                     "HLO: times what floats may differ by in --check");
  command->add_flag("--profile", options->profile, "HLO on a GPU: print the time of each step");
  command->add_option("--report", options->report,
                      "HLO: file for a page on the module's steps, their times and reasons; .json: as data");
  command->add_flag("--no-libraries", options->no_libraries, "HLO: products and convolutions are kernels too");
  add_search_options(*command, options->search);
  command->callback([options, command, &action] {
    for (const char* name :
         {"--check", "--device", "--profile", "--report", "--no-libraries", "--tolerance", "--search-seconds"})
      options->hlo_option_given |= command->count(name) > 0;
    options->precision_given = command->count("--precision") > 0;
    action = [options] { return run(*options); };
  });
}

}  // namespace strata::cli
