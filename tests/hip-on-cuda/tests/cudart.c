/* A CUDA runtime without a device that answers what it was told, so that a test sees which numbers arrive. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static int last;

/* What the last call of a kind was given. */
int seen_kind, seen_mode, seen_flags;

static int fail(int error) { return last = error; }

#define DOES_NOTHING(name) int name(void) { return 0; }
DOES_NOTHING(cudaSetDevice)
DOES_NOTHING(cudaGetDevice)
DOES_NOTHING(cudaDeviceSynchronize)
DOES_NOTHING(cudaFree)
DOES_NOTHING(cudaHostAlloc)
DOES_NOTHING(cudaFreeHost)
DOES_NOTHING(cudaMemGetInfo)
DOES_NOTHING(cudaMemcpy)
DOES_NOTHING(cudaMemcpy2DAsync)
DOES_NOTHING(cudaMemset)
DOES_NOTHING(cudaMemsetAsync)
DOES_NOTHING(cudaStreamCreateWithFlags)
DOES_NOTHING(cudaStreamDestroy)
DOES_NOTHING(cudaStreamSynchronize)
DOES_NOTHING(cudaStreamGetFlags)
DOES_NOTHING(cudaStreamGetDevice)
DOES_NOTHING(cudaStreamWaitEvent)
DOES_NOTHING(cudaLaunchHostFunc)
DOES_NOTHING(cudaEventDestroy)
DOES_NOTHING(cudaEventRecord)
DOES_NOTHING(cudaEventQuery)
DOES_NOTHING(cudaEventSynchronize)
DOES_NOTHING(cudaEventElapsedTime)
DOES_NOTHING(cudaStreamEndCapture)
DOES_NOTHING(cudaGraphInstantiate)
DOES_NOTHING(cudaGraphLaunch)
DOES_NOTHING(cudaGraphDestroy)
DOES_NOTHING(cudaGraphExecDestroy)

int cudaGetDeviceCount(int *count) { return *count = 1, 0; }
int cudaDeviceGetAttribute(int *value, int attribute, int device) { return (void)device, *value = 1000 + attribute, 0; }
int cudaDriverGetVersion(int *version) { return *version = 13020, 0; }
int cudaRuntimeGetVersion(int *version) { return *version = 13000, 0; }
int cudaGetLastError(void) {
    int error = last;
    return last = 0, error;
}
int cudaPeekAtLastError(void) { return last; }

int cudaGetDeviceProperties(char *properties, int device) {
    size_t memory = 5 << 20;
    (void)device;
    strcpy(properties, "a device that is not there");
    memset(properties + 256, 7, 16);
    memcpy(properties + 288, &memory, sizeof memory);
    return 0;
}

/* A misaligned address, which HIP has no number for. */
int cudaMalloc(void **memory, size_t size) { return (void)memory, (void)size, fail(716); }

int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    (void)to, (void)from, (void)bytes, (void)stream;
    return seen_kind = kind, 0;
}

int cudaEventCreateWithFlags(void **event, unsigned flags) { return (void)event, seen_flags = (int)flags, 0; }

int cudaStreamBeginCapture(void *stream, int mode) { return (void)stream, seen_mode = mode, 0; }
int cudaStreamIsCapturing(void *stream, int *status) { return (void)stream, *status = 2, 0; }
int cudaStreamQuery(void *stream) { return (void)stream, 600; }
int cudaThreadExchangeStreamCaptureMode(int *mode) { return seen_mode = *mode, *mode = 1, 0; }

int cudaStreamGetCaptureInfo(void *stream, int *status, uint64_t *id, void **graph, void **after, void **edges, size_t *count) {
    (void)stream;
    if (graph || after || edges || count) return 1;
    return *status = 1, *id = 77, 0;
}

int cudaPointerGetAttributes(void *attributes, const void *address) {
    int kind_and_device[2] = {2, 3};
    memcpy(attributes, kind_and_device, sizeof kind_and_device);
    memcpy((char *)attributes + 8, &address, sizeof address);
    memset((char *)attributes + 16, 0, 8 + 64);
    return 0;
}
