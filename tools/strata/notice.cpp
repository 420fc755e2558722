#include "notice.h"

#include <atomic>

namespace strata::cli {
namespace {

/// Of the process, as the standard error is; progress is printed by a thread of its own.
std::atomic<bool> quiet = false;

}  // namespace

void say_nothing() { quiet = true; }
void say_notices() { quiet = false; }
bool is_quiet() { return quiet; }

}  // namespace strata::cli
