// See torch_samples.h.
#include "lathe/tests/graph/torch_samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"

namespace lathe::testing {

namespace {

using namespace jit::pt2;

std::vector<std::string> split_at(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, mark);) parts.push_back(part);
  return parts;
}
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// From word `first` on. std::stod would refuse a number below the least normal one.
Numbers numbers_of(const std::vector<std::string>& words, size_t first) {
  Numbers out;
  for (size_t i = first; i < words.size(); ++i)
    out.push_back(std::strtod(words[i].c_str(), nullptr));
  return out;
}

bool is_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}
Value value_from(const std::string& text) {
  return {text == "_" ? -1 : std::stoi(text.substr(text[0] == '%' ? 1 : 0))};
}
bool is_dtype(const std::string& text) {
  return (text[0] == 'f' || text[0] == 'i' || text[0] == 'u' || text == "bool" || text == "bf16") &&
         text != "false" && text != "inf";
}

Argument list_from(const std::string& inside) {
  const std::vector<std::string> parts = split_at(inside, ',');
  if (parts.empty() || parts[0][0] == '%' || parts[0] == "_") {
    std::vector<Value> values;
    for (const std::string& part : parts) values.push_back(value_from(part));
    return values;
  }
  if (std::ranges::all_of(parts, is_integer)) {
    std::vector<Integer> integers;
    for (const std::string& part : parts) integers.push_back({std::stoll(part)});
    return integers;
  }
  return numbers_of(parts, 0);
}

Argument argument_from(const std::string& text) {
  if (text[0] == '%') return value_from(text);
  if (text[0] == '[') return list_from(text.substr(1, text.size() - 2));
  if (text[0] == '\'') return text.substr(1, text.size() - 2);
  if (text == "true" || text == "false") return text == "true";
  if (text == "contiguous") return Format::kContiguous;
  if (text == "channels_last") return Format::kChannelsLast;
  if (text == "preserve") return Format::kPreserve;
  if (is_integer(text)) return Integer{std::stoll(text)};
  if (is_dtype(text)) return dtype_from_name(text);
  return std::strtod(text.c_str(), nullptr);
}

/// "aten.add.Tensor self=%0 other=%1 > 2"
Node node_from(const std::vector<std::string>& words) {
  Node node;
  node.target = "torch.ops." + words[0];
  node.name = words[0];
  size_t i = 1;
  for (; i < words.size() && words[i] != ">"; ++i) {
    const size_t at = words[i].find('=');
    node.inputs.push_back({words[i].substr(0, at), argument_from(words[i].substr(at + 1))});
  }
  LATHE_CHECK(DataError, i + 1 < words.size(), "a call has no results: ", words[0]);
  for (const std::string& text : split_at(words[i + 1], ',')) {
    node.outputs.push_back(value_from(text));
  }
  return node;
}

/// "f32[2,3]*" and numbers.
Tensor tensor_from(const std::vector<std::string>& words) {
  const size_t open = words[0].find('['), close = words[0].find(']');
  Dims sizes;
  for (const std::string& size : split_at(words[0].substr(open + 1, close - open - 1), ',')) {
    sizes.push_back(std::stoll(size));
  }
  const DType dtype = dtype_from_name(words[0].substr(0, open));
  const Shape shape(sizes);
  if (is_floating(dtype)) return tensor(numbers_of(words, 1)).reshape(shape).to(dtype);
  std::vector<int64_t> integers;
  for (size_t i = 1; i < words.size(); ++i) integers.push_back(std::stoll(words[i]));
  return tensor(integers).reshape(shape).to(dtype);
}

void add_value(Graph& graph, int number) {
  const auto least = static_cast<size_t>(number + 1);
  while (graph.names.size() < least) graph.names.push_back(concat("v", graph.names.size()));
}

double finite(double y) {
  if (std::isnan(y)) return 12.5;
  if (std::isinf(y)) return y > 0 ? 17.25 : -19.125;
  return y;
}

}  // namespace

TorchSample parse_torch_sample(const std::string& line) {
  const std::vector<std::string> parts = split_at(line, '|');
  LATHE_CHECK(DataError, parts.size() >= 4, "a case has ", parts.size(), " parts");
  TorchSample out;
  out.name = parts[0].substr(0, parts[0].size() - 1);
  for (const std::string& text : split_at(parts[1], ';')) {
    const std::vector<std::string> words = words_of(text);
    if (words.empty()) continue;
    if (words[0].ends_with('*')) out.with_gradient.push_back(out.inputs.size());
    const Value value{static_cast<int>(out.inputs.size())};
    out.graph.inputs.push_back(value);
    add_value(out.graph, value.number);
    out.inputs.push_back(tensor_from(words));
  }
  for (const std::string& text : split_at(parts[2], ';')) {
    const std::vector<std::string> words = words_of(text);
    if (words[0] == "=") {
      for (size_t i = 1; i < words.size(); ++i) out.graph.outputs.push_back(value_from(words[i]));
      continue;
    }
    out.graph.nodes.push_back(node_from(words));
    for (const Value output : out.graph.nodes.back().outputs) add_value(out.graph, output.number);
  }
  for (const std::string& text : split_at(parts[3], ';')) {
    const std::vector<std::string> words = words_of(text);
    out.results.push_back({words.at(0), numbers_of(words, 1)});
  }
  if (parts.size() > 4 && !out.with_gradient.empty()) {
    for (const std::string& text : split_at(parts[4], ';')) {
      out.gradients.push_back(numbers_of(words_of(text), 0));
    }
  }
  out.gradients.resize(out.with_gradient.size());  // getline() drops an empty last one
  return out;
}

std::string kind_of(const Tensor& t) {
  std::string sizes;
  for (int d = 0; d < t.ndim(); ++d) sizes += concat(d == 0 ? "" : ",", t.dim(d));
  return concat(t.dtype(), "[", sizes, "]");
}

Sums sums_of(const Tensor& t) {
  constexpr size_t kFew = 3, kSums = 3;
  const Numbers y = t.detach().cpu().to_vector<double>();
  if (y.size() <= kFew) {
    Sums out{y, {}};
    for (const double v : y) out.sizes.push_back(std::isfinite(v) ? std::fabs(v) : 0);
    return out;
  }
  Sums out;
  for (size_t j = 0; j < kSums; ++j) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double part = finite(y[i]) * std::cos(static_cast<double>((j + 1) * i + j));
      sum += part;
      squares += part * part;
    }
    out.numbers.push_back(sum);
    out.sizes.push_back(std::sqrt(squares));
  }
  return out;
}

}  // namespace lathe::testing
