// What descriptors of the emulated cuDNN mean, and the engines that it offers for them
// (cudnn_emulation.h lists these).
#pragma once

#include "cudnn_objects.h"
#include "cudnn_program.h"

namespace lathe::emulation {

struct CudnnEngine {
  int64_t index;
  std::vector<cudnnBackendNumericalNote_t> notes;
  cudnnBackendKnobType_t knob = CUDNN_KNOB_TYPE_COUNTS;  // COUNTS: it has none
  int64_t workspace_per_element = 0;
  CudnnRounding rounding = CudnnRounding::kNone;
};

/// An engine that the heuristics propose, and the value of its knob.
struct CudnnGuess {
  int64_t engine, knob_value;
};

/// An engine configuration: what it computes, and how.
struct CudnnConfig {
  const CudnnEngine* engine;
  CudnnProgram program;
  int64_t workspace_bytes;
};

// All throw CudnnRefusal where something is missing or does not fit.
CudnnTensor tensor_of(const CudnnObject& tensor);
CudnnStep step_of(const CudnnObject& operation);
CudnnProgram program_of(const CudnnObject& graph);
const CudnnEngine& engine_of(const CudnnObject& engine);
CudnnConfig config_of(const CudnnObject& config);
std::vector<CudnnGuess> guesses_of(const CudnnObject& heuristic);
/// Makes the empty configuration what the heuristic guessed.
void fill_config(void* config, void* graph, const CudnnGuess& guess);

}  // namespace lathe::emulation
