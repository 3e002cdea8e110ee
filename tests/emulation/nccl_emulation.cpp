// The emulated NCCL; see nccl_emulation.h. The machine's lock guards communicators, but not the
// flags that end one: an abort must get through while the machine works.
#include "nccl_emulation.h"

#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda_runtime_machine.h"
#include "lathe/core/half.h"

namespace lathe::emulation {

namespace {

namespace fs = std::filesystem;

enum class Kind : int { kAllReduce, kBroadcast, kAllGather, kReduceScatter };

/// One collective, the same on all ranks.
struct Header {
  Kind kind;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  size_t count;

  bool operator==(const Header&) const = default;
};

/// What the queue and the handle share.
struct Communicator {
  fs::path folder;
  int rank = 0, ranks = 0, device = 0;
  uint64_t next = 0;  // the number of the next collective
  bool is_new = true;
  std::atomic<bool> ended = false;
  std::atomic<ncclResult_t> state = ncclInProgress;
  std::atomic<const char*> waits_for = "joined";  // in progress until all ranks have this file
  std::string last_error;
  const std::shared_ptr<const int> held = std::make_shared<const int>();  // by nodes of graphs

  bool in_graphs() const { return held.use_count() > 1; }
  fs::path file(const std::string& what, int of) const {
    return folder / (what + "." + std::to_string(of));
  }
};

/// Writes a file that others see whole or not at all. Nothing after an abort has removed the folder.
void leave(const fs::path& file, const std::string& bytes) {
  fs::path unfinished = file;
  unfinished += "~";
  std::ofstream(unfinished, std::ios::binary) << bytes;
  std::error_code gone;
  fs::rename(unfinished, file, gone);
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// f with the type of the elements, and the one that they are computed in.
template <class F>
void visit(ncclDataType_t type, F&& f) {
  switch (type) {
    case ncclInt8: return f(int8_t{}, int64_t{});
    case ncclUint8: return f(uint8_t{}, int64_t{});
    case ncclInt32: return f(int32_t{}, int64_t{});
    case ncclInt64: return f(int64_t{}, int64_t{});
    case ncclFloat16: return f(Half{}, float{});
    case ncclFloat32: return f(float{}, float{});
    case ncclFloat64: return f(double{}, double{});
    case ncclBfloat16: return f(BFloat16{}, float{});
  }
}

size_t size_of(ncclDataType_t type) {
  size_t size = 0;
  visit(type, [&](auto element, auto) { size = sizeof element; });
  return size;
}

template <class C>
C combine(ncclRedOp_t op, C a, C b) {
  switch (op) {
    case ncclSum:
    case ncclAvg: break;
    case ncclProd: return a * b;
    case ncclMax: return a < b ? b : a;
    case ncclMin: return b < a ? b : a;
  }
  return a + b;
}

/// out = the reduction of `count` elements that lie at `at` in every part.
void reduce(const Header& how, const std::vector<std::string>& parts, size_t at, size_t count,
            void* out) {
  visit(how.type, [&](auto element, auto wide) {
    using T = decltype(element);
    using C = decltype(wide);
    const auto value = [&](const std::string& part, size_t i) {
      T x;
      std::memcpy(&x, &part[sizeof(Header) + (at + i) * sizeof(T)], sizeof(T));
      const C y = static_cast<C>(x);
      return how.op == ncclAvg ? static_cast<C>(y / static_cast<C>(parts.size())) : y;
    };
    for (size_t i = 0; i < count; ++i) {
      C sum = value(parts[0], i);
      for (size_t rank = 1; rank < parts.size(); ++rank)
        sum = combine(how.op, sum, value(parts[rank], i));
      static_cast<T*>(out)[i] = static_cast<T>(sum);
    }
  });
}

struct Collective {
  std::shared_ptr<Communicator> comm;
  Header how;
  const void* in;
  void* out;
  uint64_t number;
  bool hangs, reports;

  /// In elements of this rank.
  size_t given() const {
    const auto ranks = static_cast<size_t>(comm->ranks);
    return how.kind == Kind::kReduceScatter ? how.count * ranks : how.count;
  }
  bool gives() const { return how.kind != Kind::kBroadcast || how.root == comm->rank; }
  fs::path part(int rank) const { return comm->file(std::to_string(number), rank); }

  bool is_left(int rank) const {
    std::ifstream file(part(rank), std::ios::binary);
    Header found{};
    return file.read(reinterpret_cast<char*>(&found), sizeof found) && found == how;
  }

  bool ready() const {
    if (comm->ended) return true;
    if (reports) comm->state = ncclRemoteError;
    if (hangs || reports) return false;
    if (!is_left(comm->rank)) {
      std::string bytes(sizeof how, '\0');
      std::memcpy(bytes.data(), &how, sizeof how);
      if (gives()) bytes.append(static_cast<const char*>(in), given() * size_of(how.type));
      leave(part(comm->rank), bytes);
    }
    for (int rank = 0; rank < comm->ranks; ++rank) {
      if (!is_left(rank)) return false;
    }
    return true;
  }

  void run() const {
    if (comm->ended) return;
    std::vector<std::string> parts;
    for (int rank = 0; rank < comm->ranks; ++rank) parts.push_back(read(part(rank)));
    const size_t bytes = how.count * size_of(how.type);
    for (size_t rank = 0; rank < parts.size(); ++rank) {
      const bool wanted = how.kind == Kind::kBroadcast && static_cast<int>(rank) == how.root;
      const size_t expected =
          sizeof how + (how.kind == Kind::kBroadcast && !wanted ? 0 : given() * size_of(how.type));
      if (parts[rank].size() != expected) return;  // an abort is removing them
    }
    const auto own = static_cast<size_t>(comm->rank);
    switch (how.kind) {
      case Kind::kAllReduce: reduce(how, parts, 0, how.count, out); break;
      case Kind::kReduceScatter: reduce(how, parts, own * how.count, how.count, out); break;
      case Kind::kBroadcast:
        std::memcpy(out, &parts[static_cast<size_t>(how.root)][sizeof how], bytes);
        break;
      case Kind::kAllGather:
        for (size_t rank = 0; rank < parts.size(); ++rank)
          std::memcpy(static_cast<char*>(out) + rank * bytes, &parts[rank][sizeof how], bytes);
    }
    // Whoever leaves a part has read those before it.
    std::error_code gone;
    if (number > 0) fs::remove(comm->file(std::to_string(number - 1), comm->rank), gone);
  }
};

ncclResult_t refuse(Communicator& comm, const char* why) {
  comm.last_error = why;
  return ncclInvalidUsage;
}

}  // namespace

NcclProbe& nccl_probe() {
  static NcclProbe* const probe = [] {
    auto* const made = new NcclProbe;
    const char* const text = std::getenv("LATHE_EMULATED_RECORDED_FAULT");
    const int64_t fails = text == nullptr ? 0 : std::atoll(text);
    if (fails > 0) made->recorded_fault.fail_at(fails);
    return made;
  }();
  return *probe;
}

}  // namespace lathe::emulation

using namespace lathe::emulation;

struct ncclComm {
  std::shared_ptr<Communicator> shared;
};

namespace {

ncclResult_t enqueue(Header how, const void* in, void* out, ncclComm_t handle,
                     cudaStream_t stream) {
  const Call call;
  Communicator& comm = *handle->shared;
  StreamState* const state = find_stream(stream);
  if (state == nullptr || in == nullptr || out == nullptr) return ncclInvalidArgument;
  if (comm.state != ncclSuccess) return refuse(comm, "the communicator is not ready");
  if (state->device != comm.device) return refuse(comm, "a stream of another device");
  ++nccl_probe().collectives;
  nccl_probe().stream = stream;
  if (nccl_probe().call_fault.hit() || (is_recorded(*state) && nccl_probe().recorded_fault.hit())) {
    comm.last_error = "a socket was closed (by a test)";
    return ncclSystemError;
  }
  // At each launch of a graph the next collective of the communicator.
  const auto queue = [shared = handle->shared, how, in, out](StreamState& on) {
    const bool hangs = nccl_probe().hang_fault.hit(), reports = nccl_probe().async_fault.hit();
    auto work = std::make_shared<Collective>(
        Collective{shared, how, in, out, shared->next++, hangs, reports});
    submit_when(
        on, [work] { return work->ready(); }, [work] { work->run(); });
  };
  if (is_recorded(*state)) {
    note(*state, [queue, held = comm.held](StreamState& on) { queue(on); });
  } else {
    queue(*state);
  }
  if (!std::exchange(comm.is_new, false)) return ncclSuccess;
  comm.state = ncclInProgress;
  return ncclInProgress;
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::error_code none;
  std::string folder = (fs::temp_directory_path(none) / "lathe-nccl-XXXXXX").string();
  if (folder.size() >= sizeof id->internal || mkdtemp(folder.data()) == nullptr)
    return ncclSystemError;
  fs::remove(folder, none);  // only a name: not every id is used
  *id = {};
  folder.copy(id->internal, folder.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const Call call;
  if (config == nullptr || config->blocking != 0) return ncclInvalidUsage;
  if (rank < 0 || rank >= ranks) return ncclInvalidArgument;
  auto comm = std::make_shared<Communicator>();
  comm->folder = id.internal;
  std::error_code exists;
  fs::create_directory(comm->folder, exists);
  comm->rank = rank;
  comm->ranks = ranks;
  cudaGetDevice(&comm->device);
  make_context();
  leave(comm->file("joined", rank), std::to_string(comm->device));
  *handle = new ncclComm{comm};
  ++nccl_probe().communicators;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  Communicator& comm = *handle->shared;
  if (comm.state == ncclInProgress) {
    const std::string what = comm.waits_for.load();
    std::vector<std::string> devices;
    for (int rank = 0; rank < comm.ranks && fs::exists(comm.file(what, rank)); ++rank)
      devices.push_back(read(comm.file(what, rank)));
    const bool kept = what == "final" && comm.in_graphs();
    if (devices.size() == static_cast<size_t>(comm.ranks) && !kept) comm.state = ncclSuccess;
    for (size_t rank = 0; what == "joined" && rank < devices.size(); ++rank) {
      if (static_cast<int>(rank) != comm.rank && devices[rank] == std::to_string(comm.device))
        comm.state = refuse(comm, "two ranks use one device");
    }
  }
  *error = comm.state;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  Communicator& comm = *handle->shared;
  comm.waits_for = "final";
  comm.state = ncclInProgress;
  leave(comm.file("final", comm.rank), "");
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  Communicator& comm = *handle->shared;
  comm.ended = true;
  std::error_code gone;
  // The last one to see that all are final finds nobody else's files; it is enough that one does.
  leave(comm.file("over", comm.rank), "");
  int over = 0;
  for (int rank = 0; rank < comm.ranks; ++rank) over += fs::exists(comm.file("over", rank), gone);
  if (over == comm.ranks) fs::remove_all(comm.folder, gone);
  delete handle;
  --nccl_probe().communicators;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  Communicator& comm = *handle->shared;
  comm.ended = true;
  std::error_code gone;
  fs::remove_all(comm.folder, gone);
  while (comm.in_graphs()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  delete handle;
  --nccl_probe().communicators;
  ++nccl_probe().aborted;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return kTexts[result];
}

const char* ncclGetLastError(ncclComm_t handle) {
  return handle == nullptr ? "" : handle->shared->last_error.c_str();
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({Kind::kAllReduce, type, op, 0, count}, in, out, comm, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue({Kind::kBroadcast, type, ncclSum, root, count}, in, out, comm, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue({Kind::kAllGather, type, ncclSum, 0, count}, in, out, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({Kind::kReduceScatter, type, op, 0, count}, in, out, comm, stream);
}
