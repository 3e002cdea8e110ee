// Finds out a file's format, and calls its reader or writer.
#include "lathe/core/formats/tensor_file.h"

#include <algorithm>

#include "lathe/core/formats/npz.h"
#include "lathe/core/formats/pth.h"
#include "lathe/core/formats/zip.h"

namespace lathe {

std::string_view name_of(TensorFileFormat format) {
  constexpr std::string_view kNames[] = {"safetensors", "npz", "pth"};
  return kNames[static_cast<int>(format)];
}

TensorFileFormat tensor_file_format(const std::string& path) {
  const ByteSource source(path);
  std::string first(static_cast<size_t>(std::min<int64_t>(source.size(), 9)), '\0');
  source.read(first.data(), static_cast<int64_t>(first.size()), 0);
  // First, because the length with which safetensors begin can look like any other mark.
  if (first.ends_with('{')) return TensorFileFormat::kSafetensors;
  LATHE_CHECK(DataError, !first.starts_with("\x93NUMPY"), path,
              ": is a single array without a name (.npy), not a file of weights");
  LATHE_CHECK(DataError, !first.starts_with("\xff\xd8\xff"), path,
              ": is an image (JPEG), not a file of weights");
  LATHE_CHECK(DataError, !first.starts_with("\x89PNG"), path,
              ": is an image (PNG), not a file of weights");
  if (first.starts_with('\x80')) return TensorFileFormat::kPth;
  if (!first.starts_with("PK")) return TensorFileFormat::kSafetensors;
  const zip::Archive archive(source);
  const auto is_pickle = [](const zip::Entry& entry) { return entry.name.ends_with("/data.pkl"); };
  return std::ranges::any_of(archive.entries(), is_pickle) ? TensorFileFormat::kPth
                                                           : TensorFileFormat::kNpz;
}

safetensors::Contents read_tensor_file(const std::string& path) {
  switch (tensor_file_format(path)) {
    case TensorFileFormat::kNpz: return {.tensors = npz::read(path), .metadata = {}};
    case TensorFileFormat::kPth: return {.tensors = pth::read(path), .metadata = {}};
    default: return safetensors::read(path);
  }
}

void write_tensor_file(const std::string& path, const StateDict& tensors,
                       const safetensors::Metadata& metadata) {
  if (path.ends_with(".safetensors")) return safetensors::write(path, tensors, metadata);
  LATHE_CHECK(ValueError, path.ends_with(".npz"), path,
              ": the suffix of a file of tensors must be .safetensors or .npz");
  LATHE_CHECK(ValueError, metadata.empty(), path, ": .npz has no place for metadata (\"",
              metadata.begin()->first, "\"",
              metadata.size() > 1 ? concat(" and ", metadata.size() - 1, " more)") : ")");
  npz::write(path, tensors);
}

}  // namespace lathe
