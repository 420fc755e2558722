// Runs a fuzz target without libFuzzer, so that every compiler's test run includes it: a fixed number of mutations of
// the programs in the repository, the same on every machine. Usage: NAME_fuzz_driver [COUNT]
#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz_target.h"
#include "support/random.h"
#include "test_paths.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using strata::Random;

constexpr int kDefaultCount = 100000;
/// Of processor time: what else the machine does is no hang.
constexpr int kSecondsAnInput = 20;

// What the signal handler shows; fixed storage, because a handler may not allocate.
const char* current_data = nullptr;
size_t current_size = 0;

void show_input_and_die(int signal) {
  constexpr std::string_view kIntro = "\ndriver: crash or hang on this input:\n";
  if (write(2, kIntro.data(), kIntro.size()) < 0 || write(2, current_data, current_size) < 0) _exit(2);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::vector<std::string> read_seeds() {
  std::vector<std::filesystem::path> paths;
  for (const char* folder : fuzz_target().folders) {
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(STRATA_SOURCE_DIR) / folder)) {
      if (entry.path().extension() == fuzz_target().extension) paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());  // directories come in any order
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

template <class Container>
const auto& pick(const Container& from, Random& random) {
  return *(std::begin(from) + static_cast<std::ptrdiff_t>(random.below(std::size(from))));
}

bool is_word(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// Words, and other bytes one by one; joined, they are the text again.
std::vector<std::string> split_tokens(const std::string& text) {
  std::vector<std::string> tokens;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (is_word(text[i])) {
      while (end < text.size() && is_word(text[end])) ++end;
    }
    tokens.push_back(text.substr(i, end - i));
    i = end;
  }
  return tokens;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find('\n', i), text.size() - 1) + 1;
    lines.push_back(text.substr(i, end - i));
    i = end;
  }
  return lines;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

std::string flip_bytes(std::string text, Random& random) {
  for (uint64_t n = 1 + random.below(4); n > 0; --n) {
    text[random.below(text.size())] ^= static_cast<char>(1 << random.below(8));
  }
  return text;
}

/// Replaces a word by another of the text or by an operator, so that more mutations than those of bytes parse.
std::string swap_tokens(const std::string& text, Random& random) {
  std::vector<std::string> tokens = split_tokens(text);
  std::vector<size_t> words;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (is_word(tokens[i][0])) words.push_back(i);
  }
  if (words.empty()) return text;
  const size_t a = pick(words, random);
  switch (random.below(3)) {
    case 0:
      std::swap(tokens[a], tokens[pick(words, random)]);
      break;
    case 1:
      tokens[a] = tokens[pick(words, random)];
      break;
    default:
      tokens[a] = pick(fuzz_target().words, random);
  }
  return join(tokens);
}

std::string replace_number(const std::string& text, Random& random) {
  constexpr std::string_view kNumbers[] = {"0",
                                           "-1",
                                           "1",
                                           "2",
                                           "3",
                                           "9223372036854775807",
                                           "2147483648",
                                           "65536",
                                           "1/0",
                                           "0/1",
                                           "1e308",
                                           "-9223372036854775808",
                                           "4611686018427387904"};
  std::vector<std::string> tokens = split_tokens(text);
  std::vector<size_t> numbers;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i][0] >= '0' && tokens[i][0] <= '9') numbers.push_back(i);
  }
  if (numbers.empty()) return text;
  const size_t one = pick(numbers, random);
  const std::string from = tokens[one], to(pick(kNumbers, random));
  // Every occurrence half of the time: shapes then still agree with each other.
  const bool all = random.below(2) == 0;
  for (size_t i : numbers) {
    if (all ? tokens[i] == from : i == one) tokens[i] = to;
  }
  return join(tokens);
}

std::string edit_lines(const std::string& text, Random& random) {
  std::vector<std::string> lines = split_lines(text);
  const auto at = lines.begin() + static_cast<std::ptrdiff_t>(random.below(lines.size()));
  switch (random.below(3)) {
    case 0:
      lines.erase(at);
      break;
    case 1:
      lines.insert(at, std::string(*at));
      break;
    default:
      std::iter_swap(at, lines.begin() + static_cast<std::ptrdiff_t>(random.below(lines.size())));
  }
  return join(lines);
}

std::string splice(const std::string& text, const std::string& other, Random& random) {
  const std::vector<std::string> a = split_lines(text), b = split_lines(other);
  const auto head = a.begin() + static_cast<std::ptrdiff_t>(random.below(a.size() + 1));
  const auto tail = b.begin() + static_cast<std::ptrdiff_t>(random.below(b.size() + 1));
  return join({a.begin(), head}) + join({tail, b.end()});
}

std::string mutate(const std::string& text, const std::vector<std::string>& seeds, Random& random) {
  if (text.empty()) return pick(seeds, random);
  switch (random.below(5)) {
    case 0:
      return flip_bytes(text, random);
    case 1:
      return swap_tokens(text, random);
    case 2:
      return replace_number(text, random);
    case 3:
      return edit_lines(text, random);
    default:
      return splice(text, pick(seeds, random), random);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int count = kDefaultCount;
  if (argc > 1) {
    const std::string_view text = argv[1];
    if (std::from_chars(text.data(), text.data() + text.size(), count).ec != std::errc{} || count < 1) {
      fmt::print(stderr, "usage: {} [COUNT]\n", argv[0]);
      return 2;
    }
  }
  const std::vector<std::string> seeds = read_seeds();
  if (seeds.empty()) {
    fmt::print(stderr, "driver: no seeds\n");
    return 1;
  }
  for (int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGPROF}) std::signal(signal, show_input_and_die);
  int parsed = 0;
  for (int i = 0; i < count; ++i) {
    Random random(static_cast<uint64_t>(i));
    std::string text = pick(seeds, random);
    for (uint64_t n = 1 + random.below(4); n > 0; --n) text = mutate(text, seeds, random);
    current_data = text.data();
    current_size = text.size();
    const itimerval limit{{0, 0}, {kSecondsAnInput, 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    parsed += fuzz_target().parses(text) ? 1 : 0;
  }
  fmt::print("{} inputs, {} parsed\n", count, parsed);
  // Mutations that nearly all fail to parse test the parser's errors alone.
  if (int64_t{parsed} * 100 < count) {
    fmt::print(stderr, "driver: fewer than 1% of the inputs parsed\n");
    return 1;
  }
  return 0;
}
