// What people often have where a file of weights should be: a download that did not work, or a
// file of another program. Internal to the readers of files.
#pragma once

#include <string_view>

namespace lathe {

/// How many bytes check_not_foreign() looks at.
inline constexpr size_t kForeignBytes = 512;

/// Refuses files that can hold neither weights nor an ONNX graph: empty ones, text (a pointer of
/// Git LFS, a web page), images, archives that must be unpacked, HDF5. `first`: the first bytes, or
/// all of a file that has no more than kForeignBytes.
/// throws: DataError that names `file`, says what it is and, where that helps, what to do.
void check_not_foreign(std::string_view first, std::string_view file);

}  // namespace lathe
