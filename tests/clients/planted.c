/* A program with a mistake, for a sanitizer to find: if it does not, it would find nothing in other programs either. usage: planted <mistake> */
#include <miopen/miopen.h>

#include <stdlib.h>
#include <string.h>

/* Native's memory, which nobody gives back. */
static void leak(void) {
    miopenTensorDescriptor_t lost;
    miopenCreateTensorDescriptor(&lost);
}

/* Given back twice. */
static void twice(void) {
    void *volatile memory = malloc(16);
    free(memory);
    free(memory);
}

/* Beyond the end of what was allocated. */
static void overflow(void) {
    volatile char *memory = malloc(24);
    memory[24] = 0;
    free((void *)memory);
}

/* After it was given back. */
static int after_free(void) {
    volatile int *memory = calloc(1, sizeof *memory);
    free((void *)memory);
    return *memory;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    if (!strcmp(argv[1], "leak")) leak();
    if (!strcmp(argv[1], "twice")) twice();
    if (!strcmp(argv[1], "overflow")) overflow();
    if (!strcmp(argv[1], "after-free")) return after_free();
    return 0;
}
