// Made by golden_logits.py with PyTorch 1.13.0; do not edit.
#pragma once

namespace lathe::test {

struct GoldenLogits {
  double norm;                // of all 2 x 1000
  double every_fortieth[50];  // of them, from the first on
};

inline constexpr GoldenLogits kResNet18Logits = {
    0x1.464d76bafb861p+5,
    {-0x1.addc89329ea06p-1, 0x1.481798387c774p-2,  0x1.7c991c3394726p-2,  0x1.773ea3907ba8fp-1,
     -0x1.c07eaaa9ec132p-1, 0x1.dbf373c8644ccp+0,  0x1.a5b8de3942f27p-3,  0x1.12c2f0a69bc5cp-2,
     0x1.ab132f34141fep-3,  -0x1.51445fc6a48c9p-1, 0x1.0d2cd802b222ep+0,  0x1.693fb7a1a1f97p-1,
     -0x1.1894c748e8f4ep-2, -0x1.ad9e35dbf534ep-2, 0x1.dfdc31fb846b9p-1,  -0x1.76f8a7808c40bp-1,
     0x1.d781ee9db2ab8p-3,  -0x1.157e07b50ad08p-3, 0x1.52c486c4a9f81p-3,  0x1.4f86b95fb85aep-1,
     -0x1.10d5d537bde98p-3, 0x1.59a683e960598p-2,  0x1.7ae837a0a6699p+0,  -0x1.6301036092d46p-1,
     -0x1.0286dfa9581cep+1, -0x1.9103506bb4bf9p-1, 0x1.ae275c43319a8p-4,  0x1.a0413ef1048a1p-2,
     0x1.73816baad28fap-1,  -0x1.f75565e3e7bc0p-1, 0x1.c35071562e557p+0,  0x1.1104cd59ce798p-2,
     0x1.e0414c93fa615p-5,  0x1.aa14c247978f2p-2,  -0x1.585638d4d989ep-1, 0x1.ecec3878d077dp-1,
     0x1.715d254702a76p-1,  -0x1.59d7215ef527cp-2, -0x1.61911ed0b249ap-2, 0x1.ae511ded43208p-1,
     -0x1.bd82fc453bed6p-1, 0x1.5e7b989ecf4dep-2,  -0x1.26dc6567ba136p-3, 0x1.7fcfba317fd7cp-3,
     0x1.1a092f74cf684p-1,  -0x1.5041627f41412p-3, 0x1.1188c377c9b1cp-2,  0x1.766bfeea54460p+0,
     -0x1.8a2e39d146741p-1, -0x1.0afef71c07089p+1}};

inline constexpr GoldenLogits kResNet34Logits = {
    0x1.d317e2e85c557p+8,
    {-0x1.c6e522fc60d79p+1, 0x1.64d7d0866a13ap+2,  0x1.f0894d7d573dep+3,  -0x1.8fa6ea865b5e5p+0,
     -0x1.2c5d4f275a501p+3, 0x1.66e7ca962c3c4p+3,  0x1.bbe99cfc2e8d9p+1,  0x1.9fa3f466307d8p+1,
     0x1.3622ed7a2e5ebp+2,  -0x1.e334167595653p+2, 0x1.151a33e2ec4a3p+1,  0x1.c19d3ec7a6a8cp+1,
     0x1.2a9f672a98967p+2,  0x1.c13a477b4fdf3p+3,  0x1.2693d079c5683p+2,  -0x1.09d5b5a9496dcp+3,
     0x1.609bd6b7b97dfp+3,  -0x1.8a3f691629267p+2, -0x1.a394d88791699p+3, 0x1.3a58edefd6eacp+3,
     0x1.5886c569404a7p+0,  -0x1.9818ec800f4d0p+0, 0x1.83ab11e3d7493p+3,  -0x1.d1dc88b314ef4p+2,
     -0x1.0bd3bb10b00a3p+4, -0x1.9cfc6a768e067p+1, 0x1.d4f0e6b89c5afp+1,  0x1.e6659df433a77p+3,
     -0x1.09709ce4c828cp+1, -0x1.111b3a9429c67p+3, 0x1.638343148c436p+3,  0x1.9b310fb5df688p+1,
     0x1.ee5c04effd4c6p+1,  0x1.161d0cd2a66c5p+2,  -0x1.00e8c243b01cbp+3, 0x1.00370bb8ff1cdp+1,
     0x1.8d5bc2b1460cep+1,  0x1.26c2fa9585391p+2,  0x1.acdcae786965fp+3,  0x1.1545ec47ee9c6p+2,
     -0x1.2f2f1971979cap+3, 0x1.25fb93311d730p+3,  -0x1.2ef4fde8a9358p+2, -0x1.a5396690073c4p+3,
     0x1.348c6ef1ddefbp+3,  0x1.7018da458d7adp+0,  -0x1.c1fa9520db382p+0, 0x1.6f041d8d112b7p+3,
     -0x1.9d4f50b55c171p+2, -0x1.00bc3ef89e1b7p+4}};

}  // namespace lathe::test
