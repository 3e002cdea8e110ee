// The events of a trace, one a line, written through a buffer into an AtomicFile.
#include "lathe/profile/trace.h"

#include <unistd.h>
#include <cmath>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/hooks/stack.h"
#include "lathe/core/log.h"
#include "lathe/core/printable.h"
#include "lathe/profile/averages.h"

namespace lathe::profile {

namespace {

constexpr std::string_view kCategories[] = {"op",   "view", "backward", "optimizer", "user",
                                            "data", "copy", "sync",     "gpu"};

/// A JSON string. printable() leaves neither controls nor invalid UTF-8.
std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

/// Nanoseconds as microseconds, exactly: "12.345".
std::string us_text(int64_t ns) {
  std::string fraction = std::to_string(1000 + std::abs(ns) % 1000).substr(1);
  return concat(ns < 0 ? "-" : "", std::abs(ns) / 1000, ".", fraction);
}

class Writer {
 public:
  Writer(const Recording& recording, const std::string& path)
      : recording_(recording), process_(getpid()), file_(path) {}

  void write() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    event(concat("\"ph\":\"M\",\"name\":\"process_name\",\"pid\":", process_,
                 ",\"args\":{\"name\":\"lathe\"}"));
    for (const ThreadRecords& thread : recording_.threads) {
      if (thread.records.empty()) continue;
      name_thread(thread);
      for (const Record& record : thread.records) add(thread, record);
    }
    for (const cuda::DeviceActivity& activity : recording_.activities) add_activity(activity);
    name_devices();
    for (const auto& [number, op] : forward_) connect(op);
    text_ += "\n]}\n";
    flush();
    file_.commit();
  }

 private:
  /// An end of an arrow: inside the range that begins there.
  struct Place {
    uint64_t thread = 0;
    int64_t ns = 0;
  };
  struct Arrow {
    Place from;
    std::vector<Place> to;
  };

  void flush() {
    file_.write(text_);
    text_.clear();
  }

  void event(const std::string& fields) {
    text_ += is_first_ ? "{" : ",\n{";
    is_first_ = false;
    text_ += fields + "}";
    if (text_.size() > (size_t{1} << 16)) flush();
  }

  int64_t since_begin(int64_t ns) const { return ns - recording_.begin_ns; }

  void name_thread(const ThreadRecords& thread) {
    event(concat("\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":", process_, ",\"tid\":",
                 thread.thread, ",\"args\":{\"name\":", json_string(thread.name), "}"));
  }

  void name_devices() {
    for (const auto& [row, name] : device_rows_) {
      event(concat("\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":", process_, ",\"tid\":", row,
                   ",\"args\":{\"name\":\"", name, "\"}"));
    }
  }

  std::string arguments_of(const Record& record) {
    std::string text;
    const auto add = [&](std::string_view key, const std::string& value) {
      text += concat(text.empty() ? "" : ",", "\"", key, "\":", value);
    };
    if (!record.inputs.empty()) add("inputs", json_string(inputs_text(record.inputs)));
    if (record.flops > 0) add("flops", concat(record.flops));
    if (record.bytes > 0) add("bytes", concat(record.bytes));
    if (record.sequence > 0) add("sequence", concat(record.sequence));
    if (record.memory.host != 0) add("host bytes taken", concat(record.memory.host));
    if (record.memory.device != 0) add("device bytes taken", concat(record.memory.device));
    if (!record.stack.empty()) add("source", json_string(source_of(record.stack)));
    return text;
  }

  const std::string& source_of(const std::vector<void*>& stack) {
    const auto [at, is_new] = sources_.try_emplace(stack);
    if (is_new) at->second = user_call(stack);
    return at->second;
  }

  void add(const ThreadRecords& thread, const Record& record) {
    const std::string name = json_string(display_name(record));
    event(concat("\"ph\":\"X\",\"name\":", name, ",\"cat\":\"",
                 kCategories[static_cast<size_t>(record.kind)], "\",\"pid\":", process_,
                 ",\"tid\":", thread.thread, ",\"ts\":", us_text(since_begin(record.begin_ns)),
                 ",\"dur\":", us_text(record.end_ns - record.begin_ns), ",\"args\":{",
                 arguments_of(record), "}"));
    if (record.sequence != 0) {
      Arrow& arrow = forward_[record.sequence];
      const Place place{thread.thread, record.begin_ns};
      if (record.kind == Kind::kBackward) {
        arrow.to.push_back(place);
      } else {
        arrow.from = place;
      }
    }
    if (record.in_use.host != 0 || record.in_use.device != 0) add_memory(record);
    if (record.id != 0) {
      range_of_id_[record.id] = {thread.thread, record.begin_ns};
    } else if (record.device_ns >= 0) {
      add_device(thread, record, name);
    }
  }

  void add_memory(const Record& record) {
    event(concat("\"ph\":\"C\",\"name\":\"memory\",\"pid\":", process_,
                 ",\"ts\":", us_text(since_begin(record.end_ns)), ",\"args\":{\"host bytes\":",
                 record.in_use.host, ",\"device bytes\":", record.in_use.device, "}"));
  }

  /// The range's work on the GPU, and the arrow to it.
  void add_device(const ThreadRecords& thread, const Record& record, const std::string& name) {
    const uint64_t row = device_row(thread, record.device);
    event(concat("\"ph\":\"X\",\"name\":", name, ",\"cat\":\"gpu\",\"pid\":", process_,
                 ",\"tid\":", row, ",\"ts\":", us_text(since_begin(record.device_begin_ns)),
                 ",\"dur\":", us_text(record.device_end_ns - record.device_begin_ns),
                 ",\"args\":{}"));
    arrow("launch", {thread.thread, record.begin_ns}, {row, record.device_begin_ns});
  }

  /// A kernel or copy as the GPU saw it, and the arrow from the range that queued it.
  void add_activity(const cuda::DeviceActivity& activity) {
    const uint64_t row =
        kAboveThreads * static_cast<uint64_t>(activity.device + 1) + activity.stream;
    device_rows_.try_emplace(row, concat("GPU ", activity.device, ", stream ", activity.stream));
    event(concat("\"ph\":\"X\",\"name\":", json_string(activity.name), ",\"cat\":\"gpu\",\"pid\":",
                 process_, ",\"tid\":", row, ",\"ts\":", us_text(since_begin(activity.begin_ns)),
                 ",\"dur\":", us_text(activity.end_ns - activity.begin_ns), ",\"args\":{}"));
    const auto from = range_of_id_.find(activity.range);
    if (from != range_of_id_.end()) arrow("launch", from->second, {row, activity.begin_ns});
  }

  /// The row of what a thread queued on a GPU: the ranges of one thread are nested there, too.
  uint64_t device_row(const ThreadRecords& thread, int device) {
    const uint64_t row = kAboveThreads * static_cast<uint64_t>(device + 1) + thread.thread;
    device_rows_.try_emplace(row, concat("GPU ", device, ", by thread ", thread.thread));
    return row;
  }

  void connect(const Arrow& op) {
    if (op.from.thread == 0) return;  // the op itself was not recorded
    for (const Place& to : op.to) arrow("forward to backward", op.from, to);
  }

  void arrow(std::string_view name, const Place& from, const Place& to) {
    const uint64_t id = ++arrows_;
    const auto end = [&](std::string_view phase, const Place& place) {
      event(concat("\"ph\":\"", phase, "\",\"name\":\"", name, "\",\"cat\":\"flow\",\"id\":", id,
                   ",\"pid\":", process_, ",\"tid\":", place.thread, ",\"ts\":",
                   us_text(since_begin(place.ns)), phase == "f" ? ",\"bp\":\"e\"" : ""));
    };
    end("s", from);
    end("f", to);
  }

  // No thread's number is that large (Linux: 2^22), and viewers keep 32 bits: room for 41 GPUs.
  static constexpr uint64_t kAboveThreads = 100'000'000;

  const Recording& recording_;
  const int64_t process_;
  AtomicFile file_;
  std::string text_;
  bool is_first_ = true;
  uint64_t arrows_ = 0;
  std::map<uint64_t, Arrow> forward_;  // by the number of the node
  std::map<uint64_t, std::string> device_rows_;
  std::unordered_map<uint64_t, Place> range_of_id_;
  std::map<std::vector<void*>, std::string> sources_;
};

}  // namespace

void write_trace(const Recording& recording, const std::string& path) {
  Writer(recording, path).write();
}

bool try_write_trace(const Recording& recording, const std::string& path) noexcept try {
  try {
    write_trace(recording, path);
    return true;
  } catch (const Error& e) {
    warn("the trace was not written: ", e.message());
  } catch (const std::exception& e) {
    warn("the trace was not written: ", e.what());
  }
  return false;
} catch (...) {  // no memory for the warning either
  return false;
}

}  // namespace lathe::profile
