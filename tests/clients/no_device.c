/* A HIP runtime without a device: every function says so. */
#define NO_DEVICE 100
#define REFUSE(name) \
    __attribute__((visibility("default"))) int name(void) { return NO_DEVICE; }

REFUSE(hipGetDeviceCount)
REFUSE(hipGetDevice)
REFUSE(hipSetDevice)
REFUSE(hipMalloc)
REFUSE(hipFree)
REFUSE(hipStreamIsCapturing)
REFUSE(hipEventCreate)
REFUSE(hipEventRecord)
REFUSE(hipEventSynchronize)
REFUSE(hipEventElapsedTime)
REFUSE(hipEventDestroy)
