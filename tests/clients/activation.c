/* Functions of each element, as programs call them: miopenActivationForward with every mode.
 *
 * usage: activation [plain|scaled|accumulated|inplace|strided|null]
 * Prints one line for each thing that a test may want to compare. */
#include "problem.h"

static const struct {
    const char *name;
    miopenActivationMode_t mode;
    double alpha, beta, gamma;
} modes[] = {
    {"passthru", miopenActivationPASTHRU, 0, 0, 0},      {"logistic", miopenActivationLOGISTIC, 0, 0, 0},
    {"tanh", miopenActivationTANH, 0.5, 2, 0},           {"relu", miopenActivationRELU, 0, 0, 0},
    {"softrelu", miopenActivationSOFTRELU, 0, 0, 0},     {"abs", miopenActivationABS, 0, 0, 0},
    {"power", miopenActivationPOWER, 1, 0.0625, 2},      {"clipped", miopenActivationCLIPPEDRELU, 3, 0, 0},
    {"leaky", miopenActivationLEAKYRELU, 0.125, 0, 0},   {"elu", miopenActivationELU, 0.5, 0, 0},
};

static double by_definition(int m, double v) {
    double a = modes[m].alpha, b = modes[m].beta, c = modes[m].gamma;
    switch (modes[m].mode) {
    case miopenActivationLOGISTIC: return 1 / (1 + exp(-v));
    case miopenActivationTANH: return b * tanh(a * v);
    case miopenActivationRELU: return v > 0 ? v : 0;
    case miopenActivationSOFTRELU: return (v > 0 ? v : 0) + log1p(exp(-fabs(v)));
    case miopenActivationABS: return fabs(v);
    case miopenActivationPOWER: return pow(a + b * v, c);
    case miopenActivationCLIPPEDRELU: return v > a ? a : v > 0 ? v : 0;
    case miopenActivationLEAKYRELU: return v > 0 ? v : a * v;
    case miopenActivationELU: return v > 0 ? v : a * expm1(v);
    default: return v;
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "plain";
    int inplace = !strcmp(what, "inplace");
    float alpha = !strcmp(what, "scaled") ? 2 : 1, beta = !strcmp(what, "accumulated") ? 1 : 0;
    miopenHandle_t handle;
    miopenActivationDescriptor_t function;
    struct tensor x, y;
    CHECK(miopenCreate(&handle));
    CHECK(miopenCreateActivationDescriptor(&function));
    make_tensor(&x, N, C, H, H, 0);
    make_tensor(&y, N, C, H, H, !strcmp(what, "strided"));
    for (int m = 0; m < (int)(sizeof modes / sizeof *modes); m++) {
        fill(x.data, x.count, 5 + (unsigned)m);
        double expected[N * C * H * H];
        for (size_t i = 0; i < x.count; i++) expected[i] = alpha * by_definition(m, x.data[i]) + beta * 3;
        for (size_t i = 0; i < y.count; i++) y.data[i] = beta ? 3 : NAN;
        CHECK(miopenSetActivationDescriptor(function, modes[m].mode, modes[m].alpha, modes[m].beta, modes[m].gamma));
        const void *one = strcmp(what, "null") ? &alpha : NULL;
        float *to = inplace ? x.data : y.data;
        miopenStatus_t status = miopenActivationForward(handle, function, one, x.descriptor, x.data, &beta,
                                                        inplace ? x.descriptor : y.descriptor, to);
        wait_for_device();
        int right = 1;
        for (int n = 0; n < N; n++) for (int c = 0; c < C; c++) for (int i = 0; i < H; i++) for (int j = 0; j < H; j++) {
            double wanted = expected[at(&x, n, c, i, j)], got = to[at(inplace ? &x : &y, n, c, i, j)];
            /* Single precision, and a function with a few roundings of its own. */
            right &= fabs(got - wanted) <= 4e-6 * (1 + fabs(wanted));
        }
        printf("%s %d right %d\n", modes[m].name, status, right);
    }
    destroy_tensor(&y);
    destroy_tensor(&x);
    CHECK(miopenDestroyActivationDescriptor(function));
    CHECK(miopenDestroy(handle));
    return 0;
}
