#include "megakernel/plan.h"

#include <gtest/gtest.h>

#include "megakernel/plan_file.h"
#include "support/random.h"

namespace strata::megakernel {
namespace {

bool same(const Plan& a, const Plan& b) {
  return a.name == b.name && a.workers == b.workers && a.schedulers == b.schedulers && a.functions == b.functions &&
         a.operators == b.operators && a.events == b.events && a.tasks == b.tasks && a.queues == b.queues;
}

/// What the text can say, whether or not it can be executed.
Plan random_plan(Random& random) {
  const auto below = [&](uint64_t bound) { return static_cast<int>(random.below(bound)); };
  Plan plan;
  plan.name = "plan \"" + std::to_string(random.below(100)) + "\"\n";
  plan.workers = 1 + below(4);
  plan.schedulers = below(3);
  for (int i = below(3); i >= 0; --i)
    plan.functions.push_back({"f" + std::to_string(i), below(9), 16 * below(9), below(9), below(2) == 0});
  for (int i = below(3); i >= 0; --i) plan.operators.push_back("op" + std::to_string(i));
  const int tasks = below(20);
  for (int i = below(4); i >= 0; --i) {
    const int first = below(static_cast<uint64_t>(tasks) + 1);
    const int end = first + below(static_cast<uint64_t>(tasks - first) + 1);
    plan.events.push_back({below(5), first, end, static_cast<HandOff>(below(3))});
  }
  plan.queues.resize(static_cast<size_t>(plan.workers));
  for (int i = 0; i < tasks; ++i) {
    Task& task = plan.tasks.emplace_back();
    task.function = below(plan.functions.size() + 1) - 1;
    task.op = below(plan.operators.size() + 1) - 1;
    for (int64_t& at : task.coordinates) at = below(3);
    for (int n = below(kMaxWaits + 1); n > 0; --n) task.waits.push_back(below(plan.events.size()));
    task.signal = below(plan.events.size() + 1) - 1;
    task.mode = static_cast<LaunchMode>(below(2));
    task.after_just_in_time = below(2) == 0;
    plan.queues[random.below(plan.queues.size())].push_back(i);
  }
  return plan;
}

TEST(PlanText, PrintedPlansParseBack) {
  Random random(1);
  for (int test = 0; test < 300; ++test) {
    const Plan plan = random_plan(random);
    const std::string text = print_plan(plan);
    const Result<Plan> parsed = parse_plan(text);
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    EXPECT_TRUE(same(*parsed, plan)) << text;
    EXPECT_EQ(print_plan(*parsed), text);
  }
}

TEST(PlanText, PrintedFilesParseBack) {
  Random random(2);
  PlanFile file{"model", {}};
  for (int64_t batch : {1, 2, 4, 16}) file.by_batch.emplace(batch, random_plan(random));
  const std::string text = print_plan_file(file);
  const Result<PlanFile> parsed = parse_plan_file(text);
  ASSERT_TRUE(parsed) << parsed.error().to_string();
  EXPECT_EQ(print_plan_file(*parsed), text);
  EXPECT_EQ(parsed->find(3), &parsed->by_batch.at(4));
  EXPECT_EQ(parsed->find(16), &parsed->by_batch.at(16));
  EXPECT_EQ(parsed->find(17), nullptr);
}

struct BadText {
  const char* what;  ///< of the good text below
  const char* instead;
  const char* message;
};

constexpr const char* kGood =
    R"({"version":1,"name":"p","workers":1,"schedulers":0,"functions":)"
    R"([{"name":"f","stages":2,"stage_bytes":16,"scratch_bytes":1}],)"
    R"("operators":["o"],"events":[{"triggers":1,"first":1,"end":2}],)"
    R"("tasks":[{"op":0,"function":0,"at":[0,0,0],"signal":0},{"waits":[0]}],"queues":[[0,1]]})";

TEST(PlanText, ErrorsNameThePlace) {
  ASSERT_TRUE(parse_plan(kGood)) << parse_plan(kGood).error().to_string();
  const BadText texts[] = {
      {"\"version\":1", "\"version\":2", "plan: version 2 is not read, 1 is"},
      {"\"version\":1,", "", "plan: 'version' is missing"},
      {"\"name\":\"p\"", "\"name\":1", "plan.name: expected a string, found number"},
      {"\"workers\":1", "\"workers\":0", "plan.workers: expected an integer from 1 to 2147483647, found 0"},
      {"\"workers\":1", "\"workers\":2", "plan: has 1 queues for 2 workers"},
      {"\"stages\":2", "\"stages\":-2", "plan.functions[0].stages: expected an integer from 0 to 9223372036854775807"},
      {"\"stages\":2", "\"stages\":18446744073709551615", "plan.functions[0].stages: expected an integer from 0"},
      {"\"stages\":2", "\"stages\":2.5", "plan.functions[0].stages: expected an integer, found 2.5"},
      {"\"scratch_bytes\":1", "\"scratch_bytes\":1,\"stores_for_copies\":1",
       "plan.functions[0].stores_for_copies: expected true or false, found number"},
      {"\"operators\":[\"o\"]", "\"operators\":{}", "plan.operators: expected an array, found object"},
      {"\"end\":2", "\"end\":3", "plan.events[0].end: expected an integer from 1 to 2, found 3"},
      {"\"end\":2", "\"end\":2,\"hand_off\":\"mail\"",
       "plan.events[0].hand_off: expected counter or tagged or worker, found 'mail'"},
      {"\"op\":0", "\"op\":1", "plan.tasks[0].op: expected an integer from 0 to 0, found 1"},
      {"[0,0,0]", "[0,0]", "plan.tasks[0]: 'at' has 2 coordinates, not 3"},
      {"\"waits\":[0]", "\"waits\":[1]", "plan.tasks[1].waits[0]: expected an integer from 0 to 0, found 1"},
      {"\"waits\":[0]", "\"waits\":[0,0,0,0,0]", "plan.tasks[1]: waits for 5 events, more than 4"},
      {"\"waits\":[0]", "\"wait\":[0]", "plan.tasks[1]: unknown member 'wait'"},
      {"[[0,1]]", "[[0,2]]", "plan.queues[0][1]: expected an integer from 0 to 1, found 2"},
      {"\"stages\":2", "\"stages\":1e999", "plan:1:86: the number 1e999 is too large"},
      {"\"stages\":2", "\"stages\":2,\"stages\":2", "plan:1:95: the object has the key \"stages\" twice"},
      {"\"queues\"", "queues", "plan:1:257: this is no JSON"},
  };
  for (const BadText& bad : texts) {
    std::string text = kGood;
    ASSERT_NE(text.find(bad.what), std::string::npos) << bad.what;
    text.replace(text.find(bad.what), std::string(bad.what).size(), bad.instead);
    const Result<Plan> parsed = parse_plan(text);
    ASSERT_FALSE(parsed) << bad.message;
    EXPECT_EQ(parsed.error().code, ErrorCode::InvalidInput);
    EXPECT_NE(parsed.error().message.find(bad.message), std::string::npos) << parsed.error().message;
  }
  EXPECT_EQ(parse_plan("{\n \"a\": \n").error().message, "plan:3:1: this is no JSON");
  EXPECT_EQ(parse_plan("{\"tasks\":" + std::string(100000, '[')).error().message,
            "plan:1:41: nested more than 32 deep");
  EXPECT_EQ(parse_plan_file("{\"plans\":{\"1\":{},\n\"1\":{}}}").error().message,
            "file:2:3: the object has the key \"1\" twice");
  // What is shown of a long value is short.
  const std::string text = "{\"version\":[" + std::string(100000, '1') + "]}";
  EXPECT_LT(parse_plan(text).error().message.size(), 200U);
  EXPECT_LT(parse_plan("{\"version\":[1" + std::string(100000, ' ') + ",1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}")
                .error()
                .message.size(),
            140U);
  EXPECT_EQ(parse_plan("[]").error().message, "plan: expected an object, found array");
  EXPECT_EQ(parse_plan_file(R"({"version":1,"name":"f","plans":{"two":{}}})").error().message,
            "file.plans: 'two' is no batch size");
  EXPECT_EQ(parse_plan_file(R"({"version":1,"name":"f","plans":{"2":{}}})").error().message,
            "file.plans.2: 'version' is missing");
}

}  // namespace
}  // namespace strata::megakernel
