// For tests: every program and µGraph of the source tree.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "ir/text.h"
#include "test_paths.h"

namespace strata {

inline std::vector<GraphPtr> shipped_graphs() {
  std::vector<GraphPtr> graphs;
  for (const char* folder : {"/programs", "/programs/bench", "/tests/data"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(STRATA_SOURCE_DIR) + folder)) {
      if (entry.path().extension() != ".strata") continue;
      auto graph = load_graph(entry.path().string());
      EXPECT_TRUE(graph) << graph.error().to_string();
      if (graph) graphs.push_back(*graph);
    }
  }
  EXPECT_GE(graphs.size(), 30U);
  return graphs;
}

}  // namespace strata
