/* What passing a call through costs: the shim's exported stub, the native function called directly, and a plain C forwarding function,
 * interleaved in one run. usage: hop <native library>. Prints one JSON object for each figure. */
#include <miopen/miopen.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef miopenStatus_t (*destroy_fn)(miopenTensorDescriptor_t);

/* miopenDestroyTensorDescriptor(NULL) does nothing but answer, in every MIOpen. */
static destroy_fn volatile native;

__attribute__((noinline)) static miopenStatus_t c_stub(miopenTensorDescriptor_t descriptor) {
    return native(descriptor);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

enum { CALLS = 200000, ROUNDS = 101 };

static double one(destroy_fn call) {
    destroy_fn volatile function = call;
    double start = now();
    for (int i = 0; i < CALLS; i++) function(NULL);
    return (now() - start) / CALLS;
}

static int ascending(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, ascending);
    return values[ROUNDS / 2];
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    native = library ? (destroy_fn)dlsym(library, "miopenDestroyTensorDescriptor_impl") : NULL;
    if (!native) return fprintf(stderr, "%s: %s\n", argv[1], dlerror()), 1;
    static double stub[ROUNDS], direct[ROUNDS], plain[ROUNDS];
    miopenDestroyTensorDescriptor(NULL); /* binds */
    for (int i = 0; i < ROUNDS; i++) {
        direct[i] = one(native);
        plain[i] = one(c_stub);
        stub[i] = one(miopenDestroyTensorDescriptor);
    }
    double s = median(stub), d = median(direct), p = median(plain);
    printf("{\"bench\":\"hop.stub_vs_c_stub\",\"value\":%.3f,\"unit\":\"ns\",\"baseline\":%.3f,\"ratio\":%.3f}\n", s, p, s / p);
    printf("{\"bench\":\"hop.stub_vs_direct\",\"value\":%.3f,\"unit\":\"ns\",\"baseline\":%.3f,\"ratio\":%.3f}\n", s, d, s / d);
    return 0;
}
