/* A forward convolution in one data type, what a comparison of results must get right: outputs with gaps between their elements, and with
 * contents that count.
 *
 * usage: verify WORD,...   of float half bfloat16 int8; beta, which adds twice what the output holds; gaps; captured, which captures the
 *                          second call
 * Prints one line for each thing that a test may want to compare. */
#include <miopen/miopen.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

enum { N = 2, C = 4, H = 8, K = 4, R = 3, X = N * C * H * H, W = K * C * R * R, HELD = 2, WORKSPACE = 1 << 20 };

#define CHECK(call) do { miopenStatus_t s_ = (call); if (s_) { printf("%s: %d\n", #call, s_); exit(1); } } while (0)
#define HIP(name, types, ...) do { \
    int (*f_) types = (int (*) types)dlsym(hip, #name); \
    int error_ = f_ ? f_(__VA_ARGS__) : -1; \
    if (error_) { printf("%s: %d\n", #name, error_); exit(1); } \
} while (0)

static const char *what;
static int is(const char *word) { return strstr(what, word) != NULL; }

static size_t size_of(miopenDataType_t type) {
    return type == miopenInt8 ? 1 : type == miopenHalf || type == miopenBFloat16 ? 2 : 4;
}

/* Integers that every type holds exactly. */
static void put(void *data, size_t i, miopenDataType_t type, int value) {
    float number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (type == miopenFloat) ((float *)data)[i] = number;
    else if (type == miopenBFloat16) ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
    else if (type == miopenInt8) ((int8_t *)data)[i] = (int8_t)value;
    else if (type == miopenInt32) ((int32_t *)data)[i] = value;
    else {
        /* The exponents of half and float differ in their bias. */
        uint16_t magnitude = value ? (uint16_t)(((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff)) : 0;
        ((uint16_t *)data)[i] = (uint16_t)(bits >> 16 & 0x8000) | magnitude;
    }
}

static double get(const void *data, size_t i, miopenDataType_t type) {
    if (type == miopenFloat) return ((const float *)data)[i];
    if (type == miopenInt32) return ((const int32_t *)data)[i];
    uint16_t code = ((const uint16_t *)data)[i];
    if (type == miopenBFloat16) {
        uint32_t bits = (uint32_t)code << 16;
        float number;
        memcpy(&number, &bits, sizeof number);
        return number;
    }
    int exponent = code >> 10 & 31, mantissa = code & 0x3ff;
    if (exponent == 31) return mantissa ? NAN : INFINITY;
    double magnitude = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    return code & 0x8000 ? -magnitude : magnitude;
}

static miopenDataType_t in, out;
static void *x, *w;
static unsigned char *y;
static int strides[4] = {K * H * H, H * H, H, 1};
static size_t extent;
static int xs[X], ws[W];

static size_t at(int n, int k, int i, int j) { return (size_t)(n * strides[0] + k * strides[1] + i * strides[2] + j * strides[3]); }

/* Gaps are full of ones, and elements hold something. */
static void prepare(void) {
    wait_for_device();
    memset(y, 0xff, extent * size_of(out));
    for (int n = 0; n < N; n++) for (int k = 0; k < K; k++) for (int i = 0; i < H; i++) for (int j = 0; j < H; j++) {
        put(y, at(n, k, i, j), out, HELD);
    }
}

/* How many elements are what the definition says, and whether nothing else was written. */
static void show(const char *name, miopenStatus_t status) {
    size_t size = size_of(out), wrong = 0, touched = 0;
    unsigned char *seen = calloc(extent, 1);
    wait_for_device();
    for (int n = 0; n < N; n++) for (int k = 0; k < K; k++) for (int i = 0; i < H; i++) for (int j = 0; j < H; j++) {
        double sum = is("beta") ? 2 * HELD : 0;
        for (int c = 0; c < C; c++) for (int r = 0; r < R; r++) for (int s = 0; s < R; s++) {
            int h = i + r - 1, v = j + s - 1;
            if (h < 0 || h >= H || v < 0 || v >= H) continue;
            sum += xs[((n * C + c) * H + h) * H + v] * ws[((k * C + c) * R + r) * R + s];
        }
        seen[at(n, k, i, j)] = 1;
        wrong += get(y, at(n, k, i, j), out) != sum;
    }
    for (size_t i = 0; i < extent * size; i++) touched += !seen[i / size] && y[i] != 0xff;
    free(seen);
    printf("%s status %d (%s), forwarded error %d, wrong %zu, touched %zu\n", name, status, miopenGetErrorString(status),
           miopenGetLastForwardedError(), wrong, touched);
}

int main(int argc, char **argv) {
    miopenHandle_t handle;
    miopenTensorDescriptor_t xd, wd, yd;
    miopenConvolutionDescriptor_t cd;
    miopenAcceleratorQueue_t stream = NULL;
    void *hip = NULL, *graph, *executable;
    int dims[4] = {N, K, H, H}, gaps[4] = {1024, 200, 20, 2};
    float alpha = 1, beta;
    what = argc > 1 ? argv[1] : "float";
    beta = is("beta") ? 2 : 0;
    in = is("half") ? miopenHalf : is("bfloat16") ? miopenBFloat16 : is("int8") ? miopenInt8 : miopenFloat;
    out = in == miopenInt8 ? miopenInt32 : in;
    if (is("gaps")) memcpy(strides, gaps, sizeof gaps);
    extent = at(N - 1, K - 1, H - 1, H - 1) + 1;
    x = aligned_alloc(64, X * 4), w = aligned_alloc(64, (W * 4 + 63) / 64 * 64), y = aligned_alloc(64, (extent * 4 + 63) / 64 * 64);
    for (int i = 0; i < X; i++) put(x, i, in, xs[i] = i * 5 % 3 - 1);
    for (int i = 0; i < W; i++) put(w, i, in, ws[i] = i * 7 % 3 - 1);
    void *workspace = aligned_alloc(64, WORKSPACE);
    printf("memory x=%p w=%p y=%p workSpace=%p\n", x, w, (void *)y, workspace);
    CHECK(miopenCreate(&handle));
    if (is("captured")) {
        hip = dlopen("libamdhip64.so.7", RTLD_LAZY);
        HIP(hipStreamCreateWithFlags, (void *, unsigned), &stream, 1);
        CHECK(miopenSetStream(handle, stream));
    }
    CHECK(miopenCreateTensorDescriptor(&xd));
    CHECK(miopenCreateTensorDescriptor(&wd));
    CHECK(miopenCreateTensorDescriptor(&yd));
    CHECK(miopenSet4dTensorDescriptor(xd, in, N, C, H, H));
    CHECK(miopenSet4dTensorDescriptor(wd, in, K, C, R, R));
    CHECK(miopenSetTensorDescriptor(yd, out, 4, dims, strides));
    CHECK(miopenCreateConvolutionDescriptor(&cd));
    CHECK(miopenInitConvolutionDescriptor(cd, miopenConvolution, 1, 1, 1, 1, 1, 1));
#define FORWARD miopenConvolutionForward(handle, &alpha, xd, x, wd, w, cd, miopenConvolutionFwdAlgoDirect, &beta, yd, y, workspace, WORKSPACE)
    prepare();
    show("first", FORWARD);
    prepare();
    if (is("captured")) {
        HIP(hipStreamBeginCapture, (void *, int), stream, 1);
        miopenStatus_t status = FORWARD;
        HIP(hipStreamEndCapture, (void *, void **), stream, &graph);
        printf("nothing ran yet %d\n", get(y, 0, out) == HELD);
        HIP(hipGraphInstantiate, (void **, void *, void *, char *, size_t), &executable, graph, NULL, NULL, 0);
        HIP(hipGraphLaunch, (void *, void *), executable, stream);
        show("second", status);
        HIP(hipGraphExecDestroy, (void *), executable);
        HIP(hipGraphDestroy, (void *), graph);
    } else show("second", FORWARD);
    CHECK(miopenDestroyConvolutionDescriptor(cd));
    CHECK(miopenDestroyTensorDescriptor(yd));
    CHECK(miopenDestroyTensorDescriptor(wd));
    CHECK(miopenDestroyTensorDescriptor(xd));
    CHECK(miopenDestroy(handle));
    return 0;
}
