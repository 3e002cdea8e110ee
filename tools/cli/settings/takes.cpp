// Takes::has(): looks a setting up among the groups and keys of a command.
#include "lathe/tools/cli/settings/takes.h"

#include <algorithm>

#include "lathe/tools/cli/has_word.h"

namespace lathe::cli {

bool Takes::has(const Setting& setting) const {
  const bool of_group =
      setting.group != Group::kNone && std::ranges::find(groups, setting.group) != groups.end();
  return of_group || has_word(also, setting.key) || (base != nullptr && base->has(setting));
}

bool Takes::includes(const Takes& other) const {
  return *this == other || (base != nullptr && base->includes(other));
}

}  // namespace lathe::cli
