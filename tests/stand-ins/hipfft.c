/* The functions of hipFFT that ONNX Runtime has, for machines without a GPU. Models of convolutions call none of them: all say so and fail,
 * because a stand-in that pretended to compute would let wrong numbers pass. */
#include <stdio.h>

enum { internal_error = 5 };

static int refuse(const char *function) {
    fprintf(stderr, "stand-in hipFFT: %s refused: there is no device\n", function);
    return internal_error;
}

#define REFUSES(name) int name(void) { return refuse(#name); }

REFUSES(hipfftCreate)
REFUSES(hipfftSetStream)
REFUSES(hipfftXtExec)
REFUSES(hipfftXtMakePlanMany)
