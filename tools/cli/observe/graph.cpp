// lathe graph: the graph of a training step as DOT or SVG.
#include <string>

#include "lathe/core/file.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/observe/graph_picture.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/replaceable.h"
#include "lathe/tools/cli/settings/command.h"

namespace lathe::cli {
namespace {

enum class Format { kDot, kSvg };

Format format_of(const std::string& path) {
  if (path.empty() || path.ends_with(".dot") || path.ends_with(".gv")) return Format::kDot;
  if (path.ends_with(".svg")) return Format::kSvg;
  throw UsageError(formatted("--output {}: must end in .dot or .svg", path));
}

}  // namespace

ExitCode run_graph(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  const std::string& path = settings.output;
  const Format format = format_of(path);
  if (!path.empty()) {  // before the work: whether it can be written
    check_replaceable("--output", path, format == Format::kDot ? kDotBegin : kGraphSvgBegin);
    const AtomicFile writable(path);
  }
  const RecordedStep step = record_step(settings);
  const GraphPicture picture = picture_of(step);
  const std::string text = format == Format::kDot ? dot_of(picture) : svg_of(picture);
  Row row;
  row.add("event", "done").add("model", step.model);
  row.add("ops", static_cast<int64_t>(step.graph.nodes.size()));
  row.add("lines", static_cast<int64_t>(picture.lines.size()));
  row.add("saved_bytes", step.graph.saved_bytes());
  if (path.empty()) {
    out.verbatim(text.substr(0, text.size() - 1));
    row.add("dot", text);
  } else {
    write_file_atomic(path, text);
    out.sentence(formatted("{}: {}", path, picture.title));
    row.add("output", path);
  }
  out.row(row);
  return ExitCode::kDone;
}

}  // namespace lathe::cli
