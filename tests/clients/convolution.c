/* One convolution, the way programs call MIOpen. Knows nothing of the shim: compiled against the public header, linked with -lMIOpen.
 *
 * usage: convolution [plain|beta|alpha|deterministic|repeat|many|different|quiet|time|odd|throw]
 * quiet asks for its parent before and after a thousand warm calls, so that these can be found in a list of system calls.
 * Prints one line for each thing that a test may want to compare. */
#include <miopen/miopen.h>

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include "device.h"

enum { N = 2, C = 3, H = 5, W = 5, K = 4, R = 3 };

static miopenHandle_t handle;
static miopenTensorDescriptor_t xd, wd, yd;
static miopenConvolutionDescriptor_t cd;
static float *x, *w, *y;

#define CHECK(call) do { miopenStatus_t s_ = (call); if (s_) { printf("%s: %d\n", #call, s_); exit(1); } } while (0)

static float *filled(size_t n, int step) {
    float *p = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    for (size_t i = 0; i < n; i++) p[i] = (float)((int)((i * step) % 7) - 3);
    return p;
}

static void set_up(void) {
    CHECK(miopenCreate(&handle));
    CHECK(miopenCreateTensorDescriptor(&xd));
    CHECK(miopenCreateTensorDescriptor(&wd));
    CHECK(miopenCreateTensorDescriptor(&yd));
    CHECK(miopenSet4dTensorDescriptor(xd, miopenFloat, N, C, H, W));
    CHECK(miopenSet4dTensorDescriptor(wd, miopenFloat, K, C, R, R));
    CHECK(miopenSet4dTensorDescriptor(yd, miopenFloat, N, K, H, W));
    CHECK(miopenCreateConvolutionDescriptor(&cd));
    CHECK(miopenInitConvolutionDescriptor(cd, miopenConvolution, 1, 1, 1, 1, 1, 1));
    x = filled(N * C * H * W, 5);
    w = filled(K * C * R * R, 3);
    y = filled(N * K * H * W, 0);
}

static void tear_down(void) {
    CHECK(miopenDestroyConvolutionDescriptor(cd));
    CHECK(miopenDestroyTensorDescriptor(yd));
    CHECK(miopenDestroyTensorDescriptor(wd));
    CHECK(miopenDestroyTensorDescriptor(xd));
    CHECK(miopenDestroy(handle));
}

static miopenStatus_t forward(float alpha, float beta) {
    return miopenConvolutionForward(handle, &alpha, xd, x, wd, w, cd, miopenConvolutionFwdAlgoDirect, &beta, yd, y, NULL, 0);
}

static void show(miopenStatus_t status) {
    wait_for_device();
    printf("status %d (%s), forwarded error %d\n", status, miopenGetErrorString(status), miopenGetLastForwardedError());
    printf("y");
    for (int i = 0; i < N * K * H * W; i++) printf(" %g", y[i]);
    printf("\n");
}

/* The definition itself, so that no other implementation has to be believed. */
static int right(void) {
    for (int n = 0; n < N; n++) for (int k = 0; k < K; k++) for (int i = 0; i < H; i++) for (int j = 0; j < W; j++) {
        double sum = 0;
        for (int c = 0; c < C; c++) for (int r = 0; r < R; r++) for (int s = 0; s < R; s++) {
            int h = i + r - 1, v = j + s - 1;
            if (h < 0 || h >= H || v < 0 || v >= W) continue;
            sum += (double)x[((n * C + c) * H + h) * W + v] * w[((k * C + c) * R + r) * R + s];
        }
        if (y[((n * K + k) * H + i) * W + j] != (float)sum) return 0;
    }
    return 1;
}

static int is_mapped(const char *name) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    int found = 0;
    while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, name) != NULL;
    if (maps) fclose(maps);
    return found;
}

/* Statuses and side effects of odd arguments: whatever they are, they must be the same with and without the shim. */
static void odd(void) {
    miopenHandle_t none = NULL;
    float alpha = 1, beta = 0;
    int dims[3] = {2, 3, 4}, zero[3] = {2, 0, 4};
    printf("create null: %d\n", miopenCreateTensorDescriptor(NULL));
    printf("set null descriptor: %d\n", miopenSet4dTensorDescriptor(NULL, miopenFloat, 1, 1, 1, 1));
    printf("set null dims: %d\n", miopenSetTensorDescriptor(xd, miopenFloat, 3, NULL, NULL));
    printf("set zero length: %d\n", miopenSetTensorDescriptor(xd, miopenFloat, 3, zero, NULL));
    printf("negative pad: %d\n", miopenInitConvolutionDescriptor(cd, miopenConvolution, -1, 1, 1, 1, 1, 1));
    printf("null handle: %d\n",
           miopenConvolutionForward(none, &alpha, xd, x, wd, w, cd, miopenConvolutionFwdAlgoDirect, &beta, yd, y, NULL, 0));
    printf("null x: %d\n",
           miopenConvolutionForward(handle, &alpha, xd, NULL, wd, w, cd, miopenConvolutionFwdAlgoDirect, &beta, yd, y, NULL, 0));
    printf("destroy null: %d\n", miopenDestroyTensorDescriptor(NULL));
    printf("rank 3: %d\n", miopenSetTensorDescriptor(xd, miopenFloat, 3, dims, NULL));
    printf("mismatched ranks: %d\n", forward(1, 0));
    printf("unknown status: %s\n", miopenGetErrorString((miopenStatus_t)77) ? "text" : "null");
}

/* A native that throws: the exception must reach us through the shim. Unwinding is forced with the unwinder itself, which walks every
 * frame between the thrower and us exactly as a C++ exception would; the real library's are C++ exceptions. */
static jmp_buf caught;
static struct _Unwind_Exception exception;

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                struct _Unwind_Exception *object, struct _Unwind_Context *context, void *frame) {
    (void)version, (void)class, (void)object;
    if (actions & _UA_END_OF_STACK) abort();
    if ((void *)_Unwind_GetCFA(context) > frame) longjmp(caught, 1);
    return _URC_NO_REASON;
}

static void *outer_frame;

/* The reference MIOpen calls this where the real one throws. */
__attribute__((visibility("default"))) void reference_miopen_thrower(void) {
    _Unwind_ForcedUnwind(&exception, stop, outer_frame);
    abort();
}

static void throwing(void) {
    float alpha = 1, beta = 0;
    outer_frame = __builtin_frame_address(0);
    if (setjmp(caught)) {
        printf("caught\n");
        return;
    }
    miopenStatus_t status =
        miopenConvolutionForward(handle, &alpha, xd, x, wd, w, NULL, miopenConvolutionFwdAlgoDirect, &beta, yd, y, NULL, 0);
    printf("not thrown: %d\n", status);
}

/* Device times: of a convolution, of another call of the same handle, of a convolution again. */
static void timed(void) {
    float time = -1, alpha = 1, beta = 0;
    float *bias = filled(K, 1);
    miopenTensorDescriptor_t bd;
    CHECK(miopenCreateTensorDescriptor(&bd));
    CHECK(miopenSet4dTensorDescriptor(bd, miopenFloat, 1, K, 1, 1));
    CHECK(miopenEnableProfiling(handle, 1));
    CHECK(forward(1, 0));
    CHECK(miopenGetKernelTime(handle, &time));
    printf("convolution %d\n", time > 0);
    CHECK(miopenConvolutionForwardBias(handle, &alpha, bd, bias, &beta, yd, y));
    CHECK(miopenGetKernelTime(handle, &time));
    printf("bias %d\n", time >= 0);
    time = -1;
    CHECK(forward(1, 0));
    CHECK(miopenGetKernelTime(handle, &time));
    printf("again %d\n", time > 0);
    CHECK(miopenEnableProfiling(handle, 0));
    CHECK(miopenDestroyTensorDescriptor(bd));
    wait_for_device();
    free(bias);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "plain";
    set_up();
    miopenStatus_t status = miopenStatusSuccess;
    if (!strcmp(what, "odd")) odd();
    else if (!strcmp(what, "throw")) throwing();
    else if (!strcmp(what, "time")) timed();
    else {
        memset(y, 0xff, N * K * H * W * sizeof(float)); /* NaN: whatever is not written shows */
        if (!strcmp(what, "beta")) memset(y, 0, N * K * H * W * sizeof(float));
        if (!strcmp(what, "deterministic")) CHECK(miopenSetConvolutionAttribute(cd, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1));
        int quiet = !strcmp(what, "quiet"), different = !strcmp(what, "different");
        int rounds = !strcmp(what, "repeat") ? 100 : !strcmp(what, "many") ? 1000 : different ? 40 : quiet ? 1002 : 1;
        for (int i = 0; i < rounds; i++) {
            if (quiet && i == 2) getppid();
            /* Another factor is another problem; the last one is plain. */
            float alpha = !strcmp(what, "alpha") ? 2 : different && i + 1 < rounds ? 2 + i : 1;
            status = forward(alpha, !strcmp(what, "beta") ? 1 : 0);
        }
        if (quiet) getppid();
        show(status);
        printf("right %d\n", right());
        if (!strcmp(what, "plain")) {
            status = forward(1, 0);
            size_t bytes;
            miopenStatus_t passed = miopenGetTensorNumBytes(NULL, &bytes); /* not routed, not recorded */
            printf("passed error: %d (%s)\n", passed, miopenGetErrorString(passed));
            status = forward(1, 0);
            miopenStatus_t other = miopenSet4dTensorDescriptor(NULL, miopenFloat, 1, 1, 1, 1);
            printf("another error: %d (%s)\n", other, miopenGetErrorString(other));
            wait_for_device();
        }
    }
    printf("mapped hipdnn %d\n", is_mapped("libhipdnn_backend"));
    if (strcmp(what, "odd") && strcmp(what, "throw")) tear_down();
    return 0;
}
