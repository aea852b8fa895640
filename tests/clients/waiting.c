/* Makes one call, says that it did, and waits until its standard input ends: something to look at from outside. */
#include <miopen/miopen.h>

#include <stdio.h>

int main(int argc, char **argv) {
    (void)argv;
    size_t major = 0, minor = 0, patch = 0;
    /* With an argument it does not even that. */
    if (argc == 1) miopenGetVersion(&major, &minor, &patch);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
