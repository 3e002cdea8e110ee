// The calls behind Descriptor, and which errors mean that sizes are wrong.
#include "lathe/core/gpu/cudnn_descriptor.h"

#include "lathe/core/error.h"

namespace lathe::cudnn {

namespace {

struct TypeInfo {
  const char* name;           // for messages
  bool holds_shapes = false;  // true: if cuDNN refuses it, its sizes are wrong
};

TypeInfo info_of(cudnnBackendDescriptorType_t type) {
  // No case, because an older header's enumeration does not have it.
  if (type == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) return {"the description of a GPU"};
  switch (type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return {"a tensor", true};
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return {"a convolution", true};
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR: return {"a pointwise function"};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {"a convolution forward", true};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {"a convolution backward data", true};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return {"a convolution backward filter", true};
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return {"a pointwise operation", true};
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR: return {"statistics of channels", true};
    case CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR: return {"a batch norm backward", true};
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return {"an operation graph", true};
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return {"a heuristic"};
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: return {"an engine"};
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR: return {"a knob"};
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: return {"an engine configuration"};
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return {"an execution plan"};
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return {"a variant pack"};
    default: return {"a descriptor"};
  }
}

bool is_bad_parameter(cudnnStatus_t status) {
  return status / 1000 == CUDNN_STATUS_BAD_PARAM / 1000;
}

}  // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) : type_(type) {
  const cudnnStatus_t status = functions().cudnnBackendCreateDescriptor(type, &object_);
  if (status != CUDNN_STATUS_SUCCESS) check(status, concat("make ", info_of(type).name));
}

Descriptor::~Descriptor() {
  if (object_ != nullptr) functions().cudnnBackendDestroyDescriptor(object_);
}

void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.object_);
}

void Descriptor::set_objects(cudnnBackendAttributeName_t name,
                             std::span<const cudnnBackendDescriptor_t> values) {
  set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(values.size()), values.data());
}

void Descriptor::finalize() {
  const cudnnStatus_t status = functions().cudnnBackendFinalize(object_);
  if (status == CUDNN_STATUS_SUCCESS) return;
  const TypeInfo info = info_of(type_);
  try {
    check(status, concat("finalize ", info.name));
  } catch (const CudaError& e) {
    if (info.holds_shapes && is_bad_parameter(status)) LATHE_FAIL(ShapeError, e.message());
    throw;
  }
}

std::vector<Descriptor> Descriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                                    cudnnBackendDescriptorType_t type,
                                                    int64_t most) const {
  std::vector<Descriptor> held;
  std::vector<cudnnBackendDescriptor_t> objects;  // empty descriptors, which cuDNN fills
  for (int64_t i = 0; i < most; ++i) objects.push_back(held.emplace_back(type).object());
  if (most == 0) return held;
  const int64_t got = get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, objects.data());
  while (static_cast<int64_t>(held.size()) > got) held.pop_back();
  return held;
}

void Descriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         int64_t count, const void* values) {
  const cudnnStatus_t status =
      functions().cudnnBackendSetAttribute(object_, name, type, count, values);
  if (status == CUDNN_STATUS_SUCCESS) return;
  check(status, concat("set attribute ", static_cast<int64_t>(name), " of ", info_of(type_).name));
}

int64_t Descriptor::get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t count, void* values) const {
  int64_t got = 0;
  const cudnnStatus_t status =
      functions().cudnnBackendGetAttribute(object_, name, type, count, &got, values);
  if (status == CUDNN_STATUS_SUCCESS) return got;
  check(status, concat("get attribute ", static_cast<int64_t>(name), " of ", info_of(type_).name));
  return 0;
}

}  // namespace lathe::cudnn
