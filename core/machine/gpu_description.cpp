// The descriptions of known GPUs, and those of files. Contracts: gpu_description.h.
#include "lathe/core/machine/gpu_description.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/json.h"

namespace lathe {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostBytes = 1 << 20;  // of a file

/// What differs between GPUs, from NVIDIA's data sheets and CUDA's table of compute capabilities.
struct Known {
  std::string_view name, device;
  int version;  // compute capability: 100 * major + 10 * minor
  int multiprocessors;
  int shared_bytes;              // the most that a block can ask for
  int blocks, threads;           // of a multiprocessor, at most
  int64_t bytes, l2_bytes;       // of memory and of the L2 cache
  int clock_khz, mem_clock_khz;  // the highest
};

constexpr Known kKnown[] = {
    {"h200", "NVIDIA H200", 900, 132, 232'448, 32, 2048, 150'000'000'000, 60 << 20, 1'980'000,
     3'201'000},
    {"h100", "NVIDIA H100 80GB HBM3", 900, 132, 232'448, 32, 2048, 85'000'000'000, 50 << 20,
     1'980'000, 2'619'000},
    {"a100", "NVIDIA A100-SXM4-80GB", 800, 108, 166'912, 32, 2048, 85'000'000'000, 40 << 20,
     1'410'000, 1'593'000},
    {"l4", "NVIDIA L4", 890, 58, 101'376, 24, 1536, 24'000'000'000, 48 << 20, 2'040'000, 6'251'000},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 890, 128, 101'376, 24, 1536, 25'000'000'000, 72 << 20,
     2'520'000, 10'501'000},
};

/// The peaks of the known GPUs, in their order: tensor cores with halves and with TF32, f32 without
/// tensor cores, memory.
constexpr GpuPeaks kPeaks[] = {
    {989.4e12, 494.7e12, 66.9e12, 4.8e12},   // H200 SXM
    {989.4e12, 494.7e12, 66.9e12, 3.35e12},  // H100 SXM
    {312e12, 156e12, 19.5e12, 2.039e12},     // A100 SXM, 80 GB
    {121e12, 60.5e12, 30.3e12, 0.3e12},      // L4
    {165.2e12, 82.6e12, 82.6e12, 1.008e12},  // GeForce RTX 4090
};
static_assert(std::size(kPeaks) == std::size(kKnown));

/// Of the known GPU with this device name; {}: there is none.
GpuPeaks peaks_of(const std::string& device) {
  const auto known = std::ranges::find(kKnown, device, &Known::device);
  return known == std::end(kKnown) ? GpuPeaks{} : kPeaks[known - std::begin(kKnown)];
}

Json json_of(const Known& gpu) {
  return {{"deviceVer", gpu.version},
          {"multiProcessorCount", gpu.multiprocessors},
          {"warpSize", 32},
          {"maxSharedMemoryPerBlock", 49'152},
          {"maxSharedMemoryPerBlockOptin", gpu.shared_bytes},
          {"reservedSharedMemoryPerBlock", 1024},
          {"maxRegistersPerSM", 65'536},
          {"maxCtasPerSM", gpu.blocks},
          {"maxThreadsPerBlock", 1024},
          {"maxThreadsPerSM", gpu.threads},
          {"regsPerBlock", 65'536},
          {"totalGlobalMem", gpu.bytes},
          {"smClockRateKHz", gpu.clock_khz},
          {"l2CacheSize", gpu.l2_bytes},
          {"maxBlockSize", {1024, 1024, 64}},
          {"memClockRateKHz", gpu.mem_clock_khz},
          {"maxGridSize", {2'147'483'647, 65'535, 65'535}},
          {"supportCoopLaunch", 1},
          {"pciDeviceId", 0},
          {"isTccDriver", 0},
          {"cudaDeviceId", 0},
          {"driverVer", 13'000},
          {"deviceName", gpu.device}};
}

const Json& member_of(const Json& json, const std::string& key) {
  const auto at = json.find(key);
  LATHE_CHECK(DataError, at != json.end(), "GPU description: has no \"", key, "\"");
  return *at;
}

/// An integer that is not negative.
int64_t number_of(const Json& value, const std::string& key) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<int64_t>(value.get<uint64_t>())
                        : value.is_number_integer() && value.get<int64_t>() >= 0;
  LATHE_CHECK(DataError, fits, "GPU description: \"", key, "\" is ", value.dump(),
              ", not a whole number from 0");
  return value.get<int64_t>();
}

int64_t number_in(const Json& json, const std::string& key, int64_t least, int64_t most) {
  const int64_t number = number_of(member_of(json, key), key);
  LATHE_CHECK(DataError, number >= least && number <= most, "GPU description: \"", key, "\" is ",
              number, ", not from ", least, " to ", most);
  return number;
}

/// Has every key of a known GPU with a value of the same kind.
void check_keys(const Json& json) {
  const Json model = json_of(kKnown[0]);
  for (const auto& [key, value] : model.items()) {
    const Json& given = member_of(json, key);
    if (value.is_string()) {
      LATHE_CHECK(DataError, given.is_string(), "GPU description: \"", key, "\" is ", given.dump(),
                  ", not a text");
    } else if (value.is_array()) {
      LATHE_CHECK(DataError, given.is_array() && given.size() == value.size(),
                  "GPU description: \"", key, "\" is ", given.dump(), ", not ", value.size(),
                  " numbers");
      for (const Json& number : given) number_of(number, key);
    } else {
      number_of(given, key);
    }
  }
}

/// Parsing needs no stack for what is nested, but writing it in a message does.
bool check_depth(int depth, Json::parse_event_t, const Json&) {
  constexpr int kMostDeep = 16;
  LATHE_CHECK(DataError, depth <= kMostDeep, "GPU description: is nested more than ", kMostDeep,
              " deep");
  return true;
}

GpuDescription description_of(const Json& json) {
  LATHE_CHECK(DataError, json.is_object(), "GPU description: is not a JSON object");
  check_keys(json);
  const auto version = static_cast<int>(number_in(json, "deviceVer", 100, 9990));
  const auto name = json["deviceName"].get<std::string>();
  return {.name = name,
          .major = version / 100,
          .minor = version % 100 / 10,
          .multiprocessors = static_cast<int>(number_in(json, "multiProcessorCount", 1, 100'000)),
          .memory_bytes = number_in(json, "totalGlobalMem", 0, INT64_MAX),
          .l2_bytes = number_in(json, "l2CacheSize", 0, INT64_MAX),
          .peaks = peaks_of(name),
          .json = json.dump()};
}

}  // namespace

std::span<const std::string_view> known_gpus() {
  static const auto names = [] {
    std::array<std::string_view, std::size(kKnown)> all;
    std::ranges::transform(kKnown, all.begin(), &Known::name);
    return all;
  }();
  return names;
}

GpuDescription parse_gpu_description(std::string_view json) {
  try {
    return description_of(Json::parse(json, check_depth));
  } catch (const Json::parse_error& error) {
    LATHE_FAIL(DataError, "GPU description: is not valid JSON at its byte ", error.byte);
  } catch (const Json::exception&) {  // a number that is too large, a text that is not UTF-8
    LATHE_FAIL(DataError, "GPU description: holds a value that cannot be read");
  }
}

GpuDescription gpu_description(const std::string& name_or_path) {
  const auto known = std::ranges::find(kKnown, name_or_path, &Known::name);
  if (known != std::end(kKnown)) return description_of(json_of(*known));
  if (!is_there(name_or_path)) {
    std::string names;
    for (const Known& gpu : kKnown) names += concat(names.empty() ? "" : ", ", gpu.name);
    LATHE_FAIL(ValueError, "no GPU is called \"", name_or_path, "\", and no file: ", names,
               " are known");
  }
  std::error_code unreadable;  // reading reports the reason
  LATHE_CHECK(FileError, !std::filesystem::is_fifo(name_or_path, unreadable), name_or_path,
              " is a pipe and no file");
  const std::string text = read_file(name_or_path, kMostBytes);
  try {
    return parse_gpu_description(text);
  } catch (const DataError& error) {
    LATHE_FAIL(DataError, name_or_path, ": ", error.message());
  }
}

}  // namespace lathe
