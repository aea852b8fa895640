/* The functions of hipBLAS that ONNX Runtime has, for machines without a GPU. */
#define LIBRARY "hipBLAS"
#define FAILURE 6
#include "stand-in.h"

CREATES(hipblasCreate)
ACCEPTS(hipblasDestroy)
ACCEPTS(hipblasSetStream)
REFUSES(hipblasDcopy)
REFUSES(hipblasDgeam)
REFUSES(hipblasGemmEx)
REFUSES(hipblasGemmStridedBatchedEx)
REFUSES(hipblasScopy)
REFUSES(hipblasSgeam)
