#include "decode_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <sstream>

#include "../notice.h"
#include "../options.h"
#include "support/read_file.h"

namespace strata::cli {
namespace {

using namespace megakernel;

constexpr int64_t kMostPositions = int64_t{1} << 30;
constexpr int64_t kMostBytes = int64_t{1} << 40;
constexpr int64_t kCacheUnit = 256;  // positions: as many splits of attention as workers take

/// An option and the devices that have it.
struct DeviceOption {
  const char* name;
  bool host_kernel;
  const char* why;  ///< the others have it not
};
constexpr const char* kNoTimes = "the host has no times";
constexpr const char* kNoTasks = "the interpreter has no tasks";
constexpr const char* kNoCode = "nothing compiled is kept";
constexpr std::array<DeviceOption, 14> kDeviceOptions{{{"--trace", true, kNoTasks},
                                                       {"--plan", true, kNoTasks},
                                                       {"--measure", false, kNoTimes},
                                                       {"--position", false, kNoTimes},
                                                       {"--cache", false, kNoCode},
                                                       {"--no-cache", false, kNoCode},
                                                       {"--mode", true, kNoTasks},
                                                       {"--prompt-rows", true, kNoTasks},
                                                       {"--window", true, kNoTasks},
                                                       {"--workers", true, kNoTasks},
                                                       {"--ahead-bytes", true, kNoTasks},
                                                       {"--tagged-bytes", true, kNoTasks},
                                                       {"--without", true, kNoTasks},
                                                       {"--just-in-time", true, kNoTasks}}};

Result<void> check_device(const DecodeCommand& command) {
  if (command.device == "gpu") return {};
  for (const DeviceOption& option : kDeviceOptions) {
    if (!command.has(option.name) || (command.device == "host-kernel" && option.host_kernel)) continue;
    return with_remedy(invalid("--device {} does not take {}: {}", command.device, option.name, option.why),
                       fmt::format("leave it out, or use --device gpu{}", option.host_kernel ? " or host-kernel" : ""));
  }
  return {};
}

/// Options that mean nothing without another.
Result<void> check_pairs(const DecodeCommand& command) {
  if (command.explain && !command.has("--plan"))
    return with_remedy(invalid("--explain says how a plan was made, and none is asked for"), "add --plan FILE");
  if (command.has("--position") && !command.has("--measure"))
    return with_remedy(invalid("--position is of measurements, and there are none"), "add --measure STEPS");
  if (command.has("--seed") && command.has("--weights"))
    return with_remedy(invalid("--seed is of random weights, and --weights names others"), "leave one of the two out");
  if (command.sampling.temperature == 0) {
    for (const char* option : {"--top-k", "--top-p", "--sampling-seed"})
      if (command.has(option)) notice("note: {} does nothing without a --temperature above 0\n", option);
  }
  if (command.ahead_bytes % 16 != 0)
    return with_remedy(invalid("--ahead-bytes: {} is no multiple of 16", command.ahead_bytes),
                       fmt::format("write {}", ceil_div(command.ahead_bytes, 16) * 16));
  return {};
}

Result<ModelConfig> read_config(const std::string& name) {
  const auto presets = preset_names();
  if (std::find(presets.begin(), presets.end(), name) != presets.end()) return preset_config(name);
  std::error_code ignored;
  // A word that is no file was meant as a name.
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".json");
  if (is_path || name == kStandardInput || std::filesystem::exists(name, ignored)) return load_config(name);
  return preset_config(name);
}

Result<ModelConfig> read_told_config(const std::string& name) {
  STRATA_TRY(ModelConfig config, read_config(name));
  for (const std::string& note : notes_of(config)) notice("note: {}\n", note);
  return config;
}

/// Prompts of a file, one a line, and what messages call each.
Result<std::vector<std::pair<std::string, std::string>>> prompt_lines(const std::string& path) {
  STRATA_TRY(const std::string text, read_file(path));
  std::vector<std::pair<std::string, std::string>> lines;
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    const std::string what = fmt::format("{}, line {}", shown_path(path), ++number);
    const auto is_text = [](unsigned char c) { return (c >= ' ' && c < 0x7f) || c == '\t' || c == '\r'; };
    const auto odd = std::find_if_not(line.begin(), line.end(), is_text);
    if (odd != line.end())
      return with_remedy(
          invalid("{}: the byte 0x{:02x} is in no list of token ids", what, static_cast<unsigned char>(*odd)),
          "give a text file with the token ids of a prompt in each line");
    if (line.find_first_not_of(" \t\r") != std::string::npos) lines.emplace_back(what, line);
  }
  if (lines.empty())
    return with_remedy(invalid("{} has no prompt", shown_path(path)), "write the token ids of a prompt in each line");
  return lines;
}

/// Prompts of tokens of the vocabulary. Messages name the prompt by its line or, of several, by its number.
Result<std::vector<std::vector<int>>> read_prompts(const DecodeCommand& command, const ModelConfig& config) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const std::string& text : command.prompts) {
    const bool alone = command.prompts.size() == 1;
    texts.emplace_back(alone ? "--prompt-ids" : fmt::format("--prompt-ids, prompt {}", texts.size() + 1), text);
  }
  if (command.has("--prompt-ids-file")) {
    STRATA_TRY(const auto lines, prompt_lines(command.prompts_file));
    texts.insert(texts.end(), lines.begin(), lines.end());
  }
  if (texts.empty())
    return with_remedy(invalid("there is no prompt"), "give --prompt-ids or --prompt-ids-file, one prompt a sequence");
  std::vector<std::vector<int>> prompts;
  for (const auto& [what, text] : texts) {
    STRATA_TRY(std::vector<int> ids, parse_ids(text, what, "token id"));
    const auto unknown = std::find_if(ids.begin(), ids.end(), [&](int id) { return id >= config.vocab_size; });
    if (unknown != ids.end()) {
      return with_remedy(
          invalid("{}: token {} is not in the model's vocabulary of {}", what, *unknown, config.vocab_size),
          "use the ids of the model's own tokenizer");
    }
    prompts.push_back(std::move(ids));
  }
  return prompts;
}

/// Positions that are filled at the end of decoding, and where a measurement ends, if that is more.
Result<void> set_capacity(const DecodeCommand& command, DecodeRequest& request) {
  const auto longest = std::max_element(request.prompts.begin(), request.prompts.end(),
                                        [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const int64_t prompt = static_cast<int64_t>(longest->size());
  int64_t needed = prompt + command.generate.tokens - 1;
  std::string what =
      fmt::format("a prompt of {} and --tokens {} fill {} positions", prompt, command.generate.tokens, needed);
  if (command.measure > 0) {
    const int64_t from =
        request.positions.empty() ? needed : *std::max_element(request.positions.begin(), request.positions.end());
    if (from + command.measure > needed) {
      needed = from + command.measure;
      what = fmt::format("--measure {} from position {} on fills {} positions", command.measure, from, needed);
    }
  }
  const int64_t most = request.config.max_position_embeddings;
  if (needed > most)
    return with_remedy(invalid("{}, and the model's max_position_embeddings is {}", what, most),
                       "shorten the prompt, or lower --tokens, --measure or --position");
  request.capacity = command.capacity;
  if (command.capacity == 0) {
    request.capacity = std::max<int64_t>(ceil_div(needed, kCacheUnit) * kCacheUnit, 2 * kCacheUnit);
    return {};
  }
  if (needed <= command.capacity) return {};
  return with_remedy(invalid("--capacity {}: {}", command.capacity, what),
                     fmt::format("write --capacity {}, or leave it out", needed));
}

/// An option whose value 0 means that it was not given, which it cannot be.
CLI::Option* add_optional(CLI::App& app, const std::string& name, int64_t& value, const Range<int64_t>& range,
                          const std::string& help, Unit unit = Unit::None) {
  return add_number<int64_t>(app, name, value, range, help, unit)->default_str("");
}

}  // namespace

Result<std::vector<int>> parse_ids(const std::string& text, const std::string& what, const char* thing) {
  std::vector<int> ids;
  std::string words = text;
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == '\t' || c == '\r'; }, ' ');
  const size_t first = words.find_first_not_of(' '), last = words.find_last_not_of(' ');
  if (first < last && last != std::string::npos && words[first] == '[' && words[last] == ']')
    words[first] = words[last] = ' ';
  if (words.find_first_not_of(' ') == std::string::npos)
    return with_remedy(invalid("{}: '{}' has no {}", what, text, thing), "write one at least");
  // Commas stand between entries; spaces may stand in their place.
  for (size_t begin = 0; begin <= words.size();) {
    const size_t end = std::min(words.find(',', begin), words.size());
    std::istringstream entry(words.substr(begin, end - begin));
    const size_t before = ids.size();
    for (std::string word; entry >> word;) {
      int id = 0;
      const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
      if (stop != word.data() + word.size() || error == std::errc::invalid_argument)
        return with_remedy(invalid("{}: '{}' is no {}", what, word, thing),
                           "write whole numbers, with commas or spaces between them");
      if (error != std::errc() || id < 0)
        return with_remedy(
            invalid("{}: '{}' is no {}: it is outside 0 to {}", what, word, thing, std::numeric_limits<int>::max()),
            "write numbers from 0 on");
      ids.push_back(id);
    }
    if (ids.size() == before)
      return with_remedy(invalid("{}: entry {} of '{}' is empty", what, before + 1, text),
                         fmt::format("write a {} there, or leave its comma out", thing));
    begin = end + 1;
  }
  return ids;
}

Result<ModelConfig> read_plan_config(const DecodeCommand& command) {
  STRATA_CHECK(check_device(command));
  const std::set<std::string> plans{"--plan",     "--explain",      "--config", "--device",
                                    "--capacity", "--workers",      "--window", "--tagged-bytes",
                                    "--without",  "--just-in-time", "--quiet"};
  for (const std::string& option : command.given) {
    if (!plans.contains(option))
      return with_remedy(invalid("--plan does not take {}: nothing is decoded", option), "leave one of the two out");
  }
  return read_told_config(command.config);
}

Result<DecodeRequest> read_request(const DecodeCommand& command) {
  STRATA_CHECK(check_device(command));
  STRATA_CHECK(check_pairs(command));
  DecodeRequest request;
  STRATA_TRY(request.config, read_told_config(command.config));
  STRATA_TRY(request.prompts, read_prompts(command, request.config));
  request.generate = command.generate;
  request.generate.sampling = {command.sampling};
  if (command.has("--stop-ids")) {
    STRATA_TRY(request.generate.stop_tokens, parse_ids(command.stop_ids, "--stop-ids", "token id"));
  } else if (!command.ignore_eos) {
    const auto& eos = request.config.eos_token_ids;
    request.generate.stop_tokens.assign(eos.begin(), eos.end());
  }
  if (command.has("--position")) {
    STRATA_TRY(const std::vector<int> found, parse_ids(command.position_words, "--position", "position"));
    request.positions.assign(found.begin(), found.end());
  }
  STRATA_CHECK(set_capacity(command, request));
  STRATA_CHECK(check_generate(request.config, request.batch(), request.prompts, request.generate));
  return request;
}

void add_decode_options(CLI::App& app, DecodeCommand& command) {
  app.add_option("--config", command.config,
                 "a config.json of Hugging Face, its folder, or a built-in name such as qwen3-0.6b")
      ->required();
  app.add_option("--weights", command.weights, "safetensors, or a folder with them; default: random weights");
  add_number<uint64_t>(app, "--seed", command.seed, {}, "of random weights");
  app.add_option("--prompt-ids", command.prompts, "token ids, with commas between them; once for each sequence")
      ->type_name("IDS")
      ->take_all()
      ->delimiter(';')
      ->allow_extra_args(false);
  app.add_option("--prompt-ids-file", command.prompts_file,
                 "a file with the ids of a prompt in each line, after those of --prompt-ids where both are given; - is "
                 "the standard input");
  add_number<int64_t>(app, "--tokens", command.generate.tokens, {1, kMostPositions},
                      "to decode for each sequence, at most");
  add_number<float>(app, "--temperature", command.sampling.temperature, {0, 0x1p20F},
                    "of sampling; 0: the likeliest token");
  add_number<int64_t>(app, "--top-k", command.sampling.top_k, {0, kMostPositions},
                      "sample from this many of the likeliest tokens; 0: from all");
  add_number<float>(app, "--top-p", command.sampling.top_p, {0, 1},
                    "and from the likeliest with this probability together, one at least");
  add_number<uint64_t>(app, "--sampling-seed", command.sampling.seed, {}, "of the tokens drawn");
  app.add_option("--stop-ids", command.stop_ids,
                 "token ids that end a sequence, with commas between them; default: the configuration's")
      ->type_name("IDS");
  app.add_flag("--ignore-eos", command.ignore_eos, "do not end at the configuration's end-of-sequence tokens");
  app.add_option("--cache", command.cache, "folder of the cache of compiled code; default ~/.cache/strata");
  app.add_flag("--no-cache", command.no_cache, "neither read nor write the cache");
  add_optional(app, "--capacity", command.capacity, {1, kMostPositions},
               "positions of the caches, at least; default: what is needed, with --plan 1024");
  app.add_option("--device", command.device,
                 "gpu; host: the interpreter; host-kernel: the GPU's code, compiled for the host by c++; both for "
                 "small models")
      ->check(CLI::IsMember({"gpu", "host", "host-kernel"}))
      ->capture_default_str();
  app.add_option("--mode", command.mode,
                 "megakernel: one persistent kernel; graph: a kernel for each operator, in a CUDA graph; auto: the "
                 "faster of both, measured at the start (with --trace or on the host: megakernel)")
      ->check(CLI::IsMember({"auto", "megakernel", "graph"}))
      ->capture_default_str();
  app.add_option("--trace", command.trace,
                 "write begin and end of each task of the last launch: for Perfetto, or of its last step, as a page, "
                 "where the file ends in .html");
  app.add_option("--plan", command.plan,
                 "decode nothing; write the plans of the mega-kernel's step for 1, 2, 4, 8 and 16 sequences, which "
                 "`strata show` prints and draws: no weights, no prompt, no GPU")
      ->type_name("FILE");
  app.add_flag("--explain", command.explain, "print what each pass made of tasks and events, with --plan");
  add_optional(app, "--window", command.window, {1, int64_t{1} << 20},
               "weights on their way to a multiprocessor; default: the faster of 49152 and 65536, measured at the "
               "start",
               Unit::Bytes);
  add_optional(app, "--workers", command.workers, {1, 1024},
               "blocks that compute, one to a multiprocessor; default: as many as there are but 4, with "
               "--device host-kernel 4");
  add_number<int64_t>(app, "--ahead-bytes", command.ahead_bytes, {0, int64_t{1} << 24},
                      "of weights that come to the second-level cache while a multiprocessor's ring is full, a "
                      "multiple of 16; default: 131072 or, where windows are measured and it is faster so, 0",
                      Unit::Bytes)
      ->default_str("");
  add_number<int64_t>(app, "--tagged-bytes", command.tagged_bytes, {0, kMostBytes},
                      "activations of up to this many bytes are handed over in tagged words, larger ones by counters; "
                      "default: 114688",
                      Unit::Bytes)
      ->default_str("");
  app.add_option("--without", command.without,
                 "leave out what makes the mega-kernel fast, to measure what it brings; several with commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(std::vector<std::string>(kDecodeParts.begin(), kDecodeParts.end())));
  app.add_option("--just-in-time", command.just_in_time,
                 "functions whose tasks schedulers launch in the kernel, such as attention, or all; default: none")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_optional(app, "--prompt-rows", command.prompt_rows, {1, 16},
               "positions of prompts, of all sequences together, that a step takes at most; the built-in models have "
               "steps of 8 and fewer; default: 16 for prompts of 512 tokens or more, 1 for others and on the host");
  add_optional(app, "--measure", command.measure, {1, kMostPositions},
               "time launches of this many steps, after decoding");
  app.add_option("--position", command.position_words,
                 "position of the measurement, or several with commas between them; default: where decoding ended")
      ->type_name("POSITIONS");
  app.add_flag("--json", command.json, "print one JSON object");
}

}  // namespace strata::cli
