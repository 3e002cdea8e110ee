// The reader of pickles: a stack machine whose instructions only build values.
#include "lathe/core/formats/pickle.h"

#include <algorithm>
#include <bit>
#include <deque>

#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors_header.h"

namespace lathe::pickle {

namespace {

using safetensors::in_quotes;

constexpr std::string_view kOrderedDict = "collections OrderedDict";
constexpr int kHighestProtocol = 5;

/// The instructions that torch.save writes: in protocol 2, its default, and from 4 on.
enum Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kPutByte = 'q',
  kPutLong = 'r',
  kGetByte = 'h',
  kGetLong = 'j',
  kGlobal = 'c',
  kReduce = 'R',
  kBuild = 'b',
  kPersistentId = 'Q',
  kNone = 'N',
  kInt32 = 'J',
  kUint8 = 'K',
  kUint16 = 'M',
  kFloat = 'G',
  kText = 'X',
  kEmptyTuple = ')',
  kTuple = 't',
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kProtocol = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kTrue = 0x88,
  kFalse = 0x89,
  kNewObject = 0x81,
  kLongInt = 0x8a,
  kShortText = 0x8c,
  kLongText = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

/// Names of instructions that other pickles contain, for messages.
std::string_view name_of_refused(uint8_t op) {
  struct Named {
    uint8_t op;
    std::string_view name;
  };
  static constexpr Named kNames[] = {
      {'0', "POP"},
      {'1', "POP_MARK"},
      {'2', "DUP"},
      {'B', "BINBYTES"},
      {'C', "SHORT_BINBYTES"},
      {'F', "FLOAT"},
      {'I', "INT"},
      {'L', "LONG"},
      {'P', "PERSID"},
      {'S', "STRING"},
      {'T', "BINSTRING"},
      {'U', "SHORT_BINSTRING"},
      {'V', "UNICODE"},
      {'d', "DICT"},
      {'g', "GET"},
      {'i', "INST"},
      {'l', "LIST"},
      {'o', "OBJ"},
      {'p', "PUT"},
      {0x82, "EXT1"},
      {0x83, "EXT2"},
      {0x84, "EXT4"},
      {0x8b, "LONG4"},
      {0x8e, "BINBYTES8"},
      {0x8f, "EMPTY_SET"},
      {0x90, "ADDITEMS"},
      {0x91, "FROZENSET"},
      {0x92, "NEWOBJ_EX"},
      {0x96, "BYTEARRAY8"},
      {0x97, "NEXT_BUFFER"},
      {0x98, "READONLY_BUFFER"},
  };
  const auto found = std::ranges::find(kNames, op, &Named::op);
  return found == std::end(kNames) ? "unknown" : found->name;
}

Value bool_value(bool value) { return {.kind = Kind::kBool, .integer = value}; }
Value int_value(int64_t value) { return {.kind = Kind::kInt, .integer = value}; }

}  // namespace

/// Runs the instructions over a stack of values.
class Reader {
 public:
  Reader(Document& out, std::span<const std::string_view> globals, int64_t limit_bytes,
         std::string_view file)
      : out_(out), text_(out.text_), globals_(globals), limit_bytes_(limit_bytes), file_(file) {}

  void run() {
    while (step()) {
    }
    if (stack_.size() != 1 || stack_.back().kind == Kind::kMark) {
      fail("the pickle ends with ", stack_.size(), " values instead of one");
    }
    if (at_ != text_.size()) fail(text_.size() - at_, " bytes follow the pickle");
    out_.root_ = stack_.back();
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(const Args&... args) {
    LATHE_FAIL(DataError, file_, ": byte ", op_at_, ": ", args...);
  }

  // --- the text ----------------------------------------------------------------------------------

  std::string_view take(uint64_t bytes) {
    if (bytes > text_.size() - at_) {
      fail("an instruction of ", bytes, " more bytes, but ", text_.size() - at_, " are left");
    }
    const std::string_view out = text_.substr(at_, bytes);
    at_ += bytes;
    return out;
  }
  uint64_t number(int bytes) {
    uint64_t value = 0;
    const std::string_view digits = take(static_cast<uint64_t>(bytes));
    for (size_t i = digits.size(); i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(digits[i]);
    }
    return value;
  }
  Value text_value(uint64_t bytes) {
    const uint64_t at = at_;
    take(bytes);
    return {.kind = Kind::kText, .count = static_cast<uint32_t>(bytes), .at = at};
  }

  // --- the stack ---------------------------------------------------------------------------------

  /// Counts memory that stays; the total is limited.
  void charge(size_t bytes) {
    out_.kept_bytes_ += static_cast<int64_t>(bytes);
    check_limit();
  }
  void check_limit(size_t copied = 0) {
    const size_t passing = (stack_.size() + memo_.size() + copied) * sizeof(Value);
    if (out_.kept_bytes_ + static_cast<int64_t>(passing) > limit_bytes_) {
      fail("the values take more memory than the limit of ", limit_bytes_, " bytes");
    }
  }
  void push(Value value) {
    stack_.push_back(value);
    check_limit();
  }
  Value pop() {
    if (stack_.empty()) fail("an instruction takes more values than there are");
    const Value value = stack_.back();
    if (value.kind == Kind::kMark) fail("an instruction takes a mark as a value");
    stack_.pop_back();
    return value;
  }
  Value& top(Kind wanted) {
    if (stack_.empty() || stack_.back().kind != wanted) {
      fail("an instruction for ", name_of(wanted), " finds ",
           stack_.empty() ? "nothing" : name_of(stack_.back().kind));
    }
    return stack_.back();
  }
  /// Removes and returns the values above the last mark, and removes the mark.
  std::vector<Value> pop_to_mark() {
    size_t begin = stack_.size();
    while (begin > 0 && stack_[begin - 1].kind != Kind::kMark) --begin;
    if (begin == 0) fail("an instruction looks for a mark that was not set");
    check_limit(stack_.size() - begin);
    std::vector<Value> values(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin - 1);
    return values;
  }

  // --- what is kept ------------------------------------------------------------------------------

  Value keep(Kind kind, std::span<const Value> items) {
    constexpr size_t kBlock = 1024;
    const size_t n = items.size();
    if (n > block_left_) {
      const size_t fresh = std::max(n, std::min(kBlock, text_.size()));
      charge(fresh * sizeof(Value));
      out_.blocks_.push_back(std::make_unique<Value[]>(fresh));
      block_ = out_.blocks_.back().get();
      block_left_ = fresh;
    }
    std::ranges::copy(items, block_);
    const Value out{.kind = kind, .count = static_cast<uint32_t>(n), .items = block_};
    block_ += n;
    block_left_ -= n;
    return out;
  }
  Value tuple_of(size_t count) {
    Value items[3];
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return keep(Kind::kTuple, std::span(items, count));
  }
  Value container(Kind kind) {
    charge(2 * sizeof(Value));  // an empty vector
    out_.containers_.emplace_back();
    return {.kind = kind, .at = out_.containers_.size() - 1};
  }
  void extend(Kind kind, std::span<const Value> items) {
    if (kind == Kind::kDict && items.size() % 2 != 0) fail("a key without a value");
    charge(3 * sizeof(Value) * items.size());  // a vector exists twice while it grows
    auto& to = out_.containers_[top(kind).at];
    to.insert(to.end(), items.begin(), items.end());
  }
  void put(uint64_t number) {
    if (stack_.empty() || stack_.back().kind == Kind::kMark) fail("there is no value to remember");
    if (number > memo_.size()) fail("memo ", number, " comes before memo ", memo_.size());
    if (number == memo_.size()) {
      memo_.emplace_back();
      check_limit();
    }
    memo_[number] = stack_.back();
  }
  void get(uint64_t number) {
    if (number >= memo_.size()) fail("memo ", number, " was not set");
    push(memo_[number]);
  }

  // --- names and calls ---------------------------------------------------------------------------

  void push_global() {
    const size_t begin = at_, middle = text_.find('\n', begin);
    const size_t end = middle == text_.npos ? middle : text_.find('\n', middle + 1);
    if (end == text_.npos) fail("a name has no end");
    push_global(text_.substr(begin, middle - begin), text_.substr(middle + 1, end - middle - 1));
    at_ = end + 1;
  }
  void push_stack_global() {
    const Value name = pop(), module = pop();
    if (module.kind != Kind::kText || name.kind != Kind::kText) {
      fail("a name made of ", name_of(module.kind), " and ", name_of(name.kind));
    }
    push_global(out_.text(module), out_.text(name));
  }
  void push_global(std::string_view module, std::string_view of_module) {
    const std::string name = concat(module, " ", of_module);
    const auto found = std::ranges::find(globals_, name);
    if (found == globals_.end()) {
      fail("refers to ", in_quotes(name),
           ", which is neither a tensor nor plain data: refused; in PyTorch, save "
           "model.state_dict() and not the model or objects");
    }
    push({.kind = Kind::kGlobal, .at = static_cast<uint64_t>(found - globals_.begin())});
  }
  void reduce() {
    const Value arguments = pop(), function = pop();
    if (arguments.kind != Kind::kTuple || function.kind != Kind::kGlobal) {
      fail("a call of ", name_of(function.kind), " with ", name_of(arguments.kind));
    }
    if (out_.text(function) == kOrderedDict) {
      if (arguments.count != 0) fail("an OrderedDict with arguments");
      push(container(Kind::kDict));
    } else {
      const Value parts[] = {function, arguments};
      push(keep(Kind::kCall, parts));
    }
  }
  /// An object of a class of the caller's list: not made, but returned as a call.
  void new_object() {
    const Value arguments = pop(), type = pop();
    if (arguments.kind != Kind::kTuple || type.kind != Kind::kGlobal) {
      fail("an object of ", name_of(type.kind), " with ", name_of(arguments.kind));
    }
    const Value parts[] = {type, arguments};
    push(keep(Kind::kCall, parts));
  }
  /// Skips attributes: of an OrderedDict, such as the versions of a state dict's modules, or of an
  /// object.
  void build() {
    if (pop().kind != Kind::kDict) fail("attributes that are no dictionary");
    if (stack_.empty() || stack_.back().kind != Kind::kCall) top(Kind::kDict);
  }

  void push_long() {
    const std::string_view digits = take(number(1));
    if (digits.size() > 8) fail("an integer of ", digits.size(), " bytes");
    uint64_t value =
        !digits.empty() && static_cast<signed char>(digits.back()) < 0 ? ~uint64_t{0} : 0;
    for (size_t i = digits.size(); i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(digits[i]);
    }
    push(int_value(static_cast<int64_t>(value)));
  }
  void push_float() {
    uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
    push({.kind = Kind::kFloat, .real = std::bit_cast<double>(bits)});
  }
  void check_protocol() {
    const uint64_t protocol = number(1);
    if (protocol > kHighestProtocol) {
      fail("pickle protocol ", protocol, " is above ", kHighestProtocol, ", the last one known");
    }
  }

  /// Runs one instruction; false after the last one.
  bool step() {
    op_at_ = at_;
    const auto op = static_cast<uint8_t>(take(1)[0]);
    switch (op) {
      case kStop: return false;
      case kProtocol: check_protocol(); break;
      case kMark: push({.kind = Kind::kMark}); break;
      case kNone: push({.kind = Kind::kNone}); break;
      case kTrue: push(bool_value(true)); break;
      case kFalse: push(bool_value(false)); break;
      case kUint8: push(int_value(static_cast<int64_t>(number(1)))); break;
      case kUint16: push(int_value(static_cast<int64_t>(number(2)))); break;
      case kInt32: push(int_value(static_cast<int32_t>(number(4)))); break;
      case kLongInt: push_long(); break;
      case kFloat: push_float(); break;
      case kText: push(text_value(number(4))); break;
      case kShortText: push(text_value(number(1))); break;
      case kLongText: push(text_value(number(8))); break;
      case kGlobal: push_global(); break;
      case kStackGlobal: push_stack_global(); break;
      case kFrame: number(8); break;  // how much to read ahead; everything is here already
      case kReduce: reduce(); break;
      case kNewObject: new_object(); break;
      case kBuild: build(); break;
      case kPersistentId: {
        const Value id = pop();
        push(keep(Kind::kPersistent, std::span(&id, 1)));
        break;
      }
      case kMemoize: put(memo_.size()); break;
      case kPutByte: put(number(1)); break;
      case kPutLong: put(number(4)); break;
      case kGetByte: get(number(1)); break;
      case kGetLong: get(number(4)); break;
      case kEmptyTuple: push(tuple_of(0)); break;
      case kTuple1: push(tuple_of(1)); break;
      case kTuple2: push(tuple_of(2)); break;
      case kTuple3: push(tuple_of(3)); break;
      case kTuple: push(keep(Kind::kTuple, pop_to_mark())); break;
      case kEmptyList: push(container(Kind::kList)); break;
      case kEmptyDict: push(container(Kind::kDict)); break;
      case kAppend: {
        const Value item = pop();
        extend(Kind::kList, std::span(&item, 1));
        break;
      }
      case kAppends: extend(Kind::kList, pop_to_mark()); break;
      case kSetItem: {
        const Value value = pop(), key = pop();
        const Value pair[] = {key, value};
        extend(Kind::kDict, pair);
        break;
      }
      case kSetItems: extend(Kind::kDict, pop_to_mark()); break;
      default:
        fail("the pickle instruction ", name_of_refused(op), " (", op,
             ") is not one that a state dict needs: refused");
    }
    return true;
  }

  Document& out_;
  std::string_view text_;
  std::span<const std::string_view> globals_;
  int64_t limit_bytes_;
  std::string_view file_;
  size_t at_ = 0, op_at_ = 0;
  std::deque<Value> stack_, memo_;
  Value* block_ = nullptr;  // where the next items go
  size_t block_left_ = 0;
};

Document::Document(std::string text, std::span<const std::string_view> globals, int64_t limit_bytes,
                   std::string_view file)
    : text_(std::move(text)), globals_(globals) {
  Reader(*this, globals, limit_bytes, file).run();
}

std::string_view Document::text(Value value) const {
  if (value.kind == Kind::kGlobal) return globals_[value.at];
  if (value.kind != Kind::kText) return {};
  return std::string_view(text_).substr(value.at, value.count);
}

std::span<const Value> Document::items(Value value) const {
  switch (value.kind) {
    case Kind::kList:
    case Kind::kDict: return containers_[value.at];
    case Kind::kTuple:
    case Kind::kCall:
    case Kind::kPersistent: return {value.items, value.count};
    default: return {};
  }
}

std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[] = {"None",   "a bool",  "an integer", "a float",
                                         "a text", "a tuple", "a list",     "a dictionary",
                                         "a name", "a call",  "a storage",  "a mark"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace lathe::pickle
