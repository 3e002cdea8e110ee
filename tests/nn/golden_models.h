// Made by golden_models.py with torchvision 0.29.2; do not edit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe::test {

struct GoldenModel {
  const char* name;
  int64_t parameters;
  size_t entries;
  uint32_t names;  // of all, with their shapes
};

// With the default options.
inline constexpr GoldenModel kGoldenModels[] = {
    {"resnet18", 11689512, 122, 0x67419f4c},
    {"resnet34", 21797672, 218, 0xc70789b7},
    {"resnet50", 25557032, 320, 0x74259ab6},
    {"resnet101", 44549160, 626, 0xa0c2ac82},
    {"resnet152", 60192808, 932, 0xca2273fb},
    {"wide_resnet50_2", 68883240, 320, 0xe5e95768},
    {"wide_resnet101_2", 126886696, 626, 0xd217083f},
    {"vgg11", 132863336, 22, 0x251b0fad},
    {"vgg13", 133047848, 26, 0xe3172ff7},
    {"vgg16", 138357544, 32, 0xeafc1600},
    {"vgg19", 143667240, 38, 0xf394e946},
    {"vgg11_bn", 132868840, 62, 0x2a09461c},
    {"vgg13_bn", 133053736, 76, 0xe8ea9278},
    {"vgg16_bn", 138365992, 97, 0xea253190},
    {"vgg19_bn", 143678248, 118, 0x7816baf0},
    {"mobilenet_v2", 3504872, 314, 0xc44de301},
    {"efficientnet_b0", 5288548, 360, 0xdb6696fc},
    {"convnext_tiny", 28589128, 182, 0x8a7e9138},
    {"vit_s_16", 22050664, 152, 0x12935f74},
    {"vit_b_16", 86567656, 152, 0x75f13815},
};

struct GoldenResult {
  double norm;        // of all numbers of the result
  double values[20];  // of them, in equal steps from the first on
};

inline constexpr GoldenResult kResNet50 = {
    0x1.a6ffe4f17bbadp+7,
    {-0x1.98557cd00b7e0p+1, 0x1.3ff6ce7a7baddp+0,  -0x1.aa296641f9482p-1, 0x1.fa794ebbfb14bp-1,
     -0x1.49e4ec37cb544p+2, -0x1.191a7c42ad311p+2, -0x1.a9cf2aacaf34bp+0, 0x1.b15092af69c78p-2,
     -0x1.839c81852a3e7p+0, -0x1.a9557d3def362p+2, -0x1.96ee322767636p+1, 0x1.9675b6f70c57fp+0,
     -0x1.95028b360eb36p+0, 0x1.ae4d4895b9b5bp-1,  -0x1.3b26142e0ffd6p+2, -0x1.1ee4cab654cc8p+2,
     -0x1.70d07b79855b3p+0, 0x1.277d76e34b3ddp-3,  -0x1.02cc9a69dab5fp+0, -0x1.c8d5f025414f0p+2}};

inline constexpr GoldenResult kMobileNetV2 = {
    0x1.8f51efd452a1dp+4,
    {-0x1.1fac3c58ef660p-1, -0x1.77caf4b5ce59fp+0, -0x1.2b3b8069ffec4p-1, 0x1.fd28e06ad650ap-1,
     0x1.95f02fa7c7224p-2,  -0x1.1183233bb4b09p-2, -0x1.31c09810555e6p-1, 0x1.0d9c7d54a4f93p-7,
     0x1.5321f97e10bcap-2,  -0x1.bbb5062709f5ep-2, -0x1.2830ebd9fee6dp-1, -0x1.86dcf5ebbb596p+0,
     -0x1.7ac71a8567d06p-1, 0x1.ecb0ca0a1dfe4p-1,  0x1.a70c4fa083680p-2,  -0x1.ab24b8417f60ep-3,
     -0x1.a3c130953249dp-1, -0x1.db9158ad38f2dp-7, 0x1.8af88d7bb29b0p-2,  -0x1.de8bc7fb47699p-2}};

inline constexpr GoldenResult kEfficientNetB0 = {
    0x1.8019e135169a9p+1,
    {-0x1.216293a99704cp-4, -0x1.a4dc5fc18b247p-5, -0x1.2b7fa14acc780p-5, 0x1.8dd766963a9f5p-4,
     0x1.e8a0f8e20a9b6p-5,  -0x1.af69a759f4b46p-5, 0x1.54e42f3fe606fp-4,  0x1.47e934432846bp-5,
     -0x1.eb8ba88b91429p-4, 0x1.987e5d29b46afp-6,  -0x1.21621a53ee008p-4, -0x1.a4da52d6dc304p-5,
     -0x1.2b810270f9749p-5, 0x1.8dd66f80a11fep-4,  0x1.e8a0f296447d6p-5,  -0x1.af69a54477eb0p-5,
     0x1.54e5579be725fp-4,  0x1.47e84218d62a4p-5,  -0x1.eb8ca3870d0b4p-4, 0x1.987dd06112848p-6}};

inline constexpr GoldenResult kConvNeXtTiny = {
    0x1.9f47e405dfe5bp+4,
    {0x1.ed7bac95bf119p-1,  -0x1.bb3cad6a458c2p-3, 0x1.108683bd2d0e2p-1,  -0x1.67c25f4f7f379p-4,
     -0x1.77c433808b602p-2, -0x1.33fe0e709bc0bp+0, -0x1.656b86bcb2678p-2, -0x1.4d545ebecf1aap-2,
     0x1.0d4aa64aff4f9p-4,  0x1.97899b5e6e282p-1,  0x1.e971f792d921ep-2,  -0x1.514d58886d84fp-3,
     -0x1.e68a5eda5f418p-1, 0x1.b144f7116ca5ap-3,  0x1.1032e8820d672p-1,  -0x1.8d1bf016cecbdp-3,
     -0x1.b5113c2eb1562p-3, -0x1.5af20418da680p-8, -0x1.3123333421f1cp-3, 0x1.9608256385068p-3}};

// Its layers before the classifier.
inline constexpr GoldenResult kVgg11Features = {0x1.a115e26e3594ep+2,
                                                {0x1.79d2c4b6fa286p-2,
                                                 0x0.0p+0,
                                                 0x1.0ca001df76876p-2,
                                                 0x1.180ef38c15bcap-2,
                                                 0x1.66d870b5ff183p-4,
                                                 0x1.dac7ddd41ba99p-2,
                                                 0x1.86041c06ea7bep-4,
                                                 0x1.af6f3a1de83c5p-4,
                                                 0x1.c925a69c2b0f2p-6,
                                                 0x0.0p+0,
                                                 0x0.0p+0,
                                                 0x1.dd320031474f4p-7,
                                                 0x1.d0ad4283204bbp-7,
                                                 0x1.e85fc9f55ce47p-3,
                                                 0x0.0p+0,
                                                 0x1.faf07eb341147p-3,
                                                 0x1.75424968904e5p-3,
                                                 0x1.04eab7413ff8dp-2,
                                                 0x1.57467f9eb5bfap-2,
                                                 0x1.a074f73d06279p-6}};

// Two layers for images of 32 x 32, 384 wide, with 6 heads.
inline constexpr GoldenResult kTinyViT = {
    0x1.9e846b1704b76p+4,
    {0x1.5b91810d30f7cp-1, 0x1.23b274a691e35p+0,  0x1.3346080185484p-5, -0x1.2b676dcb207abp-2,
     0x1.040af17a03a53p-4, 0x1.617f3ff36dec2p-1,  0x1.ec3e6298d308cp-3, 0x1.e52320af02c19p-3,
     0x1.21fa4611d25f7p+0, 0x1.e9212f645cb22p-2,  0x1.66b3b8c00d167p-2, 0x1.3fd36e5ad413ep+0,
     0x1.6942faa2c1421p-1, -0x1.76ba66a103456p-2, 0x1.cc2bb3acbe2f8p-3, 0x1.f133081cd1c82p-1,
     0x1.9fc049d32eb82p-4, 0x1.7701bd924a739p-2,  0x1.9d4e527ffd8f4p-1, -0x1.ed2c944e3a436p-4}};

}  // namespace lathe::test
