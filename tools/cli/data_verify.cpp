// lathe data verify: compares the files of a data set with the official checksums.
#include <fmt/format.h>

#include "lathe/data/verify.h"
#include "lathe/tools/cli/command.h"
#include "lathe/tools/cli/named_dataset.h"
#include "lathe/tools/cli/output.h"

namespace lathe::cli {
namespace {

const char* state_name(data::FileState state) {
  return state == data::FileState::kOk        ? "ok"
         : state == data::FileState::kDiffers ? "differs"
                                              : "missing";
}

}  // namespace

ExitCode run_data_verify(const Invocation& call) {
  const Output out(call.settings.json);
  const data::DatasetSource& source = named_dataset(call.words[0]);
  const auto folder = data::require_dataset(source, call.settings.data_root);
  int64_t bad = 0;
  for (const data::FileReport& file : data::verify_dataset(source, folder)) {
    bad += file.state != data::FileState::kOk;
    out.text(fmt::format("{:<8} {}{}", state_name(file.state), file.name,
                         file.detail.empty() ? "" : ": " + file.detail));
    out.row(Row()
                .add("file", file.name)
                .add("state", state_name(file.state))
                .add("path", file.path.string())
                .add("detail", file.detail));
  }
  if (bad > 0) {
    throw CommandError(ExitCode::kCheckFailed,
                       fmt::format("{} of {} differ from the official files in {}", bad,
                                   source.title, folder.string()));
  }
  return ExitCode::kDone;
}

}  // namespace lathe::cli
