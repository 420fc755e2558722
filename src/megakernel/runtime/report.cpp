#include "megakernel/runtime/report.h"

#include "megakernel/runtime/core/program.h"

namespace strata::megakernel {
namespace {

std::string role_name(const RoleReport& report) {
  switch (report.role) {
    case Role::Control:
      return fmt::format("worker {} control", report.index);
    case Role::Load:
      return fmt::format("worker {} load", report.index);
    case Role::Gather:
      return fmt::format("worker {} gather", report.index);
    case Role::Compute:
      return fmt::format("worker {} compute", report.index);
    case Role::Schedule:
      break;
  }
  return fmt::format("scheduler {}", report.index);
}

std::string activity_text(const RoleReport& r) {
  switch (r.activity) {
    case Activity::None:
      return "has not started";
    case Activity::Running:
      return "runs its block function";
    case Activity::Left:
      return "has left";
    case Activity::Start:
      return fmt::format("{} of {} workers and schedulers have started", r.have, r.want);
    case Activity::Listed:
      return "waits for the next task of the list";
    case Activity::Unlisted:
      return fmt::format("waits for entry {} of the list to be free", r.object);
    case Activity::NextTask:
      if (r.object < 0) return "waits for the loader or a task just in time";
      return fmt::format("waits for event {}, counter {} of {}, to list a task after tasks just in time", r.object,
                         r.have, r.want);
    case Activity::SlotEmpty:
      return fmt::format("waits for slot {} to be empty", r.object);
    case Activity::SlotFull:
      return fmt::format("waits for the copy to slot {}", r.object);
    case Activity::Window:
      return fmt::format("waits for the copy to slot {} to leave the window", r.object);
    case Activity::Event:
      return fmt::format("waits for event {}, counter {} of {}", r.object, r.have, r.want);
    case Activity::InOrder:
      return fmt::format("waits for the worker's tasks before it, {} of {}", r.have, r.want);
    case Activity::Step:
      return fmt::format("waits for step {}, now {}", r.want, r.have);
    case Activity::Page:
      return fmt::format("waits for page {} to be empty", r.object);
    case Activity::Gathered:
      return "waits for gather";
    case Activity::Tags:
      return fmt::format("waits for tagged word {}, epoch {} of {}", r.object, r.have, r.want);
    case Activity::Queue:
      return fmt::format("waits for a place in the queue of worker {}", r.object);
    case Activity::Slots:
      return fmt::format("compute used {} slots, and load filled {}", r.have, r.want);
  }
  return "?";
}

}  // namespace

AbortReport read_report(uint32_t abort, std::span<const uint32_t> words, int workers) {
  AbortReport report;
  for (size_t i = 0; i * kReportWords < words.size(); ++i) {
    const auto* w = &words[i * kReportWords];
    const int role = static_cast<int>(i);
    const bool scheduler = role >= workers * kWorkerRoles;
    report.roles.push_back({scheduler ? Role::Schedule : static_cast<Role>(role % kWorkerRoles),
                            scheduler ? role - workers * kWorkerRoles : role / kWorkerRoles,
                            static_cast<Activity>(w[0]), static_cast<int>(w[1]), w[2], static_cast<int>(w[3]), w[4],
                            w[5]});
    if (w[0] == 0) report.roles.back().task = -1;
  }
  if (abort > 0 && abort <= report.roles.size()) report.cause = report.roles[abort - 1];
  return report;
}

std::string describe(const RoleReport& report, const Plan& plan) {
  std::string text = role_name(report);
  if (report.task >= 0 && report.task < static_cast<int>(plan.tasks.size())) {
    const int op = plan.tasks[report.task].op;
    text += fmt::format(", task {} ({}), epoch {}", report.task, op < 0 ? "empty" : plan.operators[op], report.epoch);
  }
  return text + ": " + activity_text(report);
}

std::string describe(const AbortReport& report, const Plan& plan) {
  std::string text = describe(report.cause, plan);
  for (const RoleReport& role : report.roles)
    if (role.activity != Activity::Left) text += "\n  " + describe(role, plan);
  return text;
}

}  // namespace strata::megakernel
