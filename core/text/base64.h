// Bytes as printable letters (RFC 4648, section 4), for texts that hold files.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

/// "Zm9vYg==" of "foob".
LATHE_API std::string to_base64(std::string_view bytes);

/// The bytes of to_base64().
/// throws: DataError for any other text.
LATHE_API std::string from_base64(std::string_view text);

}  // namespace lathe
