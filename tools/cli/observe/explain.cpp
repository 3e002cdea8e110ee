// lathe explain: one training step, op by op, for people who learn how training works.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "lathe/core/hooks/stack.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/tools/cli/observe/recorded_step.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/help.h"
#include "lathe/train/report/op_formulas.h"

namespace lathe::cli {
namespace {

using autograd::RecordedInput;
using autograd::RecordedNode;
using autograd::SavedTensor;

/// Names of places in the source, each looked up once.
class Lines {
 public:
  /// "mixer.cpp:42 (Mixer::forward)": the line of a program, or of the library's model where that
  /// was compiled with debug information; "" if neither is known.
  std::string of(const RecordedNode& node) {
    std::string of_model;
    for (void* const address : node.stack) {
      const auto [at, fresh] = known_.try_emplace(address);
      if (fresh) at->second = profile::frame_of(address);
      const profile::Frame& frame = at->second;
      const bool is_command = frame.function.find("lathe::cli::") != std::string::npos;
      if (frame.line <= 0 || is_command) continue;
      if (!frame.is_of_library()) return text_of(frame);
      if (of_model.empty() && frame.file.find("/nn/") != std::string::npos)
        of_model = text_of(frame);
    }
    return of_model;
  }

 private:
  static std::string text_of(const profile::Frame& frame) {
    const std::string function = frame.function.substr(0, frame.function.find('('));
    return formatted("{}:{}{}", frame.file.substr(frame.file.rfind('/') + 1), frame.line,
                     function.empty() ? "" : " (" + function + ")");
  }

  std::unordered_map<void*, profile::Frame> known_;
};

std::string norm_text(double norm) { return formatted("{:.3g}", norm); }

/// One op of the step, ready to be shown.
class Explained {
 public:
  Explained(const report::RecordedStep& step, size_t index, std::string line)
      : step_(step),
        index_(index),
        node_(step.graph.nodes[index]),
        formula_(report::find_formula(node_.op)),
        line_(std::move(line)) {}

  std::string text(int width) const {
    std::string out;
    const std::string place = node_.layer.empty() ? "" : "  " + report::short_layer(node_.layer);
    const std::string head = formatted("{:>3}  {}{}{}", index_ + 1, node_.op, called(), place);
    append_wrapped(out, printable(head), 0, kIndent, width);
    if (formula_ != nullptr) add(out, formula(), width);
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      if (!node_.inputs[i].defined) continue;
      add(out, formatted("{}  {}", report::input_name(formula_, i), input_text(node_.inputs[i])),
          width);
    }
    add(out, formatted("y  {}{}", report::tensor_text(node_.dtype, node_.shape), dy_text()), width);
    if (formula_ != nullptr) add(out, "backward: " + gradients(), width);
    add(out, "keeps " + (node_.saved.empty() ? "nothing for that" : saved_text()), width);
    if (!line_.empty()) add(out, "at " + line_, width);
    return out;
  }

  Row row() const {
    std::string inputs;
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      if (!node_.inputs[i].defined) continue;
      inputs += formatted("{}{} {}", inputs.empty() ? "" : "; ", report::input_name(formula_, i),
                          input_text(node_.inputs[i]));
    }
    Row row;
    row.add("event", "op").add("number", static_cast<int64_t>(index_ + 1)).add("op", node_.op);
    row.add("called", node_.called).add("layer", node_.layer);
    row.add("formula", formula_ == nullptr ? "" : formula());
    row.add("gradient", formula_ == nullptr ? "" : gradients());
    row.add("inputs", inputs).add("output", report::tensor_text(node_.dtype, node_.shape));
    row.add("saved", saved_text()).add("saved_bytes", node_.saved_bytes());
    if (node_.gradient_norm) row.add("gradient_norm", *node_.gradient_norm);
    return row.add("line", line_);
  }

 private:
  static constexpr size_t kIndent = 5;

  static void add(std::string& out, std::string_view line, int width) {
    out += std::string(kIndent, ' ');
    append_wrapped(out, printable(line), kIndent, kIndent + 3, width);
  }

  std::string formula() const {
    return report::forward_text(*formula_, [&](std::string_view name) {
      const RecordedInput* const in = input(name);
      return in != nullptr && in->defined;
    });
  }

  std::string gradients() const {
    return report::backward_text(*formula_, [&](std::string_view name) {
      const RecordedInput* const in = input(name);
      return in != nullptr && in->wants_gradient();
    });
  }

  const RecordedInput* input(std::string_view name) const {
    for (size_t i = 0; i < node_.inputs.size(); ++i)
      if (report::input_name(formula_, i) == name) return &node_.inputs[i];
    return nullptr;
  }

  std::string called() const {
    return node_.called.empty() ? "" : formatted(", a part of {}", node_.called);
  }

  std::string dy_text() const {
    return node_.gradient_norm ? formatted("   |dy| {}", norm_text(*node_.gradient_norm)) : "";
  }

  std::string input_text(const RecordedInput& in) const {
    const std::string tensor = report::tensor_text(in.dtype, in.shape);
    if (in.node >= 0) {
      const RecordedNode& from = step_.graph.nodes[static_cast<size_t>(in.node)];
      return formatted("{}  from {} ({})", tensor, in.node + 1, from.op);
    }
    if (in.leaf < 0)
      return tensor + (in.shape == step_.input ? "  the batch" : "  without gradient");
    const report::RecordedLeaf& leaf = step_.leaves[static_cast<size_t>(in.leaf)];
    return formatted(
        "{}  {}{}", tensor, leaf.name.empty() ? "a leaf" : leaf.name,
        leaf.gradient_norm ? formatted("   |gradient| {}", norm_text(*leaf.gradient_norm)) : "");
  }

  std::string saved_text() const {
    std::string own, there;
    for (const SavedTensor& t : node_.saved) {
      const std::string name =
          t.input >= 0 ? std::string(report::input_name(formula_, static_cast<size_t>(t.input)))
          : t.output   ? "y"
                       : report::tensor_text(t.dtype, t.shape);
      std::string& list = t.shared ? there : own;
      list += formatted("{}{}", list.empty() ? "" : ", ", name);
      if (!t.shared) list += " " + report::size_text(t.bytes);
    }
    if (there.empty()) return own;
    return formatted("{}{}{} (there anyway)", own, own.empty() ? "" : "; ", there);
  }

  const report::RecordedStep& step_;
  const size_t index_;
  const RecordedNode& node_;
  const report::OpFormula* formula_;
  const std::string line_;
};

void print_introduction(const Output& out, const report::RecordedStep& step) {
  std::string text;
  append_wrapped(text,
                 formatted("One training step of {} on {}, {}, op by op.", step.model, step.data,
                           concat(step.input)),
                 0, 0, help_width());
  text += '\n';
  append_wrapped(
      text,
      formatted("Forward, these {} ops run from first to last; the last one gives the loss. "
                "Backward, they are visited from last to first: an op gets dy, the gradient of "
                "the loss with respect to its result y, and computes from it the gradients of "
                "its inputs. Those of the parameters are what the optimiser uses. |dy| is the "
                "length (2-norm) of a gradient. An op keeps from the forward pass what it needs "
                "for its gradients besides dy; \"there anyway\" marks parameters, and values that "
                "an earlier op keeps already.",
                step.graph.nodes.size()),
      0, 0, help_width());
  out.text(text);
}

void print_end(const Output& out, const report::RecordedStep& step) {
  const double norm = report::gradient_norm(step);
  int64_t parameters = 0;
  for (const report::RecordedLeaf& leaf : step.leaves) parameters += numel_of(leaf.shape);
  std::string text;
  append_wrapped(text,
                 formatted("The loss is {:.4g}. {} are kept between the two passes. The gradient "
                           "of the {} parameters has the norm {}; the optimiser now takes a step "
                           "against it.",
                           step.loss, report::size_text(step.graph.saved_bytes()), parameters,
                           norm_text(norm)),
                 0, 0, help_width());
  text.pop_back();
  out.text(text);
  out.row(Row()
              .add("event", "done")
              .add("model", step.model)
              .add("input", concat(step.input))
              .add("ops", static_cast<int64_t>(step.graph.nodes.size()))
              .add("parameters", parameters)
              .add("saved_bytes", step.graph.saved_bytes())
              .add("loss", step.loss)
              .add("gradient_norm", norm));
}

void add_range(Row& row, const std::string& of, const debug::ValueRange& range) {
  row.add(of + "_values", range.finite + range.not_finite).add(of + "_min", range.min);
  row.add(of + "_max", range.max).add(of + "_mean_abs", range.mean_abs());
  row.add(of + "_zeros", range.zeros).add(of + "_not_finite", range.not_finite);
  row.add(of + "_f16_zeros", range.underflows).add(of + "_f16_infinite", range.overflows);
}

void print_ranges(const Output& out, const report::RecordedStep& step) {
  std::string text;
  append_wrapped(
      text,
      formatted("Values of {} on {}, {}. For each op: its result y, and dy, the gradient of "
                "the loss with respect to y.",
                step.model, step.data, concat(step.input)),
      0, 0, help_width());
  out.text(text);
  out.text(step.ranges_table.substr(0, step.ranges_table.size() - 1));
  for (const debug::LayerRange& range : step.ranges) {
    Row row;
    row.add("event", "range").add("layer", range.layer).add("op", range.op);
    add_range(row, "output", range.output);
    add_range(row, "gradient", range.gradient);
    out.row(row);
  }
  out.row(Row()
              .add("event", "done")
              .add("model", step.model)
              .add("loss", step.loss)
              .add("largest_loss_scale", debug::largest_loss_scale(step.ranges)));
}

}  // namespace

ExitCode run_explain(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  const report::RecordedStep step = record_step(settings);
  if (settings.ranges) {
    print_ranges(out, step);
    return ExitCode::kDone;
  }
  Lines lines;
  print_introduction(out, step);
  for (size_t i = 0; i < step.graph.nodes.size(); ++i) {
    const Explained op(step, i, lines.of(step.graph.nodes[i]));
    out.text(op.text(help_width()));
    out.row(op.row());
  }
  print_end(out, step);
  return ExitCode::kDone;
}

}  // namespace lathe::cli
