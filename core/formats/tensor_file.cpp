// Finds out a file's format, and calls its reader or writer.
#include "lathe/core/formats/tensor_file.h"

#include <algorithm>

#include "lathe/core/formats/foreign_file.h"
#include "lathe/core/formats/npy.h"
#include "lathe/core/formats/npz.h"
#include "lathe/core/formats/pth.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/zip.h"

namespace lathe {

std::string_view name_of(TensorFileFormat format) {
  constexpr std::string_view kNames[] = {"safetensors", "npz", "pth"};
  return kNames[static_cast<int>(format)];
}

TensorFileFormat tensor_file_format(const std::string& path) {
  const ByteSource source(path);
  std::string first(static_cast<size_t>(std::min<int64_t>(source.size(), kForeignBytes)), '\0');
  source.read(first.data(), static_cast<int64_t>(first.size()), 0);
  // First, because the length with which safetensors begin can look like any other mark.
  constexpr size_t kLengthBytes = 8;
  if (first.size() > kLengthBytes && first[kLengthBytes] == '{' && first[kLengthBytes - 1] == '\0')
    return TensorFileFormat::kSafetensors;
  check_not_foreign(first, path);
  if (first.starts_with('\x80')) return TensorFileFormat::kPth;
  if (!first.starts_with("PK")) {
    // Safetensors begin with a length below 2^32, so with four zero bytes in its upper half.
    const bool may_be_length =
        first.size() < kLengthBytes || first.substr(4, 4) == std::string_view("\0\0\0\0", 4);
    LATHE_CHECK(DataError, may_be_length, path,
                ": is in no format of weights that is read here (.safetensors, .npz, .pth)");
    return TensorFileFormat::kSafetensors;
  }
  const zip::Archive archive(source);
  const auto has = [&](std::string_view ending) {
    return std::ranges::any_of(archive.entries(), [&](const zip::Entry& entry) {
      return std::string_view(entry.name).ends_with(ending);
    });
  };
  if (has("/data.pkl")) return TensorFileFormat::kPth;
  LATHE_CHECK(DataError, archive.entries().empty() || has(".npy"), path,
              ": is a zip archive without arrays (.npz) and without a state dict (.pth); it holds ",
              safetensors::in_quotes(archive.entries()[0].name),
              archive.entries().size() > 1 ? " and others" : "");
  return TensorFileFormat::kNpz;
}

safetensors::Contents read_tensor_file(const std::string& path, const std::string& section) {
  const TensorFileFormat format = tensor_file_format(path);
  if (format == TensorFileFormat::kPth)
    return {.tensors = pth::read(path, {.section = section}), .metadata = {}};
  LATHE_CHECK(pth::SectionError, section.empty(), path, ": a section (\"", section,
              "\") is named, but a file in the format ", name_of(format), " has none");
  switch (format) {
    case TensorFileFormat::kNpz: return {.tensors = npz::read(path), .metadata = {}};
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

void save(const Tensor& tensor, const std::string& path) {
  LATHE_CHECK(ValueError, path.ends_with(".npy"), path,
              ": the suffix of a file of one tensor must be .npy");
  npy::write(path, tensor);
}

}  // namespace lathe
