// Descriptions of GPUs: those that are known, and what is said of damaged ones.
#include "lathe/core/machine/gpu_description.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "lathe/core/error.h"

using namespace lathe;

namespace {

std::string with(std::string text, const std::string& old, const std::string& changed) {
  const size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), changed);
}

}  // namespace

TEST_CASE("GPU descriptions: the known ones have the numbers of their data sheets") {
  struct Row {
    const char *name, *device;
    int major, minor, multiprocessors;
    const char* also;
  };
  const Row rows[] = {{"h200", "NVIDIA H200", 9, 0, 132, "\"l2CacheSize\":62914560"},
                      {"h100", "NVIDIA H100 80GB HBM3", 9, 0, 132, "\"l2CacheSize\":52428800"},
                      {"a100", "NVIDIA A100-SXM4-80GB", 8, 0, 108, "Optin\":166912"},
                      {"l4", "NVIDIA L4", 8, 9, 58, "\"maxThreadsPerSM\":1536"},
                      {"rtx4090", "NVIDIA GeForce RTX 4090", 8, 9, 128, "\"maxCtasPerSM\":24"}};
  CHECK(known_gpus().size() == std::size(rows));
  for (const Row& row : rows) {
    INFO(row.name);
    const GpuDescription gpu = gpu_description(row.name);
    CHECK(gpu.name == row.device);
    CHECK(gpu.major == row.major);
    CHECK(gpu.minor == row.minor);
    CHECK(gpu.multiprocessors == row.multiprocessors);
    CHECK(gpu.json.find(row.also) != std::string::npos);
    CHECK(gpu.json.find('\n') == std::string::npos);
    CHECK(parse_gpu_description(gpu.json).json == gpu.json);
  }
}

TEST_CASE("GPU descriptions: a file's is taken as it is, with keys that nobody knows") {
  const auto path =
      std::filesystem::temp_directory_path() / concat("lathe-gpu-", ::getpid(), ".json");
  const std::string text = with(gpu_description("l4").json, "{", "{\"later\": [1, {}],");
  std::ofstream(path) << with(text, "NVIDIA L4", "a GPU");
  const GpuDescription gpu = gpu_description(path.string());
  CHECK(gpu.name == "a GPU");
  CHECK(gpu.json.find("\"later\":[1,{}]") != std::string::npos);
  std::ofstream(path) << "{}";
  CHECK_THROWS_WITH_AS(gpu_description(path.string()),
                       doctest::Contains((path.string() + ": GPU description: has no").c_str()),
                       DataError);
  std::filesystem::remove(path);
}

TEST_CASE("GPU descriptions: damage is named") {
  const std::string good = gpu_description("h200").json;
  struct Row {
    std::string text, message;
  };
  const Row rows[] = {
      {"", "is not valid JSON at its byte 1"},
      {good.substr(0, 100), "is not valid JSON at its byte 101"},
      {"[1]", "is not a JSON object"},
      {with(good, "\"warpSize\":32,", ""), "has no \"warpSize\""},
      {with(good, "\"warpSize\":32", "\"warpSize\":-32"),
       "\"warpSize\" is -32, not a whole number"},
      {with(good, "\"warpSize\":32", "\"warpSize\":3.2"),
       "\"warpSize\" is 3.2, not a whole number"},
      {with(good, "\"deviceVer\":900", "\"deviceVer\":0"), "\"deviceVer\" is 0, not from 100"},
      {with(good, "[1024,1024,64]", "[1024,1024]"),
       "\"maxBlockSize\" is [1024,1024], not 3 numbers"},
      {with(good, "[1024,1024,64]", "[1024,\"\",64]"), "\"maxBlockSize\" is \"\", not a whole"},
      {with(good, "\"NVIDIA H200\"", "7"), "\"deviceName\" is 7, not a text"},
  };
  for (const Row& row : rows) {
    CHECK_THROWS_WITH_AS(parse_gpu_description(row.text), doctest::Contains(row.message.c_str()),
                         DataError);
  }
  const std::string deep = std::string(500'000, '[') + "7" + std::string(500'000, ']');
  const std::string nested[] = {
      with(good, "\"warpSize\":32", "\"warpSize\":" + deep),
      with(good, "\"deviceName\"", "\"new\":" + deep + ",\"deviceName\"")};
  for (const std::string& text : nested) {
    CHECK_THROWS_WITH_AS(parse_gpu_description(text),
                         doctest::Contains("is nested more than 16 deep"), DataError);
  }
  for (size_t size = 0; size < good.size(); size += 7) {
    CHECK_THROWS_AS(parse_gpu_description(good.substr(0, size)), DataError);
  }
}

TEST_CASE("GPU descriptions: a name that is neither known nor a file lists the known ones") {
  CHECK_THROWS_WITH_AS(gpu_description("h300"),
                       doctest::Contains("no GPU is called \"h300\", and no file: h200, h100, "
                                         "a100, l4, rtx4090 are known"),
                       ValueError);
  CHECK_THROWS_AS(gpu_description("/"), FileError);
}
