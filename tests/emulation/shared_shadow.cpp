// See shared_shadow.h.
#include "shared_shadow.h"

namespace lathe::emulation {
namespace {

constexpr unsigned kWarp = 32;

unsigned warp_of(unsigned thread) { return (thread - 1) / kWarp; }

}  // namespace

/// By a barrier that both have come to: of the block, or of their warp.
bool SharedShadow::is_ordered(const Visit& before, const Visitor& now) {
  if (before.thread == now.thread + 1 || before.block_barriers != now.block_barriers) return true;
  return warp_of(before.thread) == now.thread / kWarp && before.warp_barriers < now.warp_barriers;
}

SharedShadow::Byte* SharedShadow::bytes_at(size_t offset, size_t bytes) {
  if (offset + bytes > bytes_.size()) bytes_.resize(offset + bytes);
  return bytes_.data() + offset;
}

SharedShadow::Finding SharedShadow::read(size_t offset, size_t bytes, const Visitor& visitor) {
  Byte* const at = bytes_at(offset, bytes);
  bool written = false;  // by parts: a structure may be copied with its gaps
  for (size_t i = 0; i < bytes; ++i) {
    Byte& byte = at[i];
    if (byte.write.thread != 0) {
      written = true;
      if (!is_ordered(byte.write, visitor)) return {Fault::kRace, byte.write.thread - 1, true};
    }
    const Visit now{visitor.thread + 1, visitor.block_barriers, visitor.warp_barriers};
    // After a barrier of the warp that alone has read it, nobody else's reading matters.
    const bool passed = !byte.many_warps && warp_of(byte.read.thread) == warp_of(now.thread) &&
                        byte.read.warp_barriers < now.warp_barriers;
    const bool first =
        byte.read.thread == 0 || passed || byte.read.block_barriers != now.block_barriers;
    byte.many_threads = !first && (byte.many_threads || byte.read.thread != now.thread);
    byte.many_warps =
        !first && (byte.many_warps || warp_of(byte.read.thread) != warp_of(now.thread));
    byte.read = now;
  }
  return {written ? Fault::kNone : Fault::kNeverWritten};
}

SharedShadow::Finding SharedShadow::write(size_t offset, size_t bytes, const Visitor& visitor,
                                          bool atomic) {
  Byte* const at = bytes_at(offset, bytes);
  for (size_t i = 0; i < bytes; ++i) {
    Byte& byte = at[i];
    const bool both_atomic = atomic && byte.atomic;
    if (byte.write.thread != 0 && !both_atomic && !is_ordered(byte.write, visitor)) {
      return {Fault::kRace, byte.write.thread - 1, true};
    }
    Visit reader = byte.read;
    if (reader.thread != 0 && reader.block_barriers == visitor.block_barriers) {
      // Of several readers the last one stands for all, which is not this thread alone.
      const bool own = reader.thread == visitor.thread + 1;
      const bool same_warp = !byte.many_warps && warp_of(reader.thread) == visitor.thread / kWarp;
      const bool ordered = (own && !byte.many_threads) ||
                           (same_warp && reader.warp_barriers < visitor.warp_barriers);
      if (!ordered) return {Fault::kRace, reader.thread - 1, false};
    }
    byte.write = {visitor.thread + 1, visitor.block_barriers, visitor.warp_barriers};
    byte.atomic = atomic;
  }
  return {};
}

void SharedShadow::clear() { bytes_.clear(); }

}  // namespace lathe::emulation
