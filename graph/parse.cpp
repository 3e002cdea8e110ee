// parse: the text of a graph, line by line. Text may come from a file that somebody else made: each
// number is checked before it is used. Contract: graph.h.
#include <charconv>
#include <climits>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "lathe/core/format.h"
#include "lathe/core/printable.h"
#include "lathe/graph/graph.h"
#include "lathe/graph/op_table.h"
#include "lathe/ops/creation.h"

namespace lathe::jit {

namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-' || c == '/';
}

/// The length of the name that `text` begins with.
size_t name_length(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && is_name_character(text[length])) ++length;
  return length;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Graph graph() {
    next_line();
    if (!take("lathe graph 1") || !rest_.empty()) wrong("expected \"lathe graph 1\"");
    bool done = false;
    while (next_line()) {
      if (rest_.empty()) continue;
      if (done) wrong("nothing may follow the outputs");
      done = line();
    }
    if (!done) wrong("there is no line of outputs");
    if (uses_batch_ && !has_batch_) wrong("N is used, but no input has it");
    return std::move(graph_);
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    LATHE_FAIL(DataError, name_, ":", number_, ": ", what);
  }
  [[noreturn]] void wrong_here(const std::string& what) const {
    wrong(concat(what, ", got \"", printable(rest_.substr(0, 40)), "\""));
  }

  bool next_line() {
    if (at_ > text_.size()) return false;
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    rest_ = text_.substr(at_, end - at_);
    at_ = end + 1;
    ++number_;
    return true;
  }

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) wrong_here(concat("expected \"", word, "\""));
  }

  std::string_view name() {
    const size_t length = name_length(rest_);
    if (length == 0) wrong_here("expected a name");
    const std::string_view found = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return found;
  }

  int64_t integer() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) wrong_here("expected an integer");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  Size size() {
    Size size;
    if (take("N")) {
      size = {1, 0};
    } else {
      const int64_t value = integer();
      size = take("*N") ? Size{value, 0} : Size{0, value};
      if (size.of_batch < 0) wrong(concat("a negative multiple of N: ", size.of_batch));
    }
    uses_batch_ |= size.of_batch != 0;
    return size;
  }

  std::vector<Size> sizes() {
    std::vector<Size> list;
    expect("[");
    if (take("]")) return list;
    do list.push_back(size());
    while (take(","));
    expect("]");
    return list;
  }

  Type type() {
    const size_t bracket = std::min(rest_.find('['), rest_.size());
    const std::string_view word = rest_.substr(0, bracket);
    Type type;
    try {
      type.dtype = dtype_from_name(word);
    } catch (const ValueError&) {
      wrong_here("expected a dtype");
    }
    rest_.remove_prefix(bracket);
    type.shape = sizes();
    if (type.shape.size() > kMaxDims) {
      wrong(concat(type.shape.size(), " dimensions are more than ", kMaxDims));
    }
    Shape fixed;
    for (const Size& size : type.shape) {
      if (size.fixed < 0) wrong(concat("a negative size: ", size.fixed));
      fixed.push_back(std::max(size.of_batch, size.fixed));
    }
    try {
      numel_of(fixed);
    } catch (const ShapeError& e) {
      wrong(e.message());
    }
    return type;
  }

  /// An integer, real number or true or false.
  Attribute number() {
    if (take("true")) return true;
    if (take("false")) return false;
    const size_t length = std::min(rest_.find_first_of(",]) "), rest_.size());
    const std::string_view word = rest_.substr(0, length);
    const bool whole = word.find_first_of(".enfia") == std::string_view::npos;
    if (whole) return size();
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + length, value);
    if (error != std::errc() || end != rest_.data() + length) wrong_here("expected a number");
    rest_.remove_prefix(length);
    return value;
  }

  Attribute attribute() {
    if (rest_.starts_with('[')) return sizes();
    if (!take("\"")) return number();
    const size_t end = rest_.find('"');
    if (end == std::string_view::npos) wrong("a word does not end");
    std::string word(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return word;
  }

  void define(std::string_view mark, Value value) {
    std::string key = concat(mark, value.name);
    const int at = static_cast<int>(graph_.values.size());
    if (!numbers_.emplace(std::move(key), at).second) {
      wrong(concat(mark, value.name, " is defined twice"));
    }
    graph_.add(std::move(value));
  }

  /// %name or @name of a value that is defined.
  int reference() {
    const std::string_view mark = rest_.substr(0, 1);
    if (mark != "%" && mark != "@") wrong_here("expected % or @");
    rest_.remove_prefix(1);
    const std::string key = concat(mark, name());
    const auto found = numbers_.find(key);
    if (found == numbers_.end()) wrong(concat(key, " is not defined before its use"));
    return found->second;
  }

  void entry(Origin origin) {
    expect("@");
    Value value{.name = std::string(name()), .origin = origin};
    expect(": ");
    value.type = type();
    for (const Size& size : value.type.shape) {
      if (size.of_batch != 0) wrong("a tensor of the program cannot depend on the batch");
    }
    if (origin == Origin::kConstant && take(" = ")) value.tensor = constant(value.type);
    define("@", std::move(value));
  }

  /// A tensor of one element.
  Tensor constant(const Type& type) {
    Shape shape;
    for (const Size& size : type.shape) shape.push_back(size.fixed);
    if (numel_of(shape) != 1) wrong(concat("one number for ", to_text(type)));
    const Attribute a = number();
    const TensorOptions options{.dtype = type.dtype};
    if (const auto* truth = std::get_if<bool>(&a); truth != nullptr && type.dtype == kBool) {
      return full(shape, *truth, options);
    }
    if (const auto* real = std::get_if<double>(&a); real != nullptr && is_floating(type.dtype)) {
      return full(shape, *real, options);
    }
    const auto* whole = std::get_if<Size>(&a);
    if (whole == nullptr || whole->of_batch != 0 || !is_integer(type.dtype)) {
      wrong(concat("this is no number of ", type.dtype));
    }
    return full(shape, whole->fixed, options);
  }

  static bool fits(AttributeKind kind, const Attribute& a) {
    switch (kind) {
      case AttributeKind::kBool: return std::holds_alternative<bool>(a);
      case AttributeKind::kInteger: return std::holds_alternative<Size>(a);
      case AttributeKind::kReal: return std::holds_alternative<double>(a);
      case AttributeKind::kList: return std::holds_alternative<std::vector<Size>>(a);
      case AttributeKind::kWord: return std::holds_alternative<std::string>(a);
      case AttributeKind::kMaybeInteger: {
        const auto* const word = std::get_if<std::string>(&a);
        return std::holds_alternative<Size>(a) || (word != nullptr && *word == "none");
      }
      case AttributeKind::kNumber: break;
    }
    return std::holds_alternative<Size>(a) || std::holds_alternative<double>(a) ||
           std::holds_alternative<bool>(a);
  }

  /// "%name: type = op(inputs, attributes) {group}  # place"
  void node() {
    expect("%");
    Value value{.name = std::string(name()), .origin = Origin::kNode};
    expect(": ");
    value.type = type();
    expect(" = ");
    const std::string op(name());
    Node node;
    std::vector<std::string> names;
    expect("(");
    if (!take(")")) {
      do {
        const bool is_tensor =
            rest_.starts_with('%') || rest_.starts_with('@') || rest_.starts_with("none");
        if (is_tensor) {
          if (!names.empty()) wrong("a tensor after an attribute");
          node.inputs.push_back(take("none") ? -1 : reference());
        } else {
          names.emplace_back(name());
          expect("=");
          node.attributes.push_back(attribute());
        }
      } while (take(", "));
      expect(")");
    }
    node.op = find_op(op, names);
    if (node.op == nullptr) {
      wrong(concat("no op \"", op, "\" with ",
                   names.empty() ? std::string("no attributes") : "these attributes"));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      if (!fits(node.op->attributes[i].kind, node.attributes[i])) {
        wrong(concat(op, ": ", names[i], " has a value of the wrong type"));
      }
    }
    if (!node.op->takes(node.inputs.size())) {
      wrong(concat(op, " does not take ", node.inputs.size(), " tensors"));
    }
    if (take(" {")) {
      const int64_t group = integer();
      if (group < 1 || group > INT_MAX) wrong(concat("a group is from 1 to ", INT_MAX));
      node.group = static_cast<int>(group);
      expect("}");
    }
    if (take("  # ")) node.place = std::string(std::exchange(rest_, {}));
    node.output = static_cast<int>(graph_.values.size());
    define("%", std::move(value));
    graph_.nodes.push_back(std::move(node));
  }

  /// One line; true if it is that of the outputs.
  bool line() {
    if (take("input %")) {
      Value value{.name = std::string(name()), .origin = Origin::kInput};
      expect(": ");
      value.type = type();
      for (const Size& size : value.type.shape) has_batch_ |= size.of_batch != 0;
      graph_.inputs.push_back(static_cast<int>(graph_.values.size()));
      define("%", std::move(value));
    } else if (take("param ")) {
      entry(Origin::kParameter);
    } else if (take("buffer ")) {
      entry(Origin::kBuffer);
    } else if (take("const ")) {
      entry(Origin::kConstant);
    } else if (take("output ")) {
      do graph_.outputs.push_back(reference());
      while (take(", "));
      if (!rest_.empty()) wrong_here("expected the end of the line");
      return true;
    } else {
      node();
    }
    if (!rest_.empty()) wrong_here("expected the end of the line");
    return false;
  }

  std::string_view text_, name_, rest_;
  size_t at_ = 0;
  int number_ = 0;
  Graph graph_;
  std::unordered_map<std::string, int> numbers_;  // "%0" → 0
  bool has_batch_ = false, uses_batch_ = false;
};

}  // namespace

bool is_name(std::string_view text) { return !text.empty() && name_length(text) == text.size(); }

Graph parse(std::string_view text, std::string_view name) { return Parser(text, name).graph(); }

}  // namespace lathe::jit
