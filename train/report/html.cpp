// HTML pages: escaping, tables, and the page around them with its style.
#include "lathe/train/report/html.h"

#include "lathe/core/text/base64.h"
#include "lathe/core/text/formatted.h"
#include "lathe/train/report/markup.h"

namespace lathe::report {
namespace {

constexpr std::string_view kPageStyle = R"(
:root { color-scheme: light dark; --page: #fff; --text: #1c1c1c; --soft: #595959; --line: #d5d5d5; --shade: #f3f3f3; }
@media (prefers-color-scheme: dark) {
  :root { --page: #181818; --text: #e4e4e4; --soft: #a8a8a8; --line: #444; --shade: #262626; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
.soft { color: var(--soft); }
.facts { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: 1rem 0; padding: 0; list-style: none; }
.facts b { display: block; font-size: 1.25rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
.charts svg { width: 100%; height: auto; display: block; border: 1px solid var(--line); }
@media (max-width: 40rem) { .charts svg { font-size: 20px; } }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); position: sticky; left: 0; max-width: calc(100vw - 2rem); }
th, td { white-space: nowrap; padding: .15rem .6rem; text-align: left; border-bottom: 1px solid var(--line); }
thead th { background: var(--shade); }
tbody th { position: sticky; left: 0; background: var(--page); }
.matrix td { text-align: right; }
.images { display: grid; grid-template-columns: repeat(auto-fill, minmax(8rem, 1fr)); gap: 1rem; padding: 0; list-style: none; }
.images li { font-size: .85rem; overflow-wrap: anywhere; }
.images img { width: 100%; image-rendering: pixelated; background: var(--shade); }
.remarks { border-left: 4px solid #d55e00; padding: .25rem 1rem; background: var(--shade); }
pre { overflow-x: auto; background: var(--shade); padding: .5rem; font-size: .8rem; }
a:focus-visible, summary:focus-visible, [tabindex]:focus-visible { outline: 3px solid #56b4e9; }
summary { cursor: pointer; }
)";

}  // namespace

std::string png_address(std::string_view png) { return "data:image/png;base64," + to_base64(png); }

std::string html_table(std::string_view caption,
                       const std::vector<std::vector<std::string>>& rows) {
  // A scrolling area must be reachable by keyboard, and have a name then.
  std::string out = formatted(
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}"
      "</caption>\n",
      markup_text(caption));
  for (size_t r = 0; r < rows.size(); ++r) {
    out += r == 0 ? "<thead><tr>" : "<tr>";
    for (size_t c = 0; c < rows[r].size(); ++c) {
      if (r == 0) {
        out += formatted("<th scope=\"col\">{}</th>", rows[r][c]);
      } else if (c == 0) {
        out += formatted("<th scope=\"row\">{}</th>", rows[r][c]);
      } else {
        out += formatted("<td>{}</td>", rows[r][c]);
      }
    }
    out += r == 0 ? "</tr></thead><tbody>\n" : "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string html_page(std::string_view title, std::string_view body) {
  return formatted(
      "{}<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      kPageBegin, markup_text(title), kPageStyle, body);
}

}  // namespace lathe::report
