// Every device call of a script of 2,000 operations fails once, in a run of its own.
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "block_pool_fixture.h"
#include "lathe/core/error.h"

namespace lathe {
namespace {

#if defined(LATHE_ASAN) || defined(LATHE_TSAN)
constexpr size_t kStride = 20;  // every how many-th call gets a run
#else
constexpr size_t kStride = 1;
#endif

// 2,000 operations on 48 slots: a full slot is given back, an empty one filled.
struct Script {
  static constexpr int kLength = 2000, kSlots = 48;
  struct Operation {
    int slot;
    size_t bytes;
    StreamHandle stream, other;
    unsigned dice;
  };

  explicit Script(unsigned seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return random() % n; };
    for (int i = 0; i < kLength; ++i) {
      const int slot = static_cast<int>(below(kSlots));
      const size_t bytes = 1 + below(below(4) == 0 ? 80 * kKiB : 6 * kKiB);
      const StreamHandle stream = stream_handle(below(3)), other = stream_handle(below(3));
      operations.push_back({slot, bytes, stream, other, static_cast<unsigned>(below(100))});
    }
  }
  std::vector<Operation> operations;
};

class ScriptRun {
 public:
  ScriptRun(const BlockPoolOptions& options) : memory(4096 * kKiB) {
    memory.has_virtual_memory = options.expandable;
    memory.granule_bytes = 32 * kKiB;
    pool.emplace(memory, options);
  }

  // Throws what the pool throws; then nothing happened.
  void perform(const Script::Operation& op) {
    void*& block = slots_[op.slot];
    if (block == nullptr) {
      block = pool->allocate(op.bytes, op.stream);
      sizes_[op.slot] = op.bytes;
      memory.check_unused_by_others(op.stream, block, op.bytes);
      memory.work(op.stream, block, op.bytes);
      addresses.push_back(block);
    } else {
      if (op.dice < 30) {
        memory.work(op.other, block, sizes_[op.slot]);
        pool->record_stream(block, op.other);
      }
      pool->deallocate(block);
      block = nullptr;
    }
    if (op.dice >= 80) memory.advance(op.other);
    if (op.dice == 50) pool->empty_cache();
  }

  void finish() {
    for (void*& block : slots_) {
      pool->deallocate(block);
      block = nullptr;
    }
    pool->empty_cache();
    REQUIRE(BlockPoolInspector::check(*pool) == "");
    REQUIRE(memory.violation() == "");
    REQUIRE(memory.used_bytes() == 0);
    REQUIRE(memory.live_events() == 0);
    REQUIRE(memory.reserved_address_bytes() == 0);
    addresses.clear();
  }

  FakeMemory memory;
  std::optional<BlockPool> pool;
  std::vector<void*> addresses;

 private:
  void* slots_[Script::kSlots] = {};
  size_t sizes_[Script::kSlots] = {};
};

void fail_every_call(const BlockPoolOptions& options) {
  const Script script(11);
  ScriptRun reference(options);
  reference.memory.fault().count();
  std::vector<size_t> operation_of_call = {0};  // calls count from 1
  for (size_t k = 0; k < script.operations.size(); ++k) {
    reference.perform(script.operations[k]);
    operation_of_call.resize(1 + static_cast<size_t>(reference.memory.fault().calls()), k);
  }
  const std::vector<void*> expected = reference.addresses;
  reference.memory.fault().disarm();
  reference.finish();

  int failures = 0, untouched = 0;
  for (size_t n = 1; n < operation_of_call.size(); n += kStride) {
    ScriptRun run(options);
    bool as_reference = true;
    run.memory.fault().fail_at(static_cast<int64_t>(n), FaultPoint::kForever);
    for (size_t k = 0; k < script.operations.size(); ++k) {
      const auto& op = script.operations[k];
      if (k != operation_of_call[n]) {
        run.perform(op);
        continue;
      }
      const std::string before = BlockPoolInspector::layout(*run.pool);
      const auto live = BlockPoolInspector::live_blocks(*run.pool);
      try {  // the n-th call fails, and those after it within the operation
        run.perform(op);
        run.memory.fault().disarm();
        as_reference = false;  // an event is lost or late, or a cached segment went back
      } catch (const OutOfMemoryError&) {
        ++failures;
        run.memory.fault().disarm();
        REQUIRE(BlockPoolInspector::live_blocks(*run.pool) == live);
        REQUIRE(BlockPoolInspector::check(*run.pool) == "");
        as_reference = BlockPoolInspector::layout(*run.pool) == before;  // nothing was cached
        untouched += as_reference;
        run.perform(op);
      }
    }
    if (as_reference) REQUIRE(run.addresses == expected);
    run.finish();
    if (n % 10 != 1) continue;  // nothing is left behind: all of it again is the reference run
    for (const auto& op : script.operations) run.perform(op);
    REQUIRE(run.addresses == expected);
    run.finish();
  }
  CHECK(failures > 0);
  CHECK(untouched > 0);
}

TEST_CASE("block pool: whichever device call fails, the state is as before and a retry succeeds") {
  fail_every_call(small_options());
}

TEST_CASE("block pool: the same with expandable segments") {
  fail_every_call(expandable_options());
}

}  // namespace
}  // namespace lathe
