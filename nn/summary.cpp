// A model at a glance: one observed forward, then the table. Forward hooks see every call, even of
// modules that are fused into one op.
#include "lathe/nn/summary.h"

#include <algorithm>
#include <array>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/pool2d.h"
#include "lathe/ops/creation.h"

namespace lathe::nn {

namespace {

/// The model in evaluation mode with hooks, until the scope ends.
class Observation {
 public:
  Observation(Module& model, const Module::CallHook& hook) {
    for (auto& [name, module] : model.named_modules()) {
      const int64_t number = module->is_called() ? module->register_call_hook(hook) : 0;
      modules_.push_back({module, module->is_training(), number});
    }
    model.eval();
  }
  ~Observation() {
    for (const Entry& entry : modules_) entry.module->remove_hook(entry.hook);
    // Parents come first, so a child's own mode is what stays.
    for (const Entry& entry : modules_) entry.module->train(entry.training);
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  struct Entry {
    Module* module;
    bool training;
    int64_t hook;  // 0: none
  };
  std::vector<Entry> modules_;
};

std::string with_commas(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string mebibytes(int64_t bytes) {
  return formatted("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
}

int64_t bytes_of(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const Tensor& t : tensors) bytes += t.bytes();
  return bytes;
}

/// Elements of a module's own parameters, without its children's.
int64_t own_parameters(Module& module, std::unordered_set<const TensorImpl*>& known) {
  int64_t count = 0;
  for (const auto& [name, p] : module.named_parameters()) {
    if (name.find('.') == std::string::npos && known.insert(p.handle().get()).second) {
      count += p.numel();
    }
  }
  return count;
}

Trainable trainable_of(const Module& module) {
  const Tensors parameters = module.parameters();
  const auto wants = std::ranges::count_if(parameters, &Tensor::requires_grad);
  if (parameters.empty()) return Trainable::kNoParameters;
  if (wants == 0) return Trainable::kNone;
  return wants == std::ssize(parameters) ? Trainable::kAll : Trainable::kSome;
}

Shape taps_of(const Tensor& weight) {
  Shape taps = weight.shape();
  taps.erase(0);
  taps.erase(0);
  return taps;
}

/// The window that slides over the input.
Shape kernel_of(const Module& module) {
  if (const auto* conv = dynamic_cast<const Conv2d*>(&module)) return taps_of(conv->weight);
  if (const auto* conv = dynamic_cast<const Conv1d*>(&module)) return taps_of(conv->weight);
  if (const auto* conv = dynamic_cast<const ConvTranspose2d*>(&module))
    return taps_of(conv->weight);
  const auto of_pair = [](Pair kernel) { return Shape{kernel.rows, kernel.cols}; };
  if (const auto* pool = dynamic_cast<const MaxPool2d*>(&module))
    return of_pair(pool->options().kernel);
  if (const auto* pool = dynamic_cast<const AvgPool2d*>(&module))
    return of_pair(pool->options().kernel);
  if (const auto* pool = dynamic_cast<const MaxPool1d*>(&module)) return {pool->options().kernel};
  if (const auto* pool = dynamic_cast<const AvgPool1d*>(&module)) return {pool->options().kernel};
  return {};
}

}  // namespace

Summary summary(Module& model, FunctionRef<void()> run) {
  Summary out;
  std::unordered_map<const Module*, size_t> row_of;
  std::unordered_set<const TensorImpl*> known;
  for (auto& [name, module] : model.named_modules()) {
    row_of.emplace(module, out.rows.size());
    const auto depth = name.empty() ? 0 : 1 + std::ranges::count(name, '.');
    out.rows.push_back({.name = name,
                        .type = module->type_name(),
                        .depth = static_cast<int>(depth),
                        .leaf = module->children().empty(),
                        .kernel = kernel_of(*module),
                        .input = {},
                        .output = {},
                        .called = false,
                        .parameters = own_parameters(*module, known),
                        .macs = 0,
                        .trainable = trainable_of(*module)});
  }
  for (const Tensor& p : model.parameters()) {
    out.parameters += p.numel();
    out.parameter_bytes += p.bytes();
    if (p.requires_grad()) out.trainable += p.numel();
  }

  const Observation observation(model, [&](Module& module, const Tensors& x, const Tensors& y) {
    SummaryRow& row = out.rows[row_of.at(&module)];
    row.called = true;
    if (!x.empty()) row.input = x[0].shape();
    if (!y.empty()) row.output = y[0].shape();
    row.macs += module.macs_of_call(x, y);
    if (row.leaf) {
      out.output_bytes += bytes_of(y);
      if (row.trainable != Trainable::kNoParameters) out.pass_bytes += 2 * bytes_of(y);
    }
    if (&module == &model) out.input_bytes += bytes_of(x);
  });
  const NoGrad off;
  run();
  for (const SummaryRow& row : out.rows) out.macs += row.macs;
  return out;
}

Summary summary(Module& model, const Shape& input) {
  const Tensors parameters = model.parameters();
  TensorOptions as;
  if (!parameters.empty()) as = {.dtype = parameters[0].dtype(), .device = parameters[0].device()};
  const Tensor x = zeros(input, as);
  return summary(model, [&] { model(x); });
}

namespace {

/// A column of the table; `rank` says in which order columns are left out, 0: never.
struct Column {
  const char* title;
  bool right;  // numbers
  int rank;
  std::string (*text)(const SummaryRow& row, const Summary& summary);
};

std::string label_of(const SummaryRow& row, const Summary&) {
  const std::string last = row.name.substr(row.name.rfind('.') + 1);
  return std::string(static_cast<size_t>(2 * row.depth), ' ') + row.type +
         (last.empty() ? "" : " (" + printable(last) + ")");
}

std::string shape_or_dash(const Shape& shape, bool known) { return known ? concat(shape) : "-"; }

std::string count_or_dash(int64_t count) { return count > 0 ? with_commas(count) : "-"; }

std::string share_of(const SummaryRow& row, const Summary& s) {
  if (row.parameters == 0) return "-";
  return formatted("{:.2f} %",
                   100 * static_cast<double>(row.parameters) / static_cast<double>(s.parameters));
}

std::string trainable_text(const SummaryRow& row, const Summary&) {
  constexpr std::array kTexts = {"-", "yes", "partly", "no"};
  return kTexts[static_cast<size_t>(row.trainable)];
}

using Row = SummaryRow;
constexpr std::array kColumns = {
    Column{"module", false, 0, label_of},
    Column{"kernel", false, 2,
           [](const Row& r, const Summary&) { return shape_or_dash(r.kernel, !r.kernel.empty()); }},
    Column{"input", false, 3,
           [](const Row& r, const Summary&) { return shape_or_dash(r.input, r.called); }},
    Column{"output", false, 0,
           [](const Row& r, const Summary&) { return shape_or_dash(r.output, r.called); }},
    Column{"parameters", true, 0,
           [](const Row& r, const Summary&) { return count_or_dash(r.parameters); }},
    Column{"share", true, 4, share_of},
    Column{"multiply-adds", true, 0,
           [](const Row& r, const Summary&) { return count_or_dash(r.macs); }},
    Column{"trainable", false, 1, trainable_text},
};

/// The texts of a column, the title first, and how wide it is.
struct Cells {
  const Column* column;
  std::vector<std::string> texts;
  size_t width = 0;
};

/// Characters of UTF-8 text, as {fmt} counts them.
size_t columns_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::vector<Cells> cells_of(const Summary& s, int width) {
  std::vector<Cells> all;
  size_t total = 0;
  for (const Column& column : kColumns) {
    Cells& cells = all.emplace_back(Cells{&column, {column.title}});
    for (const SummaryRow& row : s.rows) cells.texts.push_back(column.text(row, s));
    for (const std::string& text : cells.texts)
      cells.width = std::max(cells.width, columns_of(text));
    total += cells.width + 2;
  }
  for (int rank = 1; width > 0 && total - 2 > static_cast<size_t>(width) && rank <= 4; ++rank) {
    const auto at = std::ranges::find(all, rank, [](const Cells& c) { return c.column->rank; });
    total -= at->width + 2;
    all.erase(at);
  }
  return all;
}

}  // namespace

std::string summary_text(const Summary& s, int width) {
  const std::vector<Cells> columns = cells_of(s, width);
  std::string out;
  for (size_t line = 0; line <= s.rows.size(); ++line) {
    std::string text;
    for (const Cells& cells : columns) {
      text += text.empty() ? "" : "  ";
      text += cells.column->right ? formatted("{:>{}}", cells.texts[line], cells.width)
                                  : formatted("{:<{}}", cells.texts[line], cells.width);
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  out += formatted("parameters     {} ({} trainable)\n", with_commas(s.parameters),
                   with_commas(s.trainable));
  out += s.macs > 0 ? formatted("multiply-adds  {} per forward\n", with_commas(s.macs))
                    : std::string("multiply-adds  -\n");
  return out +
         formatted("memory         {} = {} input + {} forward and backward pass + {} parameters\n",
                   mebibytes(s.total_bytes()), mebibytes(s.input_bytes), mebibytes(s.pass_bytes),
                   mebibytes(s.parameter_bytes));
}

std::ostream& operator<<(std::ostream& out, const Summary& s) { return out << summary_text(s); }

int64_t count_parameters(const Module& model) {
  int64_t count = 0;
  for (const Tensor& p : model.parameters()) count += p.numel();
  return count;
}

}  // namespace lathe::nn
