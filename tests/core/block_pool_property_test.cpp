// Random sequences on the fake device: the invariants of block_pool_inspector.h after every 100th
// operation, and
//   I3   live ranges never overlap                          (a map beside the pool)
//   I6   no block is handed out while another stream works on it          (the fake)
//   I7   after everything was given back the device holds no byte, no event
//   I8   an allocation that fails leaves live blocks as they were
//   I9   the same calls give the same addresses
//   I10  no forbidden call while a graph is being captured                (the fake)
#include <map>
#include <optional>
#include <random>

#include "block_pool_fixture.h"
#include "lathe/core/error.h"

namespace lathe {
namespace {

#if defined(LATHE_ASAN) || defined(LATHE_TSAN)
constexpr int kOperations = 100'000;
#else
constexpr int kOperations = 1'000'000;
#endif
constexpr int kCheckEvery = 100;
constexpr size_t kMostLive = 150;

// A program that does anything a program may do. Everything follows from the seed.
class RandomProgram {
 public:
  RandomProgram(BlockPoolOptions options, unsigned seed) : memory_(1536 * kKiB), random_(seed) {
    memory_.has_virtual_memory = options.expandable;
    pool_.emplace(memory_, options);
  }

  void run(int operations) {
    for (int i = 1; i <= operations; ++i) {
      step();
      if (i % kCheckEvery != 0) continue;
      const std::string broken = BlockPoolInspector::check(*pool_);
      REQUIRE_MESSAGE(broken == "", "after operation " << i);
      REQUIRE(memory_.violation() == "");
      REQUIRE((memory_.used_bytes() == pool_->stats().reserved_bytes.current));
    }
    finish();
  }

  uint64_t hash = 14695981039346656037u;  // of all addresses handed out
  int ooms = 0, captures = 0, reused_in_capture = 0;

 private:
  struct Live {
    size_t bytes;
    StreamHandle stream;
  };
  static constexpr BlockPool::PoolId kPools = 3;

  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  StreamHandle any_stream() { return stream_handle(below(3)); }

  void step() {
    const unsigned dice = below(1000);
    if (dice < 480 && live_.size() < kMostLive) return allocate();
    if (dice < 880) return deallocate();
    if (dice < 930) return share();
    if (dice < 985) return memory_.advance(any_stream(), below(20));
    if (dice < 988) return empty_cache();
    if (dice < 990) return pool_->set_limit(below(2) == 0 ? 0 : (512 + below(1024)) * kKiB);
    if (dice < 991) return pool_->reset_peak();
    if (dice < 994) return origin_ == nullptr ? begin_capture() : end_capture();
    if (dice < 997) return fork_or_join();
    release_a_pool();
  }

  size_t any_size() {
    const unsigned dice = below(100);
    if (dice < 70) return 1 + below(4 * kKiB);
    if (dice < 95) return 4 * kKiB + below(60 * kKiB);
    return 64 * kKiB + below(200 * kKiB);
  }

  void allocate() {
    const size_t bytes = any_size();
    const StreamHandle stream = any_stream();
    const size_t live_before = pool_->stats().allocated_bytes.current;
    void* block = nullptr;
    try {
      block = pool_->allocate(bytes, stream, bytes % 2 == 0 ? "even" : "odd");
    } catch (const OutOfMemoryError&) {
      ++ooms;
      REQUIRE(pool_->stats().allocated_bytes.current == live_before);  // I8
      return;
    }
    const auto begin = reinterpret_cast<uintptr_t>(block);
    REQUIRE(begin % 512 == 0);
    const auto after = live_.lower_bound(begin);
    REQUIRE((after == live_.end() || begin + bytes <= after->first));  // I3
    if (after != live_.begin()) {
      const auto& [address, other] = *std::prev(after);
      REQUIRE(address + other.bytes <= begin);
    }
    memory_.check_unused_by_others(stream, block, bytes);
    memory_.work(stream, block, bytes);
    live_[begin] = {bytes, stream};
    hash = (hash ^ begin) * 1099511628211u;
  }

  std::map<uintptr_t, Live>::iterator any_live() {
    auto found = live_.lower_bound(last_ + below(1u << 20));
    if (found == live_.end()) found = live_.begin();
    last_ = found->first;
    return found;
  }

  void deallocate() {
    if (live_.empty()) return;
    const auto found = any_live();
    pool_->deallocate(reinterpret_cast<void*>(found->first));  // NOLINT
    live_.erase(found);
  }

  void share() {
    if (live_.empty()) return;
    const auto& [address, live] = *any_live();
    const StreamHandle stream = any_stream();
    void* block = reinterpret_cast<void*>(address);  // NOLINT
    memory_.work(stream, block, live.bytes);
    pool_->record_stream(block, stream);
  }

  void empty_cache() {
    if (origin_ == nullptr) return pool_->empty_cache();
    CHECK_THROWS_AS(pool_->empty_cache(), StateError);
  }

  void begin_capture() {
    origin_ = below(2) == 0 ? kB : kC;
    routed_ = 1 + below(kPools);
    FakeMemory* memory = &memory_;
    pool_->begin_pool(
        routed_,
        [memory, origin = origin_](StreamHandle s) {
          return s != nullptr && (s == origin || memory->capture_id(s) != 0);
        },
        origin_);
    ++users_[routed_];
    memory_.begin_capture(origin_);
    ++captures;
  }

  void end_capture() {
    memory_.end_capture(origin_);
    pool_->end_pool(routed_);
    origin_ = nullptr;
  }

  void fork_or_join() {
    if (origin_ == nullptr) return;
    const StreamHandle side = origin_ == kB ? kC : kB;
    const bool forked = memory_.capture_id(side) != 0;
    forked&& below(2) == 0 ? memory_.wait_stream(origin_, side)
                           : memory_.wait_stream(side, origin_);
  }

  void release_a_pool() {
    const BlockPool::PoolId id = 1 + below(kPools);
    if (users_[id] == 0 || (origin_ != nullptr && routed_ == id && users_[id] == 1)) return;
    pool_->release_pool(id);
    --users_[id];
  }

  void finish() {
    if (origin_ != nullptr) end_capture();
    while (!live_.empty()) deallocate();
    for (auto& [id, users] : users_) {
      for (; users > 0; --users) pool_->release_pool(id);
    }
    pool_->empty_cache();
    REQUIRE(BlockPoolInspector::check(*pool_) == "");
    REQUIRE(memory_.violation() == "");
    CHECK(BlockPoolInspector::arenas(*pool_) == 1);
    CHECK(BlockPoolInspector::table_size(*pool_) == 0);
    CHECK(memory_.used_bytes() == 0);  // I7
    CHECK(memory_.reserved_address_bytes() == 0);
    CHECK(memory_.live_events() == 0);
  }

  FakeMemory memory_;
  std::optional<BlockPool> pool_;
  std::mt19937 random_;
  std::map<uintptr_t, Live> live_;
  uintptr_t last_ = 0;
  StreamHandle origin_ = nullptr;  // of the capture underway
  BlockPool::PoolId routed_ = 0;
  std::map<BlockPool::PoolId, int> users_;
};

uint64_t run_program(const BlockPoolOptions& options, unsigned seed, int operations) {
  RandomProgram program(options, seed);
  program.run(operations);
  CHECK(program.ooms > 0);
  CHECK(program.captures > 0);
  return program.hash;
}

TEST_CASE("block pool: the invariants hold over a million random operations on three streams") {
  run_program(small_options(), 1, kOperations);
}

TEST_CASE("block pool: the invariants hold with other roundings and rules") {
  BlockPoolOptions pinned = small_options();
  pinned.rounding = BlockPoolOptions::Rounding::kPowerOfTwo;
  run_program(pinned, 2, kOperations / 5);
  BlockPoolOptions whole = small_options();
  whole.max_split = 32 * kKiB;
  run_program(whole, 3, kOperations / 5);
  BlockPoolOptions uncached = small_options();
  uncached.cache = false;
  run_program(uncached, 4, kOperations / 5);
}

TEST_CASE("block pool: the invariants hold with expandable segments") {
  run_program(expandable_options(), 5, kOperations / 5);
}

TEST_CASE("block pool: the same calls give the same addresses") {
  for (const auto& options : {small_options(), expandable_options()})
    CHECK(run_program(options, 6, 20'000) == run_program(options, 6, 20'000));
  CHECK(run_program(small_options(), 6, 20'000) != run_program(small_options(), 7, 20'000));
}

}  // namespace
}  // namespace lathe
