// Writes event files of known values for tensorboard_python_test.py: write_events FOLDER.
#include <iostream>

#include "lathe/core/files/file.h"
#include "lathe/data/images/image.h"
#include "lathe/data/tensorboard.h"
#include "lathe/lathe.h"

using namespace lathe;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder(argv[1]);
  {
    EventWriter events(folder);
    for (int64_t step = 0; step < 5; ++step) {
      events.add_scalar("loss/train", 1.0 / static_cast<double>(step + 1), step);
    }
    events.add_scalar("a tag with \"quotes\" & \xc3\xa9", -0.5, 7);
    events.add_histogram("weights", arange(100).to(kF32) / 100.0, 1);
    events.add_histogram("one value", full({4}, 2.0), 1);
    events.add_text("notes", "**bold** & <plain>", 1);
    try {
      const Tensor image = arange(2 * 3 * 3).to(kU8).reshape({3, 2, 3});
      events.add_image("picture", image, 2);
      write_file_atomic((folder / "picture.png").string(), image::encode(image, ".png"));
    } catch (const Error& e) {
      std::cout << "no image: " << e.what() << '\n';
    }
  }
  // The run goes on from step 3: what the first file has from there on is no part of it.
  EventWriter later(folder, {.suffix = ".later", .first_step = 3});
  later.add_scalar("loss/train", 0.125, 3);
  return 0;
}
