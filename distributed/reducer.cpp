// Reducer: buckets that fill, their reductions, and what the ranks learn from the marks.
#include "lathe/distributed/reducer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lathe/autograd/accumulate.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/format.h"
#include "lathe/core/hooks/range.h"
#include "lathe/distributed/control.h"
#include "lathe/distributed/replicate.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"

namespace lathe::distributed {

Reducer::Reducer(ProcessGroup& group, const nn::Module::Named<Tensor>& parameters,
                 const DataParallelOptions& options)
    : group_(group), options_(options), learnt_(group.world_size() == 1 || !options.learn_order) {
  for (const auto& [name, parameter] : parameters) {
    names_.push_back(name);
    parameters_.push_back(parameter);
  }
  std::vector<size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  set_order(order);
  for (const Tensor& p : parameters_)
    queues_ = queues_ || (p.device().is_cuda() && group.queues_on(p.device()));
  size_t at = 0;
  try {
    for (; at < parameters_.size(); ++at) autograd::listen(parameters_[at], *this, at);
  } catch (const Error&) {
    for (size_t i = 0; i < at; ++i) autograd::stop_listening(parameters_[i]);
    throw;
  }
}

Reducer::~Reducer() {
  for (const Tensor& p : parameters_) autograd::stop_listening(p);
}

/// Whether the pass is one of a captured step, on the stream of its first parameter.
bool Reducer::is_recorded() const {
  const Device device = parameters_.front().device();
  return device.is_cuda() && cuda::is_capturing(current_stream(device));
}

void Reducer::set_order(const std::vector<size_t>& order) {
  buckets_ = make_buckets(parameters_, order, options_.first_bucket_bytes, options_.bucket_bytes);
  places_.resize(parameters_.size());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (size_t k = 0; k < buckets_[b].members().size(); ++k)
      places_[buckets_[b].members()[k]] = {b, k};
  }
}

bool Reducer::begin(const Pass& pass) {
  if (!sync) return false;
  refused_ = running_;
  LATHE_CHECK(StateError, !refused_,
              "DistributedDataParallel: a backward pass began while another one runs");
  LATHE_CHECK(StateError, !pass.create_graph,
              "DistributedDataParallel: with create_graph, the averaged gradients would have no "
              "history; use grad() or no_sync()");
  const bool after_recorded = std::exchange(recorded_, is_recorded());
  LATHE_CHECK(StateError, !recorded_ || learnt_,
              "DistributedDataParallel: the first backward pass learns the order of the gradients, "
              "and cannot be recorded into a graph; run a step before");
  states_.assign(parameters_.size(), State::kWaits);
  waiting_.clear();
  travels_.clear();
  arrived_.clear();
  for (Bucket& bucket : buckets_) {
    waiting_.push_back(bucket.members().size());
    if (!alone()) bucket.take_memory(recorded_ || after_recorded);  // launches write that of theirs
  }
  running_ = true;
  if (!pass.all_known) return true;
  std::vector<bool> leads_to(parameters_.size());
  for (const size_t number : pass.leaves) leads_to[number] = true;
  for (size_t number = 0; number < leads_to.size(); ++number) {
    if (!leads_to[number]) settle(number, State::kUnused, Tensor());
  }
  return true;
}

bool Reducer::complete(size_t number, const Tensor& gradient) {
  if (!learnt_) arrived_.push_back(number);
  settle(number, State::kCame, gradient);
  return !alone();
}

void Reducer::check_fits(size_t number) const {
  const Tensor& p = parameters_[number];
  const Tensor& memory = buckets_[places_[number].bucket].memory();
  LATHE_CHECK(StateError, p.dtype() == memory.dtype() && p.device() == memory.device(),
              "DistributedDataParallel: ", names_[number], " was ", memory.dtype(), "@",
              memory.device(), " when DistributedDataParallel was made, and is now ", p);
}

/// Puts grad() + gradient into the bucket.
void Reducer::settle(size_t number, State state, const Tensor& gradient) {
  if (states_[number] != State::kWaits) return;
  states_[number] = state;
  const auto [bucket, at] = places_[number];
  --waiting_[bucket];
  if (alone()) return;
  check_fits(number);
  const Tensor place = buckets_[bucket].gradient(at), before = parameters_[number].grad();
  if (gradient.defined()) {
    copy_values(place, gradient);
    if (before.defined()) autograd::accumulate_(place, before);
  } else if (before.defined()) {
    copy_values(place, before);
  } else {
    fill_values(place, 0.0);
  }
  reduce_complete_buckets();
}

/// What a mark says: with find_unused_parameters that there is a gradient, otherwise that there is
/// none. So it is a sum of zeros, which is exact in every dtype, that decides.
void Reducer::mark(const Bucket& bucket) const {
  std::vector<double> marks;
  for (const size_t number : bucket.members()) {
    const bool unused = states_[number] == State::kUnused;
    const bool used = !unused || parameters_[number].grad().defined();
    marks.push_back((options_.find_unused_parameters ? used : unused) ? 1 : 0);
  }
  const auto set = std::ranges::count(marks, 1.0);
  LATHE_CHECK(
      StateError, !recorded_ || (set == 0 && !options_.find_unused_parameters),
      "DistributedDataParallel: a step whose loss does not depend on all parameters, or with "
      "find_unused_parameters, cannot be recorded into a graph");
  if (set == 0 || set == std::ranges::ssize(marks))  // no copy, which a GPU would be waited for
    fill_values(bucket.marks(), marks[0]);
  else
    copy_values(bucket.marks(), tensor(marks));
}

void Reducer::reduce_complete_buckets() {
  while (running_ && travels_.size() < buckets_.size() && waiting_[travels_.size()] == 0)
    reduce(buckets_[travels_.size()]);
}

void Reducer::reduce(const Bucket& bucket) {
  mark(bucket);
  const Tensor& memory = bucket.memory();
  const DType dtype =
      is_half(memory.dtype()) ? memory.dtype() : options_.compress.value_or(memory.dtype());
  if (!is_half(dtype)) {
    travels_.push_back({memory, group_.all_reduce_(memory, Reduce::kAverage)});
    return;
  }
  // Divided first: a sum of halves can be too large where the average is not.
  const Tensor shared = (memory / static_cast<double>(group_.world_size())).to(dtype);
  travels_.push_back({shared, group_.all_reduce_(shared)});
}

/// Waits for a bucket's averages.
void Reducer::collect(size_t bucket) {
  Travel& travel = travels_[bucket];
  travel.work.wait();
  const Tensor& memory = buckets_[bucket].memory();
  if (!travel.memory.is_same(memory)) copy_values(memory, travel.memory);
}

/// Whether nobody needs the marks now.
bool Reducer::is_late(const Bucket& bucket) const {
  return queues_ && bucket.memory().device().is_cuda() && !options_.find_unused_parameters;
}

std::vector<double> Reducer::marks_of(const Bucket& bucket) const {
  return bucket.marks().to(kF64).to_vector<double>();
}

Reducer::LateMarks Reducer::keep_marks(const std::vector<const Bucket*>& buckets) const {
  LateMarks out;
  int64_t count = 0;
  for (const Bucket* bucket : buckets) count += bucket->marks().numel();
  if (count == 0) return out;
  const Device device = buckets[0]->memory().device();
  out.marks = empty({count}, {.dtype = kF32, .device = device});
  int64_t at = 0;
  for (const Bucket* bucket : buckets) {
    const Tensor marks = bucket->marks();
    copy_values(out.marks.slice(0, at, at + marks.numel()), marks);
    at += marks.numel();
  }
  out.summed.emplace(device).record(current_stream(device));
  out.states = states_;
  return out;
}

std::vector<double> Reducer::read(const LateMarks& late) {
  if (!late.marks.defined()) return {};
  if (!reading_) reading_.emplace(late.marks.device());
  const StreamScope on(*reading_);
  late.summed->block(*reading_);
  const Tensor here = late.marks.to(kCPU);  // waits for this stream, not for the pass that runs
  return here.to(kF64).to_vector<double>();
}

/// Whether a parameter had no gradient on some rank: of the buckets whose marks are here in this
/// pass, of the others in the pass before, so that the host does not wait for what a GPU does now.
/// Then states_ are those of that pass.
bool Reducer::find_missing() {
  const auto any = [](const std::vector<double>& marks) {
    return std::ranges::any_of(marks, [](double mark) { return mark != 0; });
  };
  if (recorded_) return false;  // mark() has looked
  bool missing = false;
  std::vector<const Bucket*> late;
  for (const Bucket& bucket : buckets_) {
    if (is_late(bucket))
      late.push_back(&bucket);
    else
      missing = any(marks_of(bucket)) || missing;
  }
  LateMarks before = std::exchange(late_, keep_marks(late));
  if (!any(read(before))) return missing;
  states_ = std::move(before.states);
  late_ = {};  // the same error once
  return true;
}

std::vector<autograd::LeafListener::NewGrad> Reducer::end() {
  for (size_t number = 0; number < parameters_.size(); ++number)
    settle(number, State::kUnused, Tensor());
  bool missing = std::ranges::count(states_, State::kUnused) != 0;
  std::vector<NewGrad> grads;
  if (!alone()) {
    reduce_complete_buckets();
    const profile::Range range("wait for gradients of all ranks");
    for (size_t b = 0; b < buckets_.size(); ++b) {
      collect(b);
      append_new_grads(grads, buckets_[b]);
    }
    missing = !options_.find_unused_parameters && find_missing();
  }
  if (missing && !options_.find_unused_parameters) throw_unused();
  travels_.clear();
  if (!learnt_) learn_order();
  running_ = false;
  return grads;
}

void Reducer::append_new_grads(std::vector<NewGrad>& out, const Bucket& bucket) const {
  const std::vector<double> marks =
      options_.find_unused_parameters ? marks_of(bucket) : std::vector<double>();
  for (size_t k = 0; k < bucket.members().size(); ++k) {
    if (options_.find_unused_parameters && marks[k] == 0) continue;
    out.push_back({parameters_[bucket.members()[k]], bucket.gradient(k)});
  }
}

/// All ranks take the order in which gradients came on rank 0.
void Reducer::learn_order() {
  std::vector<bool> came(parameters_.size());
  for (const size_t number : arrived_) came[number] = true;
  for (size_t number = parameters_.size(); number-- > 0;) {
    if (!came[number]) arrived_.push_back(number);
  }
  const std::vector<int64_t> own(arrived_.begin(), arrived_.end());
  const Tensor order = tensor(own);
  group_.broadcast_(order).wait();
  const std::vector<int64_t> agreed = order.to_vector<int64_t>();
  set_order({agreed.begin(), agreed.end()});
  learnt_ = true;
}

void Reducer::throw_unused() {
  constexpr size_t kNamed = 8;
  std::string own;
  size_t count = 0;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (states_[i] != State::kUnused || count++ >= kNamed) continue;
    own += (own.empty() ? "" : ", ") + names_[i];
  }
  if (count > kNamed) own += concat(" and ", count - kNamed, " more");
  std::string all;
  const std::vector<std::string> texts = group_.all_gather_text(own);
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const auto r = static_cast<int64_t>(rank);
    if (!texts[rank].empty())
      all += concat(all.empty() ? "" : "; ", name_of(r, group_.host(r)), ": ", texts[rank]);
  }
  wait_until_all_know(group_);
  running_ = false;  // the ranks agree: the group goes on
  travels_.clear();
  LATHE_FAIL(StateError,
             "DistributedDataParallel: the loss does not depend on these parameters, so their "
             "gradients would be missing in the average (",
             all, "); freeze them, or set find_unused_parameters");
}

void Reducer::failed(const char* reason) noexcept {
  if (std::exchange(refused_, false) || !std::exchange(running_, false)) return;
  travels_.clear();
  if (recorded_) return;  // nothing has run, and nobody waits for it
  try {
    group_.abort(concat("its backward pass failed: ", reason));
  } catch (const std::exception&) {  // out of memory: the others notice when this rank is silent
  }
}

}  // namespace lathe::distributed
