// NamedTensor: names to positions, then the op. Contract: named_tensor.h.
#include "lathe/ops/named_tensor.h"

#include <algorithm>
#include <ostream>

#include "lathe/core/checked_size.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

using Names = NamedTensor::Names;

std::string listed(const Names& names) {
  std::string out;
  for (const std::string& name : names) {
    out += concat(out.empty() ? "" : ", ", name.empty() ? "(no name)" : name);
  }
  return out;
}

void check_unique(const char* op, const Names& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    const bool again = std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i),
                                 names[i]) != names.begin() + static_cast<std::ptrdiff_t>(i);
    LATHE_CHECK(ValueError, names[i].empty() || !again, op, ": the name \"", names[i],
                "\" comes twice (names: ", listed(names), ")");
  }
}

/// The names of what a and b broadcast to.
Names unify(const char* op, const Names& a, const Names& b) {
  Names out(std::max(a.size(), b.size()));
  for (size_t back = 1; back <= out.size(); ++back) {
    const std::string& left = back <= a.size() ? a[a.size() - back] : "";
    const std::string& right = back <= b.size() ? b[b.size() - back] : "";
    LATHE_CHECK(ValueError, left.empty() || right.empty() || left == right, op, ": \"", left,
                "\" meets \"", right, "\"; align_as() puts them in one order (a: ", listed(a),
                "; b: ", listed(b), ")");
    out[out.size() - back] = left.empty() ? right : left;
  }
  check_unique(op, out);
  return out;
}

}  // namespace

NamedTensor::NamedTensor(const Tensor& tensor, const Names& names)
    : tensor_(tensor), names_(names) {
  LATHE_CHECK(ShapeError, names.size() == static_cast<size_t>(tensor.ndim()),
              "NamedTensor: ", names.size(), " names for ", tensor.ndim(),
              " dimensions (names: ", listed(names), "; tensor: ", tensor, ")");
  check_unique("NamedTensor", names);
  LATHE_CHECK(ValueError, std::find(names.begin(), names.end(), "...") == names.end(),
              "NamedTensor: \"...\" is no name (names: ", listed(names), ")");
}

int NamedTensor::dim(const std::string& name) const {
  const auto at = std::find(names_.begin(), names_.end(), name);
  LATHE_CHECK(IndexError, !name.empty() && at != names_.end(), "NamedTensor: no dimension \"", name,
              "\" among ", listed(names_));
  return static_cast<int>(at - names_.begin());
}

Dims NamedTensor::dims(const Names& names) const {
  Dims out;
  for (const std::string& name : names) out.push_back(dim(name));
  return out;
}

NamedTensor NamedTensor::rename(const std::string& from, const std::string& to) const {
  Names names = names_;
  names[static_cast<size_t>(dim(from))] = to;
  return rename(names);
}

NamedTensor NamedTensor::align_to(const Names& order) const {
  check_unique("align_to", order);
  for (const Names* list : {&names_, &order}) {
    LATHE_CHECK(ValueError, std::find(list->begin(), list->end(), "") == list->end(),
                "align_to: a dimension has no name (", listed(names_), " to ", listed(order), ")");
  }
  Names full;
  for (const std::string& name : order) {
    if (name != "...") {
      full.push_back(name);
      continue;
    }
    for (const std::string& own : names_) {
      if (std::find(order.begin(), order.end(), own) == order.end()) full.push_back(own);
    }
  }
  for (const std::string& own : names_) {
    LATHE_CHECK(ValueError, std::find(full.begin(), full.end(), own) != full.end(), "align_to: \"",
                own, "\" is left out (", listed(names_), " to ", listed(order), ")");
  }
  Dims places;
  for (const std::string& name : full) {
    if (std::find(names_.begin(), names_.end(), name) != names_.end()) {
      places.push_back(dim(name));
    }
  }
  Tensor aligned = permute(tensor_, places);
  for (size_t d = 0; d < full.size(); ++d) {
    if (std::find(names_.begin(), names_.end(), full[d]) == names_.end()) {
      aligned = unsqueeze(aligned, static_cast<int64_t>(d));
    }
  }
  return {aligned, full};
}

NamedTensor NamedTensor::select(const std::string& name, int64_t index) const {
  const int d = dim(name);
  return without({d}, lathe::select(tensor_, d, index));
}

NamedTensor NamedTensor::slice(const std::string& name, int64_t start, int64_t stop,
                               int64_t step) const {
  return {lathe::slice(tensor_, dim(name), start, stop, step), names_};
}

NamedTensor NamedTensor::flatten(const Names& names, const std::string& into) const {
  LATHE_CHECK(ValueError, !names.empty(), "flatten: no dimensions are named");
  const Dims places = dims(names);
  for (int i = 1; i < places.size(); ++i) {
    LATHE_CHECK(ValueError, places[i] == places[i - 1] + 1, "flatten: ", listed(names),
                " do not stand side by side in ", listed(names_), "; align_to() first");
  }
  Names merged = names_;
  const auto first = merged.begin() + places[0];
  merged.erase(first + 1, first + places.size());
  *first = into;
  return {lathe::flatten(tensor_, places[0], places.back()), merged};
}

NamedTensor NamedTensor::unflatten(const std::string& name,
                                   const std::vector<std::pair<std::string, int64_t>>& into) const {
  const int at = dim(name);
  CheckedSize known = 1;
  int open = 0;
  for (const auto& [part, size] : into) {
    if (size == -1) {
      ++open;
    } else {
      known = known * size;
    }
  }
  const int64_t product = known.value_or_throw<ShapeError>("unflatten: the sizes are too large");
  const int64_t whole = tensor_.shape()[at];
  const bool fits = open == 0 ? product == whole : open == 1 && product > 0 && whole % product == 0;
  LATHE_CHECK(ShapeError, fits, "unflatten: the sizes do not make \"", name, "\" of size ", whole,
              " (tensor: ", tensor_, ")");
  Shape shape;
  Names names;
  for (int d = 0; d < ndim(); ++d) {
    if (d != at) {
      shape.push_back(tensor_.shape()[d]);
      names.push_back(names_[static_cast<size_t>(d)]);
      continue;
    }
    for (const auto& [part, size] : into) {
      shape.push_back(size == -1 ? whole / product : size);
      names.push_back(part);
    }
  }
  return {reshape(tensor_, shape), names};
}

NamedTensor NamedTensor::without(const Dims& gone, const Tensor& reduced) const {
  Names names;
  for (int d = 0; d < ndim(); ++d) {
    if (std::find(gone.begin(), gone.end(), d) == gone.end()) {
      names.push_back(names_[static_cast<size_t>(d)]);
    }
  }
  return {reduced, names};
}

// No names mean no dimensions here: the ops' empty list would mean all.
NamedTensor NamedTensor::sum(const Names& names) const {
  return names.empty() ? *this : without(dims(names), lathe::sum(tensor_, dims(names)));
}
NamedTensor NamedTensor::mean(const Names& names) const {
  return names.empty() ? *this : without(dims(names), lathe::mean(tensor_, dims(names)));
}
NamedTensor NamedTensor::amax(const Names& names) const {
  return names.empty() ? *this : without(dims(names), lathe::amax(tensor_, dims(names)));
}
NamedTensor NamedTensor::amin(const Names& names) const {
  return names.empty() ? *this : without(dims(names), lathe::amin(tensor_, dims(names)));
}
NamedTensor NamedTensor::softmax(const std::string& name) const {
  return {lathe::softmax(tensor_, dim(name)), names_};
}

NamedTensor operator+(const NamedTensor& a, const NamedTensor& b) {
  const Names names = unify("+", a.names(), b.names());
  return {add(a.tensor(), b.tensor()), names};
}
NamedTensor operator-(const NamedTensor& a, const NamedTensor& b) {
  const Names names = unify("-", a.names(), b.names());
  return {sub(a.tensor(), b.tensor()), names};
}
NamedTensor operator*(const NamedTensor& a, const NamedTensor& b) {
  const Names names = unify("*", a.names(), b.names());
  return {mul(a.tensor(), b.tensor()), names};
}
NamedTensor operator/(const NamedTensor& a, const NamedTensor& b) {
  const Names names = unify("/", a.names(), b.names());
  return {div(a.tensor(), b.tensor()), names};
}

NamedTensor matmul(const NamedTensor& a, const NamedTensor& b) {
  LATHE_CHECK(ShapeError, a.ndim() >= 2 && b.ndim() >= 2,
              "matmul: named operands must have 2 dimensions or more (a: ", a.tensor(),
              ", b: ", b.tensor(), ")");
  Names names = unify("matmul", {a.names().begin(), a.names().end() - 2},
                      {b.names().begin(), b.names().end() - 2});
  names.push_back(a.names()[a.names().size() - 2]);
  names.push_back(b.names().back());
  check_unique("matmul", names);
  return {matmul(a.tensor(), b.tensor()), names};
}

std::ostream& operator<<(std::ostream& out, const NamedTensor& x) {
  for (int d = 0; d < x.ndim(); ++d) {
    const std::string& name = x.names()[static_cast<size_t>(d)];
    out << (d == 0 ? "" : ", ") << (name.empty() ? "(no name)" : name) << ": " << x.shape()[d];
  }
  return out << '\n' << x.tensor();
}

}  // namespace lathe
