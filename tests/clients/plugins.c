/* A program that knows MIOpen only through what it opens: usage: plugins <plugin> [<public library>]. The public library, if there is one, is
 * opened first and for everybody, and used, so that a plugin that could be bound to it would be. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *opened(const char *path, int scope) {
    void *library = dlopen(path, RTLD_NOW | scope);
    if (!library) printf("dlopen: %s\n", dlerror()), exit(3);
    return library;
}

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) printf("dlsym: %s\n", dlerror()), exit(4);
    return found;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    size_t numbers[3];
    if (argc > 2) printf("public: %d\n", ((int (*)(size_t *, size_t *, size_t *))function(opened(argv[2], RTLD_GLOBAL), "miopenGetVersion"))(numbers, numbers + 1, numbers + 2));
    void *plugin = opened(argv[1], RTLD_LOCAL);
    float y = 0;
    printf("open: %d\n", ((int (*)(void))function(plugin, "plugin_open"))());
    printf("compute: %d\n", ((int (*)(float *))function(plugin, "plugin_compute"))(&y));
    printf("close: %d\n", ((int (*)(void))function(plugin, "plugin_close"))());
    printf("y: %g\n", y);
    return 0;
}
