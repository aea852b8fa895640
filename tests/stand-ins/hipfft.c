/* The functions of hipFFT that ONNX Runtime has, for machines without a GPU. Models of convolutions call none of them. */
#define LIBRARY "hipFFT"
#define FAILURE 5
#include "stand-in.h"

REFUSES(hipfftCreate)
REFUSES(hipfftSetStream)
REFUSES(hipfftXtExec)
REFUSES(hipfftXtMakePlanMany)
