// Which files of others a result may take the place of.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

/// For a text that `flag` asks to be written to `path` and that begins with `beginning`: what is
/// there already is replaced if it is empty or begins so, too, as the result of an earlier call
/// does.
/// throws: UsageError for anything else, which would be lost.
void check_replaceable(std::string_view flag, const std::string& path, std::string_view beginning);

}  // namespace lathe::cli
