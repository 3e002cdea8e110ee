// Reading of the archive: find_folder() and the program, then Payloads: the tensors.
#include "lathe/graph/pt2/pt2_file.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "lathe/core/checked_size.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/pth.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/tensor_bytes.h"
#include "lathe/core/formats/zip.h"

namespace lathe::jit::pt2 {

namespace {

using safetensors::in_quotes;

constexpr int64_t kMostJsonBytes = int64_t{256} << 20;

/// The folder of the archive and the name of its model: "resnet18/", "model".
struct Place {
  std::string folder, model;
};

Place find_program(const zip::Archive& archive) {
  const std::string& file = archive.source().name();
  std::vector<Place> found;
  bool is_compiled = false, is_old = false;
  for (const zip::Entry& entry : archive.entries()) {
    const std::string_view name = entry.name;
    const size_t slash = name.find('/');
    if (name.ends_with("serialized_exported_program.json")) is_old = true;
    if (slash == std::string_view::npos) continue;
    const std::string_view rest = name.substr(slash + 1);
    if (rest.starts_with("data/aotinductor/")) is_compiled = true;
    constexpr std::string_view kFolder = "models/", kEnding = ".json";
    if (!rest.starts_with(kFolder) || !rest.ends_with(kEnding)) continue;
    const std::string_view model =
        rest.substr(kFolder.size(), rest.size() - kFolder.size() - kEnding.size());
    found.push_back({std::string(name.substr(0, slash + 1)), std::string(model)});
  }
  LATHE_CHECK(DataError, !is_old || !found.empty(), file,
              ": was exported by PyTorch before 2.8, whose format is not read; export the model "
              "again with a newer PyTorch: torch.export.save(torch.export.export(…), path)");
  LATHE_CHECK(DataError, !is_compiled || !found.empty(), file,
              ": holds a model that AOTInductor compiled, which cannot be trained; save the "
              "exported program itself: torch.export.save(torch.export.export(…), path)");
  LATHE_CHECK(DataError, !found.empty(), file,
              ": is a zip archive without a program \"…/models/model.json\", so not one of "
              "torch.export.save");
  LATHE_CHECK(DataError, found.size() == 1, file, ": holds ", found.size(), " programs, ",
              in_quotes(found[0].model), " and ", in_quotes(found.back().model),
              " among them; one is expected");
  return found[0];
}

std::string read_entry(const zip::Archive& archive, const std::string& name) {
  const zip::Entry* const entry = archive.find(name);
  LATHE_CHECK(DataError, entry != nullptr, archive.source().name(), ": has no entry ",
              in_quotes(name));
  // PyTorch does not compress: no entry is larger than the archive.
  return zip::read_all(archive, *entry, std::min(kMostJsonBytes, archive.source().size()));
}

/// What the tensors of a file may take. Strides of 0 make a tensor of any size from one value, many
/// tensors may share a storage, and a storage may be compressed.
class Budget {
 public:
  explicit Budget(int64_t file_bytes)
      : file_(file_bytes), most_((int64_t{64} << 20) + int64_t{32} * file_bytes) {}

  /// throws: DataError that begins with `what`.
  void spend(int64_t bytes, const std::string& what) {
    spent_ += bytes;
    const int64_t so_far = spent_.value_or_throw<DataError>(what, " is too large");
    LATHE_CHECK(DataError, so_far <= most_, what, ": with it the tensors and their storages have ",
                so_far, " bytes; from a file of ", file_, " at most ", most_, " are read");
  }

 private:
  int64_t file_, most_;
  CheckedSize spent_ = 0;
};

/// The tensors of one folder, "resnet18/data/weights/". Each storage is read once.
class Payloads {
 public:
  Payloads(const zip::Archive& archive, const Place& at, const std::string& kind, bool big_endian)
      : archive_(archive), folder_(concat(at.folder, "data/", kind, "/")), big_endian_(big_endian) {
    const std::string saved = concat(folder_, at.model, ".pt");
    if (const zip::Entry* const entry = archive.find(saved); entry != nullptr) {
      const std::string bytes = zip::read_all(archive, *entry, archive.source().size());
      saved_ = pth::parse(std::as_bytes(std::span(bytes)), concat(file(), ": ", saved));
      return;
    }
    const std::string name = concat(folder_, at.model, "_", kind, "_config.json");
    const std::string what = concat(file(), ": entry ", in_quotes(name));
    for (Payload& payload : parse_payloads(read_entry(archive, name), what)) {
      std::string key = payload.name;
      LATHE_CHECK(DataError, table_.emplace(std::move(key), std::move(payload)).second, what,
                  " has a name twice");
    }
  }

  /// The tensor of an input of the program; undefined if there is none.
  /// `what` is "x.pt2: \"fc.weight\"".
  /// throws: DataError.
  Tensor find(const Input& input, Budget& budget, const std::string& what) {
    const std::string& name = input.name;
    const Tensor* const saved = saved_.find(name);
    const auto found = table_.find(name);
    if (saved == nullptr && found == table_.end()) return {};
    const Shape& shape = saved != nullptr ? saved->shape() : found->second.shape;
    CheckedSize elements = size_of(saved != nullptr ? saved->dtype() : found->second.dtype);
    for (const int64_t size : shape) elements *= size;
    budget.spend(elements.value_or_throw<DataError>(what, ": the size of ", shape, " overflows"),
                 what);
    const bool is_parameter = input.kind == InputKind::kParameter;
    if (saved != nullptr) return own(*saved, is_parameter);
    const Payload& payload = found->second;
    return own(view_of_storage(storage_of(payload, budget, what), payload.offset, payload.shape,
                               payload.strides, what),
               is_parameter);
  }

 private:
  const std::string& file() const { return archive_.source().name(); }

  /// One Tensor for all parameters that are one storage with one type, another for all buffers.
  Tensor own(const Tensor& t, bool is_parameter) {
    const Key key{t.impl().storage.get(), t.dtype(),  t.shape().vector(),
                  t.strides().vector(),   t.offset(), is_parameter};
    const auto [found, is_new] = tensors_.try_emplace(key);
    if (is_new)
      found->second =
          has_overlap(t) ? dense_on_cpu(t) : alias(t, t.shape(), t.strides(), t.offset());
    return found->second;
  }

  const Tensor& storage_of(const Payload& payload, Budget& budget, const std::string& what) {
    Tensor& out = storages_[payload.entry];
    if (!out.defined()) out = read_storage(payload, budget, what);
    LATHE_CHECK(DataError, out.dtype() == payload.dtype, what, " takes ", in_quotes(payload.entry),
                " as ", payload.dtype, ", another entry as ", out.dtype());
    return out;
  }

  Tensor read_storage(const Payload& payload, Budget& budget, const std::string& what) {
    const zip::Entry* const entry = archive_.find(folder_ + payload.entry);
    LATHE_CHECK(DataError, entry != nullptr, what, ": the archive has no entry ",
                in_quotes(folder_ + payload.entry));
    const auto size = static_cast<int64_t>(size_of(payload.dtype));
    LATHE_CHECK(DataError, entry->bytes % size == 0, what, ": ", in_quotes(payload.entry), " has ",
                entry->bytes, " bytes, which is no number of elements of ", payload.dtype);
    const int64_t numel = entry->bytes / size;
    budget.spend(entry->bytes, what);
    const Tensor out = empty({numel}, {.dtype = payload.dtype});
    zip::EntryReader reader(archive_, *entry);
    if (numel > 0) reader.read(out.raw_data(), entry->bytes);
    reader.finish();
    if (numel > 0 && big_endian_) swap_bytes(out.raw_data(), numel, size_of(payload.dtype));
    if (numel > 0 && payload.dtype == kBool) check_bools(out.raw_data(), numel, what);
    return out;
  }

  using Key =
      std::tuple<const Storage*, DType, std::vector<int64_t>, std::vector<int64_t>, int64_t, bool>;

  const zip::Archive& archive_;
  std::string folder_;
  bool big_endian_;
  std::unordered_map<std::string, Payload> table_;
  StateDict saved_;  // instead of a table
  std::map<std::string, Tensor> storages_;
  std::map<Key, Tensor> tensors_;
};

bool is_big_endian(const zip::Archive& archive, const Place& at) {
  const zip::Entry* const order = archive.find(at.folder + "byteorder");
  if (order == nullptr) return false;
  const std::string text = zip::read_all(archive, *order, 16);
  LATHE_CHECK(DataError, text == "little" || text == "big", archive.source().name(),
              ": entry \"byteorder\" says ", in_quotes(text));
  return text == "big";
}

/// throws: DataError if a tensor has not the sizes that the program was exported for.
void check_shape(const Shape& shape, const std::vector<Size>& wanted, const std::string& what) {
  bool fits = static_cast<size_t>(shape.size()) == wanted.size();
  std::string text;
  for (size_t d = 0; d < wanted.size(); ++d) {
    const auto* const size = std::get_if<int64_t>(&wanted[d]);
    text += concat(d == 0 ? "" : ",", size == nullptr ? std::string("?") : concat(*size));
    if (fits && size != nullptr && shape[static_cast<int>(d)] != *size) fits = false;
  }
  LATHE_CHECK(DataError, fits, what, " has the shape ", shape, " in the file, but [", text,
              "] in the program");
}

}  // namespace

ProgramFile read_program(const ByteSource& source) {
  const zip::Archive archive(source);
  const std::string& file = source.name();
  const Place at = find_program(archive);
  ProgramFile out;
  out.program =
      parse_program(read_entry(archive, concat(at.folder, "models/", at.model, ".json")), file);
  const bool big_endian = is_big_endian(archive, at);
  Payloads weights(archive, at, "weights", big_endian);
  Payloads constants(archive, at, "constants", big_endian);
  Budget budget(source.size());
  for (const Input& input : out.program.inputs) {
    Tensor& tensor = out.tensors.emplace_back();
    if (input.kind == InputKind::kUser) continue;
    const std::string what = concat(file, ": ", in_quotes(input.name));
    tensor = weights.find(input, budget, what);
    if (!tensor.defined()) tensor = constants.find(input, budget, what);
    LATHE_CHECK(DataError, tensor.defined(), what, " is used, but has no values in the file");
    LATHE_CHECK(DataError, tensor.dtype() == input.type.dtype || input.kind == InputKind::kConstant,
                what, " is ", tensor.dtype(), " in the file, but ", input.type.dtype,
                " in the program");
    check_shape(tensor.shape(), input.type.shape, what);
  }
  return out;
}

}  // namespace lathe::jit::pt2
