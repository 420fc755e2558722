// What AddressSanitizer and ThreadSanitizer must hear of switches between stacks; nothing in other builds. Internal.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STRATA_FIBERS_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define STRATA_FIBERS_TSAN
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define STRATA_FIBERS_ASAN
#endif
#ifdef __SANITIZE_THREAD__
#define STRATA_FIBERS_TSAN
#endif

#ifdef STRATA_FIBERS_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef STRATA_FIBERS_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace strata::emitters::sanitizers {

#ifdef STRATA_FIBERS_ASAN
/// Before a switch to the stack [bottom, bottom + size); `fake_stack` keeps what is known of the current one.
inline void leave(void** fake_stack, const void* bottom, size_t size) {
  __sanitizer_start_switch_fiber(fake_stack, bottom, size);
}
/// After a switch, on the new stack; tells which stack was left.
inline void arrive(void* fake_stack, const void** bottom, size_t* size) {
  __sanitizer_finish_switch_fiber(fake_stack, bottom, size);
}
/// Frames that were never left properly have marked parts of the stack.
inline void forget_frames(void* stack, size_t size) { __asan_unpoison_memory_region(stack, size); }
#else
inline void leave(void**, const void*, size_t) {}
inline void arrive(void*, const void**, size_t*) {}
inline void forget_frames(void*, size_t) {}
#endif

#ifdef STRATA_FIBERS_TSAN
inline void* create() { return __tsan_create_fiber(0); }
inline void destroy(void* fiber) { __tsan_destroy_fiber(fiber); }
inline void* current() { return __tsan_get_current_fiber(); }
inline void switch_to(void* fiber) { __tsan_switch_to_fiber(fiber, 0); }
#else
inline void* create() { return nullptr; }
inline void destroy(void*) {}
inline void* current() { return nullptr; }
inline void switch_to(void*) {}
#endif

}  // namespace strata::emitters::sanitizers
