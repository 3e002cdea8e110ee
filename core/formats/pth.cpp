// Reading of PyTorch's state dicts: find_section() chooses the dictionary, Tensors builds what it
// contains.
#include "lathe/core/formats/pth.h"

#include <algorithm>
#include <map>
#include <vector>

#include "lathe/core/checked_size.h"
#include "lathe/core/formats/pickle.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/tensor_bytes.h"
#include "lathe/core/formats/zip.h"

namespace lathe::pth {

namespace {

using pickle::Kind;
using pickle::Value;
using safetensors::in_quotes;

constexpr std::string_view kPickleName = "/data.pkl";
constexpr int64_t kMostPickleBytes = int64_t{256} << 20;
constexpr int kMostDictionaries = 100;  // of the outermost one, in the search for a state dict
constexpr std::string_view kSections[] = {"state_dict", "model_state_dict", "model"};

constexpr std::string_view kRebuildTensor = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils _rebuild_parameter";

struct StorageType {
  std::string_view name;
  DType dtype;
};
constexpr StorageType kStorageTypes[] = {
    {"torch BoolStorage", kBool},  {"torch ByteStorage", kU8},       {"torch CharStorage", kI8},
    {"torch ShortStorage", kI16},  {"torch IntStorage", kI32},       {"torch LongStorage", kI64},
    {"torch HalfStorage", kF16},   {"torch BFloat16Storage", kBF16}, {"torch FloatStorage", kF32},
    {"torch DoubleStorage", kF64},
};

/// All names that a pickle may contain. Trainers save the arguments of their call, a Namespace,
/// beside the state dict; nothing looks at it.
constexpr std::string_view kGlobals[] = {
    "argparse Namespace",
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    "torch BoolStorage",
    "torch ByteStorage",
    "torch CharStorage",
    "torch ShortStorage",
    "torch IntStorage",
    "torch LongStorage",
    "torch HalfStorage",
    "torch BFloat16Storage",
    "torch FloatStorage",
    "torch DoubleStorage",
};

/// Makes the tensors that a pickle describes. Each storage is read once.
class Tensors {
 public:
  Tensors(const zip::Archive& archive, const pickle::Document& document, std::string_view folder)
      : archive_(archive), document_(document), folder_(folder) {
    const zip::Entry* order = archive.find(concat(folder_, "/byteorder"));
    if (order == nullptr) return;  // PyTorch before 2.1: the machine's order, taken as little
    const std::string text = zip::read_all(archive, *order, 16);
    LATHE_CHECK(DataError, text == "little" || text == "big", archive.source().name(),
                ": entry \"byteorder\" says ", in_quotes(text));
    big_endian_ = text == "big";
  }

  bool is_tensor(Value value) const {
    if (value.kind != Kind::kCall) return false;
    const std::string_view name = document_.text(document_.items(value)[0]);
    return name == kRebuildTensor || name == kRebuildParameter;
  }

  /// `what` is "x.pth: entry \"fc.weight\"".   throws: DataError.
  Tensor make(Value value, const std::string& what) {
    const auto* arguments = &document_.items(value)[1];
    if (document_.text(document_.items(value)[0]) == kRebuildParameter) {
      const auto parameter = document_.items(*arguments);  // (tensor, requires_grad, hooks)
      const bool holds_tensor = parameter.size() >= 1 && is_tensor(parameter[0]) &&
                                document_.text(document_.items(parameter[0])[0]) == kRebuildTensor;
      LATHE_CHECK(DataError, holds_tensor, what, " is a parameter without a tensor");
      arguments = &document_.items(parameter[0])[1];
    }
    // (storage, storage_offset, size, stride, requires_grad, backward_hooks[, metadata])
    const auto parts = document_.items(*arguments);
    const bool complete = parts.size() >= 4 && parts[0].kind == Kind::kPersistent &&
                          parts[1].kind == Kind::kInt && parts[2].kind == Kind::kTuple &&
                          parts[3].kind == Kind::kTuple;
    LATHE_CHECK(DataError, complete, what, " is a tensor whose description is not understood");
    const Tensor& storage = storage_of(parts[0], what);
    return view_of_storage(storage, parts[1].integer, dims_of(parts[2], what, "size"),
                           dims_of(parts[3], what, "stride"), what);
  }

 private:
  Dims dims_of(Value tuple, const std::string& what, const char* name) const {
    const auto items = document_.items(tuple);
    LATHE_CHECK(DataError, items.size() <= static_cast<size_t>(kMaxDims), what, " has ",
                items.size(), " dimensions, more than ", kMaxDims);
    Dims out;
    for (const Value item : items) {
      LATHE_CHECK(DataError, item.kind == Kind::kInt && item.integer >= 0, what, " has a ", name,
                  " that is not a number of 0 or more");
      out.push_back(item.integer);
    }
    return out;
  }

  /// The storage that ("storage", type, key, location, numel) describes, as a 1-d tensor.
  const Tensor& storage_of(Value persistent, const std::string& what) {
    const auto id = document_.items(document_.items(persistent)[0]);
    const bool complete = id.size() == 5 && document_.text(id[0]) == "storage" &&
                          id[1].kind == Kind::kGlobal && id[2].kind == Kind::kText &&
                          id[4].kind == Kind::kInt;
    LATHE_CHECK(DataError, complete, what, " has a storage whose description is not understood");
    const std::string_view key = document_.text(id[2]), type = document_.text(id[1]);
    const auto* known = std::ranges::find(kStorageTypes, type, &StorageType::name);
    LATHE_CHECK(DataError, known != std::end(kStorageTypes), what, " has a storage of the type ",
                in_quotes(type));
    auto found = storages_.find(key);
    if (found == storages_.end()) {
      found = storages_.emplace(key, read_storage(key, known->dtype, id[4].integer, what)).first;
    }
    const Tensor& out = found->second;
    LATHE_CHECK(DataError, out.dtype() == known->dtype && out.numel() == id[4].integer, what,
                " takes storage ", in_quotes(key), " as ", known->dtype, "[", id[4].integer,
                "], another entry as ", out.dtype(), out.shape());
    return out;
  }

  Tensor read_storage(std::string_view key, DType dtype, int64_t numel, const std::string& what) {
    const zip::Entry* entry = archive_.find(concat(folder_, "/data/", key));
    LATHE_CHECK(DataError, entry != nullptr, what, ": the archive has no storage ", in_quotes(key));
    const auto size = static_cast<int64_t>(size_of(dtype));
    LATHE_CHECK(DataError, entry->bytes % size == 0 && entry->bytes / size == numel, what,
                ": storage ", in_quotes(key), " has ", entry->bytes, " bytes, which is not ", dtype,
                "[", numel, "]");
    const Tensor out = empty({numel}, {.dtype = dtype});
    zip::EntryReader reader(archive_, *entry);
    if (numel > 0) reader.read(out.raw_data(), entry->bytes);
    reader.finish();
    if (big_endian_ && numel > 0) swap_bytes(out.raw_data(), numel, size_of(dtype));
    if (dtype == kBool && numel > 0) check_bools(out.raw_data(), numel, what);
    return out;
  }

  const zip::Archive& archive_;
  const pickle::Document& document_;
  std::string folder_;
  bool big_endian_ = false;
  std::map<std::string_view, Tensor> storages_;
};

/// The value under a text key of a dictionary; null if there is none.
const Value* find_key(const pickle::Document& document, Value dictionary, std::string_view key) {
  const auto items = document.items(dictionary);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind == Kind::kText && document.text(items[i]) == key) return &items[i + 1];
  }
  return nullptr;
}

/// "\"epoch\", \"optimizer\", …": what a dictionary holds, for messages.
std::string keys_of(const pickle::Document& document, Value dictionary) {
  constexpr size_t kMost = 10;
  const auto items = document.items(dictionary);
  std::string out;
  for (size_t i = 0; i + 1 < items.size() && i < 2 * kMost; i += 2) {
    out += concat(i == 0 ? "" : ", ", in_quotes(document.text(items[i])));
  }
  return out + (items.size() > 2 * kMost ? ", …" : "");
}

/// How many tensors a value holds as a dictionary.
size_t tensors_in(const pickle::Document& document, const Tensors& tensors, Value value) {
  if (value.kind != Kind::kDict) return 0;
  const auto items = document.items(value);
  size_t count = 0;
  for (size_t i = 1; i < items.size(); i += 2) count += tensors.is_tensor(items[i]) ? 1 : 0;
  return count;
}

/// The section that pth.h chooses by itself; null: the file's outermost dictionary.
/// throws: SectionError if several may be meant.
const Value* usual_section(const pickle::Document& document, const Tensors& tensors,
                           std::string_view file) {
  const Value root = document.root();
  for (const std::string_view name : kSections) {
    const Value* found = find_key(document, root, name);
    if (found != nullptr && found->kind == Kind::kDict) return found;
  }
  const size_t beside = tensors_in(document, tensors, root);  // a random state, for instance
  const auto items = document.items(root);
  std::vector<size_t> found;
  int dictionaries = 0;
  // A hostile file may name one large dictionary many times.
  for (size_t i = 0; i + 1 < items.size() && dictionaries < kMostDictionaries; i += 2) {
    if (items[i].kind != Kind::kText || items[i + 1].kind != Kind::kDict) continue;
    ++dictionaries;
    if (tensors_in(document, tensors, items[i + 1]) > beside) found.push_back(i);
  }
  if (found.size() > 1) {
    std::string names;
    for (const size_t i : found)
      names += concat(names.empty() ? "" : ", ", in_quotes(document.text(items[i])));
    LATHE_FAIL(SectionError, file, ": holds ", found.size(), " dictionaries of tensors, of which ",
               "one must be named as the section to read: ", names);
  }
  return found.empty() ? nullptr : &items[found[0] + 1];
}

/// The dictionary that holds the tensors, by the rule of pth.h.
Value find_section(const pickle::Document& document, const Tensors& tensors,
                   const std::string& section, std::string_view file) {
  Value at = document.root();
  LATHE_CHECK(DataError, at.kind == Kind::kDict, file, ": holds ",
              tensors.is_tensor(at) ? "a single tensor" : pickle::name_of(at.kind),
              " and not a state dict, which is a dictionary of tensors");
  for (size_t begin = 0; !section.empty() && begin <= section.size();) {
    const size_t end = std::min(section.find('.', begin), section.size());
    const Value* next =
        find_key(document, at, std::string_view(section).substr(begin, end - begin));
    LATHE_CHECK(SectionError, next != nullptr && next->kind == Kind::kDict, file,
                ": has no dictionary ", in_quotes(section), "; there is: ", keys_of(document, at));
    at = *next;
    begin = end + 1;
  }
  if (!section.empty()) return at;
  if (const Value* found = usual_section(document, tensors, file); found != nullptr) return *found;
  if (document.items(at).empty() || tensors_in(document, tensors, at) > 0) return at;
  LATHE_FAIL(SectionError, file,
             ": holds no tensors but these values, one of which may be named as "
             "the section to read: ",
             keys_of(document, at));
}

/// The folder in which everything in the archive lies: the file's name when it was saved.
std::string folder_of(const zip::Archive& archive) {
  const std::string& file = archive.source().name();
  const zip::Entry* found = nullptr;
  for (const zip::Entry& entry : archive.entries()) {
    const std::string_view name = entry.name;
    if (!name.ends_with(kPickleName) || name.find('/') != name.size() - kPickleName.size())
      continue;
    LATHE_CHECK(DataError, found == nullptr, file, ": has two pickles, ", in_quotes(found->name),
                " and ", in_quotes(name));
    found = &entry;
  }
  LATHE_CHECK(DataError, found != nullptr, file,
              ": is a zip archive without a pickle \"…/data.pkl\", so not one of torch.save");
  return found->name.substr(0, found->name.size() - kPickleName.size());
}

/// Refuses files of PyTorch before 1.6, which are several pickles one after another.
void check_is_zip(const ByteSource& source) {
  char first[4] = {};
  source.read(first, std::min<int64_t>(source.size(), 4), 0);
  LATHE_CHECK(DataError, static_cast<unsigned char>(first[0]) != 0x80, source.name(),
              ": is in the format of PyTorch before 1.6 (or a bare pickle), which is not read; "
              "save it again: torch.save(torch.load(path), path) with a newer PyTorch");
}

StateDict read_source(const ByteSource& source, const ReadOptions& options) {
  check_is_zip(source);
  const zip::Archive archive(source);
  const std::string& file = source.name();
  const std::string folder = folder_of(archive);
  const zip::Entry& pickle = *archive.find(concat(folder, kPickleName));
  // All that is allocated: four times the file and 1 MiB. Subtracts what is taken already.
  constexpr int64_t kDirectoryEntryBytes = 160, kTensorBytes = 512, kSlack = int64_t{640} << 10;
  const int64_t limit_bytes = 4 * source.size() + kSlack - std::min(pickle.bytes, source.size()) -
                              kDirectoryEntryBytes * static_cast<int64_t>(archive.entries().size());
  const pickle::Document document(zip::read_all(archive, pickle, kMostPickleBytes), kGlobals,
                                  limit_bytes, file);
  Tensors tensors(archive, document, folder);
  const auto items = document.items(find_section(document, tensors, options.section, file));
  const auto count = static_cast<int64_t>(items.size() / 2);
  LATHE_CHECK(DataError, count * kTensorBytes <= limit_bytes - document.kept_bytes(), file, ": ",
              count, " entries are too many for a file of ", source.size(), " bytes");
  // Strides of 0 make a tensor of any size from one value, and many tensors may share a storage.
  constexpr int64_t kAlwaysBytes = int64_t{64} << 20, kTimesTheFile = 32;
  const int64_t most_bytes = kAlwaysBytes + kTimesTheFile * source.size();
  CheckedSize bytes = 0;
  StateDict out;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    LATHE_CHECK(DataError, items[i].kind == Kind::kText, file, ": a key is ",
                pickle::name_of(items[i].kind), " instead of a text");
    const std::string_view name = document.text(items[i]);
    const std::string what = concat(file, ": entry ", in_quotes(name));
    LATHE_CHECK(DataError, tensors.is_tensor(items[i + 1]), what, " is ",
                pickle::name_of(items[i + 1].kind), ", not a tensor");
    LATHE_CHECK(DataError, !out.contains(name), what, " appears twice");
    Tensor tensor = tensors.make(items[i + 1], what);
    bytes += tensor.bytes();
    const int64_t so_far = bytes.value_or_throw<DataError>(what, " is too large");
    LATHE_CHECK(DataError, so_far <= most_bytes, what,
                ": with it the tensors, some of which lie in the same storage, have ", so_far,
                " bytes; from a file of ", source.size(), " at most ", most_bytes, " are read");
    out.add(std::string(name), std::move(tensor));
  }
  return out;
}

}  // namespace

StateDict read(const std::string& path, const ReadOptions& options) {
  return read_source(ByteSource(path), options);
}

StateDict parse(std::span<const std::byte> bytes, std::string_view name,
                const ReadOptions& options) {
  return read_source(ByteSource(bytes, name), options);
}

}  // namespace lathe::pth
