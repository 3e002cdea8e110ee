// What the emulated cuDNN tells of the convolutions that it has executed, and how a case leaves it.
// Of a real cuDNN all of this is unknown.
#pragma once

#include <algorithm>

#include "../emulated_count.h"
#ifdef LATHE_CUDA_EMULATED
#  include "lathe/tests/emulation/cudnn_emulation.h"
#endif

namespace lathe::test {

#ifdef LATHE_CUDA_EMULATED

inline void forget_executions() { emulation::cudnn_probe().executions.clear(); }

/// Since forget_executions().
inline EmulatedCount executions() { return std::ssize(emulation::cudnn_probe().executions); }

/// Those by the emulation's engine for fused graphs.
inline EmulatedCount fused_executions() {
  return std::ranges::count(emulation::cudnn_probe().executions, 8,
                            &emulation::CudnnExecution::engine);
}

/// Executions that ran when their plan was gone, so far.
inline EmulatedCount lost_plans() {
  return static_cast<int64_t>(emulation::cudnn_probe().lost_plans);
}

/// Plans that are alive.
inline EmulatedCount plans() { return static_cast<int64_t>(emulation::cudnn_probe().plans); }

/// Nothing fails any more.
inline void mend_cudnn() {
  emulation::CudnnProbe& probe = emulation::cudnn_probe();
  probe.refused.clear();
  probe.failing.clear();
  probe.uncapturable.clear();
  probe.indescribable.clear();
  probe.fuses = true;
  probe.offers_many = false;
  probe.descriptor_fault.disarm();
  probe.stream_fault.disarm();
  probe.execution_fault.disarm();
}

#else

inline void forget_executions() {}
inline EmulatedCount executions() { return {}; }
inline EmulatedCount fused_executions() { return {}; }
inline EmulatedCount lost_plans() { return {}; }
inline EmulatedCount plans() { return {}; }
inline void mend_cudnn() {}

#endif

}  // namespace lathe::test
