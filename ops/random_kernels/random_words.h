// The words behind random numbers, many at a time: a loop of the CPU (random_cpu.cpp).
#pragma once

#include <cstdint>

#include "lathe/core/random/generator.h"

namespace lathe::cpu {

/// Word i, for i from 0 to 4 * counters - 1, is lane i % 4 of counter start.offset + i / 4.
void random_words(uint32_t* words, Generator::State start, int64_t counters);

}  // namespace lathe::cpu
