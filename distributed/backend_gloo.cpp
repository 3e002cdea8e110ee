// The collectives, through Gloo over TCP. The only file that knows Gloo. Contract: backend.h.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/common/error.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "lathe/core/visit.h"
#include "lathe/distributed/backend.h"
#include "lathe/distributed/hex.h"

namespace lathe::distributed {

namespace {

using std::chrono::milliseconds;

/// What Gloo asks of a store, answered by rank 0 over the control connection.
class Store final : public gloo::rendezvous::Store {
 public:
  explicit Store(const KeyValueStore& values) : values_(values) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    values_.set("gloo/" + key, to_hex(data));
  }
  std::vector<char> get(const std::string& key) override {
    return from_hex(values_.get("gloo/" + key));
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) values_.get("gloo/" + key);
  }
  void wait(const std::vector<std::string>& keys, const milliseconds&) override { wait(keys); }

 private:
  const KeyValueStore& values_;
};

// Note [Gloo's queued sends]
// When a connection ends, Gloo 0.5 wakes who waits for data, but not who waits for a send that the
// system has taken in part: that thread waits until the collective's time is over. So the buffers
// of this backend are known while they live, and abort() ends every wait for one.

using GlooBuffer = gloo::transport::UnboundBuffer;

class LiveBuffers {
 public:
  void add(GlooBuffer* buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.insert(buffer);
  }
  void remove(GlooBuffer* buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.erase(buffer);
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    for (GlooBuffer* buffer : buffers_) {
      buffer->abortWaitSend();
      buffer->abortWaitRecv();
    }
  }

 private:
  std::mutex mutex_;
  std::set<GlooBuffer*> buffers_;
};

/// Gloo's own buffer, whose waits throw if they are aborted.
class KnownBuffer final : public GlooBuffer {
 public:
  KnownBuffer(std::unique_ptr<GlooBuffer> own, std::shared_ptr<LiveBuffers> live)
      : GlooBuffer(own->ptr, own->size), own_(std::move(own)), live_(std::move(live)) {
    live_->add(own_.get());
  }
  ~KnownBuffer() override { live_->remove(own_.get()); }
  KnownBuffer(const KnownBuffer&) = delete;
  KnownBuffer& operator=(const KnownBuffer&) = delete;

  bool waitRecv(int* rank, milliseconds timeout) override {
    return checked(own_->waitRecv(rank, timeout));
  }
  bool waitSend(int* rank, milliseconds timeout) override {
    return checked(own_->waitSend(rank, timeout));
  }
  void abortWaitRecv() override { own_->abortWaitRecv(); }
  void abortWaitSend() override { own_->abortWaitSend(); }
  void send(int to, uint64_t slot, size_t offset, size_t bytes) override {
    own_->send(to, slot, offset, bytes);
  }
  void recv(int from, uint64_t slot, size_t offset, size_t bytes) override {
    own_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override {
    own_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  static bool checked(bool completed) {
    if (!completed) throw gloo::IoException("aborted");
    return true;
  }

  std::unique_ptr<GlooBuffer> own_;
  std::shared_ptr<LiveBuffers> live_;
};

/// Gloo's own connections, with known buffers.
class KnownTransport final : public gloo::transport::Context {
 public:
  KnownTransport(std::shared_ptr<gloo::transport::Context> own, std::shared_ptr<LiveBuffers> live)
      : Context(own->rank, own->size), own_(std::move(own)), live_(std::move(live)) {}

  std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override { return own_->getPair(peer); }
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
    return own_->createPair(peer);
  }
  std::unique_ptr<GlooBuffer> createUnboundBuffer(void* data, size_t bytes) override {
    return std::make_unique<KnownBuffer>(own_->createUnboundBuffer(data, bytes), live_);
  }

 private:
  std::shared_ptr<gloo::transport::Context> own_;
  std::shared_ptr<LiveBuffers> live_;
};

class GlooConnections final : public gloo::rendezvous::Context {
 public:
  using Context::Context;
  /// Call it once all are connected.
  void know_buffers(const std::shared_ptr<LiveBuffers>& live) {
    transportContext_ = std::make_shared<KnownTransport>(transportContext_, live);
  }
};

/// Integers as u64, because unsigned overflow wraps and signed is undefined; floats as they are.
template <class T>
auto wrapping(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return x;
  else
    return static_cast<uint64_t>(x);
}

/// data / ranks, element by element.
template <class T>
void divide(T* data, size_t n, int ranks) {
  using C = ComputeType<T>;
  const C by = static_cast<C>(ranks);
  for (size_t i = 0; i < n; ++i) data[i] = static_cast<T>(static_cast<C>(data[i]) / by);
}

/// Between two ranks each element is added up once. So the division can follow at once, without
/// another pass over all of them; but for halves, whose sum is rounded to half before.
template <class T>
bool averages_at_once(Reduce op, int ranks) {
  return op == Reduce::kAverage && ranks == 2 && std::is_same_v<T, ComputeType<T>>;
}

/// c = a op b, element by element.
template <class T>
void reduce(Reduce op, int ranks, void* c, const void* a, const void* b, size_t n) {
  using C = ComputeType<T>;
  T* const out = static_cast<T*>(c);
  const T* const x = static_cast<const T*>(a);
  const T* const y = static_cast<const T*>(b);
  const auto all = [&](auto f) {
    for (size_t i = 0; i < n; ++i)
      out[i] = static_cast<T>(f(static_cast<C>(x[i]), static_cast<C>(y[i])));
  };
  if constexpr (std::is_floating_point_v<T>) {
    if (averages_at_once<T>(op, ranks)) return all([](C p, C q) { return (p + q) / C(2); });
  }
  // NaN on either side gives NaN, so that all ranks notice it.
  switch (op) {
    case Reduce::kSum:
    case Reduce::kAverage:
      return all([](C p, C q) { return static_cast<C>(wrapping(p) + wrapping(q)); });
    case Reduce::kProduct:
      return all([](C p, C q) { return static_cast<C>(wrapping(p) * wrapping(q)); });
    case Reduce::kMin: return all([](C p, C q) { return p < q || p != p ? p : q; });
    case Reduce::kMax: return all([](C p, C q) { return p > q || p != p ? p : q; });
  }
}

class GlooBackend final : public Backend {
 public:
  GlooBackend(int rank, int world_size, const std::string& address, int64_t limit_ms,
              const KeyValueStore& store) {
    gloo::transport::tcp::attr place(address.c_str());
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(place);
    auto context = std::make_shared<GlooConnections>(rank, world_size);
    context->setTimeout(milliseconds(limit_ms));
    Store answers(store);
    context->connectFullMesh(answers, device);
    context->know_buffers(live_);
    context_ = context;
  }

  void all_reduce(void* data, size_t count, DType dtype, Reduce op) override {
    gloo::AllreduceOptions options(context_);
    const int ranks = context_->size;
    visit_number(dtype, "all_reduce_", [&](auto tag) {
      using T = typename decltype(tag)::type;
      options.setReduceFunction([op, ranks](void* c, const void* a, const void* b, size_t n) {
        reduce<T>(op, ranks, c, a, b, n);
      });
      options.setOutput(static_cast<T*>(data), count);
    });
    options.setTag(next_tag_++);
    gloo::allreduce(options);
    if (op != Reduce::kAverage) return;
    visit_float(dtype, "all_reduce_", [&](auto tag) {
      using T = typename decltype(tag)::type;
      if (!averages_at_once<T>(op, ranks)) divide(static_cast<T*>(data), count, ranks);
    });
  }

  void broadcast(void* data, size_t bytes, int root) override {
    gloo::BroadcastOptions options(context_);
    options.setOutput(static_cast<char*>(data), bytes);
    options.setRoot(root);
    options.setTag(next_tag_++);
    gloo::broadcast(options);
  }

  void all_gather(void* out, const void* in, size_t bytes) override {
    gloo::AllgatherOptions options(context_);
    options.setInput(const_cast<char*>(static_cast<const char*>(in)), bytes);
    options.setOutput(static_cast<char*>(out), bytes * static_cast<size_t>(context_->size));
    options.setTag(next_tag_++);
    gloo::allgather(options);
  }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    options.setTag(next_tag_++);
    gloo::barrier(options);
  }

  // Gloo closes all connections when a wait on any buffer times out, and so wakes who waits.
  void abort() noexcept override {
    try {
      const std::lock_guard lock(aborting_);
      char byte = 0;
      const auto buffer = context_->createUnboundBuffer(&byte, 1);
      buffer->waitRecv(milliseconds(0));
    } catch (const std::exception&) {  // the timeout
    }
    live_->abort();  // Note [Gloo's queued sends]
  }

 private:
  std::shared_ptr<LiveBuffers> live_ = std::make_shared<LiveBuffers>();
  std::shared_ptr<gloo::Context> context_;
  uint32_t next_tag_ = 0;
  std::mutex aborting_;
};

}  // namespace

bool is_available() noexcept { return true; }

std::unique_ptr<Backend> make_backend(int rank, int world_size, const std::string& address,
                                      int64_t limit_ms, const KeyValueStore& store) {
  try {
    return std::make_unique<GlooBackend>(rank, world_size, address, limit_ms, store);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    LATHE_FAIL(DistributedError, "process group: rank ", rank,
               " cannot connect to the others from ", address, ": ", error.what());
  }
}

}  // namespace lathe::distributed
