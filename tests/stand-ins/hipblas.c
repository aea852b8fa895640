/* The functions of hipBLAS that ONNX Runtime has, for machines without a GPU. Handles and settings work; whatever would compute says so and
 * fails, because a stand-in that pretended to would let wrong numbers pass. */
#include <stdio.h>

enum { success = 0, internal_error = 6 };

static int refuse(const char *function) {
    fprintf(stderr, "stand-in hipBLAS: %s refused: there is no device\n", function);
    return internal_error;
}

int hipblasCreate(void **handle) {
    static char only;
    *handle = &only;
    return success;
}

#define ACCEPTS(name) int name(void) { return success; }
#define REFUSES(name) int name(void) { return refuse(#name); }

ACCEPTS(hipblasDestroy)
ACCEPTS(hipblasSetStream)
REFUSES(hipblasDcopy)
REFUSES(hipblasDgeam)
REFUSES(hipblasGemmEx)
REFUSES(hipblasGemmStridedBatchedEx)
REFUSES(hipblasScopy)
REFUSES(hipblasSgeam)
