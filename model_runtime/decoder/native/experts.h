/* Feed-forward parts of experts: each row goes through the experts that its scores choose.

   A row that chose an expert has a slot, and the slots of one expert lie side by side: its matrices are read once for all
   of them, as a dense part's matrices are for all rows. A row's results are added in the order of the experts' numbers, so
   that its bits depend on no other row. */

#pragma once
#include "elements.h"
#include "products.h"
#include "pass.h"

/* The highest of `count` numbers that is not yet taken, the first of equals; -1 if all are. */
static int64_t best_of(const float *wanted, const uint8_t *taken, int64_t count) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++)
        if (!taken[i] && (best < 0 || wanted[i] > wanted[best])) best = i;
    return best;
}

/* Leave only the best groups' experts in the choice. */
static void keep_groups(const Experts *e, const float *wanted, uint8_t *taken) {
    int64_t size = e->count / e->groups;
    float sums[MOST_EXPERTS];
    uint8_t kept[MOST_EXPERTS] = {0};
    for (int64_t g = 0; g < e->groups; g++) {
        uint8_t counted[MOST_EXPERTS] = {0};
        sums[g] = 0;
        for (int64_t i = 0; i < e->group_best; i++) {
            int64_t best = best_of(wanted + g * size, counted, size);
            counted[best] = 1, sums[g] += wanted[g * size + best];
        }
    }
    for (int64_t i = 0; i < e->chosen_groups; i++) kept[best_of(sums, kept, e->groups)] = 1;
    for (int64_t i = 0; i < e->count; i++) taken[i] = !kept[i / size];
}

/* The scores of all experts for a row whose normed input is x [padded]. */
static void score_experts(const Experts *e, const float *x, int64_t width, float *scores) {
    float most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < e->count; i++) {
        Floats sums = {0};
        const float *weights = e->router + i * width;
        for (int64_t k = 0; k < width; k += LANES)
            sums = fused(*(const Floats *)(x + k), *(const Floats *)(weights + k), sums);
        scores[i] = total(sums) + (e->bias ? e->bias[i] : 0);
        most = scores[i] > most ? scores[i] : most;
    }
    for (int64_t i = 0; i < e->count; i++) {
        float power = exponential(spread(e->is_sigmoid ? -scores[i] : scores[i] - most))[0];
        scores[i] = e->is_sigmoid ? 1.0f / (1.0f + power) : power;
        sum += scores[i];
    }
    for (int64_t i = 0; !e->is_sigmoid && i < e->count; i++) scores[i] /= sum;
}

/* Choose a row's experts, in the order of their numbers, and how much each counts. */
static void choose_experts(Pass *p, const Experts *e, int64_t row) {
    float scores[MOST_EXPERTS], wanted[MOST_EXPERTS], sum = 0;
    uint8_t taken[MOST_EXPERTS] = {0}, chosen[MOST_EXPERTS] = {0};
    const float *x = p->input.wide + row * p->model->padded;
    int32_t *numbers = p->expert.chosen + row * e->chosen;
    float *shares = p->expert.shares + row * e->chosen;
    score_experts(e, x, p->model->padded, scores);
    for (int64_t i = 0; i < e->count; i++) wanted[i] = scores[i] + (e->correction ? e->correction[i] : 0);
    if (e->groups > 1) keep_groups(e, wanted, taken);
    for (int64_t i = 0; i < e->chosen; i++) {
        int64_t best = best_of(wanted, taken, e->count);
        taken[best] = chosen[best] = 1;
    }
    for (int64_t i = 0, rank = 0; i < e->count; i++)
        if (chosen[i]) numbers[rank] = (int32_t)i, shares[rank++] = scores[i], sum += scores[i];
    for (int64_t i = 0; i < e->chosen; i++) shares[i] *= e->scale / (e->is_normalized ? (sum > 1e-20f ? sum : 1e-20f) : 1.0f);
    if (e->shared_gate) {
        Floats sums = {0};
        for (int64_t k = 0; k < p->model->padded; k += LANES)
            sums = fused(*(const Floats *)(x + k), *(const Floats *)(e->shared_gate + k), sums);
        p->expert.shared_shares[row] = 1.0f / (1.0f + exponential(spread(-total(sums)))[0]);
    }
}

/* Give each row's choices their slots: expert by expert, without gaps. */
static void assign_slots(Pass *p, const Experts *e) {
    ExpertRows *x = &p->expert;
    int64_t choices = p->rows * e->chosen;
    memset(x->first, 0, (e->count + 1) * sizeof(int32_t));
    for (int64_t i = 0; i < choices; i++) x->first[x->chosen[i] + 1]++;
    for (int64_t i = 0; i < e->count; i++) x->first[i + 1] += x->first[i];
    int32_t next[MOST_EXPERTS];
    memcpy(next, x->first, e->count * sizeof(int32_t));
    for (int64_t i = 0; i < choices; i++) {
        int32_t slot = next[x->chosen[i]]++;
        x->slot_of[i] = slot, x->row_of[slot] = (int32_t)(i / e->chosen), x->expert_of[slot] = x->chosen[i];
    }
}

/* Copy the input of a slot's row, as the product wants it. */
static void fill_slot(Pass *p, int64_t slot) {
    int64_t in = p->model->padded, row = p->expert.row_of[slot];
    if (p->model->form != FP16) {
        memcpy(p->expert.input.digits + 2 * slot * in, p->input.digits + 2 * row * in, 2 * in);
        p->expert.input.units[slot] = p->input.units[row];
    } else memcpy(p->expert.input.wide + slot * in, p->input.wide + row * in, in * sizeof(float));
}

/* The input of an expert's last product, of a slot. */
static void activate_slot(Pass *p, const Experts *e, int64_t slot, int64_t in) {
    const float *gate = p->expert.wide + slot * p->expert.wide_stride, *up = gate + e->intermediate;
    float *out = p->expert.activated.wide + slot * in;
    for (int64_t i = 0; i < e->intermediate; i += LANES) {
        Floats g = *(const Floats *)(gate + i), u = *(const Floats *)(up + i);
        if (e->is_clamped) *(Floats *)(out + i) = clamped(g, u);
        else *(Floats *)(out + i) = activated(g, (int)e->is_gelu) * u;
    }
    memset(out + e->intermediate, 0, (in - e->intermediate) * sizeof(float));
    prepare_row(p->model, &p->expert.activated, slot, in);
}

/* What a row's experts add, after the shared one if there is one, which delta holds. */
static void add_experts(Pass *p, const Experts *e, int64_t row) {
    int64_t width = p->model->padded;
    float *delta = p->delta + row * width;
    for (int64_t i = 0; e->shared_gate && i < width; i += LANES) *(Floats *)(delta + i) *= p->expert.shared_shares[row];
    if (!e->shared) memset(delta, 0, width * sizeof(float));
    for (int64_t rank = 0; rank < e->chosen; rank++) {
        int64_t choice = row * e->chosen + rank;
        const float *out = p->expert.out + p->expert.slot_of[choice] * width;
        Floats share = spread(p->expert.shares[choice]);
        for (int64_t i = 0; i < width; i += LANES)
            *(Floats *)(delta + i) = fused(share, *(const Floats *)(out + i), *(const Floats *)(delta + i));
    }
}
