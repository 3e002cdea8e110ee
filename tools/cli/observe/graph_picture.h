// The graph of a recorded step as a picture: DOT for other programs, SVG for browsers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tools/cli/observe/graph_layout.h"
#include "lathe/tools/cli/observe/recorded_step.h"

namespace lathe::cli {

/// A box of the picture. Its texts may hold anything; dot_of() and svg_of() escape them.
struct PictureBox {
  std::string title;               // "conv2d"
  std::vector<std::string> lines;  // layer, parameters, output, what it keeps
  int64_t saved_bytes = 0;
};

struct GraphPicture {
  std::string title;
  std::vector<PictureBox> boxes;
  std::vector<Line> lines;  // between boxes
};

/// One box for the batch and one for each op, which names its parameters and what it keeps.
GraphPicture picture_of(const RecordedStep& step);

/// What the files begin with.
inline constexpr std::string_view kDotBegin = "digraph lathe_graph {";
inline constexpr std::string_view kGraphSvgBegin =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"graph\" ";

/// For graphviz: "dot -Tsvg".
std::string dot_of(const GraphPicture& picture);

/// One <svg> element that refers to nothing outside of itself and has no script, in its own size.
/// It is dark on light, or light on dark where the reader's system asks for that. The more a box
/// keeps, the darker it is.
std::string svg_of(const GraphPicture& picture);

}  // namespace lathe::cli
