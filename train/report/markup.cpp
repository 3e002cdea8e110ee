// markup_text(): what means something in markup becomes a reference to the character.
#include "lathe/train/report/markup.h"

#include "lathe/core/printable.h"

namespace lathe::report {

std::string markup_text(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace lathe::report
