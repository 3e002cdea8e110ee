// NumPy's archives: zip records, the inflater, and the arrays inside.
#include "lathe/core/formats/npz.h"

#include <span>

#include "lathe/core/files/file.h"
#include "lathe/core/formats/deflate.h"
#include "lathe/ops/creation.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

std::vector<std::string> seeds() {
  const data::testing::TempDir directory;
  StateDict state;
  state.add("a", arange(3, {.dtype = kI16}));
  state.add("b", zeros({40, 2}, {.dtype = kU8}));
  std::vector<std::string> out;
  for (const bool compress : {false, true}) {
    if (compress && !deflate_available()) continue;
    npz::write(directory / "x.npz", state, {.compress = compress});
    out.push_back(data::testing::read_file(directory / "x.npz"));
  }
  return out;
}

void feed(const std::string& bytes) {
  check_allocations(inflated_bytes(bytes),
                    [&] { npz::parse(std::as_bytes(std::span(bytes)), "fuzz.npz"); });
}

const Target target("npz", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
