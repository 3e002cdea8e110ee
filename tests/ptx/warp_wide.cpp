// What the lanes of a warp exchange; see instructions.h. All lanes of the member mask are there:
// run.cpp saw to it.
#include "instructions.h"
#include "values.h"
#include "warp.h"

namespace lathe::ptx {

namespace {

/// The lane that one reads from, and whether it is in its part of the warp.
struct Source {
  int lane;
  bool inside;
};

// PTX ISA, "shfl.sync": c holds the bounds (bits 0 to 4) and the parts of the warp (bits 8 to 12).
struct Bounds {
  int lane, b, parts, low, high;
  Bounds(int lane_, uint32_t b_, uint32_t c)
      : lane(lane_), b(static_cast<int>(b_ & 0x1f)), parts(static_cast<int>(c >> 8 & 0x1f)) {
    low = lane & parts;
    high = low | (static_cast<int>(c & 0x1f) & ~parts);
  }
};
struct Up {
  static Source of(const Bounds& s) { return {s.lane - s.b, s.lane - s.b >= s.high}; }
};
struct Down {
  static Source of(const Bounds& s) { return {s.lane + s.b, s.lane + s.b <= s.high}; }
};
struct Across {
  static Source of(const Bounds& s) { return {s.lane ^ s.b, (s.lane ^ s.b) <= s.high}; }
};
struct Index {
  static Source of(const Bounds& s) {
    return {s.low | (s.b & ~s.parts), (s.low | (s.b & ~s.parts)) <= s.high};
  }
};

/// shfl.sync d|p, a, b, c, members; with or without p. A lane that takes part in nothing has no
/// value to give.
template <class Mode>
void shuffle(Warp& warp, const Instruction& i, uint32_t lanes) {
  const int first = i.count - 4;
  Defined given;
  const Register a = *reinterpret_cast<const Register*>(warp.take(i, first, given));
  const uint64_t *b = warp.need(i, first + 1, lanes), *c = warp.need(i, first + 2, lanes);
  uint32_t defined = 0, inside = 0;
  Register got{};
  each(lanes, [&](int lane) {
    Source from = Mode::of(Bounds(lane, as<uint32_t>(b[lane]), as<uint32_t>(c[lane])));
    if (!from.inside) from.lane = lane;
    inside |= uint32_t{from.inside} << lane;
    defined |= (given.low & lanes) >> from.lane & 1 ? uint32_t{1} << lane : 0;
    got[static_cast<size_t>(lane)] = a[static_cast<size_t>(from.lane)];
  });
  uint64_t* d = warp.write(i, 0, lanes, halves(defined));
  each(lanes, [&](int l) { d[l] = got[static_cast<size_t>(l)]; });
  if (first == 2) warp.write_predicate(i, 1, lanes, inside);
}

void vote_ballot(Warp& warp, const Instruction& i, uint32_t lanes) {
  const uint32_t votes = warp.read_predicate(i, 1, lanes) & lanes;
  uint64_t* d = warp.write(i, 0, lanes);
  each(lanes, [&](int l) { d[l] = votes; });
}
void vote_any(Warp& warp, const Instruction& i, uint32_t lanes) {
  const bool any = (warp.read_predicate(i, 1, lanes) & lanes) != 0;
  warp.write_predicate(i, 0, lanes, any ? kAllLanes : 0);
}
void vote_all(Warp& warp, const Instruction& i, uint32_t lanes) {
  const bool all = (warp.read_predicate(i, 1, lanes) & lanes) == lanes;
  warp.write_predicate(i, 0, lanes, all ? kAllLanes : 0);
}

}  // namespace

void add_warp_wide(Table& table) {
  table["shfl.sync.up.b32"] = shuffle<Up>;
  table["shfl.sync.down.b32"] = shuffle<Down>;
  table["shfl.sync.bfly.b32"] = shuffle<Across>;
  table["shfl.sync.idx.b32"] = shuffle<Index>;
  table["vote.sync.ballot.b32"] = vote_ballot;
  table["vote.sync.any.pred"] = vote_any;
  table["vote.sync.all.pred"] = vote_all;
}

}  // namespace lathe::ptx
