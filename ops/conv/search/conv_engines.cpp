// The text of an engine, written and read. Contracts: conv_engines.h.
#include "lathe/ops/conv/search/conv_engines.h"

#include "lathe/core/error.h"
#include "lathe/ops/conv/search/conv_text.h"

namespace lathe {

void append_text(std::string& out, const ConvEngine& engine) {
  append_text(out, engine.index);
  char before = ':';
  for (const auto& [type, value] : engine.setting) {
    out += before;
    out += concat(type, "=", value);
    before = ',';
  }
}

ConvEngine parse_conv_engine(std::string_view text) {
  WordReader in("convolution engine", text);
  ConvEngine engine{.index = in.number()};
  for (const char* before = ":"; !in.done(); before = ",") {
    in.expect(before);
    const int64_t type = in.number();
    in.expect("=");
    engine.setting.emplace_back(type, in.number());
  }
  LATHE_CHECK(DataError, concat(engine) == text, "convolution engine: not in its exact form: \"",
              text, "\"");
  return engine;
}

}  // namespace lathe
