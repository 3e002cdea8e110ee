// What a user's first program does with the library: includes the umbrella, calls it, prints.
#include <lathe/lathe.h>
#include <cstdio>

int main() { std::printf("lathe %s\n", lathe::version()); }
