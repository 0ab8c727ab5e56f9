/* Products with int8 by sums of two products of words, for sets whose products of bytes lose carries.

   A row of activations is whole numbers of 16 bits: x = unit * whole, in -127 * 254 .. 127 * 254, as fine as the two
   digits of bytes.h and stored in their place. */

#define EXACT_INPUTS 512 /* of a sum: 512 * 127 * 127 * 254 is less than 2^31 */

/* Whole numbers of one row; `in` is a multiple of 64. */
static void split_digits(const float *x, int64_t in, uint8_t *digits, float *unit) {
    float scale = scale_of(x, in, unit);
    for (int64_t k = 0; k < in; k += LANES)
        halved(__builtin_convertvector(rounded(*(const Floats *)(x + k) * scale), Ints), (int16_t *)digits + k);
}

/* Sums of `side` vectors of outputs with `rows` rows; half a vector's outputs have one register of sums, two of each. */
INLINE void block_int8(const Matrix *m, int64_t n, const uint8_t *x, const float *units, int rows, int side, int fetch,
                       float *out, int64_t stride) {
    const int8_t *w = (const int8_t *)m->weights + n * m->in;
    const char *next = (const char *)(fetch ? w + side * LANES * m->in : w);
    for (int64_t k = 0, end; k < m->in;) {
        Ints sums[WIDTH / 2][2 * WIDEST] = {0};
        int64_t begin = k;
        for (end = k + EXACT_INPUTS < m->in ? k + EXACT_INPUTS : m->in; k < end; k += 4) {
            Ints whole[WIDTH / 2];
            fetch_next(next, m->in, k, side, 1);
            for (int j = 0; j < rows; j++) whole[j] = repeated_words((const int16_t *)x + j * m->in + k);
            for (int i = 0; i < 2 * side; i++) {
                Ints weights = widened_bytes(w + strip_at(i / 2, m->in, 4) + i % 2 * 2 * LANES + STRIP * k);
                for (int j = 0; j < rows; j++) sums[j][i] = dotted_words(sums[j][i], whole[j], weights);
            }
        }
        for (int i = 0; i < side; i++)
            for (int j = 0; j < rows; j++) {
                Floats *to = (Floats *)(out + j * stride + i * LANES);
                Floats sum = __builtin_convertvector(paired(sums[j][2 * i], sums[j][2 * i + 1]), Floats);
                if (begin) sum += *to;
                if (end == m->in) sum *= *(const Floats *)((const float *)m->scales + n + i * LANES) * units[j];
                *to = sum;
            }
    }
}
