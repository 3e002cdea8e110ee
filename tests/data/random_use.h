// Loaders used at random: of every kind, with any options, read to the end, abandoned, interleaved,
// handed to other threads, with samples that cannot be read. See stress_loader.cpp.
#pragma once

#include <atomic>
#include <cstdint>

#include "lathe/data/random.h"

namespace lathe::data::testing {

/// What happened, in all threads.
struct UseCounts {
  std::atomic<int64_t> loaders = 0, passes = 0, batches = 0, errors = 0, abandoned = 0;
};

/// Makes one loader and uses it a few times; `random` decides all of it. Safe to be called from
/// several threads at once.
/// throws: std::runtime_error saying which batch, end or error was not what it had to be.
void use_a_loader(Random& random, UseCounts& counts);

}  // namespace lathe::data::testing
