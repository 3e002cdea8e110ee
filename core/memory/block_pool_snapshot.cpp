// The state of a core/memory/block_pool as JSON, for people, tools and error reports. Addresses and
// streams are hexadecimal strings; sizes are in bytes.
//
//   {"name": "cuda:0", "capturing": false,
//    "statistics": {"allocated_bytes": {"current", "peak", "total"}, …, "retries", "ooms",
//                   "limit_bytes"},
//    "segments": [{"address", "bytes", "stream", "pool", "kind": "small"|"large", "expandable",
//                  "blocks": [{"address", "bytes", "state": "free"|"live"|"waiting"|"unmapped",
//                              "requested"?, "tag"?, "waits_for"?: [stream…]}]}],
//    "history": [{"event", "address", "bytes", "stream", "tag"?, "time_ns"}],
//    "history_dropped": 0}

#include "lathe/core/hexadecimal.h"
#include "lathe/core/json.h"
#include "lathe/core/memory/block_pool.h"

namespace lathe {

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const void* address) {
  return hexadecimal(reinterpret_cast<uintptr_t>(address));
}

const char* name_of(BlockState state) {
  static constexpr const char* kNames[] = {"free", "live", "waiting", "unmapped"};
  return kNames[static_cast<int>(state)];
}

const char* name_of(PoolEvent::Kind kind) {
  static constexpr const char* kNames[] = {"allocate", "deallocate", "ready",
                                           "reserve",  "release",    "out of memory"};
  return kNames[static_cast<int>(kind)];
}

Json describe(const PoolGauge& gauge) {
  return {{"current", gauge.current}, {"peak", gauge.peak}, {"total", gauge.total}};
}

Json describe(const BlockPoolStats& s) {
  return {{"allocations", describe(s.allocations)},
          {"allocated_bytes", describe(s.allocated_bytes)},
          {"requested_bytes", describe(s.requested_bytes)},
          {"active_bytes", describe(s.active_bytes)},
          {"inactive_split_bytes", describe(s.inactive_split_bytes)},
          {"reserved_bytes", describe(s.reserved_bytes)},
          {"segments", describe(s.segments)},
          {"retries", s.retries},
          {"ooms", s.ooms},
          {"limit_bytes", s.limit_bytes}};
}

Json describe(const Block& block) {
  Json json = {
      {"address", text_of(block.address)}, {"bytes", block.bytes}, {"state", name_of(block.state)}};
  if (block.state != BlockState::kLive && block.state != BlockState::kWaiting) return json;
  json["requested"] = block.requested;
  if (block.tag != nullptr) json["tag"] = block.tag;
  for (const StreamUse* use = block.uses; use != nullptr; use = use->next_of_block)
    json["waits_for"].push_back(text_of(use->stream));
  return json;
}

Json describe(const Segment& segment) {
  Json blocks = Json::array();
  for (const Block* block = segment.first; block != nullptr; block = block->next)
    blocks.push_back(describe(*block));
  return {{"address", text_of(segment.base)},
          {"bytes", segment.bytes},
          {"stream", text_of(segment.stream)},
          {"pool", segment.arena->id},
          {"kind", segment.small ? "small" : "large"},
          {"expandable", segment.expandable},
          {"blocks", std::move(blocks)}};
}

Json describe(const PoolEvent& event) {
  Json json = {{"event", name_of(event.kind)},
               {"address", text_of(event.address)},
               {"bytes", event.bytes},
               {"stream", text_of(event.stream)}};
  if (event.tag != nullptr) json["tag"] = event.tag;
  json["time_ns"] = event.time_ns;
  return json;
}

}  // namespace

std::string BlockPool::snapshot() const {
  const Lock lock(mutex_);
  Json segments = Json::array(), history = Json::array();
  for (const Segment& segment : segments_) segments.push_back(describe(segment));
  history_.each([&](const PoolEvent& event) { history.push_back(describe(event)); });
  const uint64_t dropped = history_.count() - history.size();
  const Json json = {{"name", options_.name},
                     {"capturing", memory_.is_alive() && capture_underway(nullptr)},
                     {"statistics", describe(stats_)},
                     {"segments", std::move(segments)},
                     {"history", std::move(history)},
                     {"history_dropped", dropped}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace);  // tags need not be UTF-8
}

}  // namespace lathe
