// CIFAR's binary files.
#include "lathe/data/images/cifar.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

const data::CifarFormat kTwoRecords{
    .name = "two", .records = 2, .label_bytes = 2, .label_at = 1, .classes = {20, 100}};

std::vector<std::string> seeds() {
  const std::string record = std::string("\x03\x04") + std::string(3072, 'x');
  return {record + record};
}

void feed(const std::string& bytes) {
  const std::string path = file_of(bytes);
  check_allocations(static_cast<int64_t>(bytes.size()),
                    [&] { data::read_cifar({path}, kTwoRecords); });
}

const Target target("cifar", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
