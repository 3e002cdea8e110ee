// Descriptor: an object of cuDNN's graph API. All kinds are used in the same way: created with a
// type, given attributes, finalized, and from then on only read.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "lathe/core/gpu/cudnn_check.h"

namespace lathe::cudnn {

/// C++ type → cuDNN's constant for the type of an attribute.
template <class T>
inline constexpr cudnnBackendAttributeType_t attribute_type = [] {
  static_assert(sizeof(T) == 0, "no attribute holds this C++ type");
  return CUDNN_TYPE_HANDLE;
}();
// clang-format off
template <> inline constexpr auto attribute_type<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <> inline constexpr auto attribute_type<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <> inline constexpr auto attribute_type<char> = CUDNN_TYPE_CHAR;
template <> inline constexpr auto attribute_type<bool> = CUDNN_TYPE_BOOLEAN;
template <> inline constexpr auto attribute_type<int64_t> = CUDNN_TYPE_INT64;
template <> inline constexpr auto attribute_type<float> = CUDNN_TYPE_FLOAT;
template <> inline constexpr auto attribute_type<double> = CUDNN_TYPE_DOUBLE;
template <> inline constexpr auto attribute_type<void*> = CUDNN_TYPE_VOID_PTR;
template <> inline constexpr auto attribute_type<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <> inline constexpr auto attribute_type<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <> inline constexpr auto attribute_type<cudnnGenStatsMode_t> = CUDNN_TYPE_GENSTATS_MODE;
template <> inline constexpr auto attribute_type<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <> inline constexpr auto attribute_type<cudnnBackendKnobType_t> = CUDNN_TYPE_KNOB_TYPE;
template <> inline constexpr auto attribute_type<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;
template <> inline constexpr auto attribute_type<cudnnBackendBehaviorNote_t> = CUDNN_TYPE_BEHAVIOR_NOTE;
// clang-format on

/// Owns its object. All calls throw what check() throws; finalize() throws ShapeError instead if
/// cuDNN refuses the sizes of a tensor, an operation or a graph.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept
      : type_(other.type_), object_(std::exchange(other.object_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(object_, other.object_);
    return *this;
  }

  template <class T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set_raw(name, attribute_type<T>, 1, &value);
  }
  template <class T>
  void set_array(cudnnBackendAttributeName_t name, std::span<const T> values) {
    set_raw(name, attribute_type<T>, static_cast<int64_t>(values.size()), values.data());
  }
  /// Sets other descriptors, which are finalized. The caller keeps them as long as this one lives.
  void set(cudnnBackendAttributeName_t name, const Descriptor& value);
  void set_objects(cudnnBackendAttributeName_t name,
                   std::span<const cudnnBackendDescriptor_t> values);

  void finalize();

  template <class T>
  T get(cudnnBackendAttributeName_t name) const {
    T value{};
    get_raw(name, attribute_type<T>, 1, &value);
    return value;
  }
  /// The first `most` values, or all if there are fewer.
  template <class T>
  std::vector<T> get_array(cudnnBackendAttributeName_t name, int64_t most) const {
    std::vector<T> values(static_cast<size_t>(most));
    const int64_t got = get_raw(name, attribute_type<T>, most, values.data());
    values.resize(static_cast<size_t>(std::min(got, most)));
    return values;
  }
  /// Like get_array(), for descriptors of `type`. The returned descriptors are finalized.
  std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t name,
                                          cudnnBackendDescriptorType_t type, int64_t most) const;
  /// An upper bound of the number of descriptors to get.
  int64_t count_descriptors(cudnnBackendAttributeName_t name) const {
    return get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  }

  cudnnBackendDescriptor_t object() const { return object_; }

 private:
  void set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
               const void* values);
  int64_t get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  void* values) const;

  cudnnBackendDescriptorType_t type_;
  cudnnBackendDescriptor_t object_ = nullptr;
};

}  // namespace lathe::cudnn
