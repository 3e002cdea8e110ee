// Images per second of processor time, on one thread: transforms of images in memory and, if a
// folder is given, of its JPEG files next to a plain loop of TurboJPEG calls. Built and run by
// compare_transforms.py.
#include <time.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lathe/data/images/decode.h"
#include "lathe/data/images/image_folder.h"

using namespace lathe;
using namespace lathe::data;

namespace {

double processor_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The best of four windows of `images` calls of read(number).
template <class Read>
void report(const char* name, int64_t images, Read read) {
  double best = 1e9;
  for (int window = 0; window < 4; ++window) {
    const double start = processor_seconds();
    for (int64_t i = 0; i < images; ++i) read(i);
    best = std::min(best, processor_seconds() - start);
  }
  std::printf("%s\t%.0f\n", name, static_cast<double>(images) / best);
}

void in_memory(const char* name, const Transform& transform, int64_t images) {
  const ImageSpec in{3, 32, 32};
  std::vector<uint8_t> image(static_cast<size_t>(in.pixels()));
  for (size_t k = 0; k < image.size(); ++k) image[k] = static_cast<uint8_t>(k * 2654435761u >> 24);
  std::vector<float> out(static_cast<size_t>(transform.output(in).pixels()));
  report(name, images, [&](int64_t i) {
    transform.apply(image.data(), in, {1, 0, i}, out.data());
  });
}

void folder(const std::filesystem::path& root) {
  const Transform transform = compose(random_resized_crop(224), hflip());
  const ImageFolder images(root, {.transform = transform});
  const BatchBuffer batch(images.spec(), 1);
  report("JPEG folder, RandomResizedCrop(224), flip", images.size(), [&](int64_t i) {
    images.read(i, {1, 0, i}, Slot(batch, 0));
  });

  const tjhandle handle = tjInitDecompress();
  std::vector<uint8_t> pixels, planes, out(3 * 224 * 224);
  report("the same, a plain loop of TurboJPEG and resize", images.size(), [&](int64_t i) {
    std::ifstream file(images.path(i), std::ios::binary);
    const std::vector<char> chars{std::istreambuf_iterator<char>(file), {}};
    const auto* bytes = reinterpret_cast<const unsigned char*>(chars.data());
    int width, height, subsampling, colors;
    tjDecompressHeader3(handle, bytes, chars.size(), &width, &height, &subsampling, &colors);
    const double detail = transform.detail({3, height, width}, {1, 0, i});
    int denominator = 1;
    while (denominator < 8 && detail * 2 * denominator <= 1) denominator *= 2;
    const tjscalingfactor scale{1, denominator};
    const int64_t w = TJSCALED(width, scale), h = TJSCALED(height, scale);
    pixels.resize(static_cast<size_t>(3 * w * h));
    planes.resize(pixels.size());
    tjDecompress2(handle, bytes, chars.size(), pixels.data(), static_cast<int>(w), 0,
                  static_cast<int>(h), TJPF_RGB, 0);
    planes_of(pixels.data(), w * h, 3, planes.data());
    transform.apply(planes.data(), {3, h, w}, {1, 0, i}, out.data());
  });
  tjDestroy(handle);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<double> half(3, 0.5);
  in_memory("pad-crop, flip", compose(pad_crop(32, 4), hflip()), 100'000);
  in_memory("pad-crop, flip, normalise to f32",
            compose(pad_crop(32, 4), hflip(), normalize(half, half)), 100'000);
  in_memory("RandomResizedCrop 32 to 224, flip", compose(random_resized_crop(224), hflip()), 4000);
  in_memory("RandomResizedCrop 32 to 224, flip, normalise to f32",
            compose(random_resized_crop(224), hflip(), normalize(half, half)), 2000);
  if (argc > 1) folder(argv[1]);
}
