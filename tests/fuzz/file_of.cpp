#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {

std::string file_of(const std::string& bytes) {
  static const int memory_file = memfd_create("fuzz", 0);
  const auto size = static_cast<off_t>(bytes.size());
  if (ftruncate(memory_file, size) != 0 ||
      pwrite(memory_file, bytes.data(), bytes.size(), 0) != size)
    throw std::runtime_error("fuzz: cannot write the memory file");
  return "/proc/self/fd/" + std::to_string(memory_file);
}

}  // namespace lathe::fuzz
