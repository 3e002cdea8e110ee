// IDX files, plain and gzip (so the inflater too).
#include "lathe/data/idx.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/fuzz.h"

namespace lathe::fuzz {

std::vector<std::string> seeds() {
  const std::string plain = data::testing::idx({2, 3, 2}, "abcdefghijkl");
  return {plain, data::testing::gzip(plain)};
}

void feed(const std::string& bytes) { data::read_idx(file_of(bytes), 3); }

}  // namespace lathe::fuzz
