// GraphPicture: what the boxes say, and its text.
#include "lathe/train/report/graph_dot.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/format.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/train/report/op_formulas.h"

namespace lathe::report {
namespace {

using autograd::RecordedInput;
using autograd::RecordedNode;
using autograd::SavedTensor;

constexpr size_t kMostColumns = 64;  // of a line of a box

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

/// The fill's opacity in hexadecimal: 0d where a box keeps nothing, 73 where it keeps most.
std::string opacity_of(const PictureBox& box, int64_t most_saved) {
  // The root, because a few large tensors would leave all other boxes white.
  const double part =
      most_saved == 0
          ? 0
          : std::sqrt(static_cast<double>(box.saved_bytes) / static_cast<double>(most_saved));
  return formatted("{:02x}", static_cast<int>(std::lround(255 * (0.05 + 0.4 * part))));
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
      "{}\n  label=\"{}\"; labelloc=t;\n"
      "  node [shape=box, style=filled, fontname=monospace, fontsize=10];\n",
      kDotBegin, dot_text(picture.title));
  int64_t most_saved = 0;
  for (const PictureBox& box : picture.boxes) most_saved = std::max(most_saved, box.saved_bytes);
  for (size_t i = 0; i < picture.boxes.size(); ++i) {
    const PictureBox& box = picture.boxes[i];
    std::string label = dot_text(shortened(box.title)) + "\\l";
    for (const std::string& line : box.lines) label += dot_text(shortened(line)) + "\\l";
    out += formatted("  n{} [label=\"{}\", fillcolor=\"#0072b2{}\"];\n", i, label,
                     opacity_of(box, most_saved));
  }
  for (const auto& line : picture.lines) out += formatted("  n{} -> n{};\n", line.from, line.to);
  return out + "}\n";
}

}  // namespace lathe::report
