/* A hipDNN backend whose engine calls MIOpen, as AMD's MIOpen provider does: linked with -lMIOpen, so that inside a process with the shim its
 * calls reach the shim. Everything but execution is passed on to the reference backend, whose path is in PROVIDER_BACKEND. */
#include <miopen/miopen.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"

#define EXPORT __attribute__((visibility("default")))

static void *real(const char *name) {
    static void *library;
    if (!library) library = dlopen(getenv("PROVIDER_BACKEND"), RTLD_NOW | RTLD_LOCAL);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) abort();
    return function;
}

#define PASS(name, parameters, types, arguments) \
    EXPORT int name parameters { return ((int(*) types)real(#name)) arguments; }

PASS(hipdnnCreate, (void **h), (void **), (h))
PASS(hipdnnDestroy, (void *h), (void *), (h))
PASS(hipdnnSetStream, (void *h, void *s), (void *, void *), (h, s))
PASS(hipdnnGetStream, (void *h, void **s), (void *, void **), (h, s))
PASS(hipdnnBackendCreateDescriptor, (int t, void **d), (int, void **), (t, d))
PASS(hipdnnBackendDestroyDescriptor, (void *d), (void *), (d))
PASS(hipdnnBackendFinalize, (void *d), (void *), (d))
PASS(hipdnnBackendGetAttribute, (void *d, int a, int t, int64_t n, int64_t *c, void *p), (void *, int, int, int64_t, int64_t *, void *), (d, a, t, n, c, p))
PASS(hipdnnBackendSetAttribute, (void *d, int a, int t, int64_t n, const void *p), (void *, int, int, int64_t, const void *), (d, a, t, n, p))

/* The provider's own MIOpen objects; 1x1 convolution of one element, so that its calls can be told from the program's. */
static miopenStatus_t call_miopen(void) {
    miopenHandle_t handle;
    miopenTensorDescriptor_t d;
    miopenConvolutionDescriptor_t c;
    float alpha = 1, beta = 0, x = 3, w = 5, y = 0;
    miopenCreate(&handle);
    miopenCreateTensorDescriptor(&d);
    miopenSet4dTensorDescriptor(d, miopenFloat, 1, 1, 1, 1);
    miopenCreateConvolutionDescriptor(&c);
    miopenInitConvolutionDescriptor(c, miopenConvolution, 0, 0, 1, 1, 1, 1);
    miopenStatus_t status = miopenConvolutionForward(handle, &alpha, d, &x, d, &w, c, miopenConvolutionFwdAlgoDirect, &beta, d, &y, NULL, 0);
    wait_for_device();
    miopenDestroyConvolutionDescriptor(c);
    miopenDestroyTensorDescriptor(d);
    miopenDestroy(handle);
    return y == 15 ? status : miopenStatusInternalError;
}

static void *on_a_thread(void *result) {
    *(miopenStatus_t *)result = call_miopen();
    return NULL;
}

EXPORT int hipdnnBackendExecute(void *h, void *plan, void *pack) {
    miopenStatus_t on_thread = miopenStatusInternalError;
    pthread_t thread;
    pthread_create(&thread, NULL, on_a_thread, &on_thread);
    pthread_join(thread, NULL);
    if (call_miopen() || on_thread) return 13;
    return ((int (*)(void *, void *, void *))real("hipdnnBackendExecute"))(h, plan, pack);
}

EXPORT void hipdnnGetLastErrorString(char *message, size_t size) {
    ((void (*)(char *, size_t))real("hipdnnGetLastErrorString"))(message, size);
}

EXPORT const char *hipdnnGetErrorString(int status) {
    return ((const char *(*)(int))real("hipdnnGetErrorString"))(status);
}
