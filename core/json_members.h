// Finds members that a JSON object has twice.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lathe {

/// The name of a member that an object of a JSON text has twice, of which nlohmann's parser keeps
/// the last. Nothing if there is none, or none before a fault of the text. Takes time linear in the
/// text, whereas a callback of that parser would take time quadratic in the length of a list.
std::optional<std::string> doubled_member(std::string_view json);

}  // namespace lathe
