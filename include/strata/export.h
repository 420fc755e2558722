// What the public headers have in common. Users include strata/strata.h.
#pragma once

/// Seen outside the library; nothing else of it is.
#define STRATA_EXPORT __attribute__((visibility("default")))

// The names are strata::Kernel and so on. A program that was linked with a version 1 does not load a later one whose
// classes differ, because v1 is part of the symbols. The library's own code has another strata::Error, which an inline
// namespace would make ambiguous.
#ifdef STRATA_BUILDS_API
#define STRATA_NAMESPACE_BEGIN namespace strata::v1 {
#else
#define STRATA_NAMESPACE_BEGIN \
  namespace strata {           \
  inline namespace v1 {}       \
  }                            \
  namespace strata::v1 {
#endif
#define STRATA_NAMESPACE_END }
