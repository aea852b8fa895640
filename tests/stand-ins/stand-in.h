/* What all stand-ins for libraries of ROCm have in common: settings are accepted, and whatever would compute says so and fails, because a
 * stand-in that pretended to would let wrong numbers pass. A stand-in defines LIBRARY, its name for people, and FAILURE, the status that
 * the library has for an error inside. */
#include <stdio.h>

enum { success = 0 };

static inline int refuse(const char *function) {
    fprintf(stderr, "stand-in " LIBRARY ": %s refused: there is no device\n", function);
    return FAILURE;
}

/* A function that makes a handle: there is one. */
#define CREATES(name) int name(void **handle) { static char only; *handle = &only; return success; }
#define ACCEPTS(name) int name(void) { return success; }
#define REFUSES(name) int name(void) { return refuse(#name); }
