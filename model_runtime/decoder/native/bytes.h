/* Products with int8 by sums of four products of bytes, for sets that have them in one instruction.

   A row of activations is split into two digits: x = unit * (254 * high + low), both in -127 .. 127, so that only
   the rounding of the weights matters. Digits are stored with OFFSET added; `sums` of the weights takes it out. */

/* Digits of one row; `in` is a multiple of 64. */
static void split_digits(const float *x, int64_t in, uint8_t *digits, float *unit) {
    float scale = scale_of(x, in, unit);
    for (int64_t k = 0; k < in; k += LANES) {
        Floats whole = rounded(*(const Floats *)(x + k) * scale);
        Floats high = rounded(whole * (1.0f / DIGIT));
        Floats low = whole - high * DIGIT;
        narrowed(__builtin_convertvector(high, Ints) + OFFSET, digits + k);
        narrowed(__builtin_convertvector(low, Ints) + OFFSET, digits + in + k);
    }
}

/* Sums of `side` vectors of outputs with `rows` rows of two digits each. */
INLINE void block_int8(const Matrix *m, int64_t n, const uint8_t *x, const float *units, int rows, int side, int fetch,
                       float *out, int64_t stride) {
    const int8_t *w = (const int8_t *)m->weights + n * m->in;
    const char *next = (const char *)(fetch ? w + side * LANES * m->in : w);
    Ints sums[WIDTH][WIDEST] = {0};
    for (int64_t k = 0; k < m->in; k += 4) {
        Ints weights[WIDEST];
        for (int i = 0; i < side; i++) weights[i] = *(const Ints *)(w + strip_at(i, m->in, 4) + STRIP * k);
        fetch_next(next, m->in, k, side, 1);
        for (int j = 0; j < 2 * rows; j++) {
            Ints digits = repeated(x + j * m->in + k);
            for (int i = 0; i < side; i++) sums[j][i] = dotted(sums[j][i], digits, weights[i]);
        }
    }
    for (int i = 0; i < side; i++) {
        Ints base = {0};
        if (OFFSET) base = *(const Ints *)(m->sums + n + i * LANES);
        Floats scale = *(const Floats *)((const float *)m->scales + n + i * LANES);
        for (int j = 0; j < rows; j++) {
            Floats high = __builtin_convertvector(sums[2 * j][i] - base, Floats);
            Floats low = __builtin_convertvector(sums[2 * j + 1][i] - base, Floats);
            *(Floats *)(out + j * stride + i * LANES) = (high * (float)DIGIT + low) * scale * units[j];
        }
    }
}
