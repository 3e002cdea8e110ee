// Where the boxes and lines of a graph go: in layers from top to bottom, each box below the boxes
// that it needs (Sugiyama, Tagawa and Toda 1981).
#pragma once

#include <span>
#include <vector>

namespace lathe::cli {

struct Box {
  double width, height;
};

/// From box to box; `from` is less than `to`.
struct Line {
  int from, to;
};

struct Place {
  double x, y;
};

struct GraphLayout {
  double width = 0, height = 0;
  std::vector<Place> boxes;  // their upper left corners
  std::vector<std::vector<Place>>
      lines;  // from the lower edge of a box to the upper one of another
};

/// Boxes do not overlap, lines go round them, and the boxes of a longest path stand in one column.
/// The same input has the same layout.
GraphLayout lay_out(std::span<const Box> boxes, std::span<const Line> lines);

}  // namespace lathe::cli
