#include "random_use.h"

#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/core/cuda.h"
#include "lathe/data/collate_loader.h"
#include "lathe/data/data_loader.h"
#include "lathe/data/device/device_batches.h"
#include "lathe/data/iterable_loader.h"

namespace lathe::data::testing {
namespace {

constexpr const char* kNoLicence = "no licence";

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

int64_t draw(Random& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random.below(static_cast<uint64_t>(most - least + 1)));
}
bool with_chance(Random& random, double p) { return static_cast<double>(random.uniform()) < p; }

/// What a sample holds beside its index.
int64_t mark_of(Key key) { return key.random().bits(); }

void read_sample(int64_t i, int64_t bad) {
  if (i % 16 == 3) std::this_thread::yield();
  if (i != bad) return;
  if (i % 3 == 0) throw 42;
  if (i % 3 == 1) throw std::bad_alloc();
  throw std::runtime_error("torn");
}

/// How one loader is made.
struct Setup {
  int64_t samples, bad = -1;  // the sample that cannot be read
  bool init_throws = false;
  DataLoaderOptions options;
};

Setup draw_setup(Random& random) {
  Setup setup{.samples = draw(random, 0, 120), .options = {}};
  DataLoaderOptions& options = setup.options;
  options.batch_size = draw(random, 1, 9);
  options.shuffle = with_chance(random, 0.5);
  options.num_workers = draw(random, 0, 4);
  options.prefetch_factor = draw(random, 1, 4);
  options.pin_memory = cuda_is_available() && with_chance(random, 0.5);
  options.drop_last = with_chance(random, 0.3);
  options.seed = random.bits();
  options.persistent_workers = with_chance(random, 0.5);
  if (with_chance(random, 0.3)) options.timeout = 600;
  if (with_chance(random, 0.3)) setup.bad = draw(random, 0, 119);
  if (with_chance(random, 0.2)) {
    setup.init_throws = options.num_workers > 0 && with_chance(random, 0.3);
    options.worker_init_fn = [fails = setup.init_throws](int64_t worker) {
      if (fails && worker == 0) throw std::runtime_error(kNoLicence);
    };
  }
  return setup;
}

/// What a pass must deliver.
struct Expected {
  uint64_t seed = 0;
  int64_t epoch = 0, first = 0;  // where it begins
  std::vector<std::vector<int64_t>> batches;
  int64_t bad = -1;  // the sample that cannot be read
  bool init_throws = false;
  int64_t number_of = 1 << 30;  // samples are numbered up to this in a key: within their shard

  int64_t size() const { return static_cast<int64_t>(batches.size()); }
  const std::vector<int64_t>& batch(int64_t k) const { return batches[static_cast<size_t>(k)]; }
  bool fails_at(int64_t k) const {
    if (k >= size()) return false;
    return init_throws || std::count(batch(k).begin(), batch(k).end(), bad) > 0;
  }
};

using Samples = std::vector<std::pair<int64_t, int64_t>>;  // index and mark

Samples samples_of(const Samples& batch) { return batch; }
Samples samples_of(const Batch& batch) {
  const std::vector<int64_t> numbers = batch.x.cpu().to_vector<int64_t>();
  Samples samples;
  for (size_t k = 0; k + 1 < numbers.size(); k += 2)
    samples.emplace_back(numbers[k], numbers[k + 1]);
  return samples;
}

/// A pass that is being read, each batch compared with what it must be.
template <class Batches>
class CheckedPass {
 public:
  CheckedPass(Batches& batches, Expected expected, UseCounts& counts)
      : expected_(std::move(expected)), counts_(&counts), next_(expected_.first) {
    ++counts_->passes;
    guard([&] { at_ = batches.begin(); });
  }

  /// Looks at a batch and goes to the next; false: the pass is over.
  bool step() {
    if (!at_) return false;
    if (*at_ == std::default_sentinel) {
      require(next_ >= expected_.size(), place() + "is missing");
      return false;
    }
    check(samples_of(**at_));
    ++next_;
    guard([&] { ++*at_; });
    return at_.has_value();
  }
  bool steps(int64_t count) {
    for (; count > 0; --count)
      if (!step()) return false;
    return true;
  }

  int64_t next() const { return next_; }
  bool failed() const { return !at_; }

 private:
  std::string place() const { return concat("epoch ", expected_.epoch, ", batch ", next_, " "); }

  template <class F>
  void guard(F&& f) try {
    f();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const std::string wanted =
        expected_.init_throws ? kNoLicence : concat("sample ", expected_.bad, ": ");
    require(expected_.fails_at(next_) && text.starts_with(wanted), place() + "threw " + text);
    at_.reset();
    ++counts_->errors;
  }

  void check(const Samples& seen) {
    require(next_ < expected_.size() && !expected_.fails_at(next_), place() + "is one too many");
    const std::vector<int64_t>& indices = expected_.batch(next_);
    require(seen.size() == indices.size(), place() + "has another size");
    for (size_t k = 0; k < seen.size(); ++k) {
      const Key key{expected_.seed, expected_.epoch, indices[k] % expected_.number_of};
      require(seen[k] == std::pair(indices[k], mark_of(key)), place() + "holds other samples");
    }
    ++counts_->batches;
  }

  Expected expected_;
  UseCounts* counts_;
  int64_t next_;
  std::optional<typename Batches::Iterator> at_;  // none: an error came
};

/// Uses the loader that `make` makes in a few ways; `expect(epoch, first)` tells what a pass of it
/// delivers.
template <class Loader, class Expect, class Make>
void use(const Make& make, const Expect& expect, Random& random, UseCounts& counts) {
  ++counts.loaders;
  std::unique_ptr<Loader> loader = make();
  const auto begin = [&](int64_t first = 0) {
    const int64_t epoch = loader->epoch();
    return CheckedPass<Loader>(*loader, expect(epoch, first), counts);
  };
  for (int64_t uses = draw(random, 1, 4); uses > 0; --uses) {
    const int64_t way = draw(random, 0, 5), some = draw(random, 0, 6);
    if (way == 0) {  // a whole epoch
      auto pass = begin();
      while (pass.step()) continue;
    } else if (way == 1) {  // left early
      auto pass = begin();
      if (pass.steps(some)) ++counts.abandoned;
    } else if (way == 2) {  // an epoch entered in its middle
      const int64_t epoch = draw(random, 0, 1000), first = draw(random, 0, 5);
      loader->set_epoch(epoch, first);
      auto pass = begin(first);
      while (pass.step()) continue;
    } else if (way == 3) {  // two at once
      auto a = begin(), b = begin();
      while (int{a.step()} + int{b.step()} > 0) continue;
    } else if (way == 4) {  // another loader goes on
      if constexpr (requires { loader->state_dict(); }) {
        const int64_t epoch = loader->epoch();
        auto pass = begin();
        if (!pass.steps(some) || pass.failed()) continue;
        auto other = make();
        other->load_state_dict(loader->state_dict());
        // The pass stands at batch `next`, which was handed out, or has seen its end.
        const bool over = pass.next() == expect(epoch, 0).size();
        CheckedPass<Loader> rest(
            *other, over ? expect(epoch + 1, 0) : expect(epoch, pass.next() + 1), counts);
        while (rest.step()) continue;
      }
    } else {  // the pass outlives its loader, in another thread
      auto pass = begin();
      std::exception_ptr error;
      std::thread reader([&] {
        try {
          while (pass.step()) continue;
        } catch (...) {
          error = std::current_exception();
        }
      });
      loader.reset();
      reader.join();
      if (error) std::rethrow_exception(error);
      loader = make();
    }
  }
}

struct Marked final : Dataset {
  Marked(int64_t samples, int64_t bad_sample) : n(samples), bad(bad_sample) {}
  int64_t size() const override { return n; }
  SampleSpec spec() const override { return {{{"x", {2}, kI64}}}; }
  void read(int64_t i, Key key, Slot out) const override {
    read_sample(i, bad);
    out.data<int64_t>(0)[0] = i;
    out.data<int64_t>(0)[1] = mark_of(key);
  }
  int64_t n, bad;
};

Expected expected_of(const Setup& setup, int64_t epoch, int64_t first) {
  const DataLoaderOptions& options = setup.options;
  const std::vector<int64_t> order =
      options.shuffle ? RandomSampler(setup.samples).order(options.seed, epoch)
                      : SequentialSampler(setup.samples).order(options.seed, epoch);
  Expected expected{.seed = options.seed, .epoch = epoch, .first = first, .batches = {}};
  for (int64_t k = 0; k < setup.samples; k += options.batch_size) {
    const int64_t end = std::min(k + options.batch_size, setup.samples);
    if (options.drop_last && end - k < options.batch_size) break;
    expected.batches.emplace_back(order.begin() + k, order.begin() + end);
  }
  expected.bad = setup.bad;
  expected.init_throws = setup.init_throws;
  return expected;
}

void use_data_loader(Random& random, UseCounts& counts) {
  const Setup setup = draw_setup(random);
  const auto set = std::make_shared<Marked>(setup.samples, setup.bad);
  const auto make = [&] { return std::make_unique<DataLoader>(set, setup.options); };
  const auto expect = [&](int64_t epoch, int64_t first) {
    return expected_of(setup, epoch, first);
  };
  use<DataLoader>(make, expect, random, counts);
  const auto loader = make();
  DeviceBatches ahead =
      prefetch(*loader, cuda_is_available() ? Device(DeviceType::kCUDA) : Device(kCPU));
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    CheckedPass<DeviceBatches> pass(ahead, expect(epoch, 0), counts);
    pass.steps(draw(random, 0, 30));
  }
}

void use_collate_loader(Random& random, UseCounts& counts) {
  const Setup setup = draw_setup(random);
  const auto make = [&] {
    auto loader = collate_loader(
        setup.samples,
        [bad = setup.bad](int64_t i, Key key) {
          read_sample(i, bad);
          return std::pair(i, mark_of(key));
        },
        [](Samples samples) { return samples; }, setup.options);
    return std::make_unique<decltype(loader)>(std::move(loader));
  };
  use<CollateLoader<Samples>>(
      make, [&](int64_t epoch, int64_t first) { return expected_of(setup, epoch, first); }, random,
      counts);
}

constexpr int64_t kShard = 1000;  // numbers of a shard's samples

struct MarkedShards final : IterableDataset {
  struct Stream final : SampleStream {
    bool next(Slot out) override {
      if (at == end) return false;
      read_sample(at, -1);
      out.data<int64_t>(0)[0] = at;
      out.data<int64_t>(0)[1] = mark_of({seed, epoch, at % kShard});
      ++at;
      return true;
    }
    int64_t at = 0, end = 0, epoch = 0;
    uint64_t seed = 0;
  };
  SampleSpec spec() const override { return {{{"x", {2}, kI64}}}; }
  int64_t shards() const override { return static_cast<int64_t>(sizes.size()); }
  std::unique_ptr<SampleStream> open(int64_t shard, uint64_t seed, int64_t epoch) const override {
    auto stream = std::make_unique<Stream>();
    stream->at = shard * kShard;
    stream->end = stream->at + sizes[static_cast<size_t>(shard)];
    stream->epoch = epoch;
    stream->seed = seed;
    return stream;
  }
  std::vector<int64_t> sizes;
};

void use_iterable_loader(Random& random, UseCounts& counts) {
  const auto set = std::make_shared<MarkedShards>();
  for (int64_t shards = draw(random, 1, 5); shards > 0; --shards)
    set->sizes.push_back(draw(random, 0, 30));
  const Setup setup = draw_setup(random);
  const IterableLoaderOptions options{.batch_size = setup.options.batch_size,
                                      .num_workers = setup.options.num_workers,
                                      .pin_memory = setup.options.pin_memory,
                                      .drop_last = setup.options.drop_last,
                                      .seed = setup.options.seed,
                                      .prefetch_factor = setup.options.prefetch_factor,
                                      .timeout = setup.options.timeout};
  const auto expect = [&](int64_t epoch, int64_t first) {
    Expected expected{.seed = options.seed, .epoch = epoch, .first = first, .batches = {}};
    expected.number_of = kShard;
    for (int64_t from = 0; from < 30; from += options.batch_size)
      for (int64_t shard = 0; shard < set->shards(); ++shard) {
        std::vector<int64_t> batch;
        const int64_t size = set->sizes[static_cast<size_t>(shard)];
        for (int64_t i = from; i < std::min(from + options.batch_size, size); ++i)
          batch.push_back(shard * kShard + i);
        const bool is_short = static_cast<int64_t>(batch.size()) < options.batch_size;
        if (!batch.empty() && !(options.drop_last && is_short)) expected.batches.push_back(batch);
      }
    return expected;
  };
  use<IterableLoader>([&] { return std::make_unique<IterableLoader>(set, options); }, expect,
                      random, counts);
}

}  // namespace

void use_a_loader(Random& random, UseCounts& counts) {
  const int64_t kind = draw(random, 0, 5);
  if (kind == 0) return use_collate_loader(random, counts);
  if (kind == 1) return use_iterable_loader(random, counts);
  use_data_loader(random, counts);
}

}  // namespace lathe::data::testing
