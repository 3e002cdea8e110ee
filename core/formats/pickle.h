// Python's pickle format, as far as PyTorch's state dicts use it, read as plain data: texts,
// numbers, tuples, lists, dictionaries. A pickle is a program. This reader runs only the
// instructions that build such values. A name of a function or class must be on the caller's list,
// and a call of one is not made but returned as data. Everything else is refused.
// ref: Python's pickletools.py (protocols 2 to 5).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::pickle {

enum class Kind : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kText,
  kTuple,
  kList,
  kDict,        // collections.OrderedDict too
  kGlobal,      // a name of the caller's list: "torch FloatStorage"
  kCall,        // a call of a name, with arguments, or an object of a class; neither is made
  kPersistent,  // an object stored elsewhere in the file: one value that describes it
  kMark,        // only between instructions
};

/// A value of a document: a small handle into the document.
struct Value {
  Kind kind = Kind::kNone;
  uint32_t count = 0;  // texts: bytes; tuples: items
  union {
    int64_t integer = 0;  // kBool too
    double real;          // kFloat
    uint64_t at;          // texts: offset in the pickle; names: place in the caller's list; lists
                          // and dictionaries: their number
    const Value* items;   // of tuples, calls and persistent values
  };
};

/// The values of a pickle. They refer to the document, which must outlive them.
class Document {
 public:
  /// Reads a pickle of protocol 5 or below.
  ///   globals      the names that may occur, as "module name"; they must outlive the document
  ///   limit_bytes  the most memory that the values may take
  ///   file         stands for the file in messages
  /// throws: DataError that names the file, the byte, and the instruction or name.
  Document(std::string text, std::span<const std::string_view> globals, int64_t limit_bytes,
           std::string_view file);

  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  Value root() const { return root_; }
  /// The bytes of memory that the values take, without the pickle itself.
  int64_t kept_bytes() const { return kept_bytes_; }

  /// The bytes of a text or a name ("module name").
  std::string_view text(Value value) const;
  /// Tuples and lists: the items. Dictionaries: key, value, key, value, … in order. Calls: the name
  /// and the tuple of arguments. Persistent values: one item. Others: none.
  std::span<const Value> items(Value value) const;

 private:
  friend class Reader;

  std::string text_;
  std::span<const std::string_view> globals_;
  std::vector<std::unique_ptr<Value[]>> blocks_;  // items of tuples, calls and persistent values
  std::deque<std::vector<Value>> containers_;     // lists and dictionaries, which grow
  int64_t kept_bytes_ = 0;
  Value root_;
};

/// "an integer", "a dictionary", …: what a value is, for messages.
std::string_view name_of(Kind kind);

}  // namespace lathe::pickle
