// Tar archives, plain and gzip.
#include "lathe/data/images/tar.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

std::vector<std::string> seeds() {
  const std::string plain = data::testing::tar({{"d", "", '5'}, {"d/one", std::string(600, 'x')}});
  return {plain, data::testing::gzip(plain)};
}

void feed(const std::string& bytes) {
  static const data::testing::TempDir directory;
  const std::string path = file_of(bytes);
  check_allocations(static_cast<int64_t>(bytes.size()), [&] {
    data::extract_tar(path, {{"d/one", directory / "one", 4096}});
  });
}

const Target target("tar", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
