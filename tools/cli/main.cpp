// Entry point of `lathe`.
#include "lathe/trainer.h"

int main(int argc, char** argv) { return lathe::trainer::run(argc, argv); }
