// Loops over many independent elements, on plain threads.
#pragma once

#include <algorithm>
#include <thread>
#include <vector>

namespace strata {

/// body(begin, end) for pieces that cover [0, count), on all cores; on the caller's thread where there are few
/// elements.
template <class Body>
void for_pieces(size_t count, const Body& body) {
  constexpr size_t kLeast = size_t{1} << 18;
  const size_t threads = std::min<size_t>(std::max(1U, std::thread::hardware_concurrency()), count / kLeast);
  if (threads < 2) {
    body(size_t{0}, count);
    return;
  }
  std::vector<std::jthread> running;
  for (size_t t = 0; t < threads; ++t)
    running.emplace_back([&body, begin = count * t / threads, end = count * (t + 1) / threads] { body(begin, end); });
}

}  // namespace strata
