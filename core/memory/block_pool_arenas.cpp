// Private pools of core/memory/block_pool, and what it may do while a graph is being captured.
#include <algorithm>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/memory/block_pool.h"

namespace lathe {

void BlockPool::begin_pool(PoolId id, StreamFilter filter, StreamHandle capture_origin) {
  LATHE_CHECK(ValueError, id != 0, options_.name,
              ": begin_pool: 0 is the default pool; private pools have other ids");
  LATHE_CHECK(ValueError, filter != nullptr, options_.name, ": begin_pool(", id,
              "): the stream filter is empty");
  const Lock lock(mutex_);
  LATHE_CHECK(StateError, find_route(id) == routes_.end(), options_.name, ": begin_pool(", id,
              "): the pool is being served already");
  routes_.reserve(routes_.size() + 1);
  Arena& arena = arenas_[id];
  arena.id = id;
  ++arena.users;
  routes_.push_back({id, std::move(filter), capture_origin});
}

void BlockPool::end_pool(PoolId id) {
  const Lock lock(mutex_);
  const auto route = find_route(id);
  LATHE_CHECK(StateError, route != routes_.end(), options_.name, ": end_pool(", id,
              "): begin_pool() was not called before");
  routes_.erase(route);
}

void BlockPool::release_pool(PoolId id) {
  const Lock lock(mutex_);
  const auto found = arenas_.find(id);
  LATHE_CHECK(ValueError, id != 0 && found != arenas_.end(), options_.name, ": release_pool(", id,
              "): there is no such private pool");
  Arena& arena = found->second;
  LATHE_CHECK(StateError, arena.users > 0, options_.name, ": release_pool(", id,
              "): all its users have released it");
  LATHE_CHECK(StateError, arena.users > 1 || find_route(id) == routes_.end(), options_.name,
              ": release_pool(", id, "): its last user is still between begin_pool and end_pool");
  --arena.users;
  drop_unused_arenas();
}

std::vector<BlockPool::Route>::iterator BlockPool::find_route(PoolId id) noexcept {
  return std::find_if(routes_.begin(), routes_.end(), [&](const Route& r) { return r.id == id; });
}

Arena& BlockPool::arena_for(StreamHandle stream) {
  for (const Route& route : routes_) {
    if (route.filter(stream)) [[unlikely]]
      return arenas_.find(route.id)->second;
  }
  return *default_arena_;
}

// Drops private pools that are released and have returned their last segment.
void BlockPool::drop_unused_arenas() noexcept {
  std::erase_if(arenas_, [](const auto& entry) {
    const Arena& arena = entry.second;
    return arena.id != 0 && arena.users == 0 && arena.segments == 0;
  });
}

// Captures are made between begin_pool() and end_pool(), so asking the origins finds each one.
// `stream` is asked too, in case a program captures without a private pool. The default stream
// cannot be captured.
bool BlockPool::capture_underway(StreamHandle stream) const noexcept {
  const auto captures = [&](StreamHandle s) { return s != nullptr && memory_.capture_id(s) != 0; };
  for (const Route& route : routes_) {
    if (captures(route.capture_origin)) return true;
  }
  return captures(stream);
}

bool BlockPool::is_capturing(StreamHandle stream) const {
  const Lock lock(mutex_);
  return capture_underway(stream);
}

// True if recording events for the block's uses could disturb a capture.
bool BlockPool::capture_touches(const Block* block) const noexcept {
  return capture_underway(block->segment->stream) || uses_.is_captured(block);
}

PrivatePoolScope::PrivatePoolScope(BlockPool& pool, BlockPool::PoolId id,
                                   BlockPool::StreamFilter filter, StreamHandle capture_origin)
    : pool_(pool), id_(id) {
  pool_.begin_pool(id, std::move(filter), capture_origin);
}

PrivatePoolScope::~PrivatePoolScope() {
  try {
    pool_.end_pool(id_);
  } catch (const StateError&) {  // end_pool() was called before
  }
}

}  // namespace lathe
