// The table of class names, sizes and channel statistics.
#include "lathe/data/images/dataset_info.h"

#include <sstream>

#include "lathe/core/error.h"

namespace lathe::data {
namespace {

std::vector<std::string> words(const char* text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) out.push_back(word);
  return out;
}

DatasetInfo cifar10() {
  return {words("airplane automobile bird cat deer dog frog horse ship truck"),
          3,
          32,
          {0.4914, 0.4822, 0.4465},
          {0.2470, 0.2435, 0.2616}};
}

DatasetInfo cifar100() {
  return {
      words(
          "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus "
          "butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach "
          "couch crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster "
          "house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree "
          "motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear "
          "pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road "
          "rocket "
          "rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar "
          "sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip "
          "turtle wardrobe whale willow_tree wolf woman worm"),
      3,
      32,
      {0.5071, 0.4865, 0.4409},
      {0.2673, 0.2564, 0.2762}};
}

DatasetInfo mnist() { return {words("0 1 2 3 4 5 6 7 8 9"), 1, 28, {0.1307}, {0.3081}}; }

DatasetInfo fashion_mnist() {
  return {{"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker",
           "Bag", "Ankle boot"},
          1,
          28,
          {0.2860},
          {0.3530}};
}

}  // namespace

const DatasetInfo& dataset_info(std::string_view name) {
  static const DatasetInfo kCifar10 = cifar10(), kCifar100 = cifar100(), kMnist = mnist(),
                           kFashionMnist = fashion_mnist();
  if (name == "cifar10") return kCifar10;
  if (name == "cifar100") return kCifar100;
  if (name == "mnist") return kMnist;
  if (name == "fashion-mnist") return kFashionMnist;
  LATHE_FAIL(ValueError, "unknown data set \"", name,
             "\"; known are cifar10, cifar100, mnist, fashion-mnist");
}

const std::vector<std::string>& cifar100_superclasses() {
  static const std::vector<std::string> names = words(
      "aquatic_mammals fish flowers food_containers fruit_and_vegetables "
      "household_electrical_devices household_furniture insects large_carnivores "
      "large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores "
      "medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1 "
      "vehicles_2");
  return names;
}

}  // namespace lathe::data
