// What descriptors of the emulated cuDNN mean; see cudnn_meaning.h.
#include "cudnn_meaning.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "cudnn_emulation.h"

namespace lathe::emulation {

namespace {

CudnnTensor tensor_part(const CudnnObject& o, cudnnBackendAttributeName_t name) {
  return tensor_of(part_of(o, name, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
}

struct ConvolutionNames {
  CudnnStep::Kind kind;
  cudnnBackendAttributeName_t how, x, w, y, alpha, beta;
};
ConvolutionNames names_of(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {CudnnStep::kBackwardData,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return {CudnnStep::kBackwardFilter,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default:
      return {CudnnStep::kForward,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }
}

constexpr int64_t kFirstOther = 100, kOthers = 54;
constexpr int64_t kSettings = 20, kSplits = 6, kTiles = 11;  // of the engines 9, 4 and 8

const std::vector<CudnnEngine>& all_engines() {
  static const auto& all = *[] {
    auto* engines = new std::vector<CudnnEngine>{
        {.index = 0, .notes = {}},
        {.index = 3, .notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, .workspace_per_element = 4},
        {.index = 4, .notes = {}, .knob = CUDNN_KNOB_TYPE_SPLIT_K, .workspace_per_element = 16},
        {.index = 5,
         .notes = {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS},
         .rounding = CudnnRounding::kBfloat16},
        {.index = 7,
         .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
         .knob = CUDNN_KNOB_TYPE_TILE_SIZE,
         .rounding = CudnnRounding::kTf32},
        {.index = 8,
         .notes = {},
         .knob = CUDNN_KNOB_TYPE_TILE_SIZE,
         .rounding = CudnnRounding::kHalf},
        {.index = 9, .notes = {}, .knob = CUDNN_KNOB_TYPE_TILE_SIZE}};
    for (int64_t i = 0; i < kOthers; ++i) {
      engines->push_back({.index = kFirstOther + i, .notes = {}});
    }
    return engines;
  }();
  return all;
}

bool suits_tensor_cores(const CudnnProgram& program) {
  return std::ranges::all_of(program.tensors(), [](const CudnnTensor& t) {
    const int64_t group = t.dtype == CUDNN_DATA_FLOAT ? 4 : 8;
    return t.dims[1] % group == 0 && t.strides[1] == 1 && t.alignment >= 16;
  });
}

}  // namespace

CudnnTensor tensor_of(const CudnnObject& o) {
  const CudnnTensor t{.uid = value_of<int64_t>(o, CUDNN_ATTR_TENSOR_UNIQUE_ID),
                      .dtype = value_of<cudnnDataType_t>(o, CUDNN_ATTR_TENSOR_DATA_TYPE),
                      .dims = array_of<4>(o, CUDNN_ATTR_TENSOR_DIMENSIONS),
                      .strides = array_of<4>(o, CUDNN_ATTR_TENSOR_STRIDES),
                      .alignment = value_of<int64_t>(o, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
                      .is_virtual = value_of<bool>(o, CUDNN_ATTR_TENSOR_IS_VIRTUAL)};
  require(std::ranges::all_of(t.dims, [](int64_t n) { return n > 0; }), CUDNN_STATUS_BAD_PARAM,
          "a dimension is not positive");
  return t;
}
namespace {

CudnnStep pointwise_step(const CudnnObject& o) {
  const CudnnObject& function =
      part_of(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  const auto mode = value_of<cudnnPointwiseMode_t>(function, CUDNN_ATTR_POINTWISE_MODE);
  CudnnStep step{.kind = CudnnStep::kAdd,
                 .x = tensor_part(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)};
  switch (mode) {
    case CUDNN_POINTWISE_ADD: break;
    case CUDNN_POINTWISE_MUL: step.kind = CudnnStep::kMultiply; break;
    case CUDNN_POINTWISE_SUB: step.kind = CudnnStep::kSubtract; break;
    case CUDNN_POINTWISE_RELU_FWD:
      step.kind = CudnnStep::kRelu;
      step.y = tensor_part(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
      return step;
    case CUDNN_POINTWISE_RELU_BWD:
      step.kind = CudnnStep::kReluBackward;
      step.w = tensor_part(o, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC);
      step.y = tensor_part(o, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC);
      return step;
  }
  step.w = tensor_part(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  step.y = tensor_part(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  return step;
}

CudnnStep norm_backward_step(const CudnnObject& o) {
  const auto part = [&](cudnnBackendAttributeName_t name) { return tensor_part(o, name); };
  return {.kind = CudnnStep::kNormBackward,
          .x = part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC),
          .w = part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC),
          .read = {part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC),
                   part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC),
                   part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC)},
          .written = {part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC),
                      part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC),
                      part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC),
                      part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC),
                      part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS)}};
}

/// The fused patterns for which engine 8 exists: their steps by initials.
bool is_fused_pattern(const CudnnProgram& program) {
  std::string steps;
  for (const CudnnStep& step : program.steps) {
    steps += std::string_view("FDWasmrbSN")[static_cast<size_t>(step.kind)];
  }
  const CudnnStep& conv = program.convolution();
  const bool small = conv.w.dims[2] <= 5, unstrided = conv.stride[0] == 1 && conv.stride[1] == 1;
  if (steps == "DsmmabN" || steps == "Far" || steps == "Faar") return true;
  if (steps == "DasmmaabN" || steps == "DasmmasmmaabNN") return small && unstrided;
  return small && (steps == "FS" || steps == "marFS" || steps == "marW");
}

/// What engine 8 takes: halves in NHWC, channels in groups of 16 bytes; numbers per channel are f16
/// before a convolution and f32 elsewhere.
bool suits_fused_engine(const CudnnProgram& program) {
  if (program.convolution().x.dims[1] != program.convolution().w.dims[1]) return false;  // groups
  for (const CudnnTensor& t : program.tensors()) {
    const bool per_channel = t.dims[0] == 1 && t.dims[2] == 1 && t.dims[3] == 1;
    if (per_channel && t.dtype == CUDNN_DATA_FLOAT) continue;
    const bool suits = t.dtype == CUDNN_DATA_HALF && t.dims[1] % 8 == 0 && t.strides[1] == 1;
    if (!suits || t.alignment < 16) return false;
  }
  const CudnnStep& first = program.steps.front();
  return first.kind != CudnnStep::kMultiply || first.w.dtype == CUDNN_DATA_HALF;
}

}  // namespace

CudnnStep step_of(const CudnnObject& o) {
  switch (o.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return pointwise_step(o);
    case CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR: return norm_backward_step(o);
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
      return {.kind = CudnnStep::kStatistics,
              .x = tensor_part(o, CUDNN_ATTR_OPERATION_GENSTATS_XDESC),
              .written = {tensor_part(o, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC),
                          tensor_part(o, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC)}};
    default: break;
  }
  const ConvolutionNames names = names_of(o.type);
  const CudnnObject& how = part_of(o, names.how, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  require(value_of<float>(o, names.alpha) == 1 && value_of<float>(o, names.beta) == 0,
          CUDNN_STATUS_NOT_SUPPORTED, "alpha is 1 and beta 0 here");
  return {.kind = names.kind,
          .x = tensor_part(o, names.x),
          .w = tensor_part(o, names.w),
          .y = tensor_part(o, names.y),
          .stride = array_of<2>(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
          .pad = array_of<2>(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
          .dilation = array_of<2>(how, CUDNN_ATTR_CONVOLUTION_DILATIONS)};
}

CudnnProgram program_of(const CudnnObject& graph) {
  CudnnProgram program;
  for (void* operation : values_of<void*>(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    CudnnObject& o = object_at(operation);
    require(o.finalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "an operation is not finalized");
    program.steps.push_back(step_of(o));
  }
  require(std::ranges::any_of(program.steps, &CudnnStep::is_convolution), CUDNN_STATUS_BAD_PARAM,
          "the graph has no convolution");
  return program;
}

const CudnnEngine& engine_of(const CudnnObject& o) {
  const auto index = value_of<int64_t>(o, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const auto at = std::ranges::find(all_engines(), index, &CudnnEngine::index);
  require(at != all_engines().end(), CUDNN_STATUS_NOT_SUPPORTED, "there is no such engine");
  return *at;
}

CudnnConfig config_of(const CudnnObject& o) {
  const CudnnObject& engine =
      part_of(o, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const CudnnObject& graph =
      part_of(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  CudnnConfig config{&engine_of(engine), program_of(graph), 0};
  config.program.rounding = config.engine->rounding;
  config.workspace_bytes =
      config.engine->workspace_per_element * config.program.convolution().outputs()[0].numel();
  require(config.engine->index != 7 || suits_tensor_cores(config.program),
          CUDNN_STATUS_NOT_SUPPORTED, "channels come in groups of 16 bytes");
  for (void* knob : values_of<void*>(o, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)) {
    const CudnnObject& choice = finalized_at(knob, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    require(value_of<cudnnBackendKnobType_t>(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) ==
                config.engine->knob,
            CUDNN_STATUS_NOT_SUPPORTED, "the engine has no such knob");
  }
  return config;
}

std::vector<CudnnGuess> guesses_of(const CudnnObject& heuristic) {
  const CudnnObject& graph = part_of(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                     CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const CudnnProgram program = program_of(graph);
  require(cudnn_probe().fuses || program.steps.size() == 1,
          CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "no engine fuses these operations");
  const bool many = cudnn_probe().offers_many;
  std::vector<CudnnGuess> guesses;
  const bool adds_bias = program.steps.size() == 2 && program.steps[1].kind == CudnnStep::kAdd;
  if (program.steps.size() > 1 && !adds_bias) {
    const auto mode = value_of<cudnnBackendHeurMode_t>(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE);
    if (mode != CUDNN_HEUR_MODE_FALLBACK && is_fused_pattern(program) &&
        suits_fused_engine(program)) {
      guesses = {{8, 2}, {8, 1}};
      for (int64_t i = 3; many && i <= kTiles; ++i) guesses.push_back({8, i});
    }
    return guesses;
  }
  switch (value_of<cudnnBackendHeurMode_t>(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE)) {
    case CUDNN_HEUR_MODE_A:
      for (int64_t i = 0; many && i < kSettings; ++i) guesses.push_back({9, i});
      if (suits_tensor_cores(program)) guesses.insert(guesses.end(), {{7, 2}, {7, 1}});
      guesses.insert(guesses.end(), {{5, 0}, {3, 0}, {4, 4}});
      for (int64_t i = 1; many && i < kSplits; ++i) guesses.push_back({4, 4 + i});
      break;
    case CUDNN_HEUR_MODE_B:
      guesses = {{3, 0}};
      for (int64_t i = 0; many && i < kOthers; ++i) guesses.push_back({kFirstOther + i, 0});
      break;
    case CUDNN_HEUR_MODE_FALLBACK: guesses = {{4, 4}, {0, 0}}; break;
  }
  return guesses;
}

void fill_config(void* target, void* graph, const CudnnGuess& guess) {
  CudnnObject& config = object_at(target);
  const CudnnEngine& engine = *std::ranges::find(all_engines(), guess.engine, &CudnnEngine::index);
  const auto add = [&](cudnnBackendDescriptorType_t type) {
    void* const part = make_object(type);
    object_at(part).finalized = true;
    config.parts.push_back(part);
    return part;
  };
  void* const engine_part = add(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  put(object_at(engine_part), CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      graph);
  put(object_at(engine_part), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, guess.engine);
  put(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, engine_part);
  if (engine.knob != CUDNN_KNOB_TYPE_COUNTS) {
    void* const knob = add(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    put(object_at(knob), CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, engine.knob);
    put(object_at(knob), CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, guess.knob_value);
    put(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, knob);
  }
  config.finalized = true;
}

}  // namespace lathe::emulation
