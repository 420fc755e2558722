#include "emitters/backend/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <new>

#include "emitters/backend/sanitizer_fibers.h"

// Boost's own fiber class ends an abandoned body by an exception through its frames, which compiled kernels do not
// take; hence its layer below, where a body can just be forgotten.
namespace strata::emitters {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

size_t guard_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));  // a switch asks for it
  return bytes;
}

}  // namespace

struct Fiber::Entry {
  /// First on the new stack, and never left.
  static void run(transfer_t from) {
    auto* fiber = static_cast<Fiber*>(from.data);
    sanitizers::arrive(nullptr, &fiber->outside_stack_, &fiber->outside_bytes_);
    fiber->outside_ = from.fctx;
    while (true) {
      fiber->body_(fiber->argument_);
      fiber->suspend();
    }
  }
};

Fiber::Fiber(Body body, void* argument) : body_(body), argument_(argument) {
  const size_t guard = guard_bytes();
  void* memory =
      mmap(nullptr, guard + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  mprotect(memory_, guard, PROT_NONE);
  tsan_fiber_ = sanitizers::create();
  start();
}

Fiber::~Fiber() {
  sanitizers::forget_frames(memory_ + guard_bytes(), kStackBytes);
  if (tsan_fiber_) sanitizers::destroy(tsan_fiber_);
  munmap(memory_, guard_bytes() + kStackBytes);
}

void Fiber::start() {
  context_ = make_fcontext(memory_ + guard_bytes() + kStackBytes, kStackBytes, &Entry::run);
  fake_stack_ = nullptr;
}

void Fiber::restart() {
  // To ThreadSanitizer, whose fibers are dear, it goes on with some frames too many.
  sanitizers::forget_frames(memory_ + guard_bytes(), kStackBytes);
  start();
}

void Fiber::resume() {
  void* outside_fake_stack = nullptr;
  tsan_outside_ = sanitizers::current();
  sanitizers::leave(&outside_fake_stack, memory_ + guard_bytes(), kStackBytes);
  sanitizers::switch_to(tsan_fiber_);
  context_ = jump_fcontext(context_, this).fctx;
  sanitizers::arrive(outside_fake_stack, nullptr, nullptr);
}

void Fiber::suspend() {
  sanitizers::leave(&fake_stack_, outside_stack_, outside_bytes_);
  sanitizers::switch_to(tsan_outside_);
  outside_ = jump_fcontext(outside_, nullptr).fctx;
  sanitizers::arrive(fake_stack_, &outside_stack_, &outside_bytes_);
}

}  // namespace strata::emitters
