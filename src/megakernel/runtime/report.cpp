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
    case Activity::Room:
      return fmt::format("waits for compute to be done with stage {}", static_cast<unsigned>(r.object));
    case Activity::StageFull:
      return fmt::format("waits for the copy to stage {}", static_cast<unsigned>(r.object));
    case Activity::Window:
      return fmt::format("waits for the copy to stage {} to leave the window", static_cast<unsigned>(r.object));
    case Activity::Event:
      return fmt::format("waits for event {}, counter {} of {}", r.object, r.have, r.want);
    case Activity::Step:
      return fmt::format("waits for step {}, now {}", r.want, r.have);
    case Activity::Tags:
      return fmt::format("waits for tagged word {}, epoch {} of {}", r.object, r.have, r.want);
    case Activity::Queue:
      return fmt::format("waits for a place in the queue of worker {}", r.object);
    case Activity::Stages:
      if (r.object == 0) return fmt::format("compute used {} stages, and load filled {}", r.have, r.want);
      return fmt::format("compute used stages of other sizes than load filled: it ends at {} of the ring, not {}",
                         r.have, r.want);
    case Activity::Leaving:
      return "waits for load and compute to leave";
    case Activity::NotFinite:
      return fmt::format("found NaN or an infinity, element {} of row {}", r.object, r.have);
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
    RoleReport& role_report = report.roles.emplace_back();
    role_report.role = scheduler ? Role::Schedule : static_cast<Role>(role % kWorkerRoles);
    role_report.index = scheduler ? role - workers * kWorkerRoles : role / kWorkerRoles;
    if (w[0] != 0) {
      role_report.activity = static_cast<Activity>(w[0]);
      role_report.task = static_cast<int>(w[1]);
      role_report.epoch = w[2];
      role_report.object = static_cast<int>(w[3]);
      role_report.have = w[4];
      role_report.want = w[5];
    } else if (w[6] != 0) {
      // It has not left, so control says what it was in.
      role_report.activity = Activity::Running;
      role_report.task = static_cast<int>(w[6]) - 1;
      role_report.epoch = w[7];
    }
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
