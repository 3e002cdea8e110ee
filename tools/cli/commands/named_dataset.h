// named_dataset(): the data set that a word on the command line names.
#pragma once

#include <string>

#include "lathe/core/error.h"
#include "lathe/data/images/published_datasets.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/parse_value.h"

namespace lathe::cli {

/// throws: UsageError that suggests the nearest name.
inline const data::DatasetSource& named_dataset(const std::string& name) try {
  return data::dataset_source(name);
} catch (const ValueError& e) {
  std::vector<std::string_view> names;
  for (const data::DatasetSource& source : data::dataset_sources()) names.push_back(source.name);
  throw UsageError(e.message() + suggestion(name, names));
}

}  // namespace lathe::cli
