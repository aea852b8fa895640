/* A plugin of hipDNN's as AMD's MIOpen provider is one: three functions that call MIOpen, by whichever names the headers before it give them.
 * Its convolution is one multiplication, 3 * 5. */
#include <miopen/miopen.h>

#include "device.h"

#define EXPORT __attribute__((visibility("default")))

static miopenHandle_t handle;
static miopenTensorDescriptor_t one;
static miopenConvolutionDescriptor_t convolution;

EXPORT int plugin_open(void) {
    return miopenCreate(&handle) || miopenCreateTensorDescriptor(&one) || miopenSet4dTensorDescriptor(one, miopenFloat, 1, 1, 1, 1) ||
           miopenCreateConvolutionDescriptor(&convolution) ||
           miopenInitConvolutionDescriptor(convolution, miopenConvolution, 0, 0, 1, 1, 1, 1);
}

EXPORT int plugin_compute(float *y) {
    float alpha = 1, beta = 0, x = 3, w = 5;
    size_t bytes;
    int status = miopenConvolutionForwardGetWorkSpaceSize(handle, one, one, convolution, one, &bytes) ||
                 miopenConvolutionForward(handle, &alpha, one, &x, one, &w, convolution, miopenConvolutionFwdAlgoDirect, &beta, one, y, NULL, 0);
    wait_for_device();
    return status;
}

EXPORT int plugin_close(void) {
    return miopenDestroyConvolutionDescriptor(convolution) || miopenDestroyTensorDescriptor(one) || miopenDestroy(handle);
}
