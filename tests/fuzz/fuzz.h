// What a fuzz target is. <parser>_fuzz.cpp defines the two functions; libfuzzer.cpp or replay.cpp
// drives them.
#pragma once

#include <string>
#include <vector>

namespace lathe::fuzz {

/// Valid inputs to start from, small.
std::vector<std::string> seeds();

/// Feeds `bytes` to the parser, within check_allocations (allocation_watch.h). Success and
/// lathe::Error are both right; anything else is a bug: another exception, a crash, a sanitizer's
/// report, more memory than the input can account for.
void feed(const std::string& bytes);

/// feed() within a second of processor time.   → whether the input was accepted
/// throws: std::logic_error if it took longer; what feed() throws and is a bug.
bool try_input(const std::string& bytes);

/// A file that holds `bytes` until the next call, for parsers that read files.
std::string file_of(const std::string& bytes);

}  // namespace lathe::fuzz
