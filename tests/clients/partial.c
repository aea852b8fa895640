/* A native MIOpen that is not all there: three functions, one of which needs something that nobody has. Whoever binds lazily, as programs
 * do, can use the others. */
#include <miopen/miopen.h>

#define EXPORT __attribute__((visibility("default")))

int nobody_has_this(void);

EXPORT miopenStatus_t miopenGetVersion(size_t *major, size_t *minor, size_t *patch) {
    *major = 99, *minor = 1, *patch = 2;
    return miopenStatusSuccess;
}

EXPORT miopenStatus_t miopenCreate(miopenHandle_t *handle) {
    static int place;
    *handle = (miopenHandle_t)&place;
    return miopenStatusSuccess;
}

EXPORT miopenStatus_t miopenDestroy(miopenHandle_t handle) {
    return handle ? (miopenStatus_t)nobody_has_this() : miopenStatusBadParm;
}
