// Random programs, and what is wrong with one.
#pragma once

#include <optional>
#include <string>

#include "program.h"

namespace lathe::programs {

struct Options {
  bool torch = false;  // only what PyTorch defines in the same way
};

/// The program of this seed: the same on every machine. Nothing where its numbers grew too large
/// to be exact, or where nothing could be differentiated.
std::optional<Program> generate(uint64_t seed, const Options& options = {});

/// What the reference says of a program; nothing where a line cannot stand (see
/// Reference::allows).
struct Meaning {
  Log log;
  size_t saved_written;  // the first line that may have written over a saved value
};
std::optional<Meaning> meaning_of(const Program& program);

struct Verdict {
  bool refused = false;  // a backward pass found a saved value written over, which is right
  std::string wrong;     // empty: every number is the reference's
};
Verdict check(const Program& program);

/// The program without the lines that its failure does not need.
Program smallest_failing(const Program& program);

}  // namespace lathe::programs
