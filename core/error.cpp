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
  std::string message = concat(origin, ": ", message_), text = concat(origin, ": ", text_);
  message_ = std::move(message);
  text_ = std::move(text);
  has_origin_ = true;
}

}  // namespace lathe
