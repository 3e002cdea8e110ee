// Reading and writing of .npz archives: zip.h around npy.h.
#include "lathe/core/formats/npz.h"

#include "lathe/core/formats/npy.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/tensor_bytes.h"
#include "lathe/core/formats/zip.h"
#include "lathe/core/json.h"

namespace lathe::npz {

namespace {

using safetensors::in_quotes;

constexpr std::string_view kSuffix = ".npy";

StateDict read_source(const ByteSource& source) {
  const zip::Archive archive(source);
  StateDict out;
  for (const zip::Entry& entry : archive.entries()) {
    const std::string what = concat(source.name(), ": entry ", in_quotes(entry.name));
    LATHE_CHECK(DataError, entry.name.ends_with(kSuffix), what, " is not an array: it has no name ",
                kSuffix);
    zip::EntryReader reader(archive, entry);
    Tensor tensor =
        npy::read_from([&](void* to, int64_t bytes) { reader.read(to, bytes); }, entry.bytes, what);
    reader.finish();
    out.add(entry.name.substr(0, entry.name.size() - kSuffix.size()), std::move(tensor));
  }
  return out;
}

bool is_utf8(std::string_view text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

StateDict read(const std::string& path) { return read_source(ByteSource(path)); }

StateDict parse(std::span<const std::byte> bytes, std::string_view name) {
  return read_source(ByteSource(bytes, name));
}

void write(const std::string& path, const StateDict& tensors, const WriteOptions& options) {
  LATHE_CHECK(ValueError, !options.compress || deflate_available(), "npz: cannot compress ", path,
              ": this build has no zlib");
  zip::Writer file(path);
  for (const auto& [name, tensor] : tensors) {
    LATHE_CHECK(ValueError, !name.empty() && is_utf8(name), "npz: ", in_quotes(name),
                " cannot be an array's name in ", path);
    const npy::Parts array = npy::parts_of(tensor, concat(path, ": entry ", in_quotes(name)));
    const std::string_view parts[] = {array.header, bytes_of(array.values)};
    file.add(name + std::string(kSuffix), parts,
             options.compress ? zip::Method::kDeflated : zip::Method::kStored);
  }
  file.commit();
}

}  // namespace lathe::npz
