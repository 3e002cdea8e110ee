// report_page() and comparison_page(): the parts of the page, in their order.
#include "lathe/train/report/report_page.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <set>

#include "lathe/core/format.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/version.h"
#include "lathe/train/report/html.h"
#include "lathe/train/report/line_chart.h"
#include "lathe/train/report/markup.h"

namespace lathe::report {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kMostClasses = 100;  // of a confusion matrix that is shown whole
constexpr size_t kMostConfused = 30;  // otherwise: the pairs that are confused most often

std::string percent(double part) {
  return std::isnan(part) ? "–" : formatted("{:.2f} %", 100 * part);
}

std::string number(double value) { return std::isnan(value) ? "–" : formatted("{:.4g}", value); }

std::string section(std::string_view heading, std::string_view content) {
  return formatted("<section>\n<h2>{}</h2>\n{}</section>\n", heading, content);
}

std::string remarks_of(const std::vector<const RunFiles*>& runs) {
  std::string items;
  for (const RunFiles* run : runs) {
    const std::string of = runs.size() > 1 ? run->name() + ": " : "";
    for (const std::string& remark : run->remarks)
      items += formatted("<p>{}</p>\n", markup_text(of + remark));
  }
  return items.empty() ? "" : formatted("<div class=\"remarks\" role=\"note\">\n{}</div>\n", items);
}

// --- curves -----------------------------------------------------------------------------------

using Value = std::function<double(const MetricsPoint&)>;

ChartLine line_of(const RunFiles& run, std::string_view split, const Value& value,
                  std::string name) {
  ChartLine line{.name = std::move(name)};
  for (const MetricsPoint& p : run.metrics) {
    if (split.empty() || p.split == split)
      line.points.push_back({static_cast<double>(p.step), value(p)});
  }
  return line;
}

bool has_points(const ChartLine& line) {
  return std::ranges::any_of(line.points, [](const ChartPoint& p) { return std::isfinite(p.y); });
}

bool has_value(const LineChart& picture) { return std::ranges::any_of(picture.lines, has_points); }

/// Cuts off a value that would flatten a chart, such as a first validation loss of 282: if nine
/// tenths of the values lie in the lowest tenth of the axis, the axis ends above all values that
/// are within ten times the range of these nine tenths. A mark says how high the highest is. Cuts
/// nothing if more than one value of a line would be cut off.
void cut_outliers(LineChart& picture) {
  constexpr size_t kFewest = 5;  // of fewer values none stands out
  std::vector<ChartPoint> points;
  for (const ChartLine& line : picture.lines) {
    std::ranges::copy_if(line.points, std::back_inserter(points),
                         [](const ChartPoint& p) { return std::isfinite(p.y); });
  }
  if (points.size() < kFewest) return;
  std::ranges::sort(points, {}, &ChartPoint::y);
  const double low = points.front().y, usual = points[9 * (points.size() - 1) / 10].y - low;
  const auto cut =
      std::ranges::find_if(points, [&](const ChartPoint& p) { return p.y - low > 10 * usual; });
  if (!(usual > 0) || cut == points.end()) return;
  const double top = std::prev(cut)->y;
  const auto is_above = [&](const ChartPoint& p) { return std::isfinite(p.y) && p.y > top; };
  for (const ChartLine& line : picture.lines) {
    if (std::ranges::count_if(line.points, is_above) > 1) return;
  }
  picture.y.high = top + 0.05 * (top - low);
  picture.marks.push_back({points.back().x, formatted("cut off: up to {:.4g}", points.back().y)});
}

enum class Outliers { kShown, kCut };

/// A chart over the steps with a line per run and split. "" if there is nothing to draw.
std::string chart(const std::vector<const RunFiles*>& runs, const std::string& title,
                  const std::vector<std::string>& splits, const Value& value,
                  Outliers outliers = Outliers::kShown) {
  LineChart picture{.title = title, .x = {.label = "step"}, .y = {}, .lines = {}};
  for (const RunFiles* run : runs) {
    for (const std::string& split : splits) {
      const std::string name =
          runs.size() == 1 ? split : run->name() + (split.empty() ? "" : " " + split);
      ChartLine line = line_of(*run, split, value, name);
      if (has_points(line)) picture.lines.push_back(std::move(line));
    }
  }
  if (outliers == Outliers::kCut) cut_outliers(picture);
  return picture.lines.empty() ? "" : svg_of(picture);
}

/// What a training holds at its peaks: all, and the tags that hold most of the highest one.
LineChart memory_of(const RunFiles& run) {
  constexpr double kMiB = 1 << 20, kLeast = 0.02;  // a fiftieth of it
  constexpr size_t kMost = 5;                      // so that no colour comes twice
  LineChart picture{.title = "Memory, MiB", .x = {.label = "step"}, .y = {}, .lines = {}};
  const MetricsPoint* const largest = run.largest();
  if (largest == nullptr) return picture;
  picture.lines.push_back(line_of(
      run, "train", [](const MetricsPoint& p) { return p.memory / kMiB; }, "all"));
  std::vector<size_t> tags;
  for (size_t t = 0; t < largest->memory_of_tag.size(); ++t)
    if (largest->memory_of_tag[t] > kLeast * largest->memory) tags.push_back(t);
  std::ranges::stable_sort(tags, std::greater(),
                           [&](size_t t) { return largest->memory_of_tag[t]; });
  tags.resize(std::min(tags.size(), kMost));
  for (const size_t t : tags) {
    picture.lines.push_back(line_of(
        run, "train", [&](const MetricsPoint& p) { return p.memory_of_tag[t] / kMiB; },
        std::string(profile::name_of(static_cast<profile::MemoryTag>(t)))));
  }
  return picture;
}

/// The names of the metrics that have no chart of their own.
std::set<std::string> metric_names(const std::vector<const RunFiles*>& runs) {
  std::set<std::string> names;
  for (const RunFiles* run : runs) {
    for (const MetricsPoint& p : run->metrics) {
      for (const auto& [name, value] : p.metrics) names.insert(name);
    }
  }
  return names;
}

bool are_images(const std::vector<const RunFiles*>& runs) {
  return std::ranges::all_of(runs, [](const RunFiles* run) {
    return std::ranges::all_of(run->metrics, &MetricsPoint::of_images);
  });
}

std::string charts(const std::vector<const RunFiles*>& runs) {
  // Several runs with two lines each would be hard to tell apart: training has a chart of its own.
  const bool one = runs.size() == 1;
  const auto loss = [](const MetricsPoint& p) { return p.loss; };
  const auto accuracy = [](const MetricsPoint& p) { return 100 * p.accuracy; };
  std::string all;
  if (one) {
    all += chart(runs, "Loss", {"train", "val"}, loss, Outliers::kCut);
    all += chart(runs, "Accuracy, %", {"train", "val"}, accuracy);
  } else {
    all += chart(runs, "Loss of evaluations", {"val"}, loss, Outliers::kCut);
    all += chart(runs, "Accuracy of evaluations, %", {"val"}, accuracy);
    all += chart(runs, "Loss in training", {"train"}, loss, Outliers::kCut);
  }
  for (const std::string& name : metric_names(runs)) {
    all += chart(runs, name, {"train", "val"},
                 [&](const MetricsPoint& p) { return train::value_of(p.metrics, name); });
  }
  all += chart(runs, "Learning rate", {"train"}, [](const MetricsPoint& p) { return p.lr; });
  all += chart(runs, are_images(runs) ? "Images per second" : "Samples per second", {"train"},
               [](const MetricsPoint& p) { return p.images_per_second; });
  if (!one) {
    all += chart(runs, "Memory, MiB", {"train"},
                 [](const MetricsPoint& p) { return p.memory / (1 << 20); });
  } else if (const LineChart memory = memory_of(*runs[0]); has_value(memory)) {
    all += svg_of(memory);
  }
  all += chart(runs, "Loss scale", {"train"}, [](const MetricsPoint& p) { return p.loss_scale; });
  if (all.empty()) return section("Curves", "<p>There are no metrics to draw.</p>\n");
  return section("Curves", "<div class=\"charts\">\n" + all + "</div>\n");
}

// --- results ----------------------------------------------------------------------------------

/// Name and text of what a run has reached.
std::vector<std::pair<std::string, std::string>> results_of(const RunFiles& run) {
  std::vector<std::pair<std::string, std::string>> out;
  const bool chooses = run.best("test") != nullptr;  // with --val-split, or a folder of its own
  if (const MetricsPoint* best = run.best("val")) {
    out.emplace_back(chooses ? "best accuracy, validation" : "best accuracy",
                     percent(best->accuracy));
    out.emplace_back("in epoch", std::to_string(best->epoch));
  }
  if (const MetricsPoint* test = run.best("test"))
    out.emplace_back("accuracy, test", percent(test->accuracy));
  if (!run.metrics.empty()) {
    out.emplace_back("steps", std::to_string(run.metrics.back().step));
    std::vector<double> rates;
    for (const MetricsPoint& p : run.metrics) {
      if (p.split == "train" && std::isfinite(p.images_per_second))
        rates.push_back(p.images_per_second);
    }
    if (!rates.empty()) {
      const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
      std::ranges::nth_element(rates, middle);
      out.emplace_back(are_images({&run}) ? "images per second" : "samples per second",
                       formatted("{:.0f}", *middle));
    }
    if (const MetricsPoint* largest = run.largest()) {
      out.emplace_back("memory at the peak",
                       readable_bytes(static_cast<uint64_t>(largest->memory)));
    }
  }
  return out;
}

std::string facts_of(const RunFiles& run) {
  std::string items;
  for (const auto& [name, text] : results_of(run))
    items += formatted("<li>{} <b>{}</b></li>\n", markup_text(name), markup_text(text));
  return items.empty() ? "" : "<ul class=\"facts\">\n" + items + "</ul>\n";
}

std::string description_of(const RunFiles& run) {
  std::string text = run.setting("model");
  if (const std::string data = run.setting("dataset"); !data.empty()) text += " on " + data;
  if (!run.metrics.empty() && !run.metrics.back().time.empty())
    text += "; last row of metrics " + run.metrics.back().time;
  return text;
}

// --- an evaluation ----------------------------------------------------------------------------

/// A cell of the matrix: darker where more images are.
std::string shaded(int64_t count, int64_t of_label, bool right) {
  if (count == 0) return "<span class=\"soft\">·</span>";
  const double part =
      static_cast<double>(count) / static_cast<double>(std::max<int64_t>(of_label, 1));
  return formatted("<span style=\"background:rgba({},{:.2f});padding:0 .3em\">{}</span>",
                   right ? "0,158,115" : "213,94,0", 0.1 + 0.5 * part, count);
}

std::string whole_matrix(const ReportEvaluation& e) {
  Rows rows{{"label \\ predicted"}};
  for (const std::string& name : e.classes) rows[0].push_back(markup_text(name));
  rows[0].push_back("accuracy");
  for (size_t label = 0; label < e.classes.size(); ++label) {
    int64_t all = 0;
    for (const int64_t count : e.confusion[label]) all += count;
    std::vector<std::string> row{markup_text(e.classes[label])};
    for (size_t p = 0; p < e.classes.size(); ++p)
      row.push_back(shaded(e.confusion[label][p], all, p == label));
    row.push_back(all == 0 ? "–"
                           : percent(static_cast<double>(e.confusion[label][label]) /
                                     static_cast<double>(all)));
    rows.push_back(std::move(row));
  }
  return "<div class=\"matrix\">" +
         html_table("How many images of each label were given each prediction", rows) + "</div>\n";
}

std::string most_confused(const ReportEvaluation& e) {
  struct Pair {
    int64_t count;
    size_t label, predicted;
  };
  std::vector<Pair> pairs;
  for (size_t label = 0; label < e.classes.size(); ++label) {
    for (size_t p = 0; p < e.classes.size(); ++p) {
      if (p != label && e.confusion[label][p] > 0)
        pairs.push_back({e.confusion[label][p], label, p});
    }
  }
  std::ranges::stable_sort(pairs, std::greater(), &Pair::count);
  pairs.resize(std::min(pairs.size(), kMostConfused));
  Rows rows{{"label", "taken for", "images"}};
  for (const Pair& pair : pairs)
    rows.push_back({markup_text(e.classes[pair.label]), markup_text(e.classes[pair.predicted]),
                    std::to_string(pair.count)});
  return html_table(formatted("The classes that were confused most often, of {}", e.classes.size()),
                    rows);
}

std::string worst_images(const ReportEvaluation& e) {
  std::string items;
  for (const WrongImage& w : e.worst) {
    const std::string what = formatted("{} taken for {}", w.label, w.predicted);
    items += formatted(
        "<li><img src=\"{}\" alt=\"{}\" loading=\"lazy\"><br>{}<br>{}, loss {:.2f}<br>"
        "<span class=\"soft\">{}</span></li>\n",
        png_address(w.png), markup_text(what), markup_text(what), percent(w.probability), w.loss,
        w.file.empty() ? formatted("image {}", w.index) : markup_text(w.file));
  }
  return items.empty() ? "<p>Every image was recognised.</p>\n"
                       : "<ul class=\"images\">\n" + items + "</ul>\n";
}

std::string evaluation_of(const ReportEvaluation& e) {
  return section("Classes",
                 formatted("<p>{}: accuracy {}, loss {}.</p>\n", markup_text(e.about),
                           percent(e.accuracy), number(e.loss)) +
                     (e.classes.size() <= kMostClasses ? whole_matrix(e) : most_confused(e))) +
         section("The worst mistakes", worst_images(e));
}

// --- settings, environment, log -----------------------------------------------------------------

std::string entries_of(std::string_view caption, const RunFiles::Entries& entries) {
  Rows rows{{"name", "value"}};
  for (const auto& [name, value] : entries) rows.push_back({markup_text(name), markup_text(value)});
  return html_table(caption, rows);
}

std::string details(std::string_view summary, std::string_view content) {
  return formatted("<details>\n<summary>{}</summary>\n{}</details>\n", summary, content);
}

std::string log_of(const RunFiles& run) {
  std::string lines;
  for (const std::string& line : run.last_lines) lines += markup_text(line) + "\n";
  return lines.empty() ? ""
                       : section("End of the log", "<pre tabindex=\"0\">" + lines + "</pre>\n");
}

/// Lines stay as they are: a table of text.
std::string op_table_of(const RunFiles& run) {
  std::string lines;
  for (size_t begin = 0; begin < run.op_table.size();) {
    const size_t end = std::min(run.op_table.find('\n', begin), run.op_table.size());
    lines += markup_text(run.op_table.substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  return lines.empty() ? ""
                       : section("Time of the ops", "<pre tabindex=\"0\">" + lines + "</pre>\n");
}

/// The settings that are not the same in all runs, with the result of each.
std::string differences(const std::vector<RunFiles>& runs) {
  Rows rows{{""}};
  for (const RunFiles& run : runs) rows[0].push_back(markup_text(run.name()));
  std::vector<std::string> names;
  const auto add_row = [&](const std::string& name,
                           const std::function<std::string(const RunFiles&)>& of) {
    std::vector<std::string> row{markup_text(name)};
    for (const RunFiles& run : runs) row.push_back(markup_text(of(run)));
    rows.push_back(std::move(row));
  };
  std::set<std::string> seen;
  for (const RunFiles& run : runs) {
    for (const auto& [name, text] : results_of(run)) {
      if (!seen.insert(name).second) continue;
      add_row(name, [&, &wanted = name](const RunFiles& each) -> std::string {
        for (const auto& [other, value] : results_of(each)) {
          if (other == wanted) return value;
        }
        return "–";
      });
    }
  }
  seen.clear();
  for (const RunFiles& run : runs) {
    for (const auto& [key, value] : run.config) {
      const bool same = std::ranges::all_of(
          runs, [&, &k = key, &v = value](const RunFiles& each) { return each.setting(k) == v; });
      if (same || !seen.insert(key).second) continue;
      add_row(key, [&, &k = key](const RunFiles& each) { return each.setting(k); });
    }
  }
  return html_table("Results, and the settings in which the runs differ", rows);
}

std::string footer() {
  return formatted("<footer><p class=\"soft\">Written by lathe {}.</p></footer>\n",
                   markup_text(version()));
}

}  // namespace

std::string report_page(const RunFiles& run, const ReportEvaluation* evaluation) {
  const std::vector<const RunFiles*> one{&run};
  std::string body = formatted("<header><h1>{}</h1>\n<p class=\"soft\">{}</p></header>\n<main>\n",
                               markup_text(run.name()), markup_text(description_of(run)));
  body += remarks_of(one) + facts_of(run) + charts(one);
  if (evaluation) body += evaluation_of(*evaluation);
  body += op_table_of(run) + log_of(run);
  if (!run.config.empty())
    body += section("Settings",
                    details("All settings of the run", entries_of("config.toml", run.config)));
  if (!run.environment.empty())
    body += section("Environment",
                    details("Versions and machine", entries_of("env.json", run.environment)));
  return html_page(run.name(), body + "</main>\n" + footer());
}

std::string comparison_page(const std::vector<RunFiles>& runs) {
  std::vector<const RunFiles*> all;
  for (const RunFiles& run : runs) all.push_back(&run);
  const std::string title = formatted("{} runs compared", runs.size());
  std::string body = formatted("<header><h1>{}</h1></header>\n<main>\n", markup_text(title));
  body += remarks_of(all) + section("Results", differences(runs)) + charts(all);
  return html_page(title, body + "</main>\n" + footer());
}

}  // namespace lathe::report
