/* The functions that clients call, found with dlsym when a client is compiled with -DDYNAMIC: then nothing links it with MIOpen, and the
 * library comes when the client opens it. To be included before problem.h. */
#ifndef DYNAMIC_H
#define DYNAMIC_H

#include <miopen/miopen.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* Where symbols come from: the library that was opened, or whatever serves the program. */
static void *library;

#ifdef DYNAMIC
static inline void *symbol(const char *name) {
    void *function = dlsym(library ? library : RTLD_DEFAULT, name);
    if (!function) printf("no %s: %s\n", name, dlerror()), exit(1);
    return function;
}

#define FOUND(name) ((__typeof__(&name))symbol(#name))
#define miopenGetVersion FOUND(miopenGetVersion)
#define miopenCreate FOUND(miopenCreate)
#define miopenDestroy FOUND(miopenDestroy)
#define miopenCreateTensorDescriptor FOUND(miopenCreateTensorDescriptor)
#define miopenSetTensorDescriptor FOUND(miopenSetTensorDescriptor)
#define miopenSetTensorDescriptorV2 FOUND(miopenSetTensorDescriptorV2)
#define miopenDestroyTensorDescriptor FOUND(miopenDestroyTensorDescriptor)
#define miopenCreateConvolutionDescriptor FOUND(miopenCreateConvolutionDescriptor)
#define miopenInitConvolutionNdDescriptor FOUND(miopenInitConvolutionNdDescriptor)
#define miopenSetConvolutionGroupCount FOUND(miopenSetConvolutionGroupCount)
#define miopenDestroyConvolutionDescriptor FOUND(miopenDestroyConvolutionDescriptor)
#define miopenConvolutionForward FOUND(miopenConvolutionForward)
#define miopenGetKernelTime FOUND(miopenGetKernelTime)
#define miopenGetErrorString FOUND(miopenGetErrorString)
#define miopenGetLastForwardedError FOUND(miopenGetLastForwardedError)
#endif

#endif
