// The text of an error: the message, then the place.
#include "lathe/core/error.h"

namespace lathe {

Error::Error(const std::string& message, SourcePlace place)
    : std::runtime_error(place.file == nullptr
                             ? message
                             : concat(message, "\n  at ", place.file, ":", place.line)),
      message_(message) {}

}  // namespace lathe
