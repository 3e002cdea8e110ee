// The graph of a recorded step in DOT, the language of graphviz.
//
//   const auto step = report::record_step(model, [&] { return cross_entropy(model(x), y); });
//   std::ofstream("step.dot") << report::dot_of(report::picture_of(step));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/train/report/recorded_step.h"

namespace lathe::report {

/// A box of the picture. Its texts may hold anything; dot_of() escapes them.
struct PictureBox {
  std::string title;               // "conv2d"
  std::vector<std::string> lines;  // layer, parameters, output, what it keeps
  int64_t saved_bytes = 0;
};

struct GraphPicture {
  struct Line {
    int from, to;  // boxes
  };
  std::string title;
  std::vector<PictureBox> boxes;
  std::vector<Line> lines;
};

/// One box for the batch and one for each op, which names its parameters and what it keeps.
LATHE_API GraphPicture picture_of(const RecordedStep& step);

/// What the text begins with.
inline constexpr std::string_view kDotBegin = "digraph lathe_graph {";

/// For "dot -Tsvg". The more a box keeps, the darker it is.
LATHE_API std::string dot_of(const GraphPicture& picture);

}  // namespace lathe::report
