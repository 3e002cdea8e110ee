// Runs a kernel: blocks one after another, a block's warps in turns between barriers, and the lanes
// of a warp together as long as they stand at the same instruction. Lanes that part meet again
// where their ways do, because those that are behind go first.
//
// Errors, each with kernel, block, thread and PTX line: a load or store outside every buffer or not
// aligned; a register that is used before it has a value; a value from shared or local memory that
// nobody wrote; two threads that use a byte of shared memory, one of them writing, with no barrier
// between; a barrier that some threads never reach or reach elsewhere; a shuffle that a lane of its
// mask never reaches.
#pragma once

#include "warp.h"

namespace lathe::ptx {

/// What is done is added to `work`.   throws: StateError as above; ValueError where the kernel does
/// not take such a block or such parameters.
void run(const Launch& launch, Work& work);

}  // namespace lathe::ptx
