// A model at a glance: one observed forward, then the table. Forward hooks see every call, even of
// modules that are fused into one op.
#include "lathe/nn/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

#include "lathe/autograd/grad_mode.h"
#include "lathe/ops/creation.h"

namespace lathe::nn {

namespace {

/// The model in evaluation mode with hooks, until the scope ends.
class Observation {
 public:
  Observation(Module& model, const Module::CallHook& hook) {
    for (auto& [name, module] : model.named_modules()) {
      modules_.push_back({module, module->is_training(), module->register_call_hook(hook)});
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
    int64_t hook;
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
  return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
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
                        .output = {},
                        .called = false,
                        .parameters = own_parameters(*module, known),
                        .macs = 0});
  }
  for (const Tensor& p : model.parameters()) {
    out.parameters += p.numel();
    out.parameter_bytes += p.bytes();
    if (p.requires_grad()) out.trainable += p.numel();
  }

  const Observation observation(model, [&](Module& module, const Tensors& x, const Tensors& y) {
    SummaryRow& row = out.rows[row_of.at(&module)];
    row.called = true;
    if (!y.empty()) row.output = y[0].shape();
    row.macs += module.macs_of_call(x, y);
    if (row.leaf) out.output_bytes += bytes_of(y);
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

std::ostream& operator<<(std::ostream& out, const Summary& s) {
  const auto label = [](const SummaryRow& row) {
    const size_t dot = row.name.rfind('.');
    const std::string last = dot == std::string::npos ? row.name : row.name.substr(dot + 1);
    const std::string indent(static_cast<size_t>(2 * row.depth), ' ');
    return indent + row.type + (last.empty() ? "" : " (" + last + ")");
  };
  size_t width = 6;
  for (const SummaryRow& row : s.rows) width = std::max(width, label(row).size());
  const auto line = [&](const std::string& module, const std::string& output,
                        const std::string& parameters, const std::string& macs) {
    out << fmt::format("{:<{}}  {:<20}{:>14}{:>18}\n", module, width, output, parameters, macs);
  };
  line("module", "output", "parameters", "multiply-adds");
  for (const SummaryRow& row : s.rows) {
    line(label(row), row.called ? concat(row.output) : "-",
         row.parameters > 0 ? with_commas(row.parameters) : "-",
         row.macs > 0 ? with_commas(row.macs) : "-");
  }
  out << fmt::format("parameters     {} ({} trainable), {}\n", with_commas(s.parameters),
                     with_commas(s.trainable), mebibytes(s.parameter_bytes));
  out << fmt::format("multiply-adds  {} per forward\n", with_commas(s.macs));
  out << fmt::format("memory         {} input, {} outputs of the layers\n",
                     mebibytes(s.input_bytes), mebibytes(s.output_bytes));
  return out;
}

int64_t count_parameters(const Module& model) {
  int64_t count = 0;
  for (const Tensor& p : model.parameters()) count += p.numel();
  return count;
}

}  // namespace lathe::nn
