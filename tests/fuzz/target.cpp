#include "lathe/tests/fuzz/target.h"

#include <ctime>

#include <map>
#include <stdexcept>

#include "lathe/core/error.h"

namespace lathe::fuzz {
namespace {

// Filled before main() by the targets that were linked: which ones depends on the build.
std::map<std::string, const Target*>& targets() {
  static std::map<std::string, const Target*> all;
  return all;
}

// Of the process and not of the clock: a busy machine makes nothing a bug.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Target::Target(const std::string& name, std::vector<std::string> (*make_seeds)(),
               void (*feed)(const std::string& bytes))
    : make_seeds_(make_seeds), feed_(feed) {
  targets()[name] = this;
}

bool Target::try_input(const std::string& bytes) const {
  const double begin = processor_seconds();
  bool accepted = true;
  try {
    feed_(bytes);
  } catch (const Error&) {
    accepted = false;
  }
  const double seconds = processor_seconds() - begin;
  if (seconds > 1)
    throw std::logic_error("an input took " + std::to_string(seconds) + " s of processor time");
  return accepted;
}

const Target& target_named(const std::string& name) {
  if (const auto found = targets().find(name); found != targets().end()) return *found->second;
  std::string names;
  for (const auto& [known, target] : targets()) names += " " + known;
  throw std::invalid_argument("no parser \"" + name + "\"; there are:" + names);
}

}  // namespace lathe::fuzz
