// Threads of control that are switched by hand: the threads of a block on the CPU. Folder-internal.
#pragma once

#include <cstddef>

namespace strata::emitters {

/// A body that runs on a stack of its own, over and over: each resume() runs it until it suspends or ends, and the
/// resume() after its end starts it anew. Below the stack lies a page that faults.
class Fiber {
 public:
  static constexpr size_t kStackBytes = 128 * 1024;
  using Body = void (*)(void* argument);

  Fiber(Body body, void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Called from outside; returns when the body suspends or ends.
  void resume();
  /// Called by the body.
  void suspend();
  /// Forgets a suspended body: its frames are not unwound, the next resume() starts anew.
  void restart();

 private:
  struct Entry;
  void start();

  Body body_;
  void* argument_;
  std::byte* memory_;        // guard page and stack
  void* context_ = nullptr;  // where the body goes on
  void* outside_ = nullptr;  // where its resumer does
  // What the sanitizers know of the two stacks.
  void* fake_stack_ = nullptr;
  const void* outside_stack_ = nullptr;
  size_t outside_bytes_ = 0;
  void* tsan_fiber_ = nullptr;
  void* tsan_outside_ = nullptr;
};

}  // namespace strata::emitters
