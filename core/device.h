// Where a tensor's memory lives and where its ops run.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

enum class DeviceType : uint8_t { kCPU, kCUDA };

/// A device: `Device("cpu")`, `Device("cuda")` (= cuda:0), `Device("cuda:1")`.
/// throws: ValueError for any other text.
struct LATHE_API Device {
  DeviceType type = DeviceType::kCPU;
  int8_t index = 0;  // always 0 for the CPU

  constexpr Device() = default;
  constexpr Device(DeviceType device_type, int8_t device_index = 0)
      : type(device_type), index(device_index) {}
  Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}

  constexpr bool is_cpu() const { return type == DeviceType::kCPU; }
  constexpr bool is_cuda() const { return type == DeviceType::kCUDA; }
  constexpr bool operator==(const Device&) const = default;
};

inline constexpr Device kCPU{DeviceType::kCPU}, kCUDA{DeviceType::kCUDA};  // the first GPU

LATHE_API void append_text(std::string& out, Device device);  // "cpu", "cuda:0"
LATHE_API std::ostream& operator<<(std::ostream& out, Device device);

/// True if this build holds the CUDA backend and a usable device was found. Never throws.
LATHE_API bool cuda_is_available() noexcept;

}  // namespace lathe
