// Listening: the walk that finds the oldest node of each leaf, and the calls to listeners.
#include "lathe/autograd/leaf_listener.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "lathe/autograd/meta.h"
#include "lathe/core/error.h"

namespace lathe::autograd {

namespace {
constinit std::atomic<int64_t> g_links{0};
}  // namespace

LeafLink::LeafLink(LeafListener& its_listener, size_t its_number) noexcept
    : listener(its_listener), number(its_number) {
  g_links.fetch_add(1, std::memory_order_relaxed);
}

LeafLink::~LeafLink() { g_links.fetch_sub(1, std::memory_order_relaxed); }

bool any_listeners() noexcept { return g_links.load(std::memory_order_relaxed) != 0; }

void listen(const Tensor& leaf, LeafListener& listener, size_t number) {
  LATHE_CHECK(StateError, leaf.is_leaf() && leaf.requires_grad(),
              "listen: this is no leaf that requires grad (", leaf, ")");
  Meta& meta = meta_of(leaf);
  LATHE_CHECK(StateError, meta.link == nullptr, "listen: this leaf has a listener already (", leaf,
              ")");
  meta.link = std::make_unique<LeafLink>(listener, number);
}

void stop_listening(const Tensor& leaf) noexcept {
  if (leaf.impl().meta != nullptr) leaf.impl().meta->link.reset();
}

void Listening::see_leaf(const IntrusivePtr<TensorImpl>& leaf, uint64_t node) {
  const LeafLink* const link = leaf->meta->link.get();
  if (link == nullptr || std::ranges::count(declined_, &link->listener) != 0) return;
  if (only_ != nullptr &&
      std::ranges::none_of(*only_, [&](const Tensor& t) { return t.handle() == leaf; }))
    return;
  const auto [at, is_new] = waiting_.try_emplace(leaf.get(), Oldest{node, link});
  if (is_new) found_.push_back(leaf.get());
  if (!is_new && at->second.node <= node) return;
  at->second.node = node;
  by_age_.push({node, --order_, leaf.get()});
}

void Listening::follow(const Edge& edge) {
  if (edge.leaf) see_leaf(edge.leaf, UINT64_MAX);  // no node is needed
  std::vector<const Node*> to_visit;
  const auto visit = [&](const Node* node) {
    if (node != nullptr && seen_.insert(node->number).second) to_visit.push_back(node);
  };
  visit(edge.node.get());
  while (!to_visit.empty()) {
    const Node& node = *to_visit.back();
    to_visit.pop_back();
    if (node.computed_again) oldest_again_ = std::min(oldest_again_, node.number);
    for (const Edge& to : node.edges) {
      visit(to.node.get());
      if (to.leaf) see_leaf(to.leaf, node.number);
    }
  }
}

void Listening::announce() {
  std::map<LeafListener*, std::vector<size_t>> numbers;
  for (TensorImpl* const leaf : found_) {
    const LeafLink& link = *waiting_.at(leaf).link;
    numbers[&link.listener].push_back(link.number);
  }
  for (auto& [listener, leaves] : numbers) {
    if (std::ranges::count(listeners_, listener) != 0) continue;
    listeners_.push_back(listener);  // first: failed() also follows a begin() that threw
    if (listener->begin({std::move(leaves), oldest_again_ == UINT64_MAX, create_graph_})) continue;
    listeners_.pop_back();
    declined_.push_back(listener);
    std::erase_if(waiting_, [&](const auto& w) { return &w.second.link->listener == listener; });
  }
  found_.clear();
}

void Listening::complete(uint64_t next, Tell tell) {
  while (!by_age_.empty() && by_age_.top().node > next && oldest_again_ > next) {
    const auto [node, order, leaf] = by_age_.top();
    by_age_.pop();
    const auto at = waiting_.find(leaf);
    if (at == waiting_.end() || at->second.node != node) continue;  // an older one was found
    const LeafLink& link = *at->second.link;
    waiting_.erase(at);
    tell(leaf, link.listener, link.number);
  }
}

std::vector<LeafListener::NewGrad> Listening::end() {
  std::vector<LeafListener::NewGrad> all;
  for (LeafListener* const listener : listeners_) {
    std::vector<LeafListener::NewGrad> grads = listener->end();
    std::ranges::move(grads, std::back_inserter(all));
  }
  return all;
}

void Listening::fail(const char* reason) noexcept {
  for (LeafListener* const listener : listeners_) listener->failed(reason);
}

}  // namespace lathe::autograd
