// ValueRanges: a row for each op of each layer, and what its nodes are told of gradients.
#include "lathe/core/debug/value_ranges.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "lathe/core/copy.h"
#include "lathe/core/debug/bad_value.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/printable.h"

namespace lathe::debug {

namespace {

// f16 rounds to the nearest: half of its least value goes to 0, and what is nearer to 2^16 than to
// its largest value, 65504, to infinity.
constexpr double kToZero = 0x1p-25, kToInfinity = 65520;

/// "-3.12", "1.2e-05": three digits, the same in every locale.
std::string three_digits(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 3);
  return {text, end.ptr};
}

/// "0", "0.12 %", "<0.01 %".
std::string share_text(int64_t part, int64_t whole) {
  if (part == 0) return "0";
  const double percent = 100 * static_cast<double>(part) / static_cast<double>(whole);
  if (percent < 0.01) return "<0.01 %";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, percent, std::chars_format::fixed, 2);
  return concat(std::string_view(text, static_cast<size_t>(end.ptr - text)), " %");
}

using Cells = std::array<std::string, 10>;

/// Columns with two spaces between them; the first three begin at the left.
std::string aligned(const std::vector<Cells>& rows) {
  std::array<size_t, std::tuple_size_v<Cells>> widths = {};
  for (const Cells& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const Cells& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      line += concat(c == 0 ? "" : "  ", c < 3 ? row[c] + space : space + row[c]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

Cells cells_of(std::string layer, std::string op, std::string of, const ValueRange& r) {
  const int64_t all = r.finite + r.not_finite;
  const auto number = [&](double value) { return r.finite > 0 ? three_digits(value) : "-"; };
  return {std::move(layer),
          std::move(op),
          std::move(of),
          number(r.min),
          number(r.max),
          number(r.mean_abs()),
          share_text(r.zeros, all),
          share_text(r.underflows, all),
          share_text(r.overflows, all),
          r.not_finite == 0 ? "" : concat(r.not_finite)};
}

}  // namespace

void ValueRange::add(const Tensor& t) {
  if (!t.defined() || !is_floating(t.dtype()) || t.numel() == 0 || !can_be_read(t)) return;
  const Tensor host = empty(t.shape(), {.dtype = kF64});
  copy_values(host, t);
  const double* const values = host.data<double>();
  for (int64_t i = 0; i < t.numel(); ++i) {
    const double value = values[i], size = std::abs(value);
    if (!std::isfinite(value)) {
      ++not_finite;
      continue;
    }
    min = finite == 0 ? value : std::min(min, value);
    max = finite == 0 ? value : std::max(max, value);
    ++finite;
    sum_abs += size;
    if (size == 0) {
      ++zeros;
    } else if (size <= kToZero) {
      ++underflows;
    } else if (size >= kToInfinity) {
      ++overflows;
    }
  }
}

class ValueRanges::Watch final : public profile::Watcher {
 public:
  void node(const char* op, uint64_t) override { op_ = op; }

  void connected(uint64_t number, std::span<const profile::Input>,
                 std::span<const profile::Input> outputs) override {
    const auto [at, fresh] = place_.try_emplace({layer(), op_}, rows_.size());
    if (fresh) rows_.push_back({.layer = layer(), .op = op_, .output = {}, .gradient = {}});
    for (const profile::Input& y : outputs) rows_[at->second].output.add(*y.tensor);
    row_of_node_.emplace(number, at->second);
  }

  void gradient(const char*, uint64_t number, size_t, const Tensor&, const Tensors& dy) override {
    const auto at = row_of_node_.find(number);
    if (at == row_of_node_.end()) return;  // told for another input
    for (const Tensor& t : dy) rows_[at->second].gradient.add(t);
    row_of_node_.erase(at);
  }

  void gone(uint64_t number) override { row_of_node_.erase(number); }

  const std::vector<LayerRange>& rows() const { return rows_; }
  size_t waiting() const { return row_of_node_.size(); }

 private:
  std::vector<LayerRange> rows_;
  std::map<std::pair<std::string, std::string>, size_t> place_;  // of a layer's op in rows_
  std::unordered_map<uint64_t, size_t> row_of_node_;  // until its gradient has come, or it is gone
  std::string op_;                                    // of the node that is being connected
};

ValueRanges::ValueRanges() : watch_(std::make_unique<Watch>()) {}
ValueRanges::~ValueRanges() = default;

std::vector<LayerRange> ValueRanges::rows() const {
  profile::raise_found();
  return watch_->rows();
}

size_t ValueRanges::waiting() const { return watch_->waiting(); }

std::string ValueRanges::table() const {
  const std::vector<LayerRange> all = rows();
  std::vector<Cells> lines{
      {"Layer", "Op", "", "Min", "Max", "Mean |x|", "Zero", "f16: 0", "f16: inf", "Not finite"}};
  for (const LayerRange& row : all) {
    lines.push_back(cells_of(printable(row.layer), row.op, "y", row.output));
    if (row.gradient.finite + row.gradient.not_finite > 0)
      lines.push_back(cells_of("", "", "dy", row.gradient));
  }
  std::string out = aligned(lines);
  if (const double scale = largest_loss_scale(all); scale > 0) {
    out += concat("Gradients 2^", std::ilogb(scale), " times as large would be finite in f16.\n");
  }
  return out;
}

double largest_loss_scale(const std::vector<LayerRange>& rows) {
  double largest = 0;
  for (const LayerRange& row : rows) {
    if (row.gradient.not_finite > 0) return 0;
    largest = std::max(largest, row.gradient.max_abs());
  }
  if (largest == 0) return 0;
  constexpr double kMost = 0x1p1023;  // of the powers of two
  double scale = std::exp2(std::floor(std::log2(kToInfinity) - std::log2(largest)));
  scale = std::min(scale, kMost);
  while (scale * largest >= kToInfinity) scale /= 2;
  return scale;
}

}  // namespace lathe::debug
