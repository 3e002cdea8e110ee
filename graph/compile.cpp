// compile: kinds of inputs, and the graph of each. Contract: compile.h.
#include "lathe/graph/compile.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/dense.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/random/own_generators.h"
#include "lathe/graph/graph.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/graph/tracer.h"
#include "lathe/graph/work.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/views.h"

namespace lathe::jit {

namespace {

using Function = std::function<Tensors(const Tensors&)>;

constexpr size_t kMostKinds = 64;  // a function of ever other shapes costs no more memory than this

/// What is known of a kind: its graph, or why there is none.
struct Entry {
  std::optional<Graph> graph;
  std::vector<size_t> writes = {};  // the values that the graph writes
  std::string reason = {};
  bool refused = false;  // by the trace; else the function failed in it
};

/// The rows of a batch, if it has some. One row broadcasts and can be squeezed: it is no batch.
std::optional<int64_t> rows_of(const Tensors& inputs) {
  if (inputs.empty() || inputs[0].ndim() == 0 || inputs[0].dim(0) <= 1) return std::nullopt;
  return inputs[0].dim(0);
}

bool is_batch(const Tensor& t, std::optional<int64_t> rows) {
  return rows && t.ndim() > 0 && t.dim(0) == *rows;
}

/// Dimensions in the order of memory, so that NCHW and NHWC differ. With gaps or overlaps it is the
/// strides that decide which views can be made.
std::string layout_text(const Tensor& t) {
  if (!is_dense(t)) return concat("strides ", t.strides());
  std::string text;
  for (int d = 0; d < t.ndim(); ++d) {
    int before = 0;  // how many dimensions have larger strides
    for (int other = 0; other < t.ndim(); ++other) before += t.strides()[other] > t.strides()[d];
    text += static_cast<char>('0' + before);
  }
  return text;
}

/// "f32[N,3] cpu 01"; with `rows`, the batch is N.
std::string kind_of(const Tensors& inputs, std::optional<int64_t> rows) {
  std::string kind;
  for (const Tensor& t : inputs) {
    Type type = type_of(t);
    if (is_batch(t, rows)) type.shape[0] = {1, 0};
    kind += concat(kind.empty() ? "" : ", ", to_text(type), " ", t.device(), " ", layout_text(t));
  }
  return kind;
}

/// What modules show to their own kind alone.
struct Hooked : nn::Module {
  static bool is(const nn::Module& module) {
    constexpr auto kOwn = &Hooked::has_hooks;
    return (module.*kOwn)();
  }
};

/// What decides which graph a call of a module takes, or none.
struct Layers {
  std::string modes = {};  // a digit for the module and each below it: 1 in training mode
  bool hooked = false;     // one of them has hooks
  bool synced = false;     // one of them sums over ranks
};

void add_layers(Layers& layers, const nn::Module& module) {
  layers.modes += module.is_training() ? '1' : '0';
  layers.hooked = layers.hooked || Hooked::is(module);
  const auto* const norm = dynamic_cast<const nn::BatchNorm*>(&module);
  layers.synced = layers.synced || (norm != nullptr && norm->is_synced());
  for (const nn::Module* const child : module.children()) add_layers(layers, *child);
}

/// ", eval", ", training", or ", training 0110" where layers differ.
std::string mode_text(const std::string& modes) {
  if (modes.empty()) return "";
  if (modes.find('1') == std::string::npos) return ", eval";
  return modes.find('0') == std::string::npos ? ", training" : ", training " + modes;
}

/// One of the two batches is that of the call, so that branches are those of the call. The smaller
/// one has less than half as many rows: of 2 and 3 rows, each half has 1.
TwoRuns for_any_batch(const Tensors& inputs, int64_t rows) {
  constexpr int64_t kFew = 2;
  const bool shrinks = rows > 2 * kFew;
  TwoRuns runs;
  runs.first_rows = shrinks ? kFew : rows;
  runs.second_rows = shrinks ? rows : 2 * rows + 1;
  for (const Tensor& t : inputs) {
    const bool batch = is_batch(t, rows);
    Tensor few = batch && shrinks ? narrow(t, 0, 0, kFew) : t;
    runs.first.push_back(is_dense(t) && !is_dense(few) ? clone(few) : few);
    runs.second.push_back(varied(t, batch && !shrinks));
  }
  return runs;
}

TwoRuns for_these_shapes(const Tensors& inputs) {
  TwoRuns runs{.first = inputs};
  for (const Tensor& t : inputs) runs.second.push_back(varied(t, false));
  return runs;
}

/// The random numbers to come, and a module's buffers: a trace leaves them as they are.
class Surroundings {
 public:
  explicit Surroundings(const nn::Module* module) {
    if (module == nullptr) return;
    for (const auto& [name, t] : module->named_buffers()) {
      buffers_.push_back({t, clone(t), t.version()});
    }
  }

  void restore() const {
    for (const Buffer& buffer : buffers_) {
      if (buffer.tensor.version() != buffer.version) copy_(buffer.tensor, buffer.values);
    }
  }

 private:
  struct Buffer {
    Tensor tensor, values;
    uint32_t version;
  };

  const OwnGenerators generators_;  // other threads draw meanwhile
  std::vector<Buffer> buffers_;
};

Graph fused(Graph graph) {
  remove_dead_code(graph);
  fuse_pointwise(graph);
  return graph;
}

/// True if an input shares memory with another value that the graph writes. A trace has copies of
/// the inputs, so that the order of writes and reads of such memory is not in the graph.
bool writes_shared(const Graph& graph, const std::vector<size_t>& writes, const Tensors& inputs) {
  for (const size_t value : writes) {
    const auto at = std::find(graph.inputs.begin(), graph.inputs.end(), static_cast<int>(value));
    const auto own = static_cast<size_t>(at - graph.inputs.begin());
    const Tensor& t = own < inputs.size() ? inputs[own] : graph.values[value].tensor;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i != own && inputs[i].impl().storage.get() == t.impl().storage.get()) return true;
    }
  }
  return false;
}

/// "add, mul, where".
std::string names_of(const Graph& graph, size_t begin, size_t end) {
  std::string text;
  for (size_t n = begin; n < end; ++n) {
    text += concat(n == begin ? "" : ", ", graph.nodes[n].op->name);
  }
  return text;
}

/// `ways`: of its last run (run_graph()); empty before.
std::string explained(const Graph& graph, const std::vector<std::string>& ways) {
  const std::vector<int> last = last_uses(graph, needed_nodes(graph));
  std::string text;
  for (size_t n = 0; n < graph.nodes.size();) {
    const Node& first = graph.nodes[n];
    size_t end = n + 1;
    while (first.group != 0 && end < graph.nodes.size() && graph.nodes[end].group == first.group)
      ++end;
    const std::string place = first.place.empty() ? "" : concat(" of ", first.place);
    if (end - n > 1) {
      if (adds_up(graph, n, end, last)) ++end;
      const std::string way = ways.empty() || ways[n].empty() ? "" : concat(" (", ways[n], ")");
      text += concat("  together: ", names_of(graph, n, end), place, way, "\n");
    } else {
      const char* why = first.op->pointwise ? "no neighbour of its shape" : "not pointwise";
      text += concat("  alone: ", first.op->name, place, " (", why, ")\n");
    }
    n = end;
  }
  return text;
}

}  // namespace

class CompiledFunction::State {
 public:
  State(Function f, const nn::Module* module) : f_(std::move(f)), module_(module) {}

  Tensors call(const Tensors& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      LATHE_CHECK(ValueError, inputs[i].defined(), "compile: input ", i, " is undefined");
    }
    if (profile::watched()) return f_(inputs);  // whose ops are what a trace or a debug scope wants
    if (amp::autocast_enabled(kCPU) || amp::autocast_enabled(Device(DeviceType::kCUDA))) {
      remember("under Autocast", {{}, {}, "its ops would be cast, which graphs do not hold"});
      return f_(inputs);
    }
    Layers layers;
    if (module_ != nullptr) add_layers(layers, *module_);
    if (layers.hooked) {
      remember("with hooks", {{}, {}, "a graph does not call the hooks of modules"});
      return f_(inputs);
    }
    if (layers.synced) {
      remember("with ranks", {{}, {}, "batch norm sums over ranks, which a graph does not"});
      return f_(inputs);
    }
    const std::string mode = mode_text(layers.modes);
    const std::optional<int64_t> rows = rows_of(inputs);
    const std::string general = kind_of(inputs, rows) + mode,
                      exact = kind_of(inputs, std::nullopt) + mode;
    Entry failed;
    std::optional<const Entry*> known = find(general, exact);
    if (!known && cuda::capture_number() != 0) {
      remember("in a CUDA capture", {{}, {}, "the trace of a new kind would be recorded, too"});
      return f_(inputs);
    }
    if (!known) known = traced(inputs, rows, general, exact, failed);
    if (known) return run(*known, inputs);
    Tensors results = f_(inputs);  // if it fails here too, the next call tries again
    remember(exact, std::move(failed));
    return results;
  }

  std::string explain() {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const auto& [kind, entry] : entries_) {
      text += kind + (entry.graph ? "\n" : concat(": ", entry.reason, "\n"));
      if (entry.graph) text += explained(*entry.graph, ways_[&entry]);
    }
    if (full_) text += concat("more than ", kMostKinds, " kinds of inputs: f itself is called\n");
    return text;
  }

 private:
  Tensors run(const Entry* entry, const Tensors& inputs) {
    const bool as_graph =
        entry != nullptr && entry->graph && !writes_shared(*entry->graph, entry->writes, inputs);
    if (!as_graph) return f_(inputs);
    std::vector<std::string> ways;
    Tensors results = run_graph(*entry->graph, inputs, {.ways = &ways});
    const std::lock_guard lock(mutex_);
    ways_[entry] = std::move(ways);
    return results;
  }

  /// The entry of a kind of which nothing was known. None if f failed in the trace: `failed` says
  /// how. Threads trace one after the other, because each puts the module's buffers back.
  std::optional<const Entry*> traced(const Tensors& inputs, std::optional<int64_t> rows,
                                     const std::string& general, const std::string& exact,
                                     Entry& failed) {
    const std::lock_guard lock(tracing_);
    if (const std::optional<const Entry*> known = find(general, exact)) return known;
    if (rows) {
      Entry entry = attempt([&] { return for_any_batch(inputs, *rows); });
      if (entry.graph) return remember(general, std::move(entry));
    }
    Entry entry = attempt([&] { return for_these_shapes(inputs); });
    if (entry.graph || entry.refused) return remember(exact, std::move(entry));
    failed = std::move(entry);
    return std::nullopt;
  }

  /// What is known of a kind; null if there are too many. Entries stay where they are, and do not
  /// change.
  std::optional<const Entry*> find(const std::string& general, const std::string& exact) {
    const std::lock_guard lock(mutex_);
    for (const std::string& kind : {exact, general}) {
      const auto found = entries_.find(kind);
      if (found != entries_.end() && (found->second.graph || kind == exact)) return &found->second;
    }
    if (entries_.size() < kMostKinds) return std::nullopt;
    full_ = true;
    return nullptr;
  }

  /// The graph of the two runs that `prepare` returns. Where there is none, f is called itself, so
  /// no error is one of the caller's: a size may be that of the batch by chance, f may be for one
  /// batch, and it may need what a trace has not, gradients or memory.
  Entry attempt(const std::function<TwoRuns()>& prepare) const {
    const NoGrad off;
    const Surroundings before(module_);
    Entry entry;
    try {
      entry.graph = fused(common_graph(f_, prepare(), module_, Purpose::kStandIn));
      const std::vector<bool> written = written_values(*entry.graph);
      for (size_t v = 0; v < written.size(); ++v) {
        if (written[v]) entry.writes.push_back(v);
      }
    } catch (const TraceError& error) {
      entry = {{}, {}, error.message(), true};
    } catch (const Error& error) {
      entry = {{}, {}, error.message()};
    } catch (const std::exception& error) {
      entry = {{}, {}, error.what()};
    }
    before.restore();
    return entry;
  }

  const Entry* remember(const std::string& kind, Entry entry) {
    const std::lock_guard lock(mutex_);
    return &entries_.emplace(kind, std::move(entry))
                .first->second;  // the first of two threads' wins
  }

  Function f_;
  const nn::Module* module_;
  std::mutex tracing_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, Entry> entries_;
  std::map<const Entry*, std::vector<std::string>> ways_;  // of the last run of each graph
  bool full_ = false;
};

Tensors CompiledFunction::operator()(const Tensors& inputs) const { return state_->call(inputs); }

std::string CompiledFunction::explain() const { return state_->explain(); }

CompiledFunction compile(Function f, const nn::Module* module) {
  CompiledFunction compiled;
  compiled.state_ = std::make_shared<CompiledFunction::State>(std::move(f), module);
  return compiled;
}

}  // namespace lathe::jit
