// The entries of a checkpoint or weights file with their SHA-256, by which files are compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/nn/checkpoint.h"

namespace lathe::train {

struct EntryHash {
  std::string part;  // "model", "optimizer", …, "rng"
  std::string name;  // as in the file
  std::string type;  // "f32[64,3,3,3]"
  int64_t bytes = 0;
  std::string sha256;  // of the values, row-major
};

/// In the file's order. In a file that is no checkpoint, every entry belongs to "model".
LATHE_API std::vector<EntryHash> hash_entries(const Checkpoint& file);

struct PartHash {
  std::string part;
  int64_t entries = 0, bytes = 0;
  std::string sha256;  // of the lines "<name> <type> <sha256>" of its entries, sorted by name
};

/// One per part, in the order in which the parts appear.
LATHE_API std::vector<PartHash> hash_parts(const std::vector<EntryHash>& entries);

}  // namespace lathe::train
