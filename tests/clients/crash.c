/* A library that cannot be loaded without the process ending. */
#include <signal.h>
#include <stdio.h>

__attribute__((constructor)) static void end(void) {
    fputs("no such device\n", stderr);
    raise(SIGSEGV);
}
