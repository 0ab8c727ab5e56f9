/* Orders the places of a segment of counts, and looks histories up in segments. lookup.py and segment.py do the
   same in numpy, and describe the stored form. Only memory that the caller gives is written to. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 3, MOST = 16, FOLLOWER = MOST, PLACE = MOST + 1, TOKEN_BITS = 24, FEW = 12, AHEAD = 8 };

#define TEXT(x) #x
#define SPELLED(x) TEXT(x)

/* A hash of the sources this was built from, given by setup.py. */
const char *counts_sources(void) { return SPELLED(SOURCES); }

static inline uint32_t token_at(const uint8_t *raw, int64_t width, int64_t place) {
    const uint8_t *at = raw + width * place;
    uint32_t low = at[0] | (uint32_t)at[1] << 8;
    return width == 2 ? low : low | (uint32_t)at[2] << 16;
}

/* The number that stands for a break. */
static inline uint32_t pause_of(int64_t width) { return width == 2 ? 0xFFFF : 0xFFFFFF; }

static inline uint32_t place_at(const uint8_t *packed, int64_t index) {
    const uint8_t *at = packed + 3 * index;
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16;
}

/* Ordering */

typedef struct {
    const uint8_t *raw;
    int64_t width;
    uint32_t pause;
} Tokens;

/* Return a place's sort key at a depth: the tokens that end there, then the token that follows, then the place. */
static inline uint32_t key_of(const Tokens *t, int32_t place, int depth) {
    if (depth == PLACE) return (uint32_t)place;
    return token_at(t->raw, t->width, depth == FOLLOWER ? place + 1 : (int64_t)place - depth);
}

/* Behind a break nothing is compared: other documents stand there. */
static inline int next_depth(const Tokens *t, uint32_t key, int depth) {
    return depth < FOLLOWER && key == t->pause ? FOLLOWER : depth + 1;
}

static int is_before(const Tokens *t, int32_t a, int32_t b, int depth) {
    while (depth <= PLACE) {
        uint32_t x = key_of(t, a, depth), y = key_of(t, b, depth);
        if (x != y) return x < y;
        depth = next_depth(t, x, depth);
    }
    return 0;
}

static uint32_t middle(uint32_t a, uint32_t b, uint32_t c) {
    if (a > b) { uint32_t swap = a; a = b; b = swap; }
    return c < a ? a : c > b ? b : c;
}

/* Quicksort by one key after the other (Bentley and Sedgewick): only equal ones go on to the next key. It calls itself
   for the smaller parts alone, so that it is never deeper than the binary logarithm of n. */
static void sort_from(const Tokens *t, int32_t *places, int64_t n, int depth) {
    while (n > FEW && depth <= PLACE) {
        int64_t step = n / 4, less = 0, at = 0, more = n;
        uint32_t pivot = middle(key_of(t, places[step], depth), key_of(t, places[2 * step], depth),
                                key_of(t, places[3 * step], depth));
        while (at < more) {
            int32_t place = places[at];
            uint32_t key = key_of(t, place, depth);
            if (key < pivot) {
                places[at++] = places[less];
                places[less++] = place;
            } else if (key > pivot) {
                places[at] = places[--more];
                places[more] = place;
            } else {
                at++;
            }
        }
        struct { int64_t start, size; int depth; } part[3] = {
            {0, less, depth}, {less, more - less, next_depth(t, pivot, depth)}, {more, n - more, depth}};
        int largest = part[0].size >= part[1].size ? 0 : 1;
        if (part[2].size > part[largest].size) largest = 2;
        for (int i = 0; i < 3; i++)
            if (i != largest) sort_from(t, places + part[i].start, part[i].size, part[i].depth);
        places += part[largest].start;
        n = part[largest].size;
        depth = part[largest].depth;
    }
    for (int64_t i = 1; i < n && depth <= PLACE; i++) {
        int32_t place = places[i];
        int64_t at = i;
        for (; at > 0 && is_before(t, place, places[at - 1], depth); at--) places[at] = places[at - 1];
        places[at] = place;
    }
}

/* Write the places of tokens that have a follower, 3 bytes each, in a segment's order; there are `size` of them
   among `count` tokens. Return 0, or -1 without memory. */
int64_t counts_order(const uint8_t *raw, int64_t width, int64_t count, int64_t size, uint8_t *packed) {
    Tokens t = {raw, width, pause_of(width)};
    uint32_t highest = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t token = token_at(raw, width, i);
        if (token != t.pause && token > highest) highest = token;
    }
    int32_t *places = malloc((size_t)(size + 1) * sizeof *places);
    int64_t *starts = calloc((size_t)highest + 2, sizeof *starts);
    if (places && starts) {
        for (int64_t i = 0; i + 1 < count; i++) {
            uint32_t token = token_at(raw, width, i);
            if (token != t.pause && token_at(raw, width, i + 1) != t.pause) starts[token + 1]++;
        }
        for (int64_t i = 0; i <= highest; i++) starts[i + 1] += starts[i];
        for (int64_t i = 0; i + 1 < count; i++) {
            uint32_t token = token_at(raw, width, i);
            if (token != t.pause && token_at(raw, width, i + 1) != t.pause) places[starts[token]++] = (int32_t)i;
        }
        for (int64_t i = 0, start = 0; i <= highest; start = starts[i++])
            sort_from(&t, places + start, starts[i] - start, 1);
        for (int64_t i = 0; i < size; i++) {
            packed[3 * i] = (uint8_t)places[i];
            packed[3 * i + 1] = (uint8_t)(places[i] >> 8);
            packed[3 * i + 2] = (uint8_t)(places[i] >> 16);
        }
    }
    int64_t failed = -(!places || !starts);
    free(places);
    free(starts);
    return failed;
}

/* Looking up */

typedef struct {
    const uint8_t *raw, *packed;
    const int64_t *hidden; /* [2 * hidden_count] first token and end of each document that is taken off, in order */
    int64_t size, width, sign, hidden_count;
} Part;

typedef struct {
    uint32_t key; /* length of a match, and the token that follows */
    int32_t count;
} Entry;

typedef struct {
    int32_t *tokens, *lengths, *counts; /* [capacity] each */
    Entry *entries;                     /* [2 * capacity] to work with */
    int64_t capacity, least;
} Answer;

typedef struct {
    int64_t start, stop;
} Range;

/* The history's last tokens up to a break, the nearest first. */
static int nearest_of(const int32_t *history, int64_t count, uint32_t *nearest) {
    int known = 0;
    while (known < MOST && known < count && history[count - 1 - known] >= 0) {
        nearest[known] = (uint32_t)history[count - 1 - known];
        known++;
    }
    return known;
}

/* Whether a place comes before (-1), within (0) or after (1) those that match from token `from` to `length`. */
static inline int compare(const Part *part, int64_t index, const uint32_t *nearest, int from, int length) {
    int64_t place = place_at(part->packed, index);
    for (int back = from; back < length; back++) {
        uint32_t token = token_at(part->raw, part->width, place - back);
        if (token != nearest[back]) return token < nearest[back] ? -1 : 1;
    }
    return 0;
}

/* The first index in [start, stop) that does not come before (after is 0) or that comes after (1). */
static int64_t bound(const Part *part, Range in, const uint32_t *nearest, int from, int length, int after) {
    while (in.start < in.stop) {
        int64_t mid = in.start + (in.stop - in.start) / 2;
        if (compare(part, mid, nearest, from, length) < after) in.start = mid + 1; else in.stop = mid;
    }
    return in.start;
}

/* The end of the range of matches from its start: most ranges are short, so steps grow. */
static int64_t end_of(const Part *part, Range in, const uint32_t *nearest, int from, int length) {
    int64_t step = 1;
    while (in.start + step < in.stop && !compare(part, in.start + step, nearest, from, length)) step *= 2;
    Range last = {in.start + step / 2, in.start + step < in.stop ? in.start + step : in.stop};
    return bound(part, last, nearest, from, length, 1);
}

static Range narrowed(const Part *part, Range in, const uint32_t *nearest, int from, int length) {
    for (int back = from; back < length; back++)
        if (nearest[back] >= pause_of(part->width)) return (Range){in.start, in.start};
    in.start = bound(part, in, nearest, from, length, 0);
    in.stop = end_of(part, in, nearest, from, length);
    return in;
}

/* Find the places of matches that are counted; return the least length of these, or 0 if none are counted. */
static int descend(const Part *parts, int64_t count, const uint32_t *nearest, int known, int64_t most_places,
                   Range *found) {
    for (int64_t i = 0; i < count; i++) found[i] = (Range){0, parts[i].size};
    for (int length = LEAST, from = 0; length <= known; from = length++) {
        int64_t size = 0;
        for (int64_t i = 0; i < count; i++) {
            if (found[i].start < found[i].stop) found[i] = narrowed(parts + i, found[i], nearest, from, length);
            size += parts[i].sign * (found[i].stop - found[i].start);
        }
        if (size <= most_places || length == MOST) return length;
    }
    return 0;
}

/* Count the nearest tokens, in a row, that a part can hold: it holds no token as large as the number for a break. */
static int matchable(const Part *part, const uint32_t *nearest, int known) {
    int count = 0;
    while (count < known && nearest[count] < pause_of(part->width)) count++;
    return count;
}

static inline int match_length(const Part *part, int64_t place, const uint32_t *nearest, int length, int known) {
    while (length < known && token_at(part->raw, part->width, place - length) == nearest[length]) length++;
    return length;
}

static inline uint32_t follower_at(const Part *part, int64_t index) {
    return token_at(part->raw, part->width, (int64_t)place_at(part->packed, index) + 1);
}

/* The end of the places from `start` on that the same token follows, where all match MOST tokens. */
static int64_t end_of_follower(const Part *part, int64_t start, int64_t stop) {
    uint32_t token = follower_at(part, start);
    int64_t step = 1;
    while (start + step < stop && follower_at(part, start + step) == token) step *= 2;
    int64_t low = start + step / 2, high = start + step < stop ? start + step : stop;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (follower_at(part, mid) == token) low = mid + 1; else high = mid;
    }
    return low;
}

/* Append what follows the places of a range; return the number of entries, or -1 if there is no room for more. */
static int64_t collect(const Part *part, Range in, const uint32_t *nearest, int length, int known, Answer *answer,
                       int64_t used) {
    known = matchable(part, nearest, known);
    for (int64_t i = in.start, next; i < in.stop; i = next) {
        next = length == MOST ? end_of_follower(part, i, in.stop) : i + 1;
        if (i + AHEAD < in.stop)
            __builtin_prefetch(part->raw + part->width * (int64_t)place_at(part->packed, i + AHEAD));
        int64_t place = place_at(part->packed, i);
        uint32_t key = (uint32_t)match_length(part, place, nearest, length, known) << TOKEN_BITS | follower_at(part, i);
        int32_t count = (int32_t)(part->sign * (next - i));
        if (used && answer->entries[used - 1].key == key) {
            answer->entries[used - 1].count += count;
            continue;
        }
        if (used == answer->capacity) return -1;
        answer->entries[used++] = (Entry){key, count};
    }
    return used;
}

static void sort_entries(Entry *entries, Entry *spare, int64_t n) {
    if (n <= 2 * FEW) {
        for (int64_t i = 1; i < n; i++) {
            Entry entry = entries[i];
            int64_t at = i;
            for (; at > 0 && entries[at - 1].key > entry.key; at--) entries[at] = entries[at - 1];
            entries[at] = entry;
        }
        return;
    }
    for (int shift = 0; shift < 32; shift += 8) { /* four passes: the result is where it began */
        int64_t starts[257] = {0};
        for (int64_t i = 0; i < n; i++) starts[(entries[i].key >> shift & 255) + 1]++;
        for (int i = 0; i < 256; i++) starts[i + 1] += starts[i];
        for (int64_t i = 0; i < n; i++) spare[starts[entries[i].key >> shift & 255]++] = entries[i];
        Entry *swap = entries;
        entries = spare;
        spare = swap;
    }
}

/* Count what followed the matches of a history's end; return how many (length, token) there are, or -1 if the answer
   has too little room. `found` is [count] to work with. */
int64_t counts_count(const Part *parts, int64_t count, const int32_t *history, int64_t history_count,
                     int64_t most_places, Range *found, Answer *answer) {
    uint32_t nearest[MOST] = {0};
    int known = nearest_of(history, history_count, nearest);
    int length = descend(parts, count, nearest, known, most_places, found);
    answer->least = length ? length : known < LEAST ? LEAST : known < MOST ? known + 1 : MOST;
    int64_t used = 0, kept = 0;
    for (int64_t i = 0; i < count && length; i++)
        if ((used = collect(parts + i, found[i], nearest, length, known, answer, used)) < 0) return -1;
    sort_entries(answer->entries, answer->entries + answer->capacity, used);
    for (int64_t i = 0; i < used;) {
        Entry sum = answer->entries[i++];
        while (i < used && answer->entries[i].key == sum.key) sum.count += answer->entries[i++].count;
        if (!sum.count) continue;
        answer->tokens[kept] = (int32_t)(sum.key & ((1u << TOKEN_BITS) - 1));
        answer->lengths[kept] = (int32_t)(sum.key >> TOKEN_BITS);
        answer->counts[kept++] = sum.count;
    }
    return kept;
}

static int is_hidden(const Part *part, int64_t place) {
    int64_t low = 0, high = part->hidden_count; /* the first document that ends behind the place */
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (part->hidden[2 * mid + 1] <= place) low = mid + 1; else high = mid;
    }
    return low < part->hidden_count && part->hidden[2 * low] <= place;
}

/* Write at most `most` tokens that followed the first match of a length with this follower; return how many. */
int64_t counts_draft(const Part *parts, int64_t count, const int32_t *history, int64_t history_count,
                     int64_t most_places, Range *found, int64_t length, int64_t follower, int32_t *draft, int64_t most) {
    uint32_t nearest[MOST] = {0};
    int known = nearest_of(history, history_count, nearest);
    int least = descend(parts, count, nearest, known, most_places, found);
    for (int64_t i = 0; i < count && least; i++) {
        const Part *part = parts + i;
        int mine = matchable(part, nearest, known);
        for (int64_t at = found[i].start; part->sign > 0 && at < found[i].stop; at++) {
            int64_t place = place_at(part->packed, at), size = 0;
            if (follower_at(part, at) != (uint32_t)follower) continue;
            if (match_length(part, place, nearest, least, mine) != length || is_hidden(part, place)) continue;
            uint32_t token;
            while (size < most && (token = token_at(part->raw, part->width, place + 1 + size)) != pause_of(part->width))
                draft[size++] = (int32_t)token;
            return size;
        }
    }
    return 0;
}
