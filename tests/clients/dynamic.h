/* The functions that clients call, found with dlsym when a client is compiled with -DDYNAMIC: then nothing links it with MIOpen, and the
 * library comes when the client opens it, in a way that it is told. To be included before problem.h. */
#ifndef DYNAMIC_H
#define DYNAMIC_H

#include <miopen/miopen.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where symbols come from: the library that was opened, or whatever serves the program. */
static void *library;

/* linked: nothing to open. local, global or deepbind, and after a colon the library's path: opened so. */
static inline void *open_library(const char *way) {
    const char *path = strchr(way, ':');
    int scope = !strncmp(way, "global", 6) ? RTLD_GLOBAL : !strncmp(way, "deepbind", 8) ? RTLD_LOCAL | RTLD_DEEPBIND : RTLD_LOCAL;
    if (!path) return NULL;
    void *opened = dlopen(path + 1, RTLD_NOW | scope);
    if (!opened) printf("dlopen: %s\n", dlerror()), exit(1);
    return opened;
}

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
#define miopenSet4dTensorDescriptor FOUND(miopenSet4dTensorDescriptor)
#define miopenSetTensorDescriptor FOUND(miopenSetTensorDescriptor)
#define miopenSetTensorDescriptorV2 FOUND(miopenSetTensorDescriptorV2)
#define miopenDestroyTensorDescriptor FOUND(miopenDestroyTensorDescriptor)
#define miopenCreateConvolutionDescriptor FOUND(miopenCreateConvolutionDescriptor)
#define miopenInitConvolutionDescriptor FOUND(miopenInitConvolutionDescriptor)
#define miopenInitConvolutionNdDescriptor FOUND(miopenInitConvolutionNdDescriptor)
#define miopenSetConvolutionGroupCount FOUND(miopenSetConvolutionGroupCount)
#define miopenDestroyConvolutionDescriptor FOUND(miopenDestroyConvolutionDescriptor)
#define miopenConvolutionForwardGetWorkSpaceSize FOUND(miopenConvolutionForwardGetWorkSpaceSize)
#define miopenConvolutionForward FOUND(miopenConvolutionForward)
#define miopenGetKernelTime FOUND(miopenGetKernelTime)
#define miopenGetErrorString FOUND(miopenGetErrorString)
#define miopenGetLastForwardedError FOUND(miopenGetLastForwardedError)
#endif

#endif
