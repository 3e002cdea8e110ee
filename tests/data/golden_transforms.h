// Made by golden_transforms.py with Pillow 9.4.0; do not edit.
#pragma once

#include <cstdint>

namespace lathe::data::golden {

struct Resized {
  int64_t in_height, in_width, height, width;
  uint64_t bilinear, nearest;  // hashes
};

inline constexpr Resized kResized[] = {
    {32, 32, 224, 224, 0x57e3a364f12d0f73, 0x9fd3e8131e2ca73b},
    {9, 20, 224, 224, 0x61750b009e79c588, 0x00ca02a5325eb54e},
    {31, 27, 64, 48, 0x53e7da4f161168fb, 0xbbd59203b21e685d},
    {5, 7, 3, 4, 0x8cf9fd44ef568133, 0x2077bef4efc940d7},
    {1, 1, 5, 9, 0xe6c5559b06b4db3f, 0xe6c5559b06b4db3f},
    {40, 33, 1, 1, 0x9486e719678560e6, 0xc0574f19807ad6da},
    {64, 64, 32, 32, 0xbe4fa5305f3d2e39, 0x085a2ae3160c9b40},
    {100, 75, 33, 33, 0x0b970c56b5b89c23, 0xd30360eac6d539e5},
    {17, 130, 17, 31, 0x7f0e662d63f099ad, 0x25cdd4254b8510ab},
    {130, 17, 31, 17, 0x171fdfa6054b937f, 0x7b3f229a53963efd},
    {24, 24, 24, 24, 0xc4a66c54fa14e38c, 0xc4a66c54fa14e38c},
    {375, 500, 224, 224, 0x08d0bc6cc7dbb7d6, 0xbf0e4781ebc804c5},
    {16, 300, 48, 7, 0xd7b5147dd1292067, 0xdac484e31b94c1af},
    {3, 2, 2, 3, 0x60ea254c840a2d7b, 0x354df1ee78775eff},
    {2, 1000, 1, 3, 0x12025bc350550e60, 0x989bf05bb85168f1},
};

struct Changed {
  const char* what;
  double factor;
  uint64_t hash;
};

inline constexpr int64_t kColorHeight = 61, kColorWidth = 47;  // of image 100

inline constexpr Changed kChanged[] = {
    {"Brightness", 0.4, 0xd6b27a6914d8d645}, {"Brightness", 1.7, 0xe2874e689f6fcd9a},
    {"Contrast", 0.3, 0x46d4a17864289c30},   {"Contrast", 1.6, 0x97793d26648ee21f},
    {"Color", 0.25, 0x8b12f0ea42748c6e},     {"Color", 2.5, 0xd1be0293de205c21},
    {"Hue", 0.21, 0x36ff8221bd861e9a},       {"Hue", -0.5, 0x672e3d3b8fa3b071},
    {"Hue", -0.03, 0x085c7c61fe52002b},      {"Grey", 0, 0x50cf00fe8c316eb7},
    {"Contrast", 0, 0x86b90b985b75bdff},     {"Brightness", 1, 0xe737c517c240ff30},
};

}  // namespace lathe::data::golden
