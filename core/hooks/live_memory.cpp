// The table of what is alive, and what of it grows.
#include "lathe/core/hooks/live_memory.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/hooks/stack.h"
#include "lathe/core/tensor_impl.h"

namespace lathe::profile {

namespace {

/// A node of the autograd graph that is alive.
struct LiveNode {
  const char* op;
  std::vector<const void*> inputs;  // the nodes that it leads to
  std::vector<void*> stack;
};

struct Alive {
  std::mutex mutex;
  std::string owner;  // where the LiveMemory was made; "": there is none
  int64_t steps = 0;
  uint64_t dropped = 0;  // tensors and nodes, for lack of memory
  std::unordered_map<const void*, LiveTensor> tensors;
  std::unordered_map<const void*, LiveNode> nodes;
};

// Never destroyed: static objects of the program may free tensors later.
Alive& alive() {
  static Alive& instance = *new Alive;
  return instance;
}

std::string text_of(const LiveTensor& t) {
  std::string out = concat(readable_bytes(static_cast<uint64_t>(t.bytes)), " ", name_of(t.tag), " ",
                           t.dtype, t.shape);
  if (t.device.is_cuda()) out += concat("@", t.device);
  if (t.pinned) out += " pinned";
  if (*t.op != '\0') out += concat(" of ", t.op);
  const std::string place = t.place();
  return place.empty() ? out : concat(out, " made at ", place);
}

std::vector<LiveTensor> all_alive() {
  Alive& a = alive();
  std::vector<LiveTensor> out;
  {
    const std::lock_guard lock(a.mutex);
    for (const auto& [key, tensor] : a.tensors) {
      out.push_back(tensor);
      out.back().tag = static_cast<const Storage*>(key)->tag();
    }
  }
  std::ranges::stable_sort(out, [](const LiveTensor& x, const LiveTensor& y) {
    return std::pair(-x.bytes, x.step) < std::pair(-y.bytes, y.step);
  });
  return out;
}

/// "1.5" rather than "1.500000".
std::string short_number(double value) {
  const auto tenths = static_cast<int64_t>(value * 10 + 0.5);
  return tenths % 10 == 0 ? concat(tenths / 10) : concat(tenths / 10, ".", tenths % 10);
}

}  // namespace

std::string LiveTensor::place() const { return user_call(stack); }

LiveMemory::LiveMemory(SourcePlace place) {
  Alive& a = alive();
  const std::lock_guard lock(a.mutex);
  LATHE_CHECK(StateError, a.owner.empty(), "LiveMemory: one records already, made at ", a.owner);
  a.owner = concat(place.file, ":", place.line);
  a.steps = 0;
  a.dropped = 0;
  detail::live_wanted.store(true, std::memory_order_relaxed);
}

LiveMemory::~LiveMemory() {
  Alive& a = alive();
  const std::lock_guard lock(a.mutex);
  a.owner.clear();
  a.tensors.clear();
  a.nodes.clear();
  // Last: until nobody can find a tensor here, it must say that it goes.
  detail::live_wanted.store(false, std::memory_order_release);
}

std::vector<LiveTensor> LiveMemory::live() const { return all_alive(); }

std::string LiveMemory::table(size_t rows) const {
  const std::vector<LiveTensor> all = all_alive();
  int64_t bytes = 0;
  for (const LiveTensor& t : all) bytes += t.bytes;
  std::string out = concat(all.size(), all.size() == 1 ? " tensor" : " tensors", " alive, ",
                           readable_bytes(static_cast<uint64_t>(bytes)), "\n");
  for (size_t i = 0; i < std::min(rows, all.size()); ++i)
    out += concat("  ", text_of(all[i]), "\n");
  if (all.size() > rows) out += concat("  and ", all.size() - rows, " more\n");
  Alive& a = alive();
  const std::lock_guard lock(a.mutex);
  if (a.dropped > 0) {
    out += a.dropped == 1
               ? "  and 1 object that found no memory for its record\n"
               : concat("  and ", a.dropped, " objects that found no memory for their records\n");
  }
  return out;
}

void LiveMemory::step() {
  Alive& a = alive();
  std::map<Key, Sample> now;
  {
    const std::lock_guard lock(a.mutex);
    for (const auto& [key, t] : a.tensors) {
      Sample& sample = now[{t.op, t.stack}];
      sample.bytes += t.bytes;
      ++sample.tensors;
    }
    for (const auto& [key, node] : a.nodes) ++now[{node.op, node.stack}].nodes;
    a.steps = ++steps_;
  }
  for (auto& [key, sample] : now) {
    sample.step = steps_;
    places_[key].push_back(sample);
  }
}

// A place grows if what is alive of it reaches a new height in most of the steps. A window of the
// latest tensors, or one that is emptied from time to time, stays below its first heights.
bool LiveMemory::grows(const Samples& samples) const {
  constexpr int64_t kFirst = 2;  // the step before is warm-up
  const auto rises_of = [&](auto amount) {
    int64_t rises = 0, highest = 0;
    for (const Sample& sample : samples) {
      if (sample.step >= kFirst && amount(sample) > highest) {
        highest = amount(sample);
        rises += sample.step > kFirst ? 1 : 0;
      }
    }
    return rises;
  };
  const int64_t bytes = rises_of([](const Sample& s) { return s.bytes; });
  const int64_t count = rises_of([](const Sample& s) { return s.tensors + s.nodes; });
  return 2 * std::max(bytes, count) > steps_ - kFirst;
}

/// The places of which most nodes are ends: none that was made elsewhere leads to them.
std::set<LiveMemory::Key> LiveMemory::ends_of_graphs() {
  struct Count {
    int64_t ends = 0, all = 0;
  };
  Alive& a = alive();
  const std::lock_guard lock(a.mutex);
  std::unordered_set<const void*> reached;  // from elsewhere
  for (const auto& [at, node] : a.nodes) {
    for (const void* const input : node.inputs) {
      const auto to = a.nodes.find(input);
      if (to == a.nodes.end()) continue;
      if (to->second.op != node.op || to->second.stack != node.stack) reached.insert(input);
    }
  }
  std::map<Key, Count> counts;
  for (const auto& [at, node] : a.nodes) {
    Count& count = counts[{node.op, node.stack}];
    ++count.all;
    count.ends += reached.contains(at) ? 0 : 1;
  }
  std::set<Key> out;
  for (const auto& [key, count] : counts) {
    if (2 * count.ends > count.all) out.insert(key);
  }
  return out;
}

std::vector<Growth> LiveMemory::growth() const {
  std::vector<Growth> out;
  if (steps_ < 4) return out;
  const std::set<Key> ends = ends_of_graphs();
  for (const auto& [key, samples] : places_) {
    if (!grows(samples)) continue;
    const Sample& last = samples.back();
    Sample first = samples.front().step <= 2 ? samples.front() : Sample{};
    if (samples.size() > 1 && samples[1].step == 2) first = samples[1];
    const auto each = [&](int64_t Sample::*what) {
      return static_cast<double>(last.*what - first.*what) / static_cast<double>(steps_ - 2);
    };
    Growth growth{.op = key.op,
                  .place = user_call(key.stack),
                  .bytes_per_step = each(&Sample::bytes),
                  .tensors_per_step = each(&Sample::tensors),
                  .nodes_per_step = each(&Sample::nodes)};
    growth.holds_graph = growth.nodes_per_step > 0 && ends.contains(key);
    out.push_back(std::move(growth));
  }
  std::ranges::stable_sort(out, [](const Growth& x, const Growth& y) {
    return std::pair(!x.holds_graph, -x.bytes_per_step) <
           std::pair(!y.holds_graph, -y.bytes_per_step);
  });
  return out;
}

std::string LiveMemory::growth_text() const {
  std::string out;
  for (const Growth& g : growth()) {
    const std::string place = g.place.empty() ? "an unknown place" : g.place;
    if (g.holds_graph) {
      out += concat("each step keeps the graph that ends with ", g.op, " at ", place,
                    ": use item() or detach() on what you keep\n");
      if (g.tensors_per_step <= 0) continue;
    }
    if (g.bytes_per_step <= 0) continue;
    const std::string made = concat(g.op.empty() ? "" : " of " + g.op, " made at ", place),
                      size = readable_bytes(static_cast<uint64_t>(g.bytes_per_step)),
                      count = short_number(g.tensors_per_step);
    if (g.tensors_per_step <= 0 || count == "0") {
      out += concat("a tensor", made, " grows by ", size, " each step\n");
    } else {
      out += concat("each step leaves ", count, count == "1" ? " tensor, " : " tensors, ", size,
                    ",", made, "\n");
    }
  }
  return out;
}

namespace detail {

constinit std::atomic<bool> live_wanted{false};

std::string largest_alive(Device device, bool pinned) {
  constexpr size_t kNamed = 3;
  std::string out;
  if (!notes_live()) return out;
  size_t named = 0;
  for (const LiveTensor& t : all_alive()) {
    if (t.device != device || t.pinned != pinned) continue;
    out += concat(named == 0 ? "; the largest: " : ", ", text_of(t));
    if (++named == kNamed) break;
  }
  return out;
}

void note_alive(const Storage& storage) noexcept {
  Alive& a = alive();
  try {
    LiveTensor tensor{.bytes = storage.bytes(),
                      .device = storage.device(),
                      .pinned = storage.pinned(),
                      .shape = {storage.bytes()},
                      .stack = call_stack()};
    const std::lock_guard lock(a.mutex);
    tensor.step = a.steps;
    if (!a.owner.empty()) a.tensors.insert_or_assign(&storage, std::move(tensor));
  } catch (...) {  // no memory: this tensor is missing
    const std::lock_guard lock(a.mutex);
    ++a.dropped;
  }
}

void note_gone(const void* object) noexcept {
  Alive& a = alive();
  const std::lock_guard lock(a.mutex);
  a.tensors.erase(object);
  a.nodes.erase(object);
}

void note_shape(const TensorImpl& tensor) noexcept {
  Alive& a = alive();
  const std::lock_guard lock(a.mutex);
  const auto at = a.tensors.find(tensor.storage.get());
  if (at == a.tensors.end()) return;
  at->second.dtype = tensor.dtype;
  at->second.shape = tensor.shape;
}

void note_maker(const void* node, const char* op, std::vector<const void*> inputs,
                const Storage* output) noexcept {
  Alive& a = alive();
  try {
    LiveNode made{op, std::move(inputs), call_stack()};
    const std::lock_guard lock(a.mutex);
    if (a.owner.empty()) return;
    if (const auto at = a.tensors.find(output); at != a.tensors.end() && *at->second.op == '\0') {
      at->second.op = op;
    }
    a.nodes.insert_or_assign(node, std::move(made));
  } catch (...) {
    const std::lock_guard lock(a.mutex);
    ++a.dropped;
  }
}

}  // namespace detail
}  // namespace lathe::profile
