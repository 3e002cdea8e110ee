// See shared_memory.h.
#include "shared_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "emulated_block.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"

namespace lathe::emulation {

SharedLayout g_shared_layout;

namespace {

constexpr unsigned char kPoison = 0xFF;
constexpr size_t kAlignBytes = 16;
constexpr size_t kGapBytes = SharedMemory::kGapBytes, kRoomBytes = SharedMemory::kRoomBytes;

/// → its offset; SIZE_MAX: there is no room.
LATHE_UNSEEN size_t add_part(const char* name, size_t bytes, size_t alignment) {
  SharedLayout& layout = g_shared_layout;
  const size_t real = (layout.bytes + alignment - 1) / alignment * alignment + bytes;
  const size_t wide = alignment < kAlignBytes ? kAlignBytes : alignment;
  const size_t offset = (layout.reach + wide - 1) / wide * wide;
  if (real > kMostSharedBytes || layout.count == SharedLayout::kMostParts ||
      offset + bytes + kGapBytes > kRoomBytes) {
    return SIZE_MAX;
  }
  layout.parts[layout.count++] = {name, offset, bytes};
  layout.bytes = real;
  layout.reach = offset + bytes + kGapBytes;
  return offset;
}

[[noreturn]] void refuse(const char* name, size_t bytes) {
  stop_thread([name, bytes] {
    LATHE_FAIL(StateError, "kernel: ", block_text(), ": its shared memory, with the ", bytes,
               " bytes of ", name, ", is more than ", kMostSharedBytes, " bytes");
  });
}

}  // namespace

void lay_out_shared(size_t dynamic_bytes) {
  SharedLayout& layout = g_shared_layout;
  ++layout.launch;
  layout.count = layout.reach = layout.bytes = 0;
  add_part("its dynamic shared memory", dynamic_bytes, kAlignBytes);
}

SharedMemory::SharedMemory()
    : memory_(static_cast<char*>(::operator new (kRoomBytes, std::align_val_t{128}))),
      bytes_(memory_.get()) {
  poison_all();
}

void SharedMemory::Free::operator()(char* memory) const {
  ::operator delete (memory, std::align_val_t{128});
}

void SharedMemory::poison_all() { std::memset(bytes_, kPoison, kRoomBytes); }
void SharedMemory::poison() { std::memset(bytes_, kPoison, g_shared_layout.reach); }

const SharedLayout::Part* SharedMemory::overrun() const {
  const SharedLayout& layout = g_shared_layout;
  for (size_t i = 0; i < layout.count; ++i) {
    const SharedLayout::Part& part = layout.parts[i];
    const size_t next = i + 1 < layout.count ? layout.parts[i + 1].offset : layout.reach;
    const char* const gap = bytes_ + part.offset + part.bytes;
    const auto is_written = [](char byte) { return static_cast<unsigned char>(byte) != kPoison; };
    if (std::any_of(gap, static_cast<const char*>(bytes_) + next, is_written)) {
      return &part;
    }
  }
  return nullptr;
}

LATHE_UNSEEN void* shared_variable(SharedPlace& place, size_t bytes, size_t alignment,
                                   const char* name) {
  if (place.launch != g_shared_layout.launch) {
    const size_t offset = add_part(name, bytes, alignment);
    if (offset == SIZE_MAX) refuse(name, bytes);
    place.launch = g_shared_layout.launch;
    place.offset = offset;
  }
  return g_block->shared.at(place.offset);
}

LATHE_UNSEEN void* dynamic_shared() noexcept { return g_block->shared.at(0); }

}  // namespace lathe::emulation
