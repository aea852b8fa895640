/* A hipDNN backend that is not as it should be: of the version in BACKEND_VERSION if that is set; with handles that are null if BACKEND_NULL
 * is; with as many engines as BACKEND_ENGINES says. All else is the reference backend's, whose path is in BACKEND_REAL. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static void *real(const char *name) {
    static void *library;
    if (!library) library = dlopen(getenv("BACKEND_REAL"), RTLD_NOW | RTLD_LOCAL);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) abort();
    return function;
}

#define PASS(name, parameters, types, arguments) \
    EXPORT int name parameters { return ((int(*) types)real(#name)) arguments; }

EXPORT int hipdnnCreate(void **handle) {
    if (!getenv("BACKEND_NULL")) return ((int (*)(void **))real("hipdnnCreate"))(handle);
    *handle = NULL;
    return 0;
}

PASS(hipdnnDestroy, (void *h), (void *), (h))
PASS(hipdnnSetStream, (void *h, void *s), (void *, void *), (h, s))
PASS(hipdnnBackendCreateDescriptor, (int t, void **d), (int, void **), (t, d))
PASS(hipdnnBackendDestroyDescriptor, (void *d), (void *), (d))
PASS(hipdnnBackendFinalize, (void *d), (void *), (d))
PASS(hipdnnBackendExecute, (void *h, void *p, void *v), (void *, void *, void *), (h, p, v))
PASS(hipdnnBackendGetAttribute, (void *d, int a, int t, int64_t n, int64_t *c, void *p), (void *, int, int, int64_t, int64_t *, void *), (d, a, t, n, c, p))
PASS(hipdnnBackendSetAttribute, (void *d, int a, int t, int64_t n, const void *p), (void *, int, int, int64_t, const void *), (d, a, t, n, p))

EXPORT const char *hipdnnVersionString_ext(void) {
    const char *version = getenv("BACKEND_VERSION");
    return version ? version : "0.1.0.0";
}

EXPORT int hipdnnGetEngineCount_ext(void *handle, size_t *count) {
    (void)handle;
    const char *engines = getenv("BACKEND_ENGINES");
    if (!engines) return 8; /* it cannot tell */
    *count = (size_t)atoi(engines);
    return 0;
}
