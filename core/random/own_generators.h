// Default generators of one thread, for work whose draws count for nobody else: a trace, for
// instance. Defined in generator.cpp.
#pragma once

#include <memory>

#include "lathe/core/config.h"

namespace lathe {

/// While it lives, this thread draws from default generators of its own, which begin in the state
/// of the real ones. Whatever it asks of a default generator is then about its own one, also
/// through a reference from before; so are manual_seed() and random_state(). Other threads use the
/// real ones. default_generator() returns the real ones, so that a CUDA graph, or a layer, may keep
/// one. Generators that a program made have no stand-in. Scopes of one thread end in the reverse
/// order.
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
