/* The least a program can do with MIOpen when there may be no native library: ask for its version and for texts. usage: bare [<way>], see
 * dynamic.h. */
#include "dynamic.h"

int main(int argc, char **argv) {
    if (argc > 1) library = open_library(argv[1]);
    size_t major = 0, minor = 0, patch = 0;
    printf("version %d: %zu.%zu.%zu\n", miopenGetVersion(&major, &minor, &patch), major, minor, patch);
    miopenHandle_t handle = NULL;
    printf("create %d\n", miopenCreate(&handle));
    printf("text %s\n", miopenGetErrorString(miopenStatusBadParm));
    return 0;
}
