// What a fuzz target is. <parser>_fuzz.cpp defines the two functions; libfuzzer.cpp or replay.cpp
// drives them.
#pragma once

#include <string>
#include <vector>

namespace lathe::fuzz {

/// Valid inputs to start from, small.
std::vector<std::string> seeds();

/// Feeds `bytes` to the parser. Success and lathe::Error are both right; anything else is a bug:
/// another exception, a crash, a sanitizer's report, more memory than the input can account for.
void feed(const std::string& bytes);

/// A file that holds `bytes` until the next call, for parsers that read files.
std::string file_of(const std::string& bytes);

}  // namespace lathe::fuzz
