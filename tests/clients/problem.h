/* Small convolutions for clients of every API style: descriptors as frameworks make them, memory, and the definition to compare with.
 * Calls no convolution. Knows only the public header. */
#ifndef PROBLEM_H
#define PROBLEM_H

#include <miopen/miopen.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define CHECK(call) do { miopenStatus_t s_ = (call); if (s_) { printf("%s: %d\n", #call, s_); exit(1); } } while (0)

static miopenHandle_t handle;

/* What every line begins with: problem and direction, so that a test can compare line by line. */
static char place[64];
#define SAY(...) do { printf("%s ", place); printf(__VA_ARGS__); printf("\n"); } while (0)

/* What the program was asked to do: a comma list, of which this says whether a word is in it. */
static const char *what;

static inline int is(const char *word) {
    size_t length = strlen(word);
    for (const char *at = what; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, word, length) && (at[length] == ',' || !at[length])) return 1;
    }
    return 0;
}

enum direction { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS, DIRECTIONS };
static const char *const direction_names[DIRECTIONS] = {"forward", "backward-data", "backward-weights"};

/* dims are in the order N C H W whatever the layout; that only shows in the strides. */
struct tensor {
    int dims[4], strides[4];
    size_t count;
    float *data;
    miopenTensorDescriptor_t descriptor;
};

struct problem {
    const char *name;
    int groups, channels_last;
    struct tensor x, w, y;
    miopenConvolutionDescriptor_t convolution;
};

enum { N = 2, C = 4, H = 8, K = 4, R = 3, PROBLEMS = 3 };
static struct problem problems[PROBLEMS] __attribute__((unused)) = {{.name = "plain", .groups = 1}, {.name = "grouped", .groups = 2},
                                            {.name = "channels-last", .groups = 1, .channels_last = 1}};

/* XLA describes tensors with size_t, all others with int. Set before problems are made. */
static int wide_descriptors;

static inline void describe(miopenTensorDescriptor_t descriptor, miopenDataType_t type, const int *dims, const int *strides) {
    size_t wide[2][4];
    for (int i = 0; i < 4; i++) wide[0][i] = (size_t)dims[i], wide[1][i] = (size_t)strides[i];
    if (wide_descriptors) CHECK(miopenSetTensorDescriptorV2(descriptor, type, 4, wide[0], wide[1]));
    else CHECK(miopenSetTensorDescriptor(descriptor, type, 4, dims, strides));
}

/* Memory as frameworks' allocators give it, with one cache line more than is asked for. */
static inline void *allocate(size_t bytes) {
    void *memory = aligned_alloc(256, (bytes + 64 + 255) / 256 * 256);
    if (!memory) exit(1);
    memset(memory, 0xff, bytes + 64);
    return memory;
}

static inline void make_tensor(struct tensor *t, int n, int c, int h, int w, int channels_last) {
    int dims[4] = {n, c, h, w};
    int strides[2][4] = {{c * h * w, h * w, w, 1}, {c * h * w, 1, w * c, c}};
    memcpy(t->dims, dims, sizeof dims);
    memcpy(t->strides, strides[channels_last], sizeof dims);
    t->count = (size_t)n * c * h * w;
    t->data = allocate(t->count * sizeof(float));
    CHECK(miopenCreateTensorDescriptor(&t->descriptor));
    describe(t->descriptor, miopenFloat, t->dims, t->strides);
}

static inline void make_problem(struct problem *p) {
    int one[2] = {1, 1};
    make_tensor(&p->x, N, C, H, H, p->channels_last);
    make_tensor(&p->w, K, C / p->groups, R, R, p->channels_last);
    make_tensor(&p->y, N, K, H, H, p->channels_last);
    CHECK(miopenCreateConvolutionDescriptor(&p->convolution));
    CHECK(miopenInitConvolutionNdDescriptor(p->convolution, 2, one, one, one, miopenConvolution));
    CHECK(miopenSetConvolutionGroupCount(p->convolution, p->groups));
}

static inline void destroy_tensor(struct tensor *t) {
    CHECK(miopenDestroyTensorDescriptor(t->descriptor));
    free(t->data);
}

static inline void destroy_problem(struct problem *p) {
    CHECK(miopenDestroyConvolutionDescriptor(p->convolution));
    destroy_tensor(&p->y);
    destroy_tensor(&p->w);
    destroy_tensor(&p->x);
}

/* Small integers: every sum of their products is exact in any order. */
static inline void fill(float *data, size_t count, unsigned seed) {
    for (unsigned i = 0; i < count; i++) data[i] = (float)((int)(((i + 1000 * seed) * 2654435761u >> 16) % 7) - 3);
}

static inline struct tensor *output_of(struct problem *p, enum direction direction) {
    return direction == FORWARD ? &p->y : direction == BACKWARD_DATA ? &p->x : &p->w;
}

/* The output becomes NaN: whatever is not written, or read from it, shows. */
static inline void poison(struct problem *p, enum direction direction) {
    struct tensor *out = output_of(p, direction);
    wait_for_device();
    memset(out->data, 0xff, out->count * sizeof(float));
}

/* Inputs with values, the output poisoned. */
static inline void prepare(struct problem *p, enum direction direction) {
    snprintf(place, sizeof place, "%s %s", p->name, direction_names[direction]);
    wait_for_device();
    fill(p->x.data, p->x.count, 5);
    fill(p->w.data, p->w.count, 3);
    fill(p->y.data, p->y.count, 4);
    poison(p, direction);
}

/* The problem on tensors that the library has not seen: each a float further on (`misaligned`), or both inputs in one memory (`shared`),
 * which is as good as any other. Else as it is. */
static inline struct problem elsewhere(const struct problem *p, enum direction direction) {
    struct problem moved = *p;
    struct tensor *inputs[2] = {direction == BACKWARD_DATA ? &moved.y : &moved.x, direction == BACKWARD_WEIGHTS ? &moved.y : &moved.w};
    if (is("misaligned")) {
        moved.x.data++, moved.w.data++, moved.y.data++;
        fill(inputs[0]->data, inputs[0]->count, 2);
        fill(inputs[1]->data, inputs[1]->count, 6);
    }
    if (is("shared")) inputs[1]->data = inputs[0]->data;
    return moved;
}

static inline size_t at(const struct tensor *t, int n, int c, int h, int w) {
    return (size_t)(n * t->strides[0] + c * t->strides[1] + h * t->strides[2] + w * t->strides[3]);
}

/* The definition itself, so that no other implementation has to be believed: every connection adds the product of the two others. */
static inline void define(const struct problem *p, enum direction direction, double *sums) {
    int per_group = C / p->groups;
    for (int n = 0; n < N; n++) for (int k = 0; k < K; k++) for (int c = 0; c < per_group; c++)
        for (int i = 0; i < H; i++) for (int j = 0; j < H; j++) for (int r = 0; r < R; r++) for (int s = 0; s < R; s++) {
            int h = i + r - 1, v = j + s - 1;
            if (h < 0 || h >= H || v < 0 || v >= H) continue;
            size_t xi = at(&p->x, n, k / (K / p->groups) * per_group + c, h, v), wi = at(&p->w, k, c, r, s), yi = at(&p->y, n, k, i, j);
            if (direction == FORWARD) sums[yi] += (double)p->x.data[xi] * p->w.data[wi];
            else if (direction == BACKWARD_DATA) sums[xi] += (double)p->y.data[yi] * p->w.data[wi];
            else sums[wi] += (double)p->x.data[xi] * p->y.data[yi];
        }
}

static inline int right(struct problem *p, enum direction direction) {
    static double sums[N * C * H * H];
    struct tensor *out = output_of(p, direction);
    memset(sums, 0, sizeof sums);
    define(p, direction, sums);
    for (size_t i = 0; i < out->count; i++) if (out->data[i] != (float)sums[i]) return 0;
    return 1;
}

static inline void say_values(const float *values, size_t count) {
    printf("%s y", place);
    for (size_t i = 0; i < count; i++) printf(" %.9g", values[i]);
    printf("\n");
}

/* With `timed`, whether the device time of the last call can be had. */
static inline void show_time(void) {
    float time = -1;
    if (!is("timed")) return;
    CHECK(miopenGetKernelTime(handle, &time));
    SAY("device time %d", time > 0);
}

/* What an executing call said, once the device is done, and its time. */
static inline void show_status(miopenStatus_t status) {
    wait_for_device();
    SAY("status %d, forwarded error %d", status, miopenGetLastForwardedError());
    show_time();
}

/* The same of a call that must be refused: the output stays poisoned. */
static inline void show_refusal(struct problem *p, enum direction direction, miopenStatus_t status) {
    struct tensor *out = output_of(p, direction);
    size_t untouched = 0;
    show_status(status);
    while (untouched < out->count && isnan(out->data[untouched])) untouched++;
    SAY("untouched %d", untouched == out->count);
}

/* Status, values and whether they are right, of one executing call. */
static inline void show(struct problem *p, enum direction direction, miopenStatus_t status) {
    struct tensor *out = output_of(p, direction);
    show_status(status);
    say_values(out->data, out->count);
    SAY("right %d", right(p, direction));
}

#endif
