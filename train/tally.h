// Tally: the running sums of a training or an evaluation: samples, losses and metrics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/state_dict.h"
#include "lathe/ops/tally_scores.h"
#include "lathe/train/metric.h"
#include "lathe/train/metrics_row.h"
#include "lathe/train/step.h"

namespace lathe::train {

/// What a Tally adds up besides samples and losses.
struct TallyOptions {
  // The output is class scores [N,C] and the target class numbers [N]. Then accuracy() and top5()
  // are added up with the losses, in one kernel.
  bool scores = false;
  int64_t classes = 0;  // above 0, with scores: the confusion matrix, too
  std::vector<Metric> metrics = {};
};

/// Sums over batches. On a GPU the sums are kept there, and the numbers here are those of the last
/// read(). A copy shares the sums there.
class LATHE_API Tally {
 public:
  explicit Tally(TallyOptions options = {});

  /// Adds a batch. Does not wait for a GPU.
  /// throws: what the metrics throw; ShapeError, DTypeError (tally_scores_).
  void add(const Result& result);
  /// add() in two parts, for a graph (core/capture/cuda_graph.h): what is recorded into it, and
  /// what the host notes after each launch.
  /// throws: StateError if nothing was added before, so that there are no sums yet.
  void record(const Result& result);
  void launched(int64_t samples) { count_ += samples; }
  /// Fetches the sums; waits for a GPU. On a CPU only confusion() needs this.
  void read();
  /// Adds the numbers of `other` as of its last read(), without its confusion matrix. Both have the
  /// same options.
  /// throws: ShapeError if a metric has another number of sums there; nothing has changed then.
  void join(const Tally& other);
  /// On a GPU the sums keep their memory, and this queues what sets them to zero.
  void clear();

  /// All sums except the confusion matrix. A tally that loads it adds on to the same bits. Shares
  /// no memory.
  StateDict state_dict() const;
  /// Takes over such a state. Further batches come from `device`. Ignores the sums of metrics that
  /// this tally does not have. A metric of which the state has no sums begins with none.
  /// throws: ValueError, ShapeError, DTypeError for an entry that is missing, unexpected or of
  /// another shape; nothing has changed then.
  void load_state_dict(const StateDict& state, Device device);

  /// The sums of the last read() without the confusion matrix, as numbers that can be added up over
  /// processes. set_numbers() takes such sums, of a tally with the same layout.
  std::vector<double> numbers() const;
  void set_numbers(const std::vector<double>& numbers);

  /// How many sums each metric has, and the tally of a rank without a batch that has as many.
  std::string layout() const;
  void take_layout(const std::string& of_another);

  /// Samples added, read or not.
  int64_t count() const { return count_; }
  /// Means over all samples that were read; 0 if there are none.
  double loss() const { return mean(read_.loss_sum); }
  double accuracy() const { return mean(static_cast<double>(read_.top1)); }
  /// How often the label is among the five best scores. Equal scores and nan count against it.
  double top5() const { return mean(static_cast<double>(read_.top5)); }
  /// The values of all metrics; the first is "accuracy" if the outputs are scores.
  Values values() const;
  /// How often a sample of class `label` was predicted to be `predicted`.
  int64_t confusion(int64_t label, int64_t predicted) const {
    return confusion_[static_cast<size_t>(label * options_.classes + predicted)];
  }

 private:
  struct Numbers {
    int64_t count = 0, top1 = 0, top5 = 0;
    double loss_sum = 0;
    std::vector<std::vector<double>> totals = {};  // of each metric; empty before its first batch

    void add(const Numbers& more, const std::vector<Metric>& metrics);
  };

  void add_to_sums(const Result& result);
  void read_numbers();
  double mean(double sum) const {
    return read_.count > 0 ? sum / static_cast<double>(read_.count) : 0;
  }

  TallyOptions options_;
  std::optional<ScoreTally> sums_;  // where the outputs are
  int64_t count_ = 0;
  Numbers read_, joined_;
  std::vector<int64_t> confusion_;
};

}  // namespace lathe::train
