// Plans and files of plans as JSON.
#include "megakernel/plan.h"

#include <nlohmann/json.hpp>

#include "megakernel/plan_file.h"
#include "support/json_text.h"

namespace strata::megakernel {
namespace {

using Json = nlohmann::ordered_json;

/// In the order of LaunchMode.
constexpr std::array<const char*, 2> kLaunchModes{"ahead", "just_in_time"};

/// A value of a text that is read, and where it stands: `plan.tasks[3].waits`.
class Place {
 public:
  Place(const Json& json, std::string path) : json_(&json), path_(std::move(path)) {}

  template <class... Args>
  tl::unexpected<Error> wrong(fmt::format_string<Args...> text, Args&&... args) const {
    return invalid("{}: {}", path_, fmt::format(text, std::forward<Args>(args)...));
  }

  Result<Place> member(const char* name) const {
    if (!json_->is_object()) return wrong("expected an object, found {}", json_->type_name());
    const auto found = json_->find(name);
    if (found == json_->end()) return wrong("'{}' is missing", name);
    return Place(*found, path_ + "." + name);
  }
  bool has(const char* name) const { return json_->is_object() && json_->contains(name); }
  /// Members of other names than these are errors: a misspelt one must not be taken for one that is left out.
  Result<void> only(std::initializer_list<std::string_view> names) const {
    if (!json_->is_object()) return wrong("expected an object, found {}", json_->type_name());
    for (const auto& [name, value] : json_->items()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) return wrong("unknown member '{}'", name);
    }
    return {};
  }
  Result<std::vector<Place>> elements() const {
    if (!json_->is_array()) return wrong("expected an array, found {}", json_->type_name());
    std::vector<Place> places;
    places.reserve(json_->size());
    for (size_t i = 0; i < json_->size(); ++i) places.emplace_back((*json_)[i], fmt::format("{}[{}]", path_, i));
    return places;
  }
  Result<std::vector<std::pair<std::string, Place>>> members() const {
    if (!json_->is_object()) return wrong("expected an object, found {}", json_->type_name());
    std::vector<std::pair<std::string, Place>> places;
    for (const auto& [name, value] : json_->items()) places.emplace_back(name, Place(value, path_ + "." + name));
    return places;
  }
  Result<std::string> text() const {
    if (!json_->is_string()) return wrong("expected a string, found {}", json_->type_name());
    return json_->get<std::string>();
  }
  Result<bool> truth() const {
    if (!json_->is_boolean()) return wrong("expected true or false, found {}", json_->type_name());
    return json_->get<bool>();
  }
  /// An integer from `least` to `most`.
  template <class Integer>
  Result<Integer> integer(int64_t least, int64_t most) const {
    if (!json_->is_number_integer()) return wrong("expected an integer, found {}", shown_json(*json_));
    const bool huge = json_->is_number_unsigned() && json_->get<uint64_t>() > uint64_t{INT64_MAX};
    if (const int64_t value = huge ? 0 : json_->get<int64_t>(); !huge && value >= least && value <= most)
      return static_cast<Integer>(value);
    return wrong("expected an integer from {} to {}, found {}", least, most, shown_json(*json_));
  }
  template <size_t N>
  Result<size_t> word(const std::array<const char*, N>& words) const {
    STRATA_TRY(const std::string found, text());
    for (size_t i = 0; i < N; ++i) {
      if (found == words[i]) return i;
    }
    return wrong("expected {}, found '{}'", fmt::join(words, " or "), found);
  }

 private:
  const Json* json_;
  std::string path_;
};

constexpr int64_t kMost = INT64_MAX;
constexpr int64_t kMostNumbers = INT32_MAX;  // of tasks, events, workers: what an int numbers

template <class T>
Result<T> integer_member(const Place& place, const char* name, int64_t least, int64_t most) {
  STRATA_TRY(const Place member, place.member(name));
  return member.integer<T>(least, most);
}

Result<std::string> text_member(const Place& place, const char* name) {
  STRATA_TRY(const Place member, place.member(name));
  return member.text();
}

Result<std::vector<Place>> array_member(const Place& place, const char* name) {
  STRATA_TRY(const Place member, place.member(name));
  return member.elements();
}

Json task_json(const Task& task) {
  Json json;
  // What most tasks do not have is left out: plans have tens of thousands of them.
  if (task.op >= 0) json["op"] = task.op;
  if (task.function >= 0) json["function"] = task.function;
  if (task.coordinates != std::array<int64_t, 3>{}) json["at"] = task.coordinates;
  if (!task.waits.empty()) json["waits"] = task.waits;
  if (task.signal >= 0) json["signal"] = task.signal;
  if (task.mode != LaunchMode::AheadOfTime) json["mode"] = kLaunchModes[static_cast<size_t>(task.mode)];
  if (task.after_just_in_time) json["after_just_in_time"] = true;
  return json.is_null() ? Json::object() : json;
}

Json function_json(const TaskFunction& function) {
  Json json = {{"name", function.name},
               {"stages", function.stages},
               {"stage_bytes", function.stage_bytes},
               {"scratch_bytes", function.scratch_bytes}};
  if (function.stores_for_copies) json["stores_for_copies"] = true;
  return json;
}

Json plan_json(const Plan& plan) {
  Json json = {{"version", Plan::kVersion},     {"name", plan.name},          {"workers", plan.workers},
               {"schedulers", plan.schedulers}, {"functions", Json::array()}, {"operators", plan.operators},
               {"events", Json::array()},       {"tasks", Json::array()},     {"queues", plan.queues}};
  for (const TaskFunction& function : plan.functions) json["functions"].push_back(function_json(function));
  for (const Event& event : plan.events) {
    Json one = {{"triggers", event.triggers}, {"first", event.first}, {"end", event.end}};
    if (event.hand_off != HandOff::Counter) one["hand_off"] = kHandOffs[static_cast<size_t>(event.hand_off)];
    json["events"].push_back(std::move(one));
  }
  for (const Task& task : plan.tasks) json["tasks"].push_back(task_json(task));
  return json;
}

Result<Task> read_task(const Place& place, const Plan& plan) {
  const auto events = static_cast<int64_t>(plan.events.size());
  STRATA_CHECK(place.only({"op", "function", "at", "waits", "signal", "mode", "after_just_in_time"}));
  Task task;
  if (place.has("op")) {
    STRATA_TRY(task.op, integer_member<int>(place, "op", 0, static_cast<int64_t>(plan.operators.size()) - 1));
  }
  if (place.has("function")) {
    STRATA_TRY(task.function,
               integer_member<int>(place, "function", 0, static_cast<int64_t>(plan.functions.size()) - 1));
  }
  if (place.has("at")) {
    STRATA_TRY(const std::vector<Place> at, array_member(place, "at"));
    if (at.size() != task.coordinates.size()) return place.wrong("'at' has {} coordinates, not 3", at.size());
    for (size_t d = 0; d < at.size(); ++d) {
      STRATA_TRY(task.coordinates[d], at[d].integer<int64_t>(0, kMost));
    }
  }
  if (place.has("waits")) {
    STRATA_TRY(const std::vector<Place> waits, array_member(place, "waits"));
    if (waits.size() > kMaxWaits) return place.wrong("waits for {} events, more than {}", waits.size(), kMaxWaits);
    for (const Place& wait : waits) {
      STRATA_TRY(task.waits.emplace_back(), wait.integer<int>(0, events - 1));
    }
  }
  if (place.has("signal")) {
    STRATA_TRY(task.signal, integer_member<int>(place, "signal", 0, events - 1));
  }
  if (place.has("mode")) {
    STRATA_TRY(const Place mode, place.member("mode"));
    STRATA_TRY(const size_t word, mode.word(kLaunchModes));
    task.mode = static_cast<LaunchMode>(word);
  }
  if (place.has("after_just_in_time")) {
    STRATA_TRY(const Place mark, place.member("after_just_in_time"));
    STRATA_TRY(task.after_just_in_time, mark.truth());
  }
  return task;
}

Result<Event> read_event(const Place& place, int64_t tasks) {
  STRATA_CHECK(place.only({"triggers", "first", "end", "hand_off"}));
  Event event;
  STRATA_TRY(event.triggers, integer_member<int64_t>(place, "triggers", 0, kMostNumbers));
  STRATA_TRY(event.first, integer_member<int64_t>(place, "first", 0, tasks));
  STRATA_TRY(event.end, integer_member<int64_t>(place, "end", event.first, tasks));
  if (place.has("hand_off")) {
    STRATA_TRY(const Place hand_off, place.member("hand_off"));
    STRATA_TRY(const size_t word, hand_off.word(kHandOffs));
    event.hand_off = static_cast<HandOff>(word);
  }
  return event;
}

Result<void> check_version(const Place& place, int known) {
  const auto version = integer_member<int64_t>(place, "version", 0, kMost);
  if (version && *version == known) return {};
  auto wrong =
      version ? place.wrong("version {} is not read, {} is", *version, known) : tl::unexpected<Error>(version.error());
  return with_remedy(std::move(wrong), "make the plan again");
}

Result<Plan> read_plan(const Place& place) {
  STRATA_CHECK(check_version(place, Plan::kVersion));
  STRATA_CHECK(
      place.only({"version", "name", "workers", "schedulers", "functions", "operators", "events", "tasks", "queues"}));
  Plan plan;
  STRATA_TRY(plan.name, text_member(place, "name"));
  STRATA_TRY(plan.workers, integer_member<int>(place, "workers", 1, kMostNumbers));
  STRATA_TRY(plan.schedulers, integer_member<int>(place, "schedulers", 0, kMostNumbers));
  STRATA_TRY(const std::vector<Place> functions, array_member(place, "functions"));
  for (const Place& each : functions) {
    STRATA_CHECK(each.only({"name", "stages", "stage_bytes", "scratch_bytes", "stores_for_copies"}));
    TaskFunction& function = plan.functions.emplace_back();
    STRATA_TRY(function.name, text_member(each, "name"));
    STRATA_TRY(function.stages, integer_member<int64_t>(each, "stages", 0, kMost));
    STRATA_TRY(function.stage_bytes, integer_member<int64_t>(each, "stage_bytes", 0, kMost));
    STRATA_TRY(function.scratch_bytes, integer_member<int64_t>(each, "scratch_bytes", 0, kMost));
    if (each.has("stores_for_copies")) {
      STRATA_TRY(const Place mark, each.member("stores_for_copies"));
      STRATA_TRY(function.stores_for_copies, mark.truth());
    }
  }
  STRATA_TRY(const std::vector<Place> operators, array_member(place, "operators"));
  for (const Place& each : operators) {
    STRATA_TRY(plan.operators.emplace_back(), each.text());
  }
  STRATA_TRY(const std::vector<Place> tasks, array_member(place, "tasks"));
  const auto count = static_cast<int64_t>(tasks.size());
  STRATA_TRY(const std::vector<Place> events, array_member(place, "events"));
  for (const Place& each : events) {
    STRATA_TRY(plan.events.emplace_back(), read_event(each, count));
  }
  plan.tasks.reserve(tasks.size());
  for (const Place& each : tasks) {
    STRATA_TRY(plan.tasks.emplace_back(), read_task(each, plan));
  }
  STRATA_TRY(const std::vector<Place> queues, array_member(place, "queues"));
  if (static_cast<int64_t>(queues.size()) != plan.workers)
    return place.wrong("has {} queues for {} workers", queues.size(), plan.workers);
  for (const Place& each : queues) {
    STRATA_TRY(const std::vector<Place> queue, each.elements());
    std::vector<int>& numbers = plan.queues.emplace_back();
    for (const Place& task : queue) {
      STRATA_TRY(numbers.emplace_back(), task.integer<int>(0, count - 1));
    }
  }
  return plan;
}

/// Messages begin with "WHAT:LINE:COLUMN".
Result<Json> parse(const std::string& text, const char* what) {
  auto json = parse_json<Json>(text);
  if (!json) return invalid("{}:{}", what, json.error().message);
  return *std::move(json);
}

}  // namespace

std::string print_plan(const Plan& plan) { return plan_json(plan).dump() + "\n"; }

Result<Plan> parse_plan(const std::string& text) {
  STRATA_TRY(const Json json, parse(text, "plan"));
  return read_plan(Place(json, "plan"));
}

const Plan* PlanFile::find(int64_t sequences) const {
  const auto found = by_batch.lower_bound(sequences);
  return found == by_batch.end() ? nullptr : &found->second;
}

std::string print_plan_file(const PlanFile& file) {
  Json json = {{"version", PlanFile::kVersion}, {"name", file.name}, {"plans", Json::object()}};
  for (const auto& [batch, plan] : file.by_batch) json["plans"][std::to_string(batch)] = plan_json(plan);
  return json.dump() + "\n";
}

Result<PlanFile> parse_plan_file(const std::string& text) {
  STRATA_TRY(const Json json, parse(text, "file"));
  const Place place(json, "file");
  STRATA_CHECK(check_version(place, PlanFile::kVersion));
  STRATA_CHECK(place.only({"version", "name", "plans"}));
  PlanFile file;
  STRATA_TRY(file.name, text_member(place, "name"));
  STRATA_TRY(const Place plans, place.member("plans"));
  STRATA_TRY(const auto members, plans.members());
  for (const auto& [key, each] : members) {
    const bool number = !key.empty() && key.size() < 10 && key[0] != '0' &&
                        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number) return plans.wrong("'{}' is no batch size", key);
    STRATA_TRY(Plan plan, read_plan(each));
    file.by_batch.emplace(std::stoll(key), std::move(plan));
  }
  return file;
}

}  // namespace strata::megakernel
