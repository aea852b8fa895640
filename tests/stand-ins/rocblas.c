/* The functions of rocBLAS that MIOpen and ONNX Runtime have, for machines without a GPU. */
#define LIBRARY "rocBLAS"
#define FAILURE 6
#include "stand-in.h"

int rocblas_get_atomics_mode(void *handle, int *mode) {
    (void)handle;
    *mode = 1; /* allowed, rocBLAS's default */
    return success;
}

CREATES(rocblas_create_handle)
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
