/* What happens between two passes: mixes counts into a model's distribution, chooses a token, looks for a draft.
   ngram_cache.py, sampler.py and drafts.py say the same in numpy. Sums are made in an order that depends on places
   alone, and no product is fused with a sum, so that all CPUs get the same bits. Nothing here is written to but what
   the caller gives. */
#include <stdint.h>
#include <string.h>

#define TEXT(x) #x
#define SPELLED(x) TEXT(x)

/* A hash of the sources this was built from, given by setup.py. */
const char *engine_sources(void) { return SPELLED(SOURCES); }

/* Loops over whole vocabularies are compiled for wider registers, too, where a loader can choose among them. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

enum { LANES = 16, STRIP = 64, MOST_LENGTH = 64 };

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef double Doubles __attribute__((vector_size(8 * LANES)));

#pragma GCC diagnostic ignored "-Wpsabi" /* no vector is passed: what takes one is inlined */
#define INLINED static inline __attribute__((always_inline))

static const float LEAST_CHANCE = 1.0f / 4096; /* from which a token is likely */

typedef struct {
    const double *shares, *memory_shares; /* [shares_count] and [memory_count], by length of match, from 1 on */
    int64_t shares_count, memory_count;
} Shares;

typedef struct {
    const int32_t *tokens, *lengths, *counts; /* [size] what followed matches in the repository */
    int64_t size, least;
} Followers;

typedef struct {
    const double *recency; /* [history + 1] weight of a place by how far it lies back */
    int32_t *places;       /* [history] to work with */
    uint8_t *lengths;      /* [history] likewise */
    float *values, *chances; /* [vocab + LANES] exponentials of logits to work with, and the chance of each token */
    int32_t *likely;       /* [vocab] tokens with a chance of at least 2^-12 */
    float *likely_chances, *likely_model; /* [vocab] of these */
    float *gains;          /* [followers] what each follower adds to its token's chance */
    double left;           /* the model's share */
    int64_t is_mixed, token, likely_count;
} Room;

/* How many of a history's last tokens, up to a break, can be matched. */
static int64_t matchable(const int32_t *history, int64_t count, int64_t most) {
    int64_t known = 0;
    while (known < most && known < count && history[count - 1 - known] >= 0) known++;
    return known;
}

static inline int64_t match_length(const int32_t *history, int64_t count, int64_t place, int64_t known) {
    int64_t length = 1;
    while (length < known && length <= place && history[place - length] == history[count - 1 - length]) length++;
    return length;
}

INLINED int holds(const int32_t *strip, int32_t token) {
    int32_t found = 0;
    for (int i = 0; i < STRIP; i++) found |= strip[i] == token;
    return found;
}

/* Write earlier places of a history's last token that something followed, in order; return how many. */
WIDE static int64_t places_of_last(const int32_t *history, int64_t count, int32_t *places) {
    int64_t end = count - 1, found = 0;
    int32_t token = history[end];
    for (int64_t start = 0; start < end; start += STRIP) {
        int64_t stop = start + STRIP < end ? start + STRIP : end;
        if (stop == start + STRIP && !holds(history + start, token)) continue;
        for (int64_t i = start; i < stop; i++) {
            places[found] = (int32_t)i;
            found += history[i] == token && history[i + 1] >= 0;
        }
    }
    return found;
}

/* Find, for each length of match, the gain of a place of weight 1 and of one count of the repository; return the model's
   share. From the longest length down, the history's own places take their share of the rest, then the repository's do. */
static double share_out(const Shares *by, const double *own, const double *said, int64_t least, double *gains,
                        double *memory_gains) {
    double left = 1, weight = 0, count = 0;
    for (int64_t length = MOST_LENGTH; length > 0; length--) {
        gains[length] = memory_gains[length] = 0;
        weight += own[length];
        count += said[length];
        if (weight > 0 && length <= by->shares_count) {
            gains[length] = left * by->shares[length - 1] / weight;
            left *= 1 - by->shares[length - 1];
        }
        if (count > 0 && least <= length && length <= by->memory_count) {
            memory_gains[length] = left * by->memory_shares[length - 1] / count;
            left *= 1 - by->memory_shares[length - 1];
        }
    }
    for (int64_t length = 2; length <= MOST_LENGTH; length++) {
        gains[length] += gains[length - 1];
        memory_gains[length] += memory_gains[length - 1];
    }
    return left;
}

/* The model's part of a chance: a value times `factor`, times the model's share. */
WIDE static void scale(const float *values, int64_t vocab, float factor, float left, float *chances) {
    for (int64_t i = 0; i < vocab; i++) chances[i] = values[i] * factor * left;
}

/* Mix what followed the history's end, there and in the repository, into `values` times `factor`. A token beyond the
   vocabulary has no chance. */
static void mix(const Shares *by, const int32_t *history, int64_t count, const Followers *said, const float *values,
                int64_t vocab, float factor, Room *room) {
    double own_sums[MOST_LENGTH + 1] = {0}, said_sums[MOST_LENGTH + 1] = {0};
    double gains[MOST_LENGTH + 1], memory_gains[MOST_LENGTH + 1];
    int64_t known = matchable(history, count, by->shares_count);
    int64_t found = known ? places_of_last(history, count, room->places) : 0;
    for (int64_t i = 0; i < found; i++) {
        int64_t place = room->places[i], length = match_length(history, count, place, known);
        room->lengths[i] = (uint8_t)length;
        own_sums[length] += room->recency[count - place];
    }
    for (int64_t i = 0; i < said->size; i++) said_sums[said->lengths[i]] += said->counts[i];
    room->is_mixed = found || said->size;
    room->left = share_out(by, own_sums, said_sums, said->least, gains, memory_gains);
    scale(values, vocab, factor, (float)room->left, room->chances);
    for (int64_t i = 0; i < found; i++) {
        int64_t place = room->places[i];
        int32_t token = history[place + 1];
        if (token < vocab) room->chances[token] += (float)(room->recency[count - place] * gains[room->lengths[i]]);
    }
    for (int64_t i = 0; i < said->size; i++) {
        room->gains[i] = (float)(said->counts[i] * memory_gains[said->lengths[i]]);
        if (said->tokens[i] < vocab) room->chances[said->tokens[i]] += room->gains[i];
    }
}

INLINED Floats chosen(Ints mask, Floats a, Floats b) {
    return (Floats)(((Ints)a & mask) | ((Ints)b & ~mask));
}

/* The exponentials of numbers that are not above 0; cephes' polynomial. A NaN counts as the least number. */
INLINED Floats exponential(Floats x) {
    const Floats least = (Floats){} - 104.0f, shift = (Floats){} + 12582912.0f; /* adding it rounds to whole numbers */
    x = chosen(x > least, x, least);
    Floats shifted = x * 1.44269504f + shift, whole = shifted - shift;
    Ints power = (Ints)shifted - (Ints)shift, half = power >> 1;
    Floats r = x - whole * 0.693359375f - whole * -2.12194440e-4f;
    Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (Floats)((half + 127) << 23) * (Floats)((power - half + 127) << 23); /* twice: it may be denormal */
}

INLINED Floats lanes_at(const float *values) {
    Floats lanes;
    memcpy(&lanes, values, sizeof lanes);
    return lanes;
}

/* Write the exponentials of logits less the highest one, and zeros up to a multiple of LANES; return their sum. */
WIDE static double exponentials(const float *logits, int64_t vocab, float *out) {
    int64_t whole = vocab / LANES * LANES;
    float rest[LANES];
    for (int i = 0; i < LANES; i++) rest[i] = whole + i < vocab ? logits[whole + i] : -__builtin_inff();
    Floats highest = lanes_at(rest);
    for (int64_t i = 0; i < whole; i += LANES) {
        Floats lanes = lanes_at(logits + i);
        highest = chosen(lanes > highest, lanes, highest);
    }
    float most = highest[0];
    for (int i = 1; i < LANES; i++) most = highest[i] > most ? highest[i] : most;
    Doubles sums = {};
    for (int64_t start = 0; start <= whole; start += LANES * LANES) {
        Floats sum = {};
        for (int64_t i = start; i <= whole && i < start + LANES * LANES; i += LANES) {
            Floats lanes = exponential(lanes_at(i < whole ? logits + i : rest) - most);
            memcpy(out + i, &lanes, sizeof lanes);
            sum += lanes;
        }
        sums += __builtin_convertvector(sum, Doubles);
    }
    double total = 0;
    for (int i = 0; i < LANES; i++) total += sums[i];
    return total;
}

INLINED int holds_likely(const float *strip) {
    int32_t found = 0;
    for (int i = 0; i < STRIP; i++) found |= strip[i] >= LEAST_CHANCE;
    return found;
}

/* List the likely tokens, in order, with their chances and the model's part of these, from values times `factor`. */
WIDE static void list_likely(int64_t vocab, float factor, Room *room) {
    int64_t count = 0;
    float left = (float)room->left;
    for (int64_t start = 0; start < vocab; start += STRIP) {
        int64_t stop = start + STRIP < vocab ? start + STRIP : vocab;
        if (stop == start + STRIP && !holds_likely(room->chances + start)) continue;
        for (int64_t i = start; i < stop; i++) {
            if (!(room->chances[i] >= LEAST_CHANCE)) continue;
            room->likely[count] = (int32_t)i;
            room->likely_chances[count] = room->chances[i];
            room->likely_model[count++] = room->values[i] * factor * left;
        }
    }
    room->likely_count = count;
}

/* The likeliest of some tokens, of equals the first; of all if there are none given. */
static int64_t likeliest(const float *chances, int64_t vocab, const int32_t *among, int64_t count) {
    int64_t best = among ? among[0] : 0;
    for (int64_t i = 1; i < (among ? count : vocab); i++) {
        int64_t token = among ? among[i] : i;
        if (chances[token] > chances[best]) best = token;
    }
    return best;
}

/* Mix counts into `probabilities` [vocab]. */
void engine_mix(const Shares *by, const int32_t *history, int64_t count, const Followers *said,
                const float *probabilities, int64_t vocab, Room *room) {
    mix(by, history, count, said, probabilities, vocab, 1, room);
}

/* Choose the likeliest token in the mixture of counts with the probabilities of `logits` [vocab], among those that
   are given in `fitting` if it is not null. */
void engine_pick(const Shares *by, const int32_t *history, int64_t count, const Followers *said, const float *logits,
                 int64_t vocab, const int32_t *fitting, int64_t fitting_count, Room *room) {
    float factor = (float)(1 / exponentials(logits, vocab, room->values));
    mix(by, history, count, said, room->values, vocab, factor, room);
    list_likely(vocab, factor, room);
    if (!fitting && room->likely_count) {
        int64_t best = 0;
        for (int64_t i = 1; i < room->likely_count; i++)
            if (room->likely_chances[i] > room->likely_chances[best]) best = i;
        room->token = room->likely[best];
    } else {
        room->token = likeliest(room->chances, vocab, fitting, fitting_count);
    }
}

/* Find the longest match of the history's end, up to `most` tokens, the nearest one of equals: write its length, where
   what followed it begins and how many tokens, up to `longest` and up to a break, that is. Return whether there is. */
WIDE int64_t engine_draft(const int32_t *history, int64_t count, int64_t most, int64_t longest, int64_t *found) {
    int64_t known = matchable(history, count, most), end = count - 1, best = 0;
    for (int64_t stop = end; stop > 0 && best < known; stop -= STRIP) {
        int64_t start = stop > STRIP ? stop - STRIP : 0;
        if (stop - start == STRIP && !holds(history + start, history[end])) continue;
        for (int64_t i = stop - 1; i >= start && best < known; i--) {
            if (history[i] != history[end] || history[i + 1] < 0) continue;
            int64_t length = match_length(history, count, i, known);
            if (length <= best) continue;
            best = length;
            found[1] = i + 1;
        }
    }
    found[0] = best;
    found[2] = 0;
    while (best && found[2] < longest && found[1] + found[2] < count && history[found[1] + found[2]] >= 0) found[2]++;
    return best > 0;
}
