// PyTorch's files. The zip records in front of the pickle have a CRC, which random changes rarely
// survive: an input that begins with a pickle's mark is put into an archive of its own.
#include "lathe/core/formats/pth.h"

#include <span>

#include "lathe/core/formats/zip.h"
#include "lathe/tests/core/golden_pth.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

std::string archive_of(std::string_view pickle) {
  static const data::testing::TempDir directory;
  zip::Writer writer(directory / "x.pth");
  writer.add("a/data.pkl", std::span(&pickle, 1));
  const std::string_view values = "abcdefgh";
  writer.add("a/data/0", std::span(&values, 1));
  writer.commit();
  return data::testing::read_file(directory / "x.pth");
}

std::vector<std::string> seeds() {
  const std::string storage = "(X\7:::storagectorch\nFloatStorage\nX\1:::0X\3:::cpuK\2tQ";
  std::string small = "\x80\2}X\1:::wctorch._utils\n_rebuild_tensor_v2\n(" + storage +
                      "K:K\2\x85K\1\x85\x89"
                      "ccollections\nOrderedDict\n)RtRs.";
  for (char& c : small) {
    if (c == ':') c = '\0';
  }
  return {std::string(test::kPthModule), std::string(test::kPthViews), small,
          std::string(test::kPthProtocol4)};
}

void feed(const std::string& bytes) {
  const std::string file = bytes.starts_with('\x80') ? archive_of(bytes) : bytes;
  check_allocations(inflated_bytes(file),
                    [&] { pth::parse(std::as_bytes(std::span(file)), "fuzz.pth"); });
}

const Target target("pth", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
