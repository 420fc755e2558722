// Programs and µGraphs for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <array>

#include "ir/text.h"
#include "test_paths.h"

namespace strata {

/// A program of programs/ and a µGraph of tests/data/ that computes it.
struct KnownPair {
  const char* program;
  const char* graph;
};

inline constexpr std::array kKnownPairs{
    KnownPair{"rmsnorm", "rmsnorm_fused"}, KnownPair{"lora", "lora_fused"}, KnownPair{"gated_mlp", "gated_mlp_fused"},
    KnownPair{"ntrans", "ntrans_fused"},   KnownPair{"gqa", "gqa_fused"},   KnownPair{"gqa", "gqa_split"},
    KnownPair{"qknorm", "qknorm_fused"},   KnownPair{"gqa", "gqa_online"},  KnownPair{"gqa", "gqa_online_split"}};

inline GraphPtr load(const std::string& path) {
  auto graph = load_graph(STRATA_SOURCE_DIR "/" + path + ".strata");
  if (!graph) {
    ADD_FAILURE() << graph.error().to_string();
    std::abort();
  }
  return *graph;
}

inline GraphPtr load_program(const std::string& name) { return load("programs/" + name); }
inline GraphPtr load_data(const std::string& name) { return load("tests/data/" + name); }

/// "input x: f32[2]; y = exp(x); output y" as a graph.
inline GraphPtr graph_of(std::string statements) {
  for (char& c : statements) c = c == ';' ? '\n' : c;
  auto graph = parse_graph("graph g {\n" + statements + "\n}");
  if (!graph) {
    ADD_FAILURE() << statements << "\n" << graph.error().to_string();
    std::abort();
  }
  return *graph;
}

}  // namespace strata
