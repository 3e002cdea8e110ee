// einsum: the equation becomes one label per dimension; then operands are contracted two by two.
// Contract: einsum.h.
#include "lathe/ops/einsum.h"

#include <algorithm>
#include <map>

#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/diagonal.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

/// A letter, or for the dimensions of "..." 256 + their distance from its right end.
using Labels = std::vector<int>;
constexpr int kEllipsis = 256;

bool holds(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// One side of a comma: letters, with kEllipsis where "..." stands.
Labels read_term(const std::string& equation, const std::string& term) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (c == ' ') continue;
    if (c == '.') {
      LATHE_CHECK(ValueError, term.compare(i, 3, "...") == 0 && !holds(labels, kEllipsis),
                  "einsum: a dot must be part of one \"...\" per operand, in \"", equation, "\"");
      labels.push_back(kEllipsis);
      i += 2;
      continue;
    }
    LATHE_CHECK(ValueError, (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), "einsum: '", c,
                "' is not a letter, in \"", equation, "\"");
    labels.push_back(c);
  }
  return labels;
}

struct Equation {
  std::vector<Labels> terms;
  Labels result;
  bool has_result = false;  // "->" is there
};

Equation read_equation(const std::string& text) {
  Equation e;
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  for (size_t begin = 0; begin <= left.size();) {
    const size_t comma = std::min(left.find(',', begin), left.size());
    e.terms.push_back(read_term(text, left.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  if (arrow != std::string::npos) {
    e.has_result = true;
    e.result = read_term(text, text.substr(arrow + 2));
  }
  return e;
}

/// `labels` with kEllipsis replaced by that of `count` dimensions.
Labels spread_ellipsis(const Labels& labels, int count) {
  Labels all;
  for (const int label : labels) {
    if (label != kEllipsis) {
      all.push_back(label);
      continue;
    }
    for (int k = count - 1; k >= 0; --k) all.push_back(kEllipsis + k);
  }
  return all;
}

/// Without "->": what stands for itself in front, then the letters that occur once.
Labels default_result(const std::vector<Labels>& terms, int ellipsis) {
  std::map<int, int> occurrences;
  for (const Labels& term : terms) {
    for (const int label : term) ++occurrences[label];
  }
  Labels result = spread_ellipsis({kEllipsis}, ellipsis);
  for (const auto& [label, count] : occurrences) {
    if (label < kEllipsis && count == 1) result.push_back(label);
  }
  return result;
}

/// An operand, or a product of several, with a label for each dimension.
struct Term {
  Tensor x;
  Labels labels;

  int64_t size(int label) const {
    return x
        .shape()[static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin())];
  }
  /// Dimensions in the order of `order`, which names them all.
  Tensor ordered(const Labels& order) const {
    Dims dims;
    for (const int label : order) {
      dims.push_back(std::find(labels.begin(), labels.end(), label) - labels.begin());
    }
    return permute(x, dims);
  }
};

/// A letter that stands twice becomes the diagonal.
void take_diagonals(const std::string& equation, Term& term) {
  for (size_t i = 0; i < term.labels.size(); ++i) {
    for (size_t j = i + 1; j < term.labels.size(); ++j) {
      if (term.labels[i] != term.labels[j]) continue;
      const int label = term.labels[i], a = static_cast<int>(i), b = static_cast<int>(j);
      LATHE_CHECK(ShapeError, term.x.dim(a) == term.x.dim(b), "einsum: '", static_cast<char>(label),
                  "' stands for the sizes ", term.x.dim(a), " and ", term.x.dim(b),
                  " of one operand, in \"", equation, "\" (operand: ", term.x, ")");
      term.x = diagonal(term.x, {.dim1 = a, .dim2 = b});
      term.labels.erase(term.labels.begin() + b);
      term.labels.erase(term.labels.begin() + a);
      term.labels.push_back(label);
      i = static_cast<size_t>(-1);  // from the start, as the dimensions moved
      break;
    }
  }
}

/// Removes a dimension of size 1.
void squeeze_label(Term& term, int label) {
  const auto at = std::find(term.labels.begin(), term.labels.end(), label);
  term.x = squeeze(term.x, at - term.labels.begin());
  term.labels.erase(at);
}

/// Sums over the labels that `wanted` does not accept.
template <class Wanted>
void sum_others(Term& term, Wanted wanted) {
  Dims dims;
  Labels kept;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (wanted(term.labels[i])) {
      kept.push_back(term.labels[i]);
    } else {
      dims.push_back(static_cast<int64_t>(i));
    }
  }
  if (dims.empty()) return;
  term.x = sum(term.x, dims);
  term.labels = kept;
}

/// a * b, summed over the labels of both that `wanted` does not accept.
template <class Wanted>
Term contract(Term a, Term b, Wanted wanted) {
  for (const int label : Labels(a.labels)) {  // what broadcasts belongs to the other one alone
    if (!holds(b.labels, label) || a.size(label) == b.size(label)) continue;
    squeeze_label(a.size(label) == 1 ? a : b, label);
  }
  const DType dtype = a.x.dtype();
  sum_others(a, [&](int label) { return wanted(label) || holds(b.labels, label); });
  sum_others(b, [&](int label) { return wanted(label) || holds(a.labels, label); });
  if (!is_floating(dtype)) a.x = cast(a.x, dtype), b.x = cast(b.x, dtype);  // sums are i64
  Labels batch, summed, only_a, only_b;
  int64_t batches = 1, depth = 1, rows = 1, columns = 1;
  for (const int label : a.labels) {
    const bool both = holds(b.labels, label);
    (!both ? only_a : wanted(label) ? batch : summed).push_back(label);
    (!both ? rows : wanted(label) ? batches : depth) *= a.size(label);
  }
  for (const int label : b.labels) {
    if (holds(a.labels, label)) continue;
    only_b.push_back(label);
    columns *= b.size(label);
  }
  const auto joined = [](Labels list, const Labels& second, const Labels& third) {
    list.insert(list.end(), second.begin(), second.end());
    list.insert(list.end(), third.begin(), third.end());
    return list;
  };
  const Tensor left = reshape(a.ordered(joined(batch, only_a, summed)), {batches, rows, depth});
  const Tensor right = reshape(b.ordered(joined(batch, summed, only_b)), {batches, depth, columns});
  LATHE_CHECK(DTypeError, left.dtype() != kBool || right.dtype() != kBool,
              "einsum: not defined for bool (operands: ", left, ", ", right, ")");
  Term product{summed.empty() ? mul(left, right) : matmul(left, right),
               joined(batch, only_a, only_b)};
  Shape shape;
  for (const int label : product.labels) {
    shape.push_back(holds(a.labels, label) ? a.size(label) : b.size(label));
  }
  product.x = reshape(product.x, shape);
  return product;
}

/// Every label's sizes agree, or are 1.
void check_sizes(const std::string& equation, const std::vector<Term>& terms) {
  std::map<int, int64_t> sizes;
  for (const Term& term : terms) {
    for (const int label : term.labels) {
      const int64_t size = term.size(label);
      int64_t& known = sizes.try_emplace(label, size).first->second;
      LATHE_CHECK(ShapeError, known == size || known == 1 || size == 1, "einsum: ",
                  label < kEllipsis ? concat("'", static_cast<char>(label), "'")
                                    : std::string("a dimension of \"...\""),
                  " has the sizes ", known, " and ", size, ", in \"", equation,
                  "\" (operand: ", term.x, ")");
      if (known == 1) known = size;
    }
  }
}

/// The operands with a label for each dimension; `e` gets its labels of "..." spread.
std::vector<Term> label_operands(const std::string& text, Equation& e, const Tensors& operands) {
  LATHE_CHECK(ValueError, e.terms.size() == operands.size(), "einsum: \"", text, "\" is for ",
              e.terms.size(), " operands, not ", operands.size());
  std::vector<Term> terms;
  int most = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Tensor& x = operands[i];
    LATHE_CHECK(DTypeError, x.dtype() == operands[0].dtype(),
                "einsum: operands must have one dtype (operand 0: ", operands[0], ", operand ", i,
                ": ", x, ")");
    LATHE_CHECK(DeviceError, x.device() == operands[0].device(),
                "einsum: operands must be on one device (operand 0: ", operands[0], ", operand ", i,
                ": ", x, ")");
    Labels& labels = e.terms[i];
    const bool open = holds(labels, kEllipsis);
    const int named = static_cast<int>(labels.size()) - (open ? 1 : 0);
    LATHE_CHECK(ShapeError, open ? x.ndim() >= named : x.ndim() == named, "einsum: operand ", i,
                " has ", x.ndim(), " dimensions, for which there are ", named, " letters in \"",
                text, "\" (operand: ", x, ")");
    most = std::max(most, x.ndim() - named);
    labels = spread_ellipsis(labels, x.ndim() - named);
    terms.push_back({x, labels});
    take_diagonals(text, terms.back());
  }
  e.result = e.has_result ? spread_ellipsis(e.result, most) : default_result(e.terms, most);
  return terms;
}

}  // namespace

Tensor einsum(const std::string& text, const Tensors& operands) {
  const profile::OpRange range("einsum", operands);
  LATHE_CHECK(ValueError, !operands.empty(), "einsum: there are no operands for \"", text, "\"");
  Equation e = read_equation(text);
  std::vector<Term> terms = label_operands(text, e, operands);
  check_sizes(text, terms);
  for (size_t i = 0; i < e.result.size(); ++i) {
    const int label = e.result[i];
    const bool once = std::count(e.result.begin(), e.result.end(), label) == 1;
    const bool known = std::any_of(terms.begin(), terms.end(),
                                   [&](const Term& t) { return holds(t.labels, label); });
    LATHE_CHECK(ValueError, once && known, "einsum: '", static_cast<char>(label), "' stands ",
                once ? "in no operand" : "twice in the result", ", in \"", text, "\"");
  }
  Term product = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    product = contract(product, terms[i], [&](int label) {
      return holds(e.result, label) ||
             std::any_of(terms.begin() + static_cast<std::ptrdiff_t>(i) + 1, terms.end(),
                         [&](const Term& t) { return holds(t.labels, label); });
    });
  }
  sum_others(product, [&](int label) { return holds(e.result, label); });
  return product.ordered(e.result);
}

}  // namespace lathe
