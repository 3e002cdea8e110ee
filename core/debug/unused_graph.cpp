// Recorded ops by number, and the return addresses from which used ones were called.
#include "lathe/core/debug/unused_graph.h"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_set>

#include "lathe/core/format.h"
#include "lathe/core/hooks/watch.h"

namespace lathe::debug {

class UnusedGraph::Watch final : public profile::Watcher {
 public:
  void node(const char* op, uint64_t number) override {
    const auto at = used_.try_emplace(profile::call_stack(profile::kMostFrames), false).first;
    unused_.try_emplace(number, op, &*at);
  }

  void backward(uint64_t number) override {
    const auto found = unused_.find(number);
    if (found == unused_.end()) return;  // it was recorded before this scope
    auto& [stack, used] = *found->second.stack;
    if (!used) callers_.insert(stack.begin(), stack.end());
    used = true;
    unused_.erase(found);
  }

  std::vector<UnusedPlace> places() const {
    std::vector<UnusedPlace> out;
    std::map<const Stack*, size_t> place_of;
    const size_t common = common_callers();
    for (const auto& [number, op] : unused_) {
      const auto [at, is_new] = place_of.try_emplace(op.stack, 0);
      if (is_new) at->second = place_in(out, op, common);
      ++out[at->second].ops;
    }
    std::ranges::stable_sort(out, std::ranges::greater(), &UnusedPlace::ops);
    return out;
  }

 private:
  using Addresses = std::vector<void*>;  // innermost first
  using Stack = std::pair<const Addresses, bool>;
  struct Op {
    Op(const char* name_, Stack* stack_) : name(name_), stack(stack_) {}
    const char* name;
    Stack* stack;
  };

  /// How many of the outermost callers all unused ops have in common.
  size_t common_callers() const {
    if (unused_.empty()) return 0;
    const Addresses& first = unused_.begin()->second.stack->first;
    size_t count = first.size();
    for (const auto& [number, op] : unused_) {
      const Addresses& other = op.stack->first;
      const size_t most = std::min(count, other.size());
      count = 0;
      while (count < most && first.rbegin()[count] == other.rbegin()[count]) ++count;
    }
    return count;
  }

  /// The part of a stack that begins with the innermost call which led to no used op.
  std::span<void* const> own_callers(const Addresses& stack, size_t common) const {
    const std::span<void* const> all(stack);
    if (callers_.empty()) return common == 0 ? all : all.last(common);
    const auto own = std::ranges::find_if(all, [&](void* at) { return !callers_.contains(at); });
    return own == all.end() ? all : std::span<void* const>(own, all.end());
  }

  /// The index of the op's place, which is new if there was none.
  size_t place_in(std::vector<UnusedPlace>& places, const Op& op, size_t common) const {
    profile::CallPlace place = profile::call_place(own_callers(op.stack->first, common), "");
    const auto same = std::ranges::find_if(places, [&](const UnusedPlace& other) {
      return other.file == place.file && other.line == place.line && other.call == place.call;
    });
    if (same != places.end()) return static_cast<size_t>(same - places.begin());
    places.push_back({std::move(place), 0, op.name});
    return places.size() - 1;
  }

  std::map<Addresses, bool> used_;  // whether a backward pass reached an op of that stack
  std::map<uint64_t, Op> unused_;   // by number: in the order of recording
  std::unordered_set<void*> callers_;
};

UnusedGraph::UnusedGraph() : watch_(std::make_unique<Watch>()) {}
UnusedGraph::~UnusedGraph() = default;

std::vector<UnusedPlace> UnusedGraph::places() const { return watch_->places(); }

std::string UnusedGraph::text() const {
  std::string out;
  for (const UnusedPlace& place : places()) {
    out += concat(place.ops, place.ops == 1 ? " op was" : " ops were",
                  " recorded for a backward pass that never came, from ", place.first, " on",
                  place.call.empty() ? "" : concat(", called at ", place.call),
                  ": put NoGrad around that, or detach() what is kept\n");
  }
  return out;
}

}  // namespace lathe::debug
