// A path in a folder of its own, and what stands there.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/log.h"

namespace lathe {

struct TemporaryFile {
  TemporaryFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lathe-conv-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    folder = pattern;
    path = (folder / "algos.json").string();
  }
  ~TemporaryFile() { std::filesystem::remove_all(folder); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool exists() const { return std::filesystem::exists(path); }
  std::string text() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& text) const { std::ofstream(path, std::ios::binary) << text; }

  std::filesystem::path folder;
  std::string path;
};

/// Collects warnings for the rest of a scope.
struct Warnings {
  Warnings() {
    before = set_log_handler([this](LogLevel, std::string_view text) { lines.emplace_back(text); });
  }
  ~Warnings() { set_log_handler(before); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  LogHandler before;
  std::vector<std::string> lines;
};

}  // namespace lathe
