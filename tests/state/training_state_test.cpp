// The saved state of what feeds a training, counts in it and runs it (saved_state.h).
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/formats/safetensors.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/random/random_state.h"
#include "lathe/data/collate_loader.h"
#include "lathe/data/data_loader.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/random.h"
#include "lathe/optim/scheduler.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tests/train/small_training.h"
#include "lathe/train/tally.h"
#include "lathe/train/trainer.h"
#include "saved_state.h"

namespace fs = std::filesystem;

namespace lathe {
namespace {

using namespace test;
using data::Key;

/// A loader and a pass over it. A step goes on to the next batch, over the ends of epochs.
template <class Loader>
struct Reader {
  template <class... Args>
  explicit Reader(const Args&... args) : loader(args...) {}
  explicit Reader(Loader made) : loader(std::move(made)) {}

  const auto& next() {
    if (pass) ++*pass;
    while (!pass || *pass == std::default_sentinel) pass.emplace(loader.begin());
    return **pass;
  }
  StateDict state_dict() const { return loader.state_dict(); }
  void load_state_dict(const StateDict& state) {
    loader.load_state_dict(state);
    pass.reset();
  }

  Loader loader;
  std::optional<typename Loader::Iterator> pass = {};
};

TEST_CASE("saved state: loaders, with every sampler") {
  const std::vector<int64_t> labels = {0, 1, 1, 0, 2, 0, 1, 2, 2, 0, 1, 0, 2, 1};
  const std::vector<double> weights = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  const std::vector<std::pair<std::string, std::shared_ptr<data::Sampler>>> samplers = {
      {"SequentialSampler", std::make_shared<data::SequentialSampler>(14)},
      {"RandomSampler", std::make_shared<data::RandomSampler>(14)},
      {"WeightedSampler", std::make_shared<data::WeightedSampler>(weights, 14)},
      {"SubsetRandomSampler", std::make_shared<data::SubsetRandomSampler>(labels)},
      {"DistributedSampler", std::make_shared<data::DistributedSampler>(27, 1, 2)},
      {"StratifiedSampler", std::make_shared<data::StratifiedSampler>(labels)}};
  const auto set =
      std::make_shared<data::FunctionDataset>(data::from_function(28, [](int64_t i, Key key) {
        return data::Example{full({}, static_cast<double>(i)),
                             full({}, static_cast<double>(key.random().below(1000)))};
      }));
  for (const auto& [name, sampler] : samplers) {
    for (const int64_t workers : {0, 2}) {
      check_saved({concat("DataLoader, ", name, ", workers: ", workers), [&, own = sampler] {
                     const auto r = std::make_shared<Reader<data::DataLoader>>(
                         set,
                         data::DataLoaderOptions{
                             .batch_size = 3, .num_workers = workers, .seed = 5, .sampler = own});
                     return saved(r, [r](int) {
                       const data::Batch& b = r->next();
                       std::vector<double> shown = b.x.to_vector<double>();
                       for (const double v : b.y.to_vector<double>()) shown.push_back(v);
                       return shown;
                     });
                   }});
    }
  }
  const auto make = [] {
    return data::collate_loader(
        14,
        [](int64_t i, Key key) { return static_cast<double>(i * 1000 + key.random().below(999)); },
        [](std::vector<double> some) { return some; },
        {.batch_size = 3, .shuffle = true, .seed = 5});
  };
  check_saved({"CollateLoader", [&] {
                 const auto r = std::make_shared<Reader<decltype(make())>>(make());
                 return saved(r, [r](int) { return r->next(); });
               }});
}

TEST_CASE("saved state: the generators") {
  const Generator::State before = default_generator(kCPU).state();
  check_saved({"random_state",
               [] {
                 manual_seed(7);
                 return Saved{[] { return random_state(); }, set_random_state,
                              [](int n) { return randn({n + 3}).to_vector<double>(); }};
               },
               {"unused"}});  // only GPUs take it
  default_generator(kCPU).set_state(before);
}

train::Result batch(int n) {
  Generator generator(static_cast<uint64_t>(n));
  const Tensor scores = randn({4, 6}, {}, &generator);
  return {full({}, 1.0 / (n + 3)), scores, tensor({n % 6, 1, 2, 3}), 4};
}

std::vector<double> numbers_in(const train::Values& values) {
  std::vector<double> out;
  for (const auto& [name, value] : values) out.push_back(value);
  return out;
}

TEST_CASE("saved state: metrics") {
  for (const train::Metric& metric : {train::accuracy(), train::top_k(2), train::mean_loss(),
                                      train::perplexity(), train::mean_iou(6)}) {
    check_saved({.name = concat("Metric ", metric.name()),
                 .make =
                     [&] {
                       const auto m = std::make_shared<train::Metric>(metric);
                       return Saved{
                           [m] { return m->state_dict(); },
                           [m](const StateDict& state) { m->load_state_dict(state, kCPU); },
                           [m](int n) {
                             m->add(batch(n));
                             return std::vector{m->value()};
                           }};
                     },
                 .optional = {"totals"}});  // before the first batch there is none
  }
}

TEST_CASE("saved state: Tally") {
  for (const bool scores : {true, false}) {
    check_saved({concat("Tally, scores: ", scores), [=] {
                   const train::TallyOptions options{
                       .scores = scores, .metrics = {train::mean_loss(), train::top_k(2)}};
                   const auto t = std::make_shared<train::Tally>(options);
                   train::Tally other(options);
                   other.add(batch(20));
                   t->join(other);
                   return Saved{[t] { return t->state_dict(); },
                                [t](const StateDict& state) { t->load_state_dict(state, kCPU); },
                                [t](int n) {
                                  t->add(batch(n));
                                  std::vector<double> out = numbers_in(t->values());
                                  out.insert(out.end(), {t->loss(), t->accuracy(), t->top5()});
                                  out.push_back(static_cast<double>(t->count()));
                                  return out;
                                }};
                 }});
  }
}

/// A training of 12 updates a step, each step in a trainer of its own, which goes on from the
/// checkpoint of the one before.
struct Run {
  const int64_t first;  // updates of the first step
  const TemporaryFolder folder;
  Checkpoint now = {};  // its metadata: those of any checkpoint of this training
  bool begun = false;

  struct Rows : train::Observer {
    std::vector<double> shown, epochs;  // these are told when their checkpoints are on the disk
    void on_row(train::Trainer&, const train::MetricsRow& row) override {
      for (const int64_t n : {row.epoch, row.step, row.skipped_steps})
        shown.push_back(static_cast<double>(n));
      show(shown, row.loss, row.metrics, row.lr);
    }
    void on_epoch(train::Trainer&, const train::EpochReport& epoch) override {
      show(epochs, epoch.train_loss, epoch.train_metrics, epoch.lr);
      if (epoch.evaluated) show(epochs, epoch.val_loss, epoch.val_metrics, 0);
    }
    void on_end(train::Trainer&, const train::FitResult& result) override {
      shown.insert(shown.end(), epochs.begin(), epochs.end());
      epochs.clear();
      show(shown, result.loss, result.metrics, result.best);
      shown.push_back(static_cast<double>(result.best_epoch));
    }
    static void show(std::vector<double>& out, double loss, const train::Values& metrics,
                     double more) {
      out.insert(out.end(), {loss, more});
      for (const double v : numbers_in(metrics)) out.push_back(v);
    }
  };

  /// Calls f(trainer, net) for a trainer that ends after `updates`.
  template <class F>
  void with_trainer(int64_t updates, const std::string& from, F f) {
    Net net;
    optim::StepLR schedule(*net.optimizer, {.step_size = 4, .gamma = 0.5});
    train::Trainer trainer(net.model, *net.optimizer,
                           {.epochs = 10,
                            .pause_after = updates,
                            .schedule = &schedule,
                            .run_dir = folder.path() / std::to_string(updates),
                            .resume = from,
                            .log_every = 5});
    trainer.add(train::perplexity());
    f(trainer, net);
  }
  void load(const StateDict& state) {
    with_trainer(0, "", [&](train::Trainer& trainer, Net&) {
      trainer.resume({.tensors = state, .metadata = now.metadata}, "state");
    });
    now.tensors = state.clone();
    begun = true;
  }
  std::vector<double> step(int n) {
    const auto rows = std::make_shared<Rows>();
    const int64_t from = 12 * (n - 1) + first, to = 12 * n + first;
    const std::string file = (folder.path() / "from.safetensors").string();
    if (begun) {
      safetensors::write(file, now.tensors, now.metadata);
      with_trainer(0, "", [&](train::Trainer& trainer, Net&) {
        trainer.resume(now, file);
        rows->shown.push_back(static_cast<double>(trainer.rows()));
      });
      // A training that pauses at once reports what was found before.
      with_trainer(from, file, [&](train::Trainer& trainer, Net& net) {
        trainer.add(rows).fit(net.train, net.test);
      });
    }
    with_trainer(to, begun ? file : "", [&](train::Trainer& trainer, Net& net) {
      trainer.add(rows).fit(net.train, net.test);
      now = read_checkpoint((trainer.folder() / "last.safetensors").string());
    });
    for (const int64_t updates : {from, to})
      fs::remove_all(folder.path() / std::to_string(updates));
    begun = true;
    return rows->shown;
  }
};

TEST_CASE("saved state: Trainer") {
  // An epoch has 6 updates. Inside of one, the next update resets `evaluated`. At its end, before
  // its evaluation, `evaluated` decides whether there is one.
  for (const auto& [first, silent] : {std::pair{8, std::vector<std::string>{"evaluated"}},
                                      std::pair{12, std::vector<std::string>()}}) {
    Run any{first};
    any.step(0);
    SavedCase c{.name = concat("Trainer after ", first, " updates"),
                .make =
                    [&, updates = first] {
                      const auto run = std::make_shared<Run>(updates);
                      run->now.metadata = any.now.metadata;
                      return Saved{[run] { return run->now.tensors; },
                                   [run](const StateDict& state) { run->load(state); },
                                   [run](int n) { return run->step(n); }};
                    },
                .silent = silent,
                // A metric may be new in a training that goes on.
                .optional = {"metric_added.perplexity", "metric_joined.perplexity",
                             "last_metric.perplexity"},
                // How many sums a metric has is known once there is a batch.
                .late = {"metric_added.perplexity", "metric_joined.perplexity"},
                .before = 1,
                .after = 1,
                .only = "trainer."};
    // Only evaluations report how often the label is among the five best.
    c.silent.insert(c.silent.end(), {"top5", "added.counts[2]"});
    check_saved(c);
  }
}

TEST_CASE("saved state: Module") {
  check_saved({.name = "Module",
               .make =
                   [] {
                     const auto model = std::make_shared<nn::Sequential>();
                     Generator generator(3);
                     model->add<nn::Linear>(3, 4);
                     model->add<nn::BatchNorm1d>(4);
                     for (const Tensor& p : model->parameters())
                       p.set_data(randn(p.shape(), {}, &generator));
                     return Saved{
                         [=] { return model->state_dict(); },
                         [=](const StateDict& state) { (void)model->load_state_dict(state); },
                         [=](int n) {
                           Generator inputs(static_cast<uint64_t>(n));
                           const Tensor x = randn({5, 3}, {}, &inputs);
                           model->eval();
                           std::vector<double> out = (*model)(x).to_vector<double>();
                           model->train();
                           for (const double v : (*model)(x).to_vector<double>()) out.push_back(v);
                           return out;
                         }};
                   },
               // Batch norm reads it only if it has no momentum.
               .silent = {"num_batches_tracked"}});
}

}  // namespace
}  // namespace lathe
