/* The functions of rocBLAS that MIOpen and ONNX Runtime have, for machines without a GPU. Handles and settings work; whatever would compute
 * says so and fails, because a stand-in that pretended to would let wrong numbers pass. */
#include <stdio.h>

enum { success = 0, internal_error = 6 };

static int refuse(const char *function) {
    fprintf(stderr, "stand-in rocBLAS: %s refused: there is no device\n", function);
    return internal_error;
}

int rocblas_create_handle(void **handle) {
    static char only;
    *handle = &only;
    return success;
}

int rocblas_get_atomics_mode(void *handle, int *mode) {
    (void)handle;
    *mode = 1; /* allowed, rocBLAS's default */
    return success;
}

#define ACCEPTS(name) int name(void) { return success; }
#define REFUSES(name) int name(void) { return refuse(#name); }

ACCEPTS(rocblas_destroy_handle)
ACCEPTS(rocblas_set_stream)
ACCEPTS(rocblas_set_atomics_mode)
REFUSES(rocblas_dgemm)
REFUSES(rocblas_dgemm_batched)
REFUSES(rocblas_dgemm_strided_batched)
REFUSES(rocblas_gemm_batched_ex)
REFUSES(rocblas_gemm_ex)
REFUSES(rocblas_gemm_strided_batched_ex)
REFUSES(rocblas_get_stream)
REFUSES(rocblas_get_version_string)
REFUSES(rocblas_sgemv)
