// Hashes of a checkpoint's entries and parts; see the header for the text that is hashed.
#include "lathe/train/checkpoint_hashes.h"

#include <algorithm>
#include <unordered_map>

#include "lathe/core/files/hash.h"
#include "lathe/core/text/formatted.h"

namespace lathe::train {

std::vector<EntryHash> hash_entries(const Checkpoint& file) {
  std::unordered_map<std::string, std::string> part_of;
  std::vector<std::string> parts = checkpoint_parts(file.metadata);
  if (!parts.empty()) parts.emplace_back("rng");
  for (const std::string& part : parts) {
    if (part == "model") continue;
    const StateDict section = checkpoint_section(file, part);
    for (const auto& [name, tensor] : section) part_of[formatted("{}.{}", part, name)] = part;
  }
  std::vector<EntryHash> out;
  for (const auto& [name, tensor] : file.tensors) {
    const Tensor values = tensor.contiguous();
    Sha256 hash;
    hash.update(values.raw_data(), static_cast<size_t>(values.bytes()));
    const auto part = part_of.find(name);
    out.push_back({.part = part == part_of.end() ? "model" : part->second,
                   .name = name,
                   .type = concat(tensor.dtype(), tensor.shape()),
                   .bytes = values.bytes(),
                   .sha256 = hash.hex()});
  }
  return out;
}

std::vector<PartHash> hash_parts(const std::vector<EntryHash>& entries) {
  std::vector<PartHash> out;
  for (const EntryHash& entry : entries) {
    if (std::ranges::any_of(out, [&](const PartHash& p) { return p.part == entry.part; })) continue;
    out.push_back({.part = entry.part});
    std::vector<std::string> lines;
    for (const EntryHash& other : entries) {
      if (other.part != entry.part) continue;
      lines.push_back(formatted("{} {} {}\n", other.name, other.type, other.sha256));
      out.back().bytes += other.bytes;
    }
    std::ranges::sort(lines);
    out.back().entries = static_cast<int64_t>(lines.size());
    out.back().sha256 = sha256_hex(joined(lines, ""));
  }
  return out;
}

}  // namespace lathe::train
