/* The least a program can do with MIOpen when there may be no native library: ask for its version and for texts. */
#include <miopen/miopen.h>

#include <stdio.h>

int main(void) {
    size_t major = 0, minor = 0, patch = 0;
    printf("version %d: %zu.%zu.%zu\n", miopenGetVersion(&major, &minor, &patch), major, minor, patch);
    miopenHandle_t handle = NULL;
    printf("create %d\n", miopenCreate(&handle));
    printf("text %s\n", miopenGetErrorString(miopenStatusBadParm));
    return 0;
}
