// formatted(): the one place where {fmt} is compiled.
#define FMT_HEADER_ONLY
#include "lathe/tools/cli/formatted.h"

#include <fmt/format.h>

namespace lathe::cli {

std::string formatted_text(fmt::string_view format, fmt::format_args values) {
  return fmt::vformat(format, values);
}

}  // namespace lathe::cli
