// Raw deflate through zlib. deflate_none.cpp takes its place in a build without zlib.
#include <zlib.h>

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/formats/deflate.h"

namespace lathe {

namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // zlib counts in 32 bits
constexpr int kRaw = -MAX_WBITS;

class ZlibInflater final : public Inflater {
 public:
  ZlibInflater(Next next, std::string what) : next_(std::move(next)), what_(std::move(what)) {
    LATHE_CHECK(OutOfMemoryError, inflateInit2(&z_, kRaw) == Z_OK, what_,
                ": zlib cannot allocate its window");
  }
  ~ZlibInflater() override { inflateEnd(&z_); }
  ZlibInflater(const ZlibInflater&) = delete;
  ZlibInflater& operator=(const ZlibInflater&) = delete;

  size_t read(void* to, size_t bytes) override {
    size_t done = 0;
    while (done < bytes && !ended_) {
      const size_t step = std::min(bytes - done, kMostAtOnce);
      z_.next_out = static_cast<Bytef*>(to) + done;
      z_.avail_out = static_cast<uInt>(step);
      inflate_some();
      done += step - z_.avail_out;
    }
    return done;
  }

  bool at_end() override {
    // The end mark may lie after the last byte, where no read() has come yet.
    if (unsigned char beyond; !ended_ && read(&beyond, 1) != 0) return false;
    return !have_input();
  }

 private:
  void inflate_some() {
    const bool input = have_input();
    const int status = ::inflate(&z_, Z_NO_FLUSH);
    ended_ = status == Z_STREAM_END;
    LATHE_CHECK(DataError, input || status != Z_BUF_ERROR, what_, ": the deflated data ends after ",
                z_.total_out, " inflated bytes, before its end mark");
    LATHE_CHECK(DataError, ended_ || status == Z_OK || status == Z_BUF_ERROR, what_,
                ": the deflated data is damaged after ", z_.total_out, " inflated bytes (",
                z_.msg != nullptr ? z_.msg : "zlib error", ")");
  }

  bool have_input() {
    if (z_.avail_in == 0) {
      const auto piece = next_();
      z_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
      z_.avail_in = static_cast<uInt>(piece.size());
    }
    return z_.avail_in > 0;
  }

  Next next_;
  std::string what_;
  z_stream z_{};
  bool ended_ = false;
};

struct Deflater {
  z_stream z{};
  Deflater() {
    LATHE_CHECK(
        OutOfMemoryError,
        deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRaw, 8, Z_DEFAULT_STRATEGY) == Z_OK,
        "deflate: zlib cannot allocate its window");
  }
  ~Deflater() { deflateEnd(&z); }
};

}  // namespace

bool deflate_available() { return true; }

std::unique_ptr<Inflater> inflate(Inflater::Next next, std::string what) {
  return std::make_unique<ZlibInflater>(std::move(next), std::move(what));
}

std::string deflate(std::span<const std::string_view> parts) {
  Deflater deflater;
  z_stream& z = deflater.z;
  std::string out;
  char piece[1 << 16];
  const auto run = [&](int flush) {
    do {
      z.next_out = reinterpret_cast<Bytef*>(piece);
      z.avail_out = sizeof(piece);
      ::deflate(&z, flush);
      out.append(piece, sizeof(piece) - z.avail_out);
    } while (z.avail_out == 0);
  };
  for (std::string_view part : parts) {
    while (!part.empty()) {
      const size_t step = std::min(part.size(), kMostAtOnce);
      z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
      z.avail_in = static_cast<uInt>(step);
      part.remove_prefix(step);
      run(Z_NO_FLUSH);
    }
  }
  run(Z_FINISH);
  return out;
}

}  // namespace lathe
