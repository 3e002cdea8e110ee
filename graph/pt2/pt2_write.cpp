// Entries of values: tensors that share memory share an entry. Their types are those of the
// program's JSON.
#include "lathe/graph/pt2/pt2_write.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "lathe/core/format.h"
#include "lathe/core/strided_extent.h"
#include "lathe/graph/pt2/pt2_json.h"

namespace lathe::jit::pt2 {

namespace {

/// The elements of a storage from the first to the last of a tensor, or of several that overlap.
struct Extent {
  const Storage* storage = nullptr;
  DType dtype = kF32;
  int64_t begin = 0, end = 0;

  std::string_view bytes() const {
    const auto size = static_cast<int64_t>(size_of(dtype));
    if (begin == end) return {};
    return {static_cast<const char*>(storage->data()) + begin * size,
            static_cast<size_t>((end - begin) * size)};
  }
};

Extent extent_of(const Tensor& t) {
  const int64_t elements = strided_extent(t.shape(), t.strides()).value_or_throw();
  return {t.impl().storage.get(), t.dtype(), t.offset(), t.offset() + elements};
}

/// The tensors of a folder of the archive.
struct Folder {
  std::string_view kind, prefix;  // "weights", "weight_"
  std::vector<size_t> members;    // indices of the program's inputs
  std::vector<Extent> entries;
  std::map<size_t, size_t> entry_of;  // by member
};

void find_entries(Folder& folder, const Tensors& tensors) {
  std::vector<std::pair<Extent, size_t>> parts;
  for (const size_t i : folder.members) parts.emplace_back(extent_of(tensors[i]), i);
  std::ranges::stable_sort(parts, {}, [](const auto& part) {
    const Extent& e = part.first;
    return std::tuple(e.storage, e.dtype, e.begin);
  });
  std::vector<Extent> joined;
  std::map<size_t, size_t> joined_of;
  for (const auto& [extent, member] : parts) {
    Extent* const last = joined.empty() ? nullptr : &joined.back();
    const bool overlaps = last != nullptr && last->storage == extent.storage &&
                          last->dtype == extent.dtype && extent.begin < last->end;
    if (overlaps) {
      last->end = std::max(last->end, extent.end);
    } else {
      joined.push_back(extent);
    }
    joined_of[member] = joined.size() - 1;
  }
  // Numbered by the members, so that the same program gives the same file.
  std::map<size_t, size_t> number;
  for (const size_t i : folder.members) {
    const auto [found, is_new] = number.emplace(joined_of[i], folder.entries.size());
    if (is_new) folder.entries.push_back(joined[joined_of[i]]);
    folder.entry_of[i] = found->second;
  }
}

/// On the CPU, weights in the dtypes of the export; one copy of a tensor that several inputs are.
Tensors on_cpu(const std::vector<Input>& inputs, const Tensors& tensors) {
  std::map<std::pair<const TensorImpl*, DType>, Tensor> known;
  Tensors out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor& t = out.emplace_back();
    if (inputs[i].kind == InputKind::kUser) continue;
    const bool is_constant = inputs[i].kind == InputKind::kConstant;
    const DType dtype = is_constant ? tensors[i].dtype() : inputs[i].type.dtype;
    Tensor& copy = known[{tensors[i].handle().get(), dtype}];
    if (!copy.defined()) copy = tensors[i].detach().to(kCPU, dtype);
    t = copy;
  }
  return out;
}

Json numbers(const auto& list) {
  Json out = Json::array();
  for (const int64_t number : list) out.push_back({{"as_int", number}});
  return out;
}

}  // namespace

void write_program(zip::Writer& to, const ProgramSource& source, const std::vector<Input>& inputs,
                   const Tensors& given, Weights weights) {
  const Tensors tensors = on_cpu(inputs, given);
  Json root = parse_json(source.json, "the program");
  Json& module = root["graph_module"];
  Json& types = module["graph"]["tensor_values"];
  Folder folders[] = {{.kind = "weights", .prefix = "weight_"},
                      {.kind = "constants", .prefix = "tensor_"}};
  std::vector<Json> metas;
  bool is_changed = false;
  for (const Json& spec : module["signature"]["input_specs"]) {
    if (spec.contains("constant_input")) continue;
    const size_t i = metas.size();
    Json& meta = metas.emplace_back();
    if (inputs[i].kind == InputKind::kUser) continue;
    folders[inputs[i].kind == InputKind::kConstant ? 1 : 0].members.push_back(i);
    Json& type = types[spec.begin().value()["arg"]["name"].get<std::string>()];
    meta = type;
    const Tensor& t = tensors[i];
    meta["dtype"] = number_of(t.dtype());
    meta["sizes"] = numbers(t.shape());
    meta["strides"] = numbers(t.strides());
    meta["storage_offset"] = {{"as_int", 0}};
    if (meta["sizes"] == type["sizes"]) continue;
    type = meta;  // a new head
    is_changed = true;
  }

  const auto add = [&](std::string_view name, std::string_view content) {
    to.add(concat("archive/", name), std::span(&content, 1));
  };
  add("archive_format", "pt2");
  add("archive_version", "0");
  add(".data/version", "6\n");
  add("byteorder", std::endian::native == std::endian::little ? "little" : "big");
  add(concat("models/", source.model, ".json"), is_changed ? root.dump() : source.json);
  for (Folder& folder : folders) {
    find_entries(folder, tensors);
    std::string table;  // as text: PyTorch's state dict has its order
    for (const size_t i : folder.members) {
      const size_t entry = folder.entry_of[i];
      metas[i]["storage_offset"]["as_int"] = tensors[i].offset() - folder.entries[entry].begin;
      const Json payload = {{"path_name", concat(folder.prefix, entry)},
                            {"is_param", inputs[i].kind == InputKind::kParameter},
                            {"use_pickle", false},
                            {"tensor_meta", metas[i]}};
      table += concat(table.empty() ? "" : ", ", Json(inputs[i].name).dump(), ": ", payload.dump());
    }
    const std::string at = concat("data/", folder.kind, "/");
    add(concat(at, source.model, "_", folder.kind, "_config.json"),
        concat("{\"config\": {", table, "}}"));
    if (folder.kind == "weights" && weights == Weights::kLeftOut) continue;
    for (size_t i = 0; i < folder.entries.size(); ++i) {
      add(concat(at, folder.prefix, i), folder.entries[i].bytes());
    }
  }
  for (const auto& [name, content] : source.others) add(name, content);
  // torch.export.load takes an empty one for none, but not a missing one.
  const std::string samples = sample_inputs_entry(source.model);
  const bool has_samples =
      std::ranges::any_of(source.others, [&](const auto& other) { return other.first == samples; });
  if (!has_samples) add(samples, "");
}

}  // namespace lathe::jit::pt2
