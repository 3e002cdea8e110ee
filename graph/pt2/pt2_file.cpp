// Reading of the archive: find_program() and its JSON, then Payloads: the tensors.
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
#include "lathe/core/strided_extent.h"
#include "lathe/graph/pt2/pt2_head.h"
#include "lathe/nn/init.h"
#include "lathe/ops/creation.h"

namespace lathe::jit::pt2 {

namespace {

using safetensors::in_quotes;

constexpr int64_t kMostJsonBytes = int64_t{256} << 20;
constexpr int64_t kMostKeptBytes = int64_t{4} << 20;  // of entries that are kept and not read

/// The folder of the archive and the name of its model: "resnet18/", "model".
struct Place {
  std::string folder, model;
};

/// Whether a name can be written again with more before and behind it.
bool is_plain(std::string_view name) {
  return name.size() <= 1000 && name.find('\0') == std::string_view::npos;
}

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
              ": is a zip archive without a program \"…/models/model.json\", so torch.export.save "
              "did not write it");
  LATHE_CHECK(DataError, found.size() == 1, file, ": holds ", found.size(), " programs, ",
              in_quotes(found[0].model), " and ", in_quotes(found.back().model),
              " among them; one is expected");
  LATHE_CHECK(DataError, is_plain(found[0].model), file, ": the name of its program has ",
              found[0].model.size(), " bytes, or contains a NUL byte");
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
  static constexpr int64_t kAlways = int64_t{64} << 20, kRatio = 32;

  /// throws: DataError that begins with `file`.
  Budget(CheckedSize file_bytes, const std::string& file)
      : file_(file_bytes.value_or_throw<DataError>(file, ": is too large")),
        most_((file_bytes * kRatio + kAlways).value_or_throw<DataError>(file, ": is too large")) {}

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

bool is_big_endian(const zip::Archive& archive, const Place& at) {
  const zip::Entry* const order = archive.find(at.folder + "byteorder");
  if (order == nullptr) return false;
  const std::string text = zip::read_all(archive, *order, 16);
  LATHE_CHECK(DataError, text == "little" || text == "big", archive.source().name(),
              ": entry \"byteorder\" says ", in_quotes(text));
  return text == "big";
}

/// The tensors of one folder, "resnet18/data/weights/". Each storage is read once. Without
/// `has_values` none is read: all are 0.
class Payloads {
 public:
  Payloads(const zip::Archive& archive, const Place& at, const std::string& kind, bool has_values)
      : archive_(archive),
        folder_(concat(at.folder, "data/", kind, "/")),
        has_values_(has_values),
        big_endian_(is_big_endian(archive, at)) {
    const std::string saved = concat(folder_, at.model, ".pt");
    if (const zip::Entry* const entry = archive.find(saved); entry != nullptr) {
      const std::string bytes = zip::read_all(archive, *entry, archive.source().size());
      saved_ = pth::parse(std::as_bytes(std::span(bytes)), concat(file(), ": ", saved));
      return;
    }
    const std::string name = concat(folder_, at.model, "_", kind, "_config.json");
    const std::string what = concat(file(), ": entry ", in_quotes(name));
    for (Payload& payload : parse_payloads(read_entry(archive, name), what)) {
      if (!has_values_) need(payload, what);
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
    const bool has_zeros = !has_values_ && saved == nullptr;  // which are no constant's values
    if (has_zeros && input.kind == InputKind::kConstant) return {};
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

  /// Makes the storage of a payload large enough for it.
  void need(const Payload& payload, const std::string& what) {
    if (payload.shape.size() != payload.strides.size()) return;  // view_of_storage() refuses it
    const CheckedSize end = strided_extent(payload.shape, payload.strides) + payload.offset;
    int64_t& elements = needed_[payload.entry];
    elements = std::max(elements, end.value_or_throw<DataError>(what, ": a size overflows"));
  }

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
    LATHE_CHECK(DataError, out.dtype() == payload.dtype, what, " reads ", in_quotes(payload.entry),
                " as ", payload.dtype, ", but another tensor reads it as ", out.dtype());
    return out;
  }

  Tensor read_storage(const Payload& payload, Budget& budget, const std::string& what) {
    if (!has_values_) {
      const CheckedSize bytes = CheckedSize(needed_[payload.entry]) * size_of(payload.dtype);
      budget.spend(bytes.value_or_throw<DataError>(what, " is too large"), what);
      return zeros({needed_[payload.entry]}, {.dtype = payload.dtype});
    }
    const zip::Entry* const entry = archive_.find(folder_ + payload.entry);
    LATHE_CHECK(DataError, entry != nullptr, what, ": the archive has no entry ",
                in_quotes(folder_ + payload.entry),
                "; load_program() takes weights beside a file that has none");
    const auto size = static_cast<int64_t>(size_of(payload.dtype));
    LATHE_CHECK(DataError, entry->bytes % size == 0, what, ": ", in_quotes(payload.entry), " has ",
                entry->bytes, " bytes, which is no whole number of elements of ", payload.dtype);
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
  bool has_values_, big_endian_;
  std::unordered_map<std::string, Payload> table_;
  std::unordered_map<std::string, int64_t> needed_;  // elements of storages, without values
  StateDict saved_;                                  // instead of a table
  std::map<std::string, Tensor> storages_;
  std::map<Key, Tensor> tensors_;
};

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

/// The entries that are kept as they are: small ones, as checkpoints hold them, too.
std::vector<std::pair<std::string, std::string>> read_others(const zip::Archive& archive,
                                                             const Place& at, Budget& budget) {
  std::vector<std::pair<std::string, std::string>> out;
  int64_t left = kMostKeptBytes;
  for (const zip::Entry& entry : archive.entries()) {
    if (!entry.name.starts_with(at.folder)) continue;
    std::string name = entry.name.substr(at.folder.size());
    const bool is_kept = name == sample_inputs_entry(at.model) || name.starts_with("extra/");
    if (!is_kept || !is_plain(name) || entry.bytes > left) continue;
    left -= entry.bytes;
    budget.spend(entry.bytes, concat(archive.source().name(), ": entry ", in_quotes(entry.name)));
    out.emplace_back(std::move(name), zip::read_all(archive, entry, kMostKeptBytes));
  }
  return out;
}

/// A parameter of a new last layer: U(±1/sqrt(fan_in)), as PyTorch draws it.
Tensor drawn(const Input& input, int64_t fan_in, Budget& budget, const std::string& what) {
  Shape shape;
  CheckedSize bytes = size_of(input.type.dtype);
  for (const Size& size : input.type.shape) {
    const auto* const known = std::get_if<int64_t>(&size);
    LATHE_CHECK(DataError, known != nullptr && *known >= 0, what, " has no fixed shape");
    shape.push_back(*known);
    bytes *= *known;
  }
  budget.spend(bytes.value_or_throw<DataError>(what, ": its size overflows"), what);
  return nn::init::uniform_fan_in(shape, fan_in).to(input.type.dtype);
}

/// The numbers that one result of the last layer is a sum of.
int64_t fan_in_of(const ProgramText& program, const std::string& weight) {
  const auto input = std::ranges::find(program.inputs, weight, &Input::name);
  int64_t product = 1;
  for (size_t d = 1; d < input->type.shape.size(); ++d) {
    const auto* const known = std::get_if<int64_t>(&input->type.shape[d]);
    product = known == nullptr || __builtin_mul_overflow(product, *known, &product) ? 0 : product;
  }
  return product;
}

}  // namespace

ProgramFile read_program(const ByteSource& source, const StateDict* weights,
                         std::optional<int64_t> classes) {
  const zip::Archive archive(source);
  const std::string& file = source.name();
  const Place at = find_program(archive);
  ProgramFile out;
  out.source = {.model = at.model,
                .json = read_entry(archive, concat(at.folder, "models/", at.model, ".json"))};
  out.program = parse_program(out.source.json, file);
  NewHead head;
  if (classes) {
    head = with_new_head(out.source.json, *classes, file);
    out.source.json = std::move(head.json);
    out.program = parse_program(out.source.json, file);
  }
  const int64_t fan_in = classes ? fan_in_of(out.program, head.weight) : 0;
  CheckedSize bytes = source.size();
  if (weights != nullptr) {
    for (const auto& [name, tensor] : *weights) bytes += tensor.bytes();
  }
  Budget budget(bytes, file);
  out.source.others = read_others(archive, at, budget);
  Payloads parameters(archive, at, "weights", weights == nullptr);
  Payloads constants(archive, at, "constants", true);
  for (Input& input : out.program.inputs) {
    Tensor& tensor = out.tensors.emplace_back();
    if (input.kind == InputKind::kUser) continue;
    const std::string what = concat(file, ": ", in_quotes(input.name));
    const bool is_new = classes && (input.name == head.weight || input.name == head.bias);
    if (is_new && input.kind == InputKind::kParameter) {
      input.type.requires_grad = true;
      tensor = drawn(input, fan_in, budget, what);
      out.drawn.push_back(input.name);
      continue;
    }
    const bool is_constant = input.kind == InputKind::kConstant;
    tensor = (is_constant ? constants : parameters).find(input, budget, what);
    if (!tensor.defined())
      tensor = (is_constant ? parameters : constants).find(input, budget, what);
    LATHE_CHECK(DataError, tensor.defined(), what, " is used, but has no values in the file");
    LATHE_CHECK(DataError, tensor.dtype() == input.type.dtype || is_constant, what, " is ",
                tensor.dtype(), " in the file, but ", input.type.dtype, " in the program");
    check_shape(tensor.shape(), input.type.shape, what);
  }
  return out;
}

}  // namespace lathe::jit::pt2
