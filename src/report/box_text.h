// What a box of a drawing is, in words; and where it stands in the graph's text.
#pragma once

#include <map>
#include <string>

#include "report/layout.h"

namespace strata {

/// The lines of print(graph), from 1, of its inputs and outputs and of all operations, those in bodies too.
struct TextLines {
  std::map<const Operation*, int> operations;
  std::map<const Graph*, int> bodies;  ///< of the operations that they are the bodies of
  std::map<TensorId, int> inputs;
  int output = 0;
};
TextLines text_lines(const Graph& graph);

/// Lines of plain text: the statement; what it makes and where that lies; what it reads; what its maps mean. Empty of a
/// loop.
std::string describe_box(const DrawnBox& box);

}  // namespace strata
