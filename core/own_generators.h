// Default generators of one thread, for work whose draws count for nobody else: a trace, for
// instance. Defined in generator.cpp.
#pragma once

#include <memory>

#include "lathe/core/config.h"

namespace lathe {

/// While it lives, this thread has default generators of its own. They begin in the state of the
/// others, which other threads go on drawing from, and which stand still for this thread.
/// random_state(), set_random_state() and manual_seed() are about its own ones, too.
/// A generator that default_generator() returned meanwhile ends with it, so that no CUDA graph may
/// be captured in it. Scopes of one thread end in the reverse order.
class LATHE_API OwnGenerators {
 public:
  OwnGenerators();
  ~OwnGenerators();
  OwnGenerators(const OwnGenerators&) = delete;
  OwnGenerators& operator=(const OwnGenerators&) = delete;

  struct All;  // of all devices

 private:
  std::unique_ptr<All> own_;
  All* const before_;
};

}  // namespace lathe
