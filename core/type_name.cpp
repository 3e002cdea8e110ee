// Turning the compiler's name of a class into the one in the source.
#include "lathe/core/type_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace lathe {

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  const std::string name = status == 0 ? text.get() : type.name();
  const size_t scope = name.rfind("::", name.find('<'));
  return scope == std::string::npos ? name : name.substr(scope + 2);
}

}  // namespace lathe
