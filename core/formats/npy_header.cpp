// The header of a .npy file. The literal is a dictionary of three keys whose values are a text, a
// truth value and a tuple of integers; no other Python is understood.
#include "lathe/core/formats/npy_header.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors_header.h"

namespace lathe::npy {

namespace {

using safetensors::in_quotes;

struct TypeCode {
  std::string_view code;
  DType dtype;
};
constexpr TypeCode kTypeCodes[] = {
    {"b1", kBool}, {"u1", kU8},  {"i1", kI8},  {"i2", kI16}, {"i4", kI32},
    {"i8", kI64},  {"f2", kF16}, {"f4", kF32}, {"f8", kF64},
};

class LiteralReader {
 public:
  LiteralReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Header read() {
    expect('{', "the header does not begin with '{'");
    while (!accept('}')) {
      const std::string_view key = text("a key");
      expect(':', "there is no ':' behind a key");
      if (key == "descr") {
        once(kDescr, key);
        read_descr();
      } else if (key == "fortran_order") {
        once(kOrder, key);
        out_.fortran_order = truth();
      } else if (key == "shape") {
        once(kShape, key);
        read_shape();
      } else {
        fail("unknown key ", in_quotes(key));
      }
      if (!accept(',')) {
        expect('}', "there is neither ',' nor '}' behind a value");
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) fail("text follows the dictionary");
    for (const auto& [bit, key] :
         {std::pair(kDescr, "descr"), {kOrder, "fortran_order"}, {kShape, "shape"}}) {
      if (!(seen_ & bit)) fail("there is no key \"", key, "\"");
    }
    return out_;
  }

 private:
  enum Key : unsigned { kDescr = 1, kOrder = 2, kShape = 4 };

  template <class... Args>
  [[noreturn]] void fail(const Args&... args) {
    LATHE_FAIL(DataError, file_, ": header, byte ", at_, ": ", args...);
  }

  void once(Key key, std::string_view name) {
    if (seen_ & key) fail("key ", in_quotes(name), " appears twice");
    seen_ |= key;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c, const char* otherwise) {
    if (!accept(c)) fail(otherwise);
  }

  std::string_view text(const char* what) {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected ", what, " in quotes");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a text has no end");
    const std::string_view out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out;
  }

  bool truth() {
    skip_blanks();
    for (const auto& [word, value] : {std::pair("True", true), {"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::string_view(word).size();
        return value;
      }
    }
    fail("\"fortran_order\" is neither True nor False");
  }

  void read_descr() {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[') {
      fail("an array of records (structured dtype) cannot be read");
    }
    const std::string_view descr = text("a dtype");
    const std::string_view code = descr.substr(std::min<size_t>(descr.size(), 1));
    const char order = descr.empty() ? '\0' : descr[0];
    if (code.starts_with('O')) {
      fail("dtype ", in_quotes(descr), " is Python objects, which are never loaded");
    }
    const auto found = std::ranges::find(kTypeCodes, code, &TypeCode::code);
    const bool known = found != std::end(kTypeCodes) &&
                       std::string_view("<>|=").find(order) != std::string_view::npos &&
                       (order != '|' || size_of(found->dtype) == 1);
    if (!known) fail("dtype ", in_quotes(descr), " is not one that lathe has");
    out_.dtype = found->dtype;
    out_.big_endian = order == '>';
  }

  void read_shape() {
    expect('(', "\"shape\" is not a tuple");
    bool comma = true;
    while (!accept(')')) {
      if (!comma) fail("there is neither ',' nor ')' behind a size");
      if (out_.shape.size() == kMaxDims) fail("the shape has more than ", kMaxDims, " dimensions");
      out_.shape.push_back(size());
      comma = accept(',');
    }
    if (out_.shape.size() == 1 && !comma) fail("\"shape\" is not a tuple");
  }

  int64_t size() {
    skip_blanks();
    const size_t begin = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        fail("a size is too large");
      }
    }
    if (at_ == begin) fail("a size is not a number of 0 or more");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote integers
    return value;
  }

  std::string_view text_, file_;
  size_t at_ = 0;
  unsigned seen_ = 0;
  Header out_;
};

}  // namespace

Header parse_header(std::string_view literal, std::string_view file) {
  return LiteralReader(literal, file).read();
}

std::string format_header(const Header& header) {
  const std::string_view code = std::ranges::find(kTypeCodes, header.dtype, &TypeCode::dtype)->code;
  std::string shape;
  for (const int64_t size : header.shape) shape += concat(size, ", ");
  if (header.shape.size() > 1) shape.resize(shape.size() - 2);
  if (header.shape.size() == 1) shape.pop_back();
  std::string literal = concat("{'descr': '", size_of(header.dtype) == 1 ? "|" : "<", code,
                               "', 'fortran_order': ", header.fortran_order ? "True" : "False",
                               ", 'shape': (", shape, "), }");
  constexpr size_t kBefore = 10, kAlignment = 64;
  const size_t unpadded = kBefore + literal.size() + 1;
  literal.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  literal += '\n';
  const size_t n = literal.size();
  return concat("\x93NUMPY\1", '\0', static_cast<char>(n & 0xff), static_cast<char>(n >> 8)) +
         literal;
}

}  // namespace lathe::npy
