// See stack_switch.h. The registers are those that a call preserves (System V ABI, AMD64, 3.2.1),
// but for the rounding modes, which no kernel changes.
#include "stack_switch.h"

#include <cstdint>

#include "lathe/core/config.h"
#include "unseen.h"

#if defined(LATHE_ASAN)
#  include <sanitizer/asan_interface.h>
#endif

namespace lathe::emulation {

#if defined(__x86_64__)

extern "C" void lathe_emulation_switch_stack(void** left, void* other);
asm(R"(
  .text
  .p2align 4
  .type lathe_emulation_switch_stack, @function
lathe_emulation_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size lathe_emulation_switch_stack, . - lathe_emulation_switch_stack
)");

LATHE_UNSEEN void StackSwitch::begin(char* stack, size_t bytes, void (*entry)()) {
#  if defined(LATHE_ASAN)
  // Frames that were left for good lie at its top: those of what ends the thread.
  constexpr size_t kLeftBytes = 4096;
  __asan_unpoison_memory_region(stack + bytes - kLeftBytes, kLeftBytes);
#  endif
  // Six registers, where the switch returns to, and where `entry` would: so it finds the stack as
  // after a call.
  auto* const end =
      reinterpret_cast<uintptr_t*>(reinterpret_cast<uintptr_t>(stack + bytes) / 16 * 16);
  for (int word = 1; word <= 8; ++word) end[-word] = 0;
  end[-2] = reinterpret_cast<uintptr_t>(entry);
  top_ = end - 8;
}

LATHE_UNSEEN void StackSwitch::leave_for(StackSwitch& other) {
  lathe_emulation_switch_stack(&top_, other.top_);
}

#else

LATHE_UNSEEN void StackSwitch::begin(char* stack, size_t bytes, void (*entry)()) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
}

LATHE_UNSEEN void StackSwitch::leave_for(StackSwitch& other) {
  swapcontext(&context_, &other.context_);
}

#endif

}  // namespace lathe::emulation
