// lathe gradcheck [op...]: compares analytic with numeric gradients, first and second order.
#include "lathe/autograd/gradcheck.h"

#include <algorithm>

#include "lathe/core/generator.h"
#include "lathe/tools/cli/commands/gradcheck_cases.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {
namespace {

void check_names(const std::vector<std::string>& asked, const std::vector<GradcheckCase>& cases) {
  std::vector<std::string_view> names;
  for (const GradcheckCase& c : cases) names.push_back(c.op);
  for (const std::string& name : asked) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw UsageError(formatted("{}: no such op{}", name, suggestion(name, names)));
  }
}

}  // namespace

ExitCode run_gradcheck(const Invocation& call) {
  const Output out(call.settings.json);
  Settings settings = call.settings;
  prepare_compute(settings);
  manual_seed(static_cast<uint64_t>(call.settings.seed));
  const std::vector<GradcheckCase> cases = gradcheck_cases();
  check_names(call.words, cases);
  int64_t checked = 0, failed = 0;
  for (const GradcheckCase& c : cases) {
    if (!call.words.empty() &&
        std::find(call.words.begin(), call.words.end(), c.op) == call.words.end())
      continue;
    for (const int order : {1, 2}) {
      const GradReport report =
          order == 1 ? gradcheck(c.f, c.inputs) : gradgradcheck(c.f, c.inputs);
      ++checked;
      failed += !report.ok;
      out.text(formatted("{:<20} order {}  {}", c.op, order,
                         report.ok ? "ok" : "FAILED " + report.text));
      out.row(Row()
                  .add("op", std::string(c.op))
                  .add("order", order)
                  .add("ok", report.ok)
                  .add("detail", report.text));
    }
  }
  if (failed > 0)
    throw CommandError(ExitCode::kCheckFailed,
                       formatted("{} of {} gradients are wrong", failed, checked));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
