// NumPy's array files.
#include "lathe/core/formats/npy.h"

#include <span>

#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

std::vector<std::string> seeds() {
  const auto file = [](char version, const std::string& literal, const std::string& values) {
    return std::string("\x93NUMPY") + version + '\0' + static_cast<char>(literal.size()) + '\0' +
           (version > 1 ? std::string(2, '\0') : "") + literal + values;
  };
  return {
      file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n", "abcdefgh"),
      file(2, "{'descr': '>i8', 'fortran_order': True, 'shape': (1,), }\n", "abcdefgh"),
      file(3, "{'shape':(),'descr':\"|b1\",'fortran_order':False}", "\1"),
  };
}

void feed(const std::string& bytes) {
  check_allocations(static_cast<int64_t>(bytes.size()),
                    [&] { npy::parse(std::as_bytes(std::span(bytes)), "fuzz.npy"); });
}

const Target target("npy", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
