/* A library to be loaded before MIOpen: every function of its API, which writes down that it was called, and by which file's code, and goes on
 * to the next library's function of that name, with everything as it was: the return address too. Independent of whatever comes next.
 *
 * Compiled with a list of WITNESS(number, name). Lines go to the file in WITNESS_LOG, opened for appending, else to stderr. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
#define WITNESS(number, name) #name,
#include "names.h"
#undef WITNESS
};

static void *next[sizeof names / sizeof *names];

static int log_file(void) {
    static int file = -1;
    const char *path = getenv("WITNESS_LOG");
    if (file < 0) file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : 2;
    return file;
}

__attribute__((used)) static void *witness_note(uint64_t number, void *caller) {
    char line[4096];
    Dl_info info;
    const char *file = dladdr(caller, &info) && info.dli_fname ? info.dli_fname : "?";
    int length = snprintf(line, sizeof line, "witness %s %s\n", names[number], file);
    /* One write, so that lines of threads and of other writers stay whole. */
    if (write(log_file(), line, (size_t)length) != length) abort();
    if (!next[number]) next[number] = dlsym(RTLD_NEXT, names[number]);
    if (!next[number]) fprintf(stderr, "witness: nobody has %s\n", names[number]), abort();
    return next[number];
}

__asm__(".text\n"
        "witness_enter:\n"
        "    pushq %rbp\n    movq %rsp, %rbp\n    subq $128, %rsp\n"
        "    movq %rdi, 0(%rsp)\n    movq %rsi, 8(%rsp)\n    movq %rdx, 16(%rsp)\n    movq %rcx, 24(%rsp)\n"
        "    movq %r8, 32(%rsp)\n    movq %r9, 40(%rsp)\n"
        "    movsd %xmm0, 48(%rsp)\n    movsd %xmm1, 56(%rsp)\n    movsd %xmm2, 64(%rsp)\n    movsd %xmm3, 72(%rsp)\n"
        "    movsd %xmm4, 80(%rsp)\n    movsd %xmm5, 88(%rsp)\n    movsd %xmm6, 96(%rsp)\n    movsd %xmm7, 104(%rsp)\n"
        "    movq %r11, %rdi\n    movq 8(%rbp), %rsi\n    call witness_note\n    movq %rax, %r11\n"
        "    movq 0(%rsp), %rdi\n    movq 8(%rsp), %rsi\n    movq 16(%rsp), %rdx\n    movq 24(%rsp), %rcx\n"
        "    movq 32(%rsp), %r8\n    movq 40(%rsp), %r9\n"
        "    movsd 48(%rsp), %xmm0\n    movsd 56(%rsp), %xmm1\n    movsd 64(%rsp), %xmm2\n    movsd 72(%rsp), %xmm3\n"
        "    movsd 80(%rsp), %xmm4\n    movsd 88(%rsp), %xmm5\n    movsd 96(%rsp), %xmm6\n    movsd 104(%rsp), %xmm7\n"
        "    leave\n    jmp *%r11\n");

#define WITNESS(number, name)                                                                       \
    __asm__(".globl " #name "\n.type " #name ", @function\n" #name ":\n    movl $" #number ", %r11d\n" \
            "    jmp witness_enter\n.size " #name ", . - " #name "\n");
#include "names.h"
