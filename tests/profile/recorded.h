// Looks into recordings: all ranges of a name, whichever thread they are from.
#pragma once

#include <string_view>
#include <vector>

#include "lathe/profile/profiler.h"

namespace lathe::profile {

inline std::vector<Record> all_named(const Recording& recording, std::string_view name) {
  std::vector<Record> found;
  for (const ThreadRecords& thread : recording.threads) {
    for (const Record& record : thread.records) {
      if (display_name(record) == name) found.push_back(record);
    }
  }
  return found;
}

inline size_t count_named(const Recording& recording, std::string_view name) {
  return all_named(recording, name).size();
}

}  // namespace lathe::profile
