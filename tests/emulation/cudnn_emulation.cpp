// The calls of the emulated cuDNN; see cudnn_emulation.h. One lock guards everything.
#include "cudnn_emulation.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "cudnn_meaning.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace lathe::emulation {

namespace {

constexpr size_t kExecutions = 256;  // that are remembered

std::mutex g_mutex;
std::unordered_map<void*, std::unique_ptr<CudnnObject>>& objects() {
  static auto* const all = new std::unordered_map<void*, std::unique_ptr<CudnnObject>>;
  return *all;
}
thread_local std::string t_last_error;

template <class F>
cudnnStatus_t guarded(F&& f) {
  const std::lock_guard lock(g_mutex);
  try {
    f();
    return CUDNN_STATUS_SUCCESS;
  } catch (const CudnnRefusal& refusal) {
    t_last_error = refusal.reason;
    return refusal.status;
  }
}

/// True if the attribute names the description of a GPU, which must be finalized.
bool check_gpu(const CudnnObject& object, cudnnBackendAttributeName_t name) {
  if (!object.attributes.contains(name)) return false;
  part_of(object, name, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  return true;
}

void check_meaning(const CudnnObject& object) {
  switch (object.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: tensor_of(object); break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR: {
      const char* const problem = cudnn_shape_problem(step_of(object));
      require(*problem == 0, CUDNN_STATUS_BAD_PARAM, problem);
      break;
    }
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: program_of(object); break;
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR: {
      const auto text = values_of<char>(object, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
      require(std::string(text.begin(), text.end()).find("\"deviceVer\"") != std::string::npos,
              CUDNN_STATUS_BAD_PARAM, "the text describes no GPU");
      break;
    }
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      check_gpu(object, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
      guesses_of(object);
      ++cudnn_probe().heuristics;
      break;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      check_gpu(object, CUDNN_ATTR_ENGINE_DEVICEPROP);
      engine_of(object);
      break;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: config_of(object); break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      require(check_gpu(object, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP) ||
                  value_of<void*>(object, CUDNN_ATTR_EXECUTION_PLAN_HANDLE) != nullptr,
              CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a plan needs a handle or a description");
      const CudnnConfig config = config_of(part_of(object, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                                   CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
      require(!cudnn_probe().refused.contains(config.engine->index), CUDNN_STATUS_NOT_SUPPORTED,
              "a test refuses this engine");
      ++cudnn_probe().plans;
      ++cudnn_probe().plans_made;
      break;
    }
    default: break;
  }
}

/// Writes up to `count` of the values, and how many there were.
template <class T>
void give(const std::vector<T>& all, int64_t count, int64_t* got, void* values) {
  *got = static_cast<int64_t>(all.size());
  const auto copied = static_cast<size_t>(std::min(*got, count));
  if (copied > 0) std::memcpy(values, all.data(), copied * sizeof(T));
}

/// The same for descriptors: the caller's empty ones become copies of those held.
void give_descriptors(const std::vector<void*>& all, int64_t count, int64_t* got, void* values) {
  *got = static_cast<int64_t>(all.size());
  for (int64_t i = 0; i < std::min(*got, count); ++i) {
    CudnnObject& target = object_at(static_cast<void**>(values)[i]);
    const CudnnObject& source = object_at(all[static_cast<size_t>(i)]);
    require(target.type == source.type, CUDNN_STATUS_BAD_PARAM, "a descriptor of another type");
    target.attributes = source.attributes;
    target.finalized = true;
  }
}

void give_results(const CudnnObject& heuristic, int64_t count, int64_t* got, void* values) {
  const std::vector<CudnnGuess> guesses = guesses_of(heuristic);
  const auto found = static_cast<int64_t>(guesses.size());
  if (count == 0) {
    *got = found + 2;  // the library's answer is an upper bound too
    return;
  }
  *got = std::min(found, count);
  void* const graph = value_of<void*>(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  for (int64_t i = 0; i < *got; ++i) {
    fill_config(static_cast<void**>(values)[i], graph, guesses[static_cast<size_t>(i)]);
  }
}

CudnnConfig config_of_plan(const CudnnObject& plan) {
  return config_of(
      part_of(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
}

std::map<int64_t, void*> memory_of(const CudnnProgram& program, const CudnnObject& pack) {
  const auto uids = values_of<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto addresses = values_of<void*>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  require(uids.size() == addresses.size(), CUDNN_STATUS_BAD_PARAM, "not one address per uid");
  std::map<int64_t, void*> memory;
  for (size_t i = 0; i < uids.size(); ++i) memory[uids[i]] = addresses[i];
  const std::vector<CudnnTensor> tensors = program.tensors();
  require(memory.size() == tensors.size(), CUDNN_STATUS_BAD_PARAM,
          "not every tensor is bound once");
  for (const CudnnTensor& t : tensors) {
    const auto at = memory.find(t.uid);
    require(at != memory.end() && at->second != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
            "a tensor has no memory");
    require(reinterpret_cast<uintptr_t>(at->second) % static_cast<uintptr_t>(t.alignment) == 0,
            CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor is not aligned as was said");
  }
  return memory;
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaStreamGetCaptureInfo(stream, &status, &id);
  return status == cudaStreamCaptureStatusActive;
}

void execute(cudnnHandle_t handle, const CudnnObject& plan, const CudnnObject& pack) {
  require(plan.attributes.contains(CUDNN_ATTR_EXECUTION_PLAN_HANDLE), CUDNN_STATUS_BAD_PARAM,
          "a plan for a described GPU cannot be executed");
  const CudnnConfig config = config_of_plan(plan);
  const int64_t index = config.engine->index;
  if (cudnn_probe().failing.contains(index) || cudnn_probe().execution_fault.hit()) {
    cudaFree(handle);  // leaves an error behind in the runtime, as a failed launch does
    throw CudnnRefusal{CUDNN_STATUS_EXECUTION_FAILED, "a test lets this engine fail"};
  }
  const bool captured = is_captured(handle->stream);
  if (captured && cudnn_probe().uncapturable.contains(index)) {
    cudaStreamSynchronize(handle->stream);  // which ends the capture
    throw CudnnRefusal{CUDNN_STATUS_EXECUTION_FAILED, "this engine waits for the GPU"};
  }
  const std::map<int64_t, void*> memory = memory_of(config.program, pack);
  void* const workspace = value_of<void*>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const int64_t bytes = config.workspace_bytes;
  require(workspace != nullptr || bytes == 0, CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
          "the plan needs a workspace");
  CudnnExecution done{index, handle->stream, bytes, captured, {}, {}};
  for (const auto& [uid, address] : memory) {
    done.uids.push_back(uid);
    done.addresses.push_back(address);
  }
  auto& log = cudnn_probe().executions;
  if (log.size() == kExecutions) log.erase(log.begin());
  log.push_back(std::move(done));
  const std::function<void()> work = [program = config.program, memory, workspace, bytes,
                                      life = std::weak_ptr(plan.life)] {
    ++cudnn_probe().ran;
    if (life.expired()) ++cudnn_probe().lost_plans;
    if (bytes > 0) std::memset(workspace, 0x5A, static_cast<size_t>(bytes));
    program.run(memory);
  };
  const cudaError_t queued = enqueue_kernel(handle->stream, work);
  require(queued == cudaSuccess, CUDNN_STATUS_EXECUTION_FAILED, "the stream is gone");
}

}  // namespace

CudnnProbe& cudnn_probe() {
  static CudnnProbe probe;
  return probe;
}

void* make_object(cudnnBackendDescriptorType_t type) {
  auto object = std::make_unique<CudnnObject>();
  object->type = type;
  void* const handle = object.get();
  objects().emplace(handle, std::move(object));
  ++cudnn_probe().descriptors;
  return handle;
}

void destroy_object(void* object) {
  const CudnnObject& dying = object_at(object);
  for (void* part : std::vector(dying.parts)) destroy_object(part);
  if (dying.finalized && dying.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    --cudnn_probe().plans;
  }
  objects().erase(object);
  --cudnn_probe().descriptors;
}

CudnnObject& object_at(void* object) {
  const auto at = objects().find(object);
  require(at != objects().end(), CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
          "there is no such descriptor");
  return *at->second;
}

CudnnObject& finalized_at(void* object, cudnnBackendDescriptorType_t type) {
  CudnnObject& found = object_at(object);
  require(found.type == type, CUDNN_STATUS_BAD_PARAM, "a descriptor of another type is needed");
  require(found.finalized, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor is not finalized");
  return found;
}

size_t size_of_type(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;  // enumerations and floats
  }
}

}  // namespace lathe::emulation

using namespace lathe::emulation;

size_t cudnnGetVersion() { return CUDNN_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_NULL_POINTER: return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER:
      return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE: return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN:
      return "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN";
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
      return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
  }
  return "an unknown status";
}

void cudnnGetLastErrorString(char* message, size_t size) {
  std::snprintf(message, size, "%s", t_last_error.c_str());
  t_last_error.clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return guarded([&] {
    int devices = 0;
    require(cudaGetDeviceCount(&devices) == cudaSuccess, CUDNN_STATUS_NOT_INITIALIZED,
            "there is no device");
    *handle = new cudnnContext;
    ++cudnn_probe().handles;
  });
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return guarded([&] {
    require(!cudnn_probe().stream_fault.hit(), CUDNN_STATUS_EXECUTION_FAILED,
            "a test lets this call fail");
    handle->stream = stream;
  });
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  return guarded([&] {
    require(!cudnn_probe().descriptor_fault.hit(),
            CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "a test lets this call fail");
    *descriptor = make_object(type);
  });
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return guarded([&] { destroy_object(descriptor); });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return guarded([&] {
    CudnnObject& object = object_at(descriptor);
    require(!object.finalized, CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized already");
    check_meaning(object);
    object.finalized = true;
  });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  return guarded([&] {
    CudnnObject& object = object_at(descriptor);
    require(!object.finalized, CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized already");
    require(count > 0 && values != nullptr, CUDNN_STATUS_BAD_PARAM, "no values");
    const auto bytes = count * static_cast<int64_t>(size_of_type(type));
    put(object, name, type, static_cast<const char*>(values), bytes);
    object.attributes[name].count = count;
  });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       int64_t* got, void* values) {
  return guarded([&] {
    const CudnnObject& object = object_at(descriptor);
    require(object.finalized, CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is not finalized");
    switch (name) {
      case CUDNN_ATTR_ENGINEHEUR_RESULTS: return give_results(object, count, got, values);
      case CUDNN_ATTR_ENGINECFG_ENGINE:
      case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
        return give_descriptors(values_of<void*>(object, name), count, got, values);
      case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        require(!cudnn_probe().indescribable.contains(engine_of(object).index),
                CUDNN_STATUS_NOT_SUPPORTED, "a test hides this engine's notes");
        return give(engine_of(object).notes, count, got, values);
      case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE: *got = 0; return;
      case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
        return give<int64_t>({config_of(object).workspace_bytes}, count, got, values);
      case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        return give<int64_t>({config_of_plan(object).workspace_bytes}, count, got, values);
      default: break;
    }
    const auto at = object.attributes.find(name);
    require(at != object.attributes.end(), CUDNN_STATUS_BAD_PARAM, "the attribute is not set");
    require(at->second.type == type, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
            "the attribute has another type");
    *got = at->second.count;
    const auto copied = static_cast<size_t>(std::min(count, *got)) * size_of_type(type);
    if (copied > 0) std::memcpy(values, at->second.bytes.data(), copied);
  });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  return guarded([&] {
    require(handle != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no handle");
    execute(handle, finalized_at(plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR),
            finalized_at(variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  });
}
