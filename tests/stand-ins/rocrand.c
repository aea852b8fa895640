/* The functions of rocRAND that MIOpenDriver calls, for machines without a GPU. Generators and settings work. */
#define LIBRARY "rocRAND"
#define FAILURE 106
#include "stand-in.h"

CREATES(rocrand_create_generator)
ACCEPTS(rocrand_destroy_generator)
ACCEPTS(rocrand_set_offset)
ACCEPTS(rocrand_set_ordering)
ACCEPTS(rocrand_set_seed)
REFUSES(rocrand_generate_uniform)
REFUSES(rocrand_generate_uniform_double)
REFUSES(rocrand_generate_uniform_half)
