// lathe data fetch: the only command besides `train --download` that uses the network.

#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/commands/named_dataset.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/fetch.h"

namespace lathe::cli {

ExitCode run_data_fetch(const Invocation& call) try {
  const Output out(call.settings.json);
  const data::DatasetSource& source = named_dataset(call.words[0]);
  const std::string folder = fetch_dataset_shown(source, call.settings).string();
  out.text(formatted("{} is in {}", source.title, folder));
  out.row(Row().add("event", "fetched").add("dataset", source.name).add("folder", folder));
  return ExitCode::kDone;
} catch (const FileError& e) {
  throw CommandError(ExitCode::kData, e.message());
}

}  // namespace lathe::cli
