// GraphPicture: what the boxes say, and the two formats.
#include "lathe/tools/cli/observe/graph_picture.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/format.h"
#include "lathe/core/printable.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/markup.h"
#include "lathe/tools/cli/observe/op_formulas.h"
#include "lathe/tools/cli/wrapping.h"

namespace lathe::cli {
namespace {

using autograd::RecordedInput;
using autograd::RecordedNode;
using autograd::SavedTensor;

constexpr size_t kMostColumns = 64;  // of a line of a box
constexpr double kCharacter = 7.3, kLineHeight = 16, kPadding = 10, kMargin = 24, kHeadHeight = 56;

constexpr std::string_view kGraphStyle =
    "<style>.graph{color:#222;background:#fff;font:12px ui-monospace,monospace}"
    ".graph text{fill:currentColor;white-space:pre}.graph .title{font-weight:bold}"
    ".graph rect{stroke:currentColor;stroke-opacity:.6;fill:#0072b2}"
    ".graph .line{fill:none;stroke:currentColor;stroke-opacity:.7;stroke-width:1.3}"
    ".graph marker path{fill:currentColor}"
    "@media (prefers-color-scheme:dark){.graph{color:#ddd;background:#181818}}</style>";

/// Cut to what a box has room for, between two characters.
std::string shortened(const std::string& text) {
  const std::string whole = printable(text);
  if (columns_of(whole) <= kMostColumns) return whole;
  size_t end = 0, columns = 0;
  while (columns < kMostColumns - 3) {
    ++end;
    while (end < whole.size() && (static_cast<unsigned char>(whole[end]) & 0xc0) == 0x80) ++end;
    ++columns;
  }
  return whole.substr(0, end) + "...";
}

/// "keeps x 1.50 MiB"; of what is there anyway only the name.
std::string saved_line(const RecordedNode& node, const OpFormula* formula) {
  std::string text;
  for (const SavedTensor& t : node.saved) {
    const std::string name = t.input >= 0
                                 ? std::string(input_name(formula, static_cast<size_t>(t.input)))
                             : t.output ? "y"
                                        : tensor_text(t.dtype, t.shape);
    text += formatted("{}{}{}", text.empty() ? "keeps " : ", ", name,
                      t.shared ? "" : " " + size_text(t.bytes));
  }
  return text;
}

PictureBox box_of(const RecordedStep& step, const RecordedNode& node) {
  const OpFormula* const formula = find_formula(node.op);
  PictureBox box{.title = node.op, .lines = {}, .saved_bytes = node.saved_bytes()};
  if (!node.called.empty()) box.title += formatted(" (of {})", node.called);
  if (!node.layer.empty()) box.lines.push_back(short_layer(node.layer));
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const RecordedInput& in = node.inputs[i];
    if (in.leaf < 0) continue;
    std::string name = step.leaves[static_cast<size_t>(in.leaf)].name;
    if (name.empty()) name = input_name(formula, i);
    if (const std::string own = short_layer(node.layer) + "."; name.starts_with(own))
      name.erase(0, own.size());
    box.lines.push_back(formatted("{} {}", name, tensor_text(in.dtype, in.shape)));
  }
  box.lines.push_back(formatted("-> {}", tensor_text(node.dtype, node.shape)));
  if (const std::string kept = saved_line(node, formula); !kept.empty()) box.lines.push_back(kept);
  return box;
}

std::string dot_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '&') {
      out += "&amp;";  // graphviz reads names of characters
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out;
}

std::string path_of(const std::vector<Place>& line) {
  std::string out = formatted("M{:.0f} {:.0f}", line[0].x, line[0].y);
  for (size_t i = 1; i < line.size(); ++i) {
    const Place &a = line[i - 1], &b = line[i];
    if (a.x == b.x) {
      out += formatted("V{:.0f}", b.y);
    } else {
      const double middle = (a.y + b.y) / 2;
      out += formatted("C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}", a.x, middle, b.x, middle, b.x,
                       b.y);
    }
  }
  return out;
}

Box size_of(const PictureBox& box) {
  size_t columns = columns_of(shortened(box.title));
  for (const std::string& line : box.lines)
    columns = std::max(columns, columns_of(shortened(line)));
  return {.width = std::ceil(kCharacter * static_cast<double>(columns) + 2 * kPadding),
          .height = kLineHeight * static_cast<double>(1 + box.lines.size()) + kPadding};
}

std::string svg_box(const PictureBox& box, Place at, Box size, int64_t most_saved) {
  // The root, because a few large tensors would leave all other boxes white.
  const double part =
      most_saved == 0
          ? 0
          : std::sqrt(static_cast<double>(box.saved_bytes) / static_cast<double>(most_saved));
  std::string out = formatted(
      "<g><title>{}</title><rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "rx=\"4\" fill-opacity=\"{:.2f}\"/>",
      markup_text(box.lines.empty() ? box.title : box.title + " " + box.lines[0]), at.x, at.y,
      size.width, size.height, 0.05 + 0.4 * part);
  double y = at.y + kLineHeight;
  const auto add = [&](const std::string& text, const char* style) {
    out += formatted("<text{} x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", style, at.x + kPadding, y,
                     markup_text(shortened(text)));
    y += kLineHeight;
  };
  add(box.title, " class=\"title\"");
  for (const std::string& line : box.lines) add(line, "");
  return out + "</g>\n";
}

}  // namespace

GraphPicture picture_of(const RecordedStep& step) {
  GraphPicture picture;
  picture.title =
      formatted("{}: a training step on {}, {} ops, {} kept for the backward pass", step.model,
                step.data, step.graph.nodes.size(), size_text(step.graph.saved_bytes()));
  picture.boxes.push_back({.title = "batch", .lines = {concat(step.input)}});
  for (size_t i = 0; i < step.graph.nodes.size(); ++i) {
    const RecordedNode& node = step.graph.nodes[i];
    const int to = static_cast<int>(i) + 1;
    picture.boxes.push_back(box_of(step, node));
    for (const RecordedInput& in : node.inputs) {
      if (in.node >= 0) picture.lines.push_back({in.node + 1, to});
      if (!in.wants_gradient() && in.defined && in.shape == step.input)
        picture.lines.push_back({0, to});
    }
  }
  return picture;
}

std::string dot_of(const GraphPicture& picture) {
  std::string out = formatted(
      "{}\n  label=\"{}\"; labelloc=t;\n  node [shape=box, fontname=monospace, fontsize=10];\n",
      kDotBegin, dot_text(picture.title));
  for (size_t i = 0; i < picture.boxes.size(); ++i) {
    const PictureBox& box = picture.boxes[i];
    std::string label = dot_text(shortened(box.title)) + "\\l";
    for (const std::string& line : box.lines) label += dot_text(shortened(line)) + "\\l";
    out += formatted("  n{} [label=\"{}\"];\n", i, label);
  }
  for (const Line& line : picture.lines) out += formatted("  n{} -> n{};\n", line.from, line.to);
  return out + "}\n";
}

std::string svg_of(const GraphPicture& picture) {
  std::vector<Box> sizes;
  int64_t most_saved = 0;
  for (const PictureBox& box : picture.boxes) {
    sizes.push_back(size_of(box));
    most_saved = std::max(most_saved, box.saved_bytes);
  }
  const GraphLayout layout = lay_out(sizes, picture.lines);
  const auto title_width = kCharacter * static_cast<double>(columns_of(printable(picture.title)));
  const double width = std::max(layout.width, title_width) + 2 * kMargin;
  const double height = layout.height + kHeadHeight + kMargin;
  std::string out = formatted(
      "{0}width=\"{1:.0f}\" height=\"{2:.0f}\" viewBox=\"0 0 {1:.0f} {2:.0f}\" role=\"img\" "
      "aria-label=\"{3}\"><title>{3}</title>{4}<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" "
      "refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">"
      "<path d=\"M0 0L8 4L0 8Z\"/></marker></defs>\n"
      "<text class=\"title\" x=\"{5}\" y=\"28\">{3}</text>\n"
      "<g transform=\"translate({6:.0f} {7})\">\n",
      kGraphSvgBegin, width, height, markup_text(picture.title), kGraphStyle, kMargin,
      (width - layout.width) / 2, kHeadHeight);
  for (const std::vector<Place>& line : layout.lines)
    out += formatted("<path class=\"line\" marker-end=\"url(#tip)\" d=\"{}\"/>\n", path_of(line));
  for (size_t i = 0; i < picture.boxes.size(); ++i)
    out += svg_box(picture.boxes[i], layout.boxes[i], sizes[i], most_saved);
  return out + "</g></svg>\n";
}

}  // namespace lathe::cli
