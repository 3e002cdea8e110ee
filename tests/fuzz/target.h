// What the drivers, libfuzzer.cpp and replay.cpp, know of a parser.
#pragma once

#include <string>
#include <vector>

namespace lathe::fuzz {

/// A parser that is fuzzed. Each <parser>_fuzz.cpp defines one as a constant. All parsers are in
/// one program, because a program with a sanitizer's library takes 170 MB.
class Target {
 public:
  /// From then on target_named() knows it.
  ///   make_seeds  makes valid inputs to start from, small
  ///   feed        feeds bytes to the parser, within check_allocations (allocation_watch.h).
  ///               Success and lathe::Error are both right; anything else is a bug: another
  ///               exception, a crash, a sanitizer's report, more memory than the input can
  ///               account for.
  Target(const std::string& name, std::vector<std::string> (*make_seeds)(),
         void (*feed)(const std::string& bytes));

  std::vector<std::string> seeds() const { return make_seeds_(); }
  /// Feeds `bytes` to the parser, within a second of processor time.
  /// → whether the parser accepted them
  /// throws: std::logic_error if it took longer; what `feed` throws and is a bug.
  bool try_input(const std::string& bytes) const;

 private:
  std::vector<std::string> (*make_seeds_)();
  void (*feed_)(const std::string& bytes);
};

/// throws: std::invalid_argument with all names, if no target of this program has this one.
const Target& target_named(const std::string& name);

/// A file that holds `bytes` until the next call, for parsers that read files.
std::string file_of(const std::string& bytes);

}  // namespace lathe::fuzz
