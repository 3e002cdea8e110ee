// Reading at an offset, from the file or from memory.
#include "lathe/core/formats/byte_source.h"

#include <cstring>

#include "lathe/core/error.h"

namespace lathe {

void ByteSource::read(void* to, int64_t bytes, int64_t offset) const {
  if (file_) return file_->read(to, bytes, offset);
  LATHE_CHECK(FileError, offset >= 0 && offset <= size() && bytes <= size() - offset, name_,
              ": expected ", bytes, " bytes from byte ", offset, ", but it ends at byte ", size());
  if (bytes > 0) std::memcpy(to, bytes_.data() + offset, static_cast<size_t>(bytes));
}

}  // namespace lathe
