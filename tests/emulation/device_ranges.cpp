#include "device_ranges.h"

#include <sys/mman.h>

#include <cstring>
#include <iterator>

namespace lathe::emulation {

DeviceRanges& device_ranges() {
  static auto* const ranges = new DeviceRanges;  // static objects may free memory after main
  return *ranges;
}

char* DeviceRanges::reserve(size_t bytes) {
  if (bytes == 0 || bytes % kGranule != 0) return nullptr;
  void* base = mmap(nullptr, bytes + kGranule, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(base);
  const uintptr_t aligned = (start + kGranule - 1) / kGranule * kGranule;
  if (aligned > start) munmap(base, aligned - start);
  if (const size_t rest = start + kGranule - aligned; rest > 0) {
    munmap(reinterpret_cast<char*>(aligned) + bytes, rest);
  }
  return ranges_.emplace(reinterpret_cast<char*>(aligned), bytes).first->first;
}

bool DeviceRanges::unreserve(char* base, size_t bytes) {
  const auto range = ranges_.find(base);
  if (range == ranges_.end() || range->second != bytes) return false;
  const auto mapping = mappings_.lower_bound(base);
  if (mapping != mappings_.end() && mapping->first < base + bytes) return false;
  munmap(base, bytes);
  ranges_.erase(range);
  return true;
}

uint64_t DeviceRanges::create(int device, size_t bytes) {
  if (bytes == 0 || bytes % kGranule != 0) return 0;
  pieces_.emplace(next_piece_, Piece{.device = device, .bytes = bytes});
  return next_piece_++;
}

bool DeviceRanges::release(uint64_t piece) {
  const auto at = pieces_.find(piece);
  if (at == pieces_.end() || at->second.released) return false;
  at->second.released = true;
  drop_if_unused(at);
  return true;
}

void DeviceRanges::drop_if_unused(std::map<uint64_t, Piece>::iterator piece) {
  if (piece->second.released && piece->second.mappings == 0) pieces_.erase(piece);
}

bool DeviceRanges::map(char* address, size_t bytes, uint64_t piece) {
  const auto of = pieces_.find(piece);
  auto range = ranges_.upper_bound(address);
  if (of == pieces_.end() || of->second.released || of->second.bytes != bytes ||
      reinterpret_cast<uintptr_t>(address) % kGranule != 0 || range == ranges_.begin()) {
    return false;
  }
  --range;
  if (address + bytes > range->first + range->second) return false;
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) return false;
  if (next != mappings_.begin() &&
      std::prev(next)->first + std::prev(next)->second.bytes > address) {
    return false;
  }
  mappings_.emplace(address, Mapping{.bytes = bytes, .piece = piece, .birth = ++births_});
  ++of->second.mappings;
  mprotect(address, bytes, PROT_READ | PROT_WRITE);
  std::memset(address, 0xA5, bytes);
  mprotect(address, bytes, PROT_NONE);
  return true;
}

bool DeviceRanges::allow(char* address, size_t bytes) {
  const auto at = mappings_.find(address);
  if (at == mappings_.end() || at->second.bytes != bytes) return false;
  at->second.allowed = true;
  if (depth_ > 0) protect(at->first, at->second);
  return true;
}

bool DeviceRanges::unmap(char* address, size_t bytes) {
  const auto at = mappings_.find(address);
  if (at == mappings_.end() || at->second.bytes != bytes) return false;
  const auto piece = pieces_.find(at->second.piece);
  --piece->second.mappings;
  drop_if_unused(piece);
  mappings_.erase(at);
  mprotect(address, bytes, PROT_NONE);
  madvise(address, bytes, MADV_DONTNEED);
  return true;
}

std::pair<const void*, size_t> DeviceRanges::mapping_of(const void* memory) const {
  auto* const at = const_cast<char*>(static_cast<const char*>(memory));
  auto mapping = mappings_.upper_bound(at);
  if (mapping == mappings_.begin()) return {};
  --mapping;
  if (!mapping->second.allowed || mapping->first + mapping->second.bytes <= at) return {};
  return {mapping->first, mapping->second.bytes};
}

uint64_t DeviceRanges::birth_of(const void* mapping) const {
  return mappings_.at(const_cast<char*>(static_cast<const char*>(mapping))).birth;
}

bool DeviceRanges::owns(const void* memory) const {
  auto* const at = const_cast<char*>(static_cast<const char*>(memory));
  const auto range = ranges_.upper_bound(at);
  if (range == ranges_.begin()) return false;
  return at < std::prev(range)->first + std::prev(range)->second;
}

bool DeviceRanges::holds(const void* memory, size_t bytes) const {
  auto* at = const_cast<char*>(static_cast<const char*>(memory));
  const char* const end = at + bytes;
  do {  // no bytes are somewhere, too
    auto mapping = mappings_.upper_bound(at);
    if (mapping == mappings_.begin()) return false;
    --mapping;
    char* const mapped_to = mapping->first + mapping->second.bytes;
    if (!mapping->second.allowed || mapped_to <= at) return false;
    at = mapped_to;
  } while (at < end);
  return true;
}

size_t DeviceRanges::bytes_of(int device) const {
  size_t bytes = 0;
  for (const auto& [handle, piece] : pieces_) {
    if (piece.device == device) bytes += piece.bytes;
  }
  return bytes;
}

void DeviceRanges::open() {
  if (depth_++ > 0) return;
  for (const auto& [address, mapping] : mappings_) protect(address, mapping);
}
void DeviceRanges::close() {
  if (--depth_ > 0) return;
  for (const auto& [address, mapping] : mappings_) protect(address, mapping);
}

void DeviceRanges::protect(char* address, const Mapping& mapping) {
  mprotect(address, mapping.bytes,
           depth_ > 0 && mapping.allowed ? PROT_READ | PROT_WRITE : PROT_NONE);
}

}  // namespace lathe::emulation
