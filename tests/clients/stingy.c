/* A HIP runtime that has no device memory to give: everything else is the other one's, which the variable STINGY_HIP names. Has only what
 * the shim cannot do without, and copies. */
#include <dlfcn.h>
#include <stdlib.h>

static void *hip(const char *name) {
    static void *library;
    if (!library) library = dlopen(getenv("STINGY_HIP"), RTLD_NOW);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) abort();
    return function;
}

#define PASS(name, types, parameters, arguments) int name parameters { return ((int (*) types)hip(#name)) arguments; }

int hipMalloc(void **memory, size_t bytes) {
    (void)memory, (void)bytes;
    return 2; /* hipErrorOutOfMemory */
}

PASS(hipFree, (void *), (void *memory), (memory))
PASS(hipGetDevice, (int *), (int *device), (device))
PASS(hipSetDevice, (int), (int device), (device))
PASS(hipStreamIsCapturing, (void *, int *), (void *stream, int *status), (stream, status))
PASS(hipStreamSynchronize, (void *), (void *stream), (stream))
PASS(hipMemcpyAsync, (void *, const void *, size_t, int, void *), (void *to, const void *from, size_t bytes, int kind, void *stream),
     (to, from, bytes, kind, stream))
PASS(hipEventCreate, (void **), (void **event), (event))
PASS(hipEventRecord, (void *, void *), (void *event, void *stream), (event, stream))
PASS(hipEventSynchronize, (void *), (void *event), (event))
PASS(hipEventElapsedTime, (float *, void *, void *), (float *time, void *start, void *stop), (time, start, stop))
PASS(hipEventDestroy, (void *), (void *event), (event))
