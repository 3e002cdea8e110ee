// The page of a run and of several: what it says of rows and evaluations that are known.
#include "lathe/train/report/report_page.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lathe/train/report/html.h"
#include "lathe/train/report/markup.h"
#include "made_run.h"

using namespace lathe;
using namespace lathe::report;
using lathe::test::made_run;
using lathe::test::row_of;

namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

bool has(const std::string& page, const std::string& part) {
  return page.find(part) != std::string::npos;
}

/// What stands in the page between the name of a fact and the end of its value.
std::string fact(const std::string& page, const std::string& name) {
  const std::string begin = "<li>" + name + " <b>";
  const size_t at = page.find(begin);
  if (at == std::string::npos) return "";
  return page.substr(at + begin.size(), page.find("</b>", at) - at - begin.size());
}

ReportEvaluation evaluation() {
  return {.about = "5 test images",
          .loss = 0.5,
          .accuracy = 0.8,
          .classes = {"cat", "<dog>"},
          .confusion = {{4, 1}, {0, 0}},
          .worst = {{"png", "cat", "<dog>", 0.9, 2.345, 7, ""},
                    {"png", "cat", "<dog>", 0.5, 1, 8, "pets/<b>.png"}}};
}

}  // namespace

TEST_CASE("html: text is text, and a page allows nothing from elsewhere") {
  CHECK(markup_text("<a b=\"c\" d='e'>&") == "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
  const std::string page = html_page("<script>", "<p>body</p>");
  CHECK(has(page, "<title>&lt;script&gt;</title>"));
  CHECK(has(page, "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\""));
  CHECK(has(page, "<body>\n<p>body</p></body>"));
}

TEST_CASE("html: a table has headings of its columns and rows") {
  CHECK(has(html_table("<c>", {{"a", "b"}, {"1", "2"}}),
            "aria-label=\"&lt;c&gt;\"><table><caption>&lt;c&gt;</caption>\n"
            "<thead><tr><th scope=\"col\">a</th><th scope=\"col\">b</th></tr></thead><tbody>\n"
            "<tr><th scope=\"row\">1</th><td>2</td></tr>\n</tbody></table></div>\n"));
}

TEST_CASE("report page: the results of a run") {
  RunFiles run = made_run();
  const double rates[] = {300, 100, 200};
  for (size_t i = 0; i < 3; ++i) {
    run.metrics.push_back(row_of(3, 30, "train", 1, 0.5));
    run.metrics.back().images_per_second = rates[i];
  }
  const std::string page = report_page(run, nullptr);
  CHECK(has(page, "<h1>a</h1>\n<p class=\"soft\">net on pets</p>"));
  CHECK(fact(page, "best accuracy") == "50.00 %");
  CHECK(fact(page, "in epoch") == "1");
  CHECK(fact(page, "steps") == "30");
  CHECK(fact(page, "images per second") == "200");  // the median
  CHECK_FALSE(has(page, "The worst mistakes"));
  CHECK(has(page, "All settings of the run"));
  CHECK_FALSE(has(page, "Versions and machine"));
  run.metrics.push_back(row_of(3, 30, "test", 1, 0.3));
  run.metrics.back().of_images = false;
  const std::string tested = report_page(run, nullptr);
  CHECK(fact(tested, "best accuracy, validation") == "50.00 %");
  CHECK(fact(tested, "accuracy, test") == "30.00 %");
  CHECK(fact(tested, "samples per second") == "200");
}

TEST_CASE("report page: remarks, ops, the log, settings and environment stand in it as text") {
  RunFiles run = made_run();
  run.remarks = {"<r> is missing."};
  run.op_table = "conv2d <3 ms>\n";
  run.last_lines = {"<i>begun</i>"};
  run.environment = {{"gpu", "<H200>"}};
  const std::string page = report_page(run, nullptr);
  size_t at = 0;
  for (const char* part :
       {"<p>&lt;r&gt; is missing.</p>", "<h2>Curves</h2>", "<h2>Time of the ops</h2>",
        "conv2d &lt;3 ms&gt;", "<h2>End of the log</h2>", "&lt;i&gt;begun&lt;/i&gt;",
        "All settings of the run", "pets", "Versions and machine", "&lt;H200&gt;"}) {
    CAPTURE(part);
    const size_t found = page.find(part, at);
    REQUIRE(found != std::string::npos);  // in this order
    at = found;
  }
}

TEST_CASE("report page: curves of what there is, by split, accuracy in percent") {
  RunFiles run = made_run();
  const std::string page = report_page(run, nullptr);
  CHECK(has(page, "<title>Accuracy, %</title>"));
  CHECK(has(page, ">50</text>"));  // from 25 to 75
  CHECK_FALSE(has(page, "Loss scale"));
  // Two points of each split: train and val are a line each.
  const size_t loss = page.find("<title>Loss</title>"), next = page.find("<title>Accuracy, %");
  const std::string chart = page.substr(loss, next - loss);
  CHECK(count(chart, "class=\"line\"") == 2);
  CHECK(count(chart, ".0L") == 2);
  CHECK(has(report_page(RunFiles{.folder = "/x/y"}, nullptr), "There are no metrics to draw."));
}

TEST_CASE("report page: one loss far above the others is cut off, and said") {
  RunFiles run = made_run();
  run.metrics.clear();
  for (int64_t epoch = 1; epoch <= 5; ++epoch) {
    const auto e = static_cast<double>(epoch);
    run.metrics.push_back(row_of(epoch, 10 * epoch, "train", 2 - 0.2 * e, 0.5));
    run.metrics.push_back(row_of(epoch, 10 * epoch, "val", 2.2 - 0.2 * e, 0.5));
  }
  CHECK_FALSE(has(report_page(run, nullptr), "cut off"));
  run.metrics[1].loss = 282;
  const std::string page = report_page(run, nullptr);
  CHECK(has(page, "cut off: up to 282</text>"));
  // The axis covers 1 to 1.8, and a twentieth more: epoch 5 of train is at its foot, epoch 1 nearly
  // at its head (312 units high).
  CHECK(has(page, "d=\"M0.0 14.9L160.0 "));
  CHECK(has(page, "L640.0 312.0\""));
  run.metrics[3].loss = 281;  // two of ten are not single values
  CHECK_FALSE(has(report_page(run, nullptr), "cut off"));
}

TEST_CASE("report page: the memory of the five tags that hold most, if they hold a fiftieth") {
  RunFiles run = made_run();
  for (report::MetricsPoint& row : run.metrics) {
    row.memory = 1000;
    for (size_t tag = 0; tag < 7; ++tag) row.memory_of_tag[tag] = 100 + static_cast<double>(tag);
    row.memory_of_tag[1] = 19;
  }
  const std::string page = report_page(run, nullptr);
  const std::string chart = page.substr(page.find("<title>Memory, MiB"));
  const auto name = [](size_t tag) {
    return "</tspan> " + std::string(profile::name_of(static_cast<profile::MemoryTag>(tag)));
  };
  CHECK(has(chart, "</tspan> all"));
  for (const size_t tag : {2, 3, 4, 5, 6}) CHECK_MESSAGE(has(chart, name(tag)), tag);
  CHECK_FALSE(has(chart, name(0)));
  CHECK_FALSE(has(chart, name(1)));
}

TEST_CASE("report page: a confusion matrix has a row per label, darker where more images are") {
  const ReportEvaluation e = evaluation();
  const std::string page = report_page(made_run(), &e);
  CHECK(has(page, "<p>5 test images: accuracy 80.00 %, loss 0.5.</p>"));
  ReportEvaluation none_seen = e;
  none_seen.accuracy = none_seen.loss = test::kNoNumber;
  CHECK(has(report_page(made_run(), &none_seen), "<p>5 test images: accuracy –, loss –.</p>"));
  const auto cell = [](const char* colour, const char* opacity, int n) {
    return "<td><span style=\"background:rgba(" + std::string(colour) + "," + opacity +
           ");padding:0 .3em\">" + std::to_string(n) + "</span></td>";
  };
  CHECK(has(page, "<th scope=\"row\">cat</th>" + cell("0,158,115", "0.50", 4) +
                      cell("213,94,0", "0.20", 1) + "<td>80.00 %</td>"));
  const std::string none = "<td><span class=\"soft\">·</span></td>";
  CHECK(has(page, "<th scope=\"row\">&lt;dog&gt;</th>" + none + none + "<td>–</td>"));
}

TEST_CASE("report page: of many classes the pairs that are confused most often, those first") {
  ReportEvaluation e{.about = "images"};
  for (int i = 0; i < 101; ++i) e.classes.push_back("class " + std::to_string(i));
  e.confusion.assign(101, std::vector<int64_t>(101, 0));
  e.confusion[3][3] = 50;
  e.confusion[4][5] = 2;
  e.confusion[6][7] = 9;
  const std::string page = report_page(made_run(), &e);
  CHECK(has(page, "of 101</caption>"));
  CHECK(has(page,
            "<tr><th scope=\"row\">class 6</th><td>class 7</td><td>9</td></tr>\n"
            "<tr><th scope=\"row\">class 4</th><td>class 5</td><td>2</td></tr>\n</tbody>"));
  CHECK(count(page, "class 3") == 0);
  e.classes.pop_back();
  CHECK(count(report_page(made_run(), &e), "class 3") > 0);
}

TEST_CASE("report page: the worst mistakes are images with both names and a place") {
  const ReportEvaluation e = evaluation();
  const std::string page = report_page(made_run(), &e);
  const std::string what = "cat taken for &lt;dog&gt;";
  CHECK(has(page, "<img src=\"data:image/png;base64,cG5n\" alt=\"" + what +
                      "\" loading=\"lazy\"><br>" + what +
                      "<br>90.00 %, loss 2.35<br><span class=\"soft\">image 7</span>"));
  CHECK(has(page, "<span class=\"soft\">pets/&lt;b&gt;.png</span>"));
  const ReportEvaluation good{.about = "images", .classes = {"a"}, .confusion = {{1}}};
  CHECK(has(report_page(made_run(), &good), "Every image was recognised."));
}

TEST_CASE("comparison page: results and the settings that differ, a column for each run") {
  RunFiles a = made_run(), b = made_run();
  b.folder = "/nowhere/runs/b";
  a.config = {{"lr", "0.1"}, {"momentum", "0.9"}};
  b.config = {{"lr", "<0.2>"}, {"momentum", "0.9"}, {"ema", "0.99"}};
  b.metrics[1].accuracy = 0.625;
  b.metrics.push_back(row_of(2, 20, "test", 1, 0.5));
  b.remarks = {"log.txt is missing."};
  const std::string page = comparison_page({a, b});
  CHECK(has(page, "<h1>2 runs compared</h1>"));
  CHECK(has(page, "<p>b: log.txt is missing.</p>"));
  for (const char* row :
       {"<th scope=\"row\">best accuracy</th><td>50.00 %</td><td>–</td>",
        "<th scope=\"row\">best accuracy, validation</th><td>–</td><td>62.50 %</td>",
        "<th scope=\"row\">lr</th><td>0.1</td><td>&lt;0.2&gt;</td>",
        "<th scope=\"row\">ema</th><td></td><td>0.99</td>"})
    CHECK_MESSAGE(has(page, row), row);
  CHECK_FALSE(has(page, "momentum"));
  CHECK(count(page, "<title>Loss of evaluations</title>") == 1);
  CHECK(has(page, "</tspan> a val"));
  CHECK(has(page, "</tspan> b val"));
}
