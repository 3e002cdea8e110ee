// Addresses of emulated devices with memory mapped into parts of them, as the driver's virtual
// memory management makes them; see driver/cuda.h. All calls under the machine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace lathe::emulation {

class DeviceRanges {
 public:
  static constexpr size_t kGranule = size_t{2} << 20;

  /// Addresses without memory, out of the host's and the kernels' reach; null: none.
  char* reserve(size_t bytes);
  /// The rest refuse (false) what a driver would: see driver/cuda.h.
  bool unreserve(char* base, size_t bytes);
  /// A piece of memory of `device`, which lasts until it was both released and unmapped.
  uint64_t create(int device, size_t bytes);
  bool release(uint64_t piece);
  bool map(char* address, size_t bytes, uint64_t piece);
  bool allow(char* address, size_t bytes);  // reading and writing, by kernels
  bool unmap(char* address, size_t bytes);

  /// The mapping that holds `memory` and may be used: where it begins and how many bytes it has;
  /// null: none.
  std::pair<const void*, size_t> mapping_of(const void* memory) const;
  /// The number of the mapping that begins there: each has its own.
  uint64_t birth_of(const void* mapping) const;
  /// Whether it lies in a reserved range.
  bool owns(const void* memory) const;
  /// Do all of these bytes have memory that may be used?
  bool holds(const void* memory, size_t bytes) const;
  size_t bytes_of(int device) const;  // memory of pieces that last

  /// Between these, which nest, the memory can be touched.
  void open();
  void close();

 private:
  struct Piece {
    int device;
    size_t bytes;
    bool released = false;
    int mappings = 0;
  };
  struct Mapping {
    size_t bytes;
    uint64_t piece;
    uint64_t birth;
    bool allowed = false;
  };
  void protect(char* address, const Mapping& mapping);
  void drop_if_unused(std::map<uint64_t, Piece>::iterator piece);

  std::map<char*, size_t> ranges_;
  std::map<char*, Mapping> mappings_;
  std::map<uint64_t, Piece> pieces_;
  uint64_t next_piece_ = 1, births_ = 0;
  int depth_ = 0;
};

DeviceRanges& device_ranges();

}  // namespace lathe::emulation
