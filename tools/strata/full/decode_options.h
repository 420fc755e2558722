// What `strata decode` is asked for: its options, and what can be refused before any weight is read or drawn.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "megakernel/decode/decode_session.h"

namespace strata::cli {

/// What makes the mega-kernel fast and can be left out, in the order of DecodeAblation.
inline constexpr std::array kDecodeParts{"tasks-ahead", "descriptors-ahead", "weights-ahead", "events-of-tasks",
                                         "tagged-words"};

/// With --device host-kernel; each has 258 threads, which run in turn.
inline constexpr int kHostWorkers = 4;

struct DecodeCommand {
  std::string config;
  std::string weights;
  uint64_t seed = 1;
  std::vector<std::string> prompts;
  std::string prompts_file;
  megakernel::GenerateOptions generate;
  megakernel::SamplingOptions sampling;
  std::string stop_ids;
  bool ignore_eos = false;
  std::string cache;
  bool no_cache = false;
  int64_t capacity = 0;  ///< 0: what is needed
  std::string device = "gpu";
  std::string mode = "auto";
  std::string trace;
  std::string plan;
  bool explain = false;
  int64_t window = 0;   ///< 0: measured
  int64_t workers = 0;  ///< 0: as many as the device has by default
  int64_t ahead_bytes = 0;
  int64_t tagged_bytes = 0;
  std::vector<std::string> without;
  std::vector<std::string> just_in_time;
  int64_t prompt_rows = 0;  ///< 0: by the prompts' lengths
  int64_t measure = 0;      ///< 0: nothing
  std::string position_words;
  bool json = false;

  /// Names of the options that were given, such as "--window".
  std::set<std::string> given;
  bool has(const std::string& option) const { return given.contains(option); }
};

/// What follows from the options and the model's configuration.
struct DecodeRequest {
  megakernel::ModelConfig config;
  std::vector<std::vector<int>> prompts;
  megakernel::GenerateOptions generate;
  std::vector<int64_t> positions;  ///< of measurements
  int64_t capacity = 0;            ///< positions of the caches
  int64_t batch() const { return static_cast<int64_t>(prompts.size()); }
};

/// Adds the options; `command` lives as long as the parser.
void add_decode_options(CLI::App& app, DecodeCommand& command);

/// Errors (InvalidInput), with a remedy: options that the device does not have, or that mean nothing without others;
/// prompts and tokens that are none or not of the vocabulary; positions beyond --capacity or the model's
/// max_position_embeddings. (Environment): files that cannot be read.
Result<DecodeRequest> read_request(const DecodeCommand& command);

/// Of --plan: the model. Errors as read_request has them, for options that plan nothing and for the configuration.
Result<megakernel::ModelConfig> read_plan_config(const DecodeCommand& command);

/// Token ids, or other numbers from 0 on, with commas or spaces between them, in brackets or not. `what` begins
/// messages: "--stop-ids"; `thing` is what they are: "token id".
Result<std::vector<int>> parse_ids(const std::string& text, const std::string& what, const char* thing);

}  // namespace strata::cli
