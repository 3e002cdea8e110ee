// The descriptors of the emulated cuDNN: objects with attributes, and how calls on them fail.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lathe/tests/emulation/cudnn/cudnn.h"

namespace lathe::emulation {

struct Attribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  int64_t count = 0;
  std::vector<char> bytes;
};

struct CudnnObject {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  std::vector<void*> parts;                                               // that go when it goes
  std::shared_ptr<const bool> life = std::make_shared<const bool>(true);  // ends with it
};

/// How a call fails: thrown within the emulation, returned by the call.
struct CudnnRefusal {
  cudnnStatus_t status;
  std::string reason;
};
inline void require(bool holds, cudnnStatus_t status, const char* reason) {
  if (!holds) throw CudnnRefusal{status, reason};
}

void* make_object(cudnnBackendDescriptorType_t type);
void destroy_object(void* object);
CudnnObject& object_at(void* object);
/// A finalized one of that type.
CudnnObject& finalized_at(void* object, cudnnBackendDescriptorType_t type);

size_t size_of_type(cudnnBackendAttributeType_t type);

/// All values of an attribute, none if it was not set.
template <class T>
std::vector<T> values_of(const CudnnObject& object, cudnnBackendAttributeName_t name) {
  const auto at = object.attributes.find(name);
  if (at == object.attributes.end()) return {};
  require(size_of_type(at->second.type) == sizeof(T), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
          "the attribute has another type");
  std::vector<T> values(static_cast<size_t>(at->second.count));
  std::memcpy(values.data(), at->second.bytes.data(), at->second.bytes.size());
  return values;
}
template <>
inline std::vector<bool> values_of(const CudnnObject& object, cudnnBackendAttributeName_t name) {
  const std::vector<char> bytes = values_of<char>(object, name);
  return {bytes.begin(), bytes.end()};
}
template <class T>
T value_of(const CudnnObject& object, cudnnBackendAttributeName_t name) {
  const std::vector<T> values = values_of<T>(object, name);
  require(values.size() == 1, CUDNN_STATUS_BAD_PARAM, "an attribute is missing");
  return values[0];
}
template <size_t N>
std::array<int64_t, N> array_of(const CudnnObject& object, cudnnBackendAttributeName_t name) {
  const std::vector<int64_t> values = values_of<int64_t>(object, name);
  require(values.size() == N, CUDNN_STATUS_BAD_PARAM, "an array has the wrong length");
  std::array<int64_t, N> array{};
  std::memcpy(array.data(), values.data(), sizeof array);
  return array;
}
/// The one descriptor that an attribute names.
inline CudnnObject& part_of(const CudnnObject& object, cudnnBackendAttributeName_t name,
                            cudnnBackendDescriptorType_t type) {
  return finalized_at(value_of<void*>(object, name), type);
}

template <class T>
void put(CudnnObject& object, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         const T* values, int64_t count) {
  const char* const first = reinterpret_cast<const char*>(values);
  object.attributes[name] = {type, count, {first, first + count * int64_t{sizeof(T)}}};
}
template <class T>
void put(CudnnObject& object, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         const T& value) {
  put(object, name, type, &value, 1);
}

}  // namespace lathe::emulation
