// For tests of the interpreter: a kernel from its text, over buffers with names.
#pragma once

#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/format.h"
#include "module.h"
#include "run.h"

namespace lathe::ptx::test {

/// Buffers that a kernel may touch, and nothing else.
class Buffers final : public Memory {
 public:
  /// → its address, a multiple of 16.
  template <class T>
  uint64_t add(const std::string& name, std::span<const T> values) {
    Buffer& made = buffers_.emplace_back();
    made.name = name;
    made.bytes = values.size_bytes();
    made.words.resize(made.bytes / 16 + 1);
    std::memcpy(made.words.data(), values.data(), made.bytes);
    return address_of(made);
  }
  template <class T>
  std::vector<T> read(const std::string& name) const {
    for (const Buffer& buffer : buffers_) {
      if (buffer.name != name) continue;
      std::vector<T> values(buffer.bytes / sizeof(T));
      std::memcpy(values.data(), buffer.words.data(), buffer.bytes);
      return values;
    }
    return {};
  }

  bool holds(uint64_t address, size_t bytes) const override {
    for (const Buffer& buffer : buffers_) {
      const uint64_t begin = address_of(buffer);
      if (address >= begin && address + bytes <= begin + buffer.bytes) return true;
    }
    return false;
  }
  std::string describe(uint64_t address) const override {
    for (const Buffer& buffer : buffers_) {
      const uint64_t end = address_of(buffer) + buffer.bytes;
      if (address >= end - buffer.bytes && address < end + 64) {
        return concat(address + buffer.bytes - end, " bytes into ", buffer.name, ", which has ",
                      buffer.bytes);
      }
    }
    return "no buffer is near";
  }

 private:
  struct alignas(16) Word {
    std::byte bytes[16];
  };
  struct Buffer {
    std::string name;
    size_t bytes = 0;
    std::vector<Word> words;
  };
  static uint64_t address_of(const Buffer& buffer) {
    return reinterpret_cast<uint64_t>(buffer.words.data());
  }
  std::deque<Buffer> buffers_;
};

/// The constants of a module, too.
class WithConstants final : public Memory {
 public:
  WithConstants(const Buffers& buffers, const Module& module)
      : buffers_(buffers), module_(module) {}
  bool holds(uint64_t address, size_t bytes) const override {
    return buffers_.holds(address, bytes) || module_.holds(address, bytes);
  }
  std::string describe(uint64_t address) const override { return buffers_.describe(address); }

 private:
  const Buffers& buffers_;
  const Module& module_;
};

/// Runs `body` as the kernel k(.u64 p0, .u64 p1, …), one for each argument. Its registers are
/// %p0 to 9, %h (16 bits), %r, %d (64 bits), %f and %g (f64) 0 to 19.
inline void run_body(const std::string& body, const Buffers& buffers,
                     const std::vector<uint64_t>& arguments, Size3 block, Size3 grid = {},
                     const std::string& before = "") {
  std::string text = before + "\n.visible .entry k(\n";
  for (size_t k = 0; k < arguments.size(); ++k) {
    text += concat(".param .u64 p", k, k + 1 < arguments.size() ? ",\n" : "\n");
  }
  text +=
      ")\n{\n.reg .pred %p<10>;\n.reg .b16 %h<20>;\n.reg .b32 %r<20>;\n.reg .b64 %d<20>;\n"
      ".reg .f32 %f<20>;\n.reg .f64 %g<20>;\n" +
      body + "\nret;\n}\n";
  Module module(text);
  const WithConstants memory(buffers, module);
  Launch launch{.kernel = &module.kernel("k"),
                .memory = &memory,
                .grid = grid,
                .block = block,
                .params = std::vector<std::byte>(8 * arguments.size())};
  std::memcpy(launch.params.data(), arguments.data(), launch.params.size());
  Work work;
  run(launch, work);
}

}  // namespace lathe::ptx::test
