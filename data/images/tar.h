// A small, strict tar reader that takes named files out of a .tar or .tar.gz. Why not libarchive:
// it unpacks what an archive names, in thirty formats. Here two known archives need only the files
// that we name, and 512-byte headers are the whole format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lathe/core/config.h"

namespace lathe::data {

/// One file to take out of an archive.
struct TarMember {
  std::string name;              // its path in the archive: "cifar-10-batches-bin/test_batch.bin"
  std::filesystem::path target;  // where it goes
  uint64_t limit_bytes;          // a larger member is an error
};

/// Writes exactly the wanted members to their targets, each completely or not at all (temporary
/// file, fsync, rename). Everything else in the archive is skipped whatever its name: no path in
/// the archive is ever used to write. `keep_going` is asked before each block of 256 KiB; false
/// stops with FileError "cancelled".
/// throws: DataError (no tar, wrong header checksum, truncated; a wanted member is missing, no
/// regular file, or too large); FileError.
LATHE_API void extract_tar(const std::filesystem::path& archive,
                           const std::vector<TarMember>& wanted,
                           const std::function<bool()>& keep_going = {});

}  // namespace lathe::data
