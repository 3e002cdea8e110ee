// Printing of tensors: values as nested brackets, then dtype, shape and device. Contract: tensor.h.
#include <charconv>
#include <cmath>
#include <ostream>

#include "lathe/core/tensor.h"

namespace lathe {

namespace {

constexpr int64_t kAbridgeAbove = 1000;  // elements
constexpr int64_t kEdge = 3;             // elements shown at each end of an abridged dimension

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";  // its sign is not shown
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, 4);
  return {buffer, end.ptr};
}

class Printer {
 public:
  Printer(std::ostream& out, const Tensor& t)
      : out_(out), t_(t), abridged_(t.numel() > kAbridgeAbove) {
    if (is_floating(t.dtype())) {
      numbers_ = t.to_vector<double>();
    } else {
      integers_ = t.to_vector<int64_t>();
    }
    for (int64_t i = 0; i < t.numel(); ++i) {
      if (!abridged_) width_ = std::max(width_, text_of(i).size());
    }
  }

  void print(int dim, int64_t start) {
    if (dim == t_.ndim()) {
      const std::string text = text_of(start);
      for (size_t i = text.size(); i < width_; ++i) out_ << ' ';
      out_ << text;
      return;
    }
    const int64_t size = t_.shape()[dim];
    int64_t step = 1;
    for (int d = dim + 1; d < t_.ndim(); ++d) step *= t_.shape()[d];
    const bool last = dim == t_.ndim() - 1;
    out_ << '[';
    for (int64_t i = 0; i < size; ++i) {
      if (i > 0) out_ << (last ? ", " : ",\n" + std::string(static_cast<size_t>(dim) + 1, ' '));
      if (abridged_ && size > 2 * kEdge && i == kEdge) {
        out_ << "...";
        i = size - kEdge - 1;
        continue;
      }
      print(dim + 1, start + i * step);
    }
    out_ << ']';
  }

 private:
  std::string text_of(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    if (is_floating(t_.dtype())) return number_text(numbers_[at]);
    if (t_.dtype() == kBool) return integers_[at] != 0 ? "true" : "false";
    return concat(integers_[at]);
  }

  std::ostream& out_;
  const Tensor& t_;
  std::vector<double> numbers_;    // values of a floating tensor
  std::vector<int64_t> integers_;  // values of any other
  bool abridged_;
  size_t width_ = 0;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << concat(dims); }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << concat(dtype); }
std::ostream& operator<<(std::ostream& out, Device device) { return out << concat(device); }

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  if (!t.defined()) return out << "undefined";
  Printer(out, t).print(0, 0);
  return out << '\n' << concat(t);
}

}  // namespace lathe
