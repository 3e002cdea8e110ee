// Packed files, as they are and with a checksum that fits them, so that the checks behind it are
// reached.
#include "lathe/core/error.h"
#include "lathe/data/images/packed_file.h"
#include "lathe/tests/data/packed_bytes.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

std::vector<std::string> seeds() {
  return {data::testing::packed_bytes(data::testing::three_images(), 2, {"cat", "dog"}, 3)};
}

void read_images(const std::string& path) {
  const data::PackedFile file(path);
  for (int64_t i = 0; i < file.size(); ++i) {
    uint64_t sum = 0;
    file.read(i, [&](const uint8_t* pixels) {
      for (int64_t k = 0; k < file.spec(i).pixels(); ++k) sum += pixels[k];
    });
  }
}

void feed(const std::string& bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  try {
    const std::string fitting = file_of(data::testing::with_right_checksum(bytes));
    check_allocations(size, [&] { data::PackedFile{fitting}; });
  } catch (const Error&) {
  }
  const std::string path = file_of(bytes);
  check_allocations(size, [&] { read_images(path); });
}

const Target target("packed", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
