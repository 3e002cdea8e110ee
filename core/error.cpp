// The text of an error: the message, then the place.
#include "lathe/core/error.h"

#include <utility>

namespace lathe {

Error::Error(const std::string& message, SourcePlace place)
    : std::runtime_error(message),
      message_(message),
      text_(place.file == nullptr ? message
                                  : concat(message, "\n  at ", place.file, ":", place.line)) {}

void Error::set_origin(const std::string& origin) {
  if (has_origin_) return;
  const std::string start = concat(origin, ": ");
  if (!message_.starts_with(start)) {  // a layer's own error may name it already
    std::string message = start + message_, text = start + text_;
    message_ = std::move(message);
    text_ = std::move(text);
  }
  has_origin_ = true;
}

}  // namespace lathe
