// IDX files, plain and gzip (so the inflater too).
#include "lathe/data/images/idx.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

std::vector<std::string> seeds() {
  const std::string plain = data::testing::idx({2, 3, 2}, "abcdefghijkl");
  return {plain, data::testing::gzip(plain)};
}

void feed(const std::string& bytes) {
  const std::string path = file_of(bytes);
  check_allocations(inflated_bytes(bytes), [&] { data::read_idx(path, 3); });
}

const Target target("idx", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
