/* The functions of rocRAND that MIOpenDriver calls, for machines without a GPU. Generators and settings work; generating says so and fails,
 * because a stand-in that pretended to would let wrong numbers pass. */
#include <stdio.h>

enum { success = 0, internal_error = 106 };

static int refuse(const char *function) {
    fprintf(stderr, "stand-in rocRAND: %s refused: there is no device\n", function);
    return internal_error;
}

int rocrand_create_generator(void **generator) {
    static char only;
    *generator = &only;
    return success;
}

#define ACCEPTS(name) int name(void) { return success; }
#define REFUSES(name) int name(void) { return refuse(#name); }

ACCEPTS(rocrand_destroy_generator)
ACCEPTS(rocrand_set_offset)
ACCEPTS(rocrand_set_ordering)
ACCEPTS(rocrand_set_seed)
REFUSES(rocrand_generate_uniform)
REFUSES(rocrand_generate_uniform_double)
REFUSES(rocrand_generate_uniform_half)
