#include "emitters/program_report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace strata::emitters {
namespace {

using Json = nlohmann::ordered_json;

double bytes_of(const hlo::Shape& shape) {
  if (shape.is_array()) return static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
  double sum = 0;
  for (const hlo::Shape& element : shape.elements) sum += bytes_of(element);
  return sum;
}

class Reporter {
 public:
  Reporter(const Target& target, const std::optional<MeasuredSteps>& measured)
      : bandwidth_(target.rates.memory_bandwidth), measured_(measured) {}

  Json steps(const EmittedProgram& program) {
    Json all = Json::array();
    for (const ProgramStep& step : program.steps) all.push_back(one(program, step));
    return all;
  }

  double floor_us(double bytes) const { return bytes / bandwidth_ * 1e6; }

 private:
  static Json arrays(const EmittedProgram& program, const std::vector<int>& numbers, double& bytes) {
    Json all = Json::array();
    for (const int number : numbers) {
      const ProgramBuffer& buffer = program.buffers[static_cast<size_t>(number)];
      bytes += bytes_of(buffer.shape);
      all.push_back({{"buffer", number}, {"name", buffer.name}, {"shape", hlo::to_string(buffer.shape)}});
    }
    return all;
  }

  static Json pairs(const std::vector<std::pair<std::string, std::string>>& from) {
    Json all = Json::array();
    for (const auto& [name, text] : from) all.push_back({name, text});
    return all;
  }

  static void describe(const EmittedFusion& fusion, Json& json) {
    const Decision& decision = fusion.decision();
    json["kind"] = "emitter";
    json["what"] = decision.emitter;
    json["reason"] = decision.reason;
    json["details"] = pairs(decision.details);
    json["refused"] = pairs(decision.refused);
    json["launches"] = Json::array();
    const std::vector<std::string> names = fusion.kernel_names();
    for (size_t i = 0; i < decision.launches.size(); ++i) {
      const Launch& launch = decision.launches[i];
      json["launches"].push_back({{"kernel", i < names.size() ? names[i] : fusion.name()},
                                  {"blocks", launch.blocks},
                                  {"threads", launch.threads},
                                  {"shared_bytes", launch.shared_bytes}});
    }
  }

  void describe(const LoopStep& loop, Json& json) {
    json["kind"] = "loop";
    json["what"] = "loop";
    json["reason"] = loop.counted ? fmt::format("{} iterations", loop.counted->count)
                     : loop.once  ? "one iteration or none"
                                  : "until its condition is false";
    json["iterations"] = loop.counted ? Json(loop.counted->count) : Json();
    json["steps"] = steps(*loop.body);
  }

  Json one(const EmittedProgram& program, const ProgramStep& step) {
    Json json;
    const std::string name = step.fusion ? step.fusion->name() : step.interpreted->entry_computation().name;
    json["name"] = name;
    if (step.fusion) {
      describe(*step.fusion, json);
    } else if (step.library) {
      json["kind"] = "library";
      json["what"] = fmt::format("{} {}", library_of(step.library->work), strata::describe(step.library->work));
      json["reason"] = step.library->reason;
    } else if (step.lax) {
      json["kind"] = "superoptimizer";
      json["what"] = "µGraph";
      json["reason"] = step.lax->reason;
    } else if (step.loop) {
      describe(*step.loop, json);
    } else {
      json["kind"] = "interpreter";
      json["what"] = "interpreter";
      json["reason"] = step.why_interpreted;
    }
    double bytes = 0;
    json["reads"] = arrays(program, step.inputs, bytes);
    json["writes"] = arrays(program, step.outputs, bytes);
    json["bytes"] = bytes;
    // What a loop's iterations read of its state is not known here.
    json["floor_us"] = step.loop ? Json() : Json(floor_us(bytes));
    const bool estimated = step.microseconds && std::isfinite(*step.microseconds);
    json["estimated_us"] = estimated ? Json(*step.microseconds) : Json();
    if (measured_) {
      const auto time = measured_->steps.find(name);
      json["measured_us"] = time == measured_->steps.end() ? Json() : Json(time->second);
    }
    json["notes"] = step.notes;
    return json;
  }

  const double bandwidth_;
  const std::optional<MeasuredSteps>& measured_;
};

}  // namespace

std::string program_report_json(const EmittedProgram& program, const Target& target, double search_seconds,
                                const std::optional<MeasuredSteps>& measured) {
  Reporter reporter(target, measured);
  Json json;
  json["kind"] = "module";
  json["name"] = program.name;
  json["target"] = std::string(target.name);
  json["gpu"] = std::string(target.gpu);
  json["memory_bandwidth"] = target.rates.memory_bandwidth;
  json["search_seconds"] = search_seconds;
  double bytes = 0;
  for (const ProgramBuffer& buffer : program.buffers) bytes += buffer.parameter >= 0 ? bytes_of(buffer.shape) : 0;
  const std::set<int> results(program.results.begin(), program.results.end());
  for (const int result : results) bytes += bytes_of(program.buffers[static_cast<size_t>(result)].shape);
  json["bytes"] = bytes;
  json["floor_us"] = reporter.floor_us(bytes);
  Json steps = reporter.steps(program);
  double floors = 0;
  for (const Json& step : steps) floors += step["floor_us"].is_number() ? step["floor_us"].get<double>() : 0;
  json["steps_floor_us"] = floors;
  const std::optional<double> estimated = estimated_microseconds(program);
  json["estimated_us"] = estimated ? Json(*estimated) : Json();
  json["steps"] = std::move(steps);
  json["notes"] = program.notes;
  if (measured) json["measured"] = {{"device", measured->device}, {"all_us", measured->all}};
  return json.dump(2) + "\n";
}

}  // namespace strata::emitters
