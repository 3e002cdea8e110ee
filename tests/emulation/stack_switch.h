// A stack of its own for each fiber, and the switch from one stack to another.
//
// swapcontext() would do. It makes two system calls for the signal mask, which all fibers share,
// and AddressSanitizer then clears what it knows of the whole stack: a launch of the emulated GPU
// took more than twice as long.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#  include <ucontext.h>
#endif

namespace lathe::emulation {

/// A place in some code that is left and gone on with later, on the stack that it has.
class StackSwitch {
 public:
  /// The next switch to this calls `entry`, which must not return, on the stack of `bytes` bytes.
  void begin(char* stack, size_t bytes, void (*entry)());

  /// Keeps the place where it is called in this, and goes on at `other`. It returns when something
  /// switches to this.
  void leave_for(StackSwitch& other);

 private:
#if defined(__x86_64__)
  void* top_ = nullptr;  // the stack pointer; above it, the registers that a call preserves
#else
  ucontext_t context_;
#endif
};

}  // namespace lathe::emulation
