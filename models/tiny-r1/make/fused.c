// SPDX-License-Identifier: Apache-2.0
// Kernels of the training on CPUs. model.py has plain torch code for each; these are faster:
//   gcc -O3 -march=native -mprefer-vector-width=512 -ffast-math -fopenmp -shared -fPIC fused.c
//       -o fused.so -lm
//
// Activations are bfloat16 (b16), sums and the residual stream are float. Shapes stand in brackets:
// T tokens, D width, F hidden width of a SwiGLU, E experts, K experts of a token, S rows of all
// experts with padding.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint16_t b16;

// The largest widths that the functions have room for.
enum { EXPERTS_MAX = 256, GROUPS_MAX = 32, WIDTH_MAX = 2048, DOCUMENT_MAX = 2112 };

static inline float load16(b16 value) {
    union {
        uint32_t bits;
        float number;
    } x;
    x.bits = (uint32_t)value << 16;
    return x.number;
}

// Rounds to nearest, ties to even.
static inline b16 store16(float number) {
    union {
        uint32_t bits;
        float number;
    } x;
    x.number = number;
    return (b16)((x.bits + 0x7fff + ((x.bits >> 16) & 1)) >> 16);
}

// exp, in a form that the compiler vectorizes; the relative error is about 1e-7.
static inline float fast_exp(float x) {
    x = x < -87.f ? -87.f : x > 88.f ? 88.f : x;
    float n = x * 1.44269504f; // x / ln 2
    float whole = (float)(int)(n + (n < 0 ? -0.5f : 0.5f));
    float f = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * f + 1.3981999507e-3f;
    p = p * f + 8.3334519073e-3f;
    p = p * f + 4.1665795894e-2f;
    p = p * f + 1.6666665459e-1f;
    p = p * f + 5.0000001201e-1f;
    p = p * f * f + f + 1.f;
    union {
        int32_t bits;
        float number;
    } power;
    power.bits = ((int)whole + 127) << 23;
    return p * power.number;
}

/* ---- norms and activations ---- */

// RMSNorm. x [T, stride] -> y [T, D]; scale [T] = 1 / rms, for the way back.
void rms_forward(const float *x, int stride, const float *weight, b16 *y, float *scale, int T,
                 int D, float eps) {
#pragma omp parallel for
    for (int t = 0; t < T; t++) {
        const float *in = x + (size_t)t * stride;
        b16 *out = y + (size_t)t * D;
        float sum = 0;
        for (int i = 0; i < D; i++)
            sum += in[i] * in[i];
        float s = scale[t] = 1.f / sqrtf(sum / D + eps);
        for (int i = 0; i < D; i++)
            out[i] = store16(in[i] * s * weight[i]);
    }
}

// dy [T, D] -> dx [T, D], and dweight [D] is added to.
void rms_backward(const float *x, int stride, const float *weight, const float *scale,
                  const b16 *dy, float *dx, float *dweight, int T, int D) {
#pragma omp parallel
    {
        float *sums = calloc(D, sizeof(float));
#pragma omp for
        for (int t = 0; t < T; t++) {
            const float *in = x + (size_t)t * stride;
            const b16 *d = dy + (size_t)t * D;
            float *out = dx + (size_t)t * D;
            float s = scale[t], c = 0;
            for (int i = 0; i < D; i++)
                c += load16(d[i]) * weight[i] * in[i];
            c *= s * s * s / D;
            for (int i = 0; i < D; i++) {
                float e = load16(d[i]);
                sums[i] += e * in[i] * s;
                out[i] = e * weight[i] * s - in[i] * c;
            }
        }
#pragma omp critical
        for (int i = 0; i < D; i++)
            dweight[i] += sums[i];
        free(sums);
    }
}

// SwiGLU. h [T, 2F], gate and up -> a [T, F] = silu(gate) * up
void swiglu_forward(const b16 *h, b16 *a, int T, int F) {
#pragma omp parallel for
    for (int t = 0; t < T; t++) {
        const b16 *gate = h + (size_t)t * 2 * F, *up = gate + F;
        b16 *out = a + (size_t)t * F;
        for (int i = 0; i < F; i++) {
            float x = load16(gate[i]);
            out[i] = store16(x / (1.f + fast_exp(-x)) * load16(up[i]));
        }
    }
}

void swiglu_backward(const b16 *h, const b16 *da, b16 *dh, int T, int F) {
#pragma omp parallel for
    for (int t = 0; t < T; t++) {
        const b16 *gate = h + (size_t)t * 2 * F, *up = gate + F, *d = da + (size_t)t * F;
        b16 *out = dh + (size_t)t * 2 * F;
        for (int i = 0; i < F; i++) {
            float x = load16(gate[i]), s = 1.f / (1.f + fast_exp(-x)), e = load16(d[i]);
            out[i] = store16(e * load16(up[i]) * s * (1.f + x * (1.f - s)));
            out[F + i] = store16(e * x * s);
        }
    }
}

// Cross entropy in place: z [N, V] logits -> their gradient, times `factor`; loss [N];
// hit [N]: whether the right token has the largest logit.
void cross_entropy(b16 *z, const int64_t *right, float *loss, int64_t *hit, int N, int V,
                   float factor) {
#pragma omp parallel
    {
        float *e = malloc(V * sizeof(float));
#pragma omp for
        for (int n = 0; n < N; n++) {
            b16 *row = z + (size_t)n * V;
            float largest = -1e30f, sum = 0;
            for (int i = 0; i < V; i++) {
                float v = load16(row[i]);
                largest = v > largest ? v : largest;
            }
            float own = load16(row[right[n]]);
            for (int i = 0; i < V; i++) {
                float v = fast_exp(load16(row[i]) - largest);
                e[i] = v;
                sum += v;
            }
            loss[n] = logf(sum) + largest - own;
            hit[n] = own >= largest;
            float q = factor / sum;
            for (int i = 0; i < V; i++)
                row[i] = store16(e[i] * q);
            row[right[n]] = store16((e[right[n]] / sum - 1.f) * factor);
        }
        free(e);
    }
}

/* ---- experts ---- */

// Keeps the scores of the best groups; a group counts by the sum of its two best scores.
static void keep_groups(float *scores, int E, int groups, int kept) {
    float sums[GROUPS_MAX];
    int on[GROUPS_MAX] = {0}, size = E / groups;
    for (int g = 0; g < groups; g++) {
        float first = -1e30f, second = -1e30f;
        for (int i = 0; i < size; i++) {
            float v = scores[g * size + i];
            if (v > first) {
                second = first;
                first = v;
            } else if (v > second) {
                second = v;
            }
        }
        sums[g] = first + second;
    }
    for (int k = 0; k < kept; k++) {
        int best = -1;
        for (int g = 0; g < groups; g++)
            if (!on[g] && (best < 0 || sums[g] > sums[best])) best = g;
        on[best] = 1;
    }
    for (int g = 0; g < groups; g++)
        for (int i = 0; i < size && !on[g]; i++)
            scores[g * size + i] = -1e30f;
}

// The K best experts of each token: scores [T, E] plus bias [E] -> index [T, K], and count [E], the
// tokens of each expert.
void route(const float *scores, const float *bias, int32_t *index, int32_t *count, int T, int E,
           int groups, int kept, int K) {
    memset(count, 0, E * sizeof(int32_t));
    for (int t = 0; t < T; t++) {
        float c[EXPERTS_MAX];
        for (int i = 0; i < E; i++)
            c[i] = scores[(size_t)t * E + i] + bias[i];
        keep_groups(c, E, groups, kept);
        for (int k = 0; k < K; k++) {
            int best = 0;
            for (int i = 1; i < E; i++)
                if (c[i] > c[best]) best = i;
            c[best] = -2e30f;
            index[t * K + k] = best;
            count[best]++;
        }
    }
}

// Rows by expert, which begin at first[e]: position [T, K] of each token's rows, and token [S] of
// each row, -1 for padding.
void slots(const int32_t *index, const int32_t *first, int32_t *position, int32_t *token, int T,
           int K, int E, int S) {
    int32_t next[EXPERTS_MAX];
    memcpy(next, first, E * sizeof(int32_t));
    for (int i = 0; i < S; i++)
        token[i] = -1;
    for (int i = 0; i < T * K; i++) {
        int row = next[index[i]]++;
        position[i] = row;
        token[row] = i / K;
    }
}

// x [T, D] -> rows [S, D]; padding is zero.
void gather(const b16 *x, const int32_t *token, b16 *rows, int S, int D) {
#pragma omp parallel for
    for (int i = 0; i < S; i++) {
        b16 *out = rows + (size_t)i * D;
        if (token[i] < 0)
            memset(out, 0, D * sizeof(b16));
        else
            memcpy(out, x + (size_t)token[i] * D, D * sizeof(b16));
    }
}

// y [T, D] = sum over k of weight [T, K] * rows [S, D]; NULL: all weights are 1.
void combine(const b16 *rows, const int32_t *position, const float *weight, b16 *y, int T, int K,
             int D) {
#pragma omp parallel for
    for (int t = 0; t < T; t++) {
        float sum[WIDTH_MAX];
        for (int i = 0; i < D; i++)
            sum[i] = 0;
        for (int k = 0; k < K; k++) {
            const b16 *row = rows + (size_t)position[t * K + k] * D;
            float c = weight ? weight[t * K + k] : 1.f;
            for (int i = 0; i < D; i++)
                sum[i] += c * load16(row[i]);
        }
        b16 *out = y + (size_t)t * D;
        for (int i = 0; i < D; i++)
            out[i] = store16(sum[i]);
    }
}

// dy [T, D] -> drows [S, D], dweight [T, K].
void combine_backward(const b16 *dy, const b16 *rows, const int32_t *position, const float *weight,
                      b16 *drows, float *dweight, int T, int K, int D, int S) {
    memset(drows, 0, (size_t)S * D * sizeof(b16));
#pragma omp parallel for
    for (int t = 0; t < T; t++) {
        const b16 *d = dy + (size_t)t * D;
        for (int k = 0; k < K; k++) {
            size_t at = (size_t)position[t * K + k] * D;
            float c = weight[t * K + k], sum = 0;
            for (int i = 0; i < D; i++) {
                float e = load16(d[i]);
                sum += e * load16(rows[at + i]);
                drows[at + i] = store16(c * e);
            }
            dweight[t * K + k] = sum;
        }
    }
}

/* ---- attention ---- */

// MLA in its expanded form, over packed documents: document d has the tokens first[d] ..
// first[d + 1] - 1, and positions begin at 0 in each. Interleaved RoPE is applied here. The widths of a
// head are constants, so that sums stay in registers; QUERIES queries of a head go together.
enum {
    PLAIN = 32, // width of queries and keys without RoPE
    ROPE = 16,
    KEY = PLAIN + ROPE,
    VALUE = 32,
    LANES = 16,
    QUERIES = 4,
};

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

struct heads {
    int count;
    float scale; // of the scores
};

// Inputs of the attention. query [T, count * KEY], kv [T, count * (PLAIN + VALUE)], key_rope
// [T, stride], of which ROPE are used, cosine and sine [positions, ROPE / 2].
struct inputs {
    const b16 *query, *kv;
    const float *key_rope;
    int stride;
    const float *cosine, *sine;
};

// One head of one document, as float. Rows are padded with zeros to a multiple of 16 tokens.
struct head {
    float *query, *key, *key_t, *value,
        *value_t;                // [padded, KEY], [KEY, padded], [padded, VALUE] ...
    float *probability, *slope;  // [QUERIES, padded]
    float *dkey, *dvalue, *dout; // [padded, KEY or VALUE]
    int length, padded;
};

static void head_allocate(struct head *head) {
    float **rows[] = {&head->query, &head->key, &head->key_t, &head->dkey};
    for (int i = 0; i < 4; i++)
        *rows[i] = malloc((size_t)DOCUMENT_MAX * KEY * sizeof(float));
    float **values[] = {&head->value, &head->value_t, &head->dvalue, &head->dout};
    for (int i = 0; i < 4; i++)
        *values[i] = malloc((size_t)DOCUMENT_MAX * VALUE * sizeof(float));
    head->probability = malloc(QUERIES * DOCUMENT_MAX * sizeof(float));
    head->slope = malloc(QUERIES * DOCUMENT_MAX * sizeof(float));
}

static void head_free(struct head *head) {
    float *all[] = {head->query,   head->key,    head->key_t, head->dkey, head->value,
                    head->value_t, head->dvalue, head->slope, head->dout, head->probability};
    for (int i = 0; i < 10; i++)
        free(all[i]);
}

// Rotates pairs of v [ROPE]; sign -1 rotates back.
static void rotate(float *v, const float *cosine, const float *sine, float sign) {
    for (int i = 0; i < ROPE / 2; i++) {
        float a = v[2 * i], b = v[2 * i + 1];
        v[2 * i] = a * cosine[i] - sign * b * sine[i];
        v[2 * i + 1] = sign * a * sine[i] + b * cosine[i];
    }
}

static int padded_length(int length) {
    return (length + LANES - 1) / LANES * LANES;
}

// Reads head h of the document with the tokens first .. end - 1.
static void head_load(struct head *head, const struct inputs *in, const struct heads *heads,
                      int first, int end, int h) {
    int padded = padded_length(end - first);
    head->length = end - first;
    head->padded = padded;
    for (int t = 0; t < head->length; t++) {
        const float *cosine = in->cosine + t * (ROPE / 2), *sine = in->sine + t * (ROPE / 2);
        const b16 *q = in->query + ((size_t)(first + t) * heads->count + h) * KEY;
        float *query = head->query + t * KEY;
        for (int i = 0; i < KEY; i++)
            query[i] = load16(q[i]);
        rotate(query + PLAIN, cosine, sine, 1.f);
        for (int i = 0; i < KEY; i++)
            query[i] *= heads->scale;
        const b16 *kv = in->kv + ((size_t)(first + t) * heads->count + h) * (PLAIN + VALUE);
        float *key = head->key + t * KEY;
        for (int i = 0; i < PLAIN; i++)
            key[i] = load16(kv[i]);
        for (int i = 0; i < ROPE; i++)
            key[PLAIN + i] = in->key_rope[(size_t)(first + t) * in->stride + i];
        rotate(key + PLAIN, cosine, sine, 1.f);
        for (int i = 0; i < VALUE; i++)
            head->value[t * VALUE + i] = load16(kv[PLAIN + i]);
    }
    size_t rest = padded - head->length;
    memset(head->query + head->length * KEY, 0, rest * KEY * sizeof(float));
    memset(head->key + head->length * KEY, 0, rest * KEY * sizeof(float));
    memset(head->value + head->length * VALUE, 0, rest * VALUE * sizeof(float));
    for (int t = 0; t < padded; t++)
        for (int i = 0; i < KEY; i++)
            head->key_t[i * padded + t] = head->key[t * KEY + i];
}

// products [QUERIES, padded] = rows [QUERIES, width] columns [width, padded], the first n columns.
static inline void head_products(float *products, const float *rows, const float *columns,
                                 int width, int padded, int n) {
    for (int j = 0; j < n; j += LANES) {
        lanes sum[QUERIES] = {0};
        for (int d = 0; d < width; d++) {
            lanes column = *(const lanes *)(columns + d * padded + j);
            for (int q = 0; q < QUERIES; q++)
                sum[q] += rows[q * width + d] * column;
        }
        for (int q = 0; q < QUERIES; q++)
            *(lanes *)(products + q * padded + j) = sum[q];
    }
}

// The probabilities of QUERIES queries from i on over the tokens up to each; zeros up to n.
static void head_probabilities(struct head *head, int i, int n) {
    head_products(head->probability, head->query + i * KEY, head->key_t, KEY, head->padded, n);
    for (int q = 0; q < QUERIES; q++) {
        float *p = head->probability + q * head->padded, largest = -1e30f, sum = 0;
        for (int j = 0; j <= i + q; j++)
            largest = p[j] > largest ? p[j] : largest;
        for (int j = 0; j <= i + q; j++) {
            p[j] = fast_exp(p[j] - largest);
            sum += p[j];
        }
        sum = 1.f / sum;
        for (int j = 0; j <= i + q; j++)
            p[j] *= sum;
        for (int j = i + q + 1; j < n; j++)
            p[j] = 0;
    }
}

// sums [QUERIES, width] = weights [QUERIES, padded] rows [n, width]
static inline void head_gather(float *sums, const float *weights, const float *rows, int width,
                               int padded, int n) {
    for (int c = 0; c < width; c += LANES) {
        lanes sum[QUERIES] = {0};
        for (int j = 0; j < n; j++) {
            lanes row = *(const lanes *)(rows + j * width + c);
            for (int q = 0; q < QUERIES; q++)
                sum[q] += weights[q * padded + j] * row;
        }
        for (int q = 0; q < QUERIES; q++)
            *(lanes *)(sums + q * width + c) = sum[q];
    }
}

// rows [n, width] += the products of weights [QUERIES, padded] and vectors [QUERIES, width].
static inline void head_scatter(float *rows, const float *weights, const float *vectors, int width,
                                int padded, int n) {
    for (int c = 0; c < width; c += LANES) {
        lanes vector[QUERIES];
        for (int q = 0; q < QUERIES; q++)
            vector[q] = *(const lanes *)(vectors + q * width + c);
        for (int j = 0; j < n; j++) {
            lanes *row = (lanes *)(rows + j * width + c);
            lanes sum = *row;
            for (int q = 0; q < QUERIES; q++)
                sum += weights[q * padded + j] * vector[q];
            *row = sum;
        }
    }
}

// The smaller number of queries at the end of a document.
static int queries_from(const struct head *head, int i) {
    return head->length - i < QUERIES ? head->length - i : QUERIES;
}

static void check_widths(int plain, int rope, int value) {
    if (plain != PLAIN || rope != ROPE || value != VALUE) abort();
}

// output [T, count * VALUE]. A work item is a head of a document.
void attention_forward(const b16 *query, const b16 *kv, const float *key_rope, int stride,
                       const float *cosine, const float *sine, const int32_t *first, int documents,
                       b16 *output, int count, int plain, int rope, int value, float scale) {
    const struct inputs in = {query, kv, key_rope, stride, cosine, sine};
    const struct heads heads = {count, scale};
    check_widths(plain, rope, value);
#pragma omp parallel
    {
        struct head head;
        head_allocate(&head);
#pragma omp for schedule(dynamic)
        for (int item = 0; item < documents * count; item++) {
            int d = item / count, h = item % count;
            head_load(&head, &in, &heads, first[d], first[d + 1], h);
            for (int i = 0; i < head.length; i += QUERIES) {
                float sums[QUERIES * VALUE];
                head_probabilities(&head, i, padded_length(i + QUERIES));
                head_gather(sums, head.probability, head.value, VALUE, head.padded, i + QUERIES);
                for (int q = 0; q < queries_from(&head, i); q++) {
                    b16 *out = output + ((size_t)(first[d] + i + q) * count + h) * VALUE;
                    for (int c = 0; c < VALUE; c++)
                        out[c] = store16(sums[q * VALUE + c]);
                }
            }
        }
        head_free(&head);
    }
}

// The way back through QUERIES queries from i on: adds to the head's dkey and dvalue.
static void head_backward(struct head *head, const struct inputs *in, const struct heads *heads,
                          int i, b16 *dquery) {
    int n = padded_length(i + QUERIES), padded = head->padded;
    float dq[QUERIES * KEY], *dout = head->dout + i * VALUE;
    head_probabilities(head, i, n);
    head_products(head->slope, dout, head->value_t, VALUE, padded, n);
    for (int q = 0; q < QUERIES; q++) {
        float *p = head->probability + q * padded, *s = head->slope + q * padded, dot = 0;
        for (int j = 0; j < n; j++)
            dot += s[j] * p[j];
        for (int j = 0; j < n; j++)
            s[j] = p[j] * (s[j] - dot);
    }
    head_scatter(head->dvalue, head->probability, dout, VALUE, padded, i + QUERIES);
    head_scatter(head->dkey, head->slope, head->query + i * KEY, KEY, padded, i + QUERIES);
    head_gather(dq, head->slope, head->key, KEY, padded, i + QUERIES);
    for (int q = 0; q < queries_from(head, i); q++) {
        float *row = dq + q * KEY;
        b16 *out = dquery + (size_t)q * heads->count * KEY;
        for (int c = 0; c < KEY; c++)
            row[c] *= heads->scale;
        rotate(row + PLAIN, in->cosine + (i + q) * (ROPE / 2), in->sine + (i + q) * (ROPE / 2),
               -1.f);
        for (int c = 0; c < KEY; c++)
            out[c] = store16(row[c]);
    }
}

// Writes the head's part of dkv and of the gradients of the rotated keys, [T, ROPE] for each head.
static void head_store(struct head *head, const struct inputs *in, const struct heads *heads,
                       int first, int h, b16 *dkv, float *drope) {
    for (int t = 0; t < head->length; t++) {
        b16 *out = dkv + ((size_t)(first + t) * heads->count + h) * (PLAIN + VALUE);
        float *rope = drope + (size_t)(first + t) * ROPE;
        for (int c = 0; c < PLAIN; c++)
            out[c] = store16(head->dkey[t * KEY + c]);
        for (int c = 0; c < VALUE; c++)
            out[PLAIN + c] = store16(head->dvalue[t * VALUE + c]);
        memcpy(rope, head->dkey + t * KEY + PLAIN, ROPE * sizeof(float));
        rotate(rope, in->cosine + t * (ROPE / 2), in->sine + t * (ROPE / 2), -1.f);
    }
}

// The transposed values, the gradients of the outputs, and other gradients of zero.
static void head_begin_backward(struct head *head, const b16 *doutput, int count) {
    int padded = head->padded;
    for (int t = 0; t < padded; t++)
        for (int c = 0; c < VALUE; c++) {
            head->value_t[c * padded + t] = head->value[t * VALUE + c];
            head->dout[t * VALUE + c] =
                t < head->length ? load16(doutput[(size_t)t * count * VALUE + c]) : 0;
        }
    memset(head->dkey, 0, (size_t)padded * KEY * sizeof(float));
    memset(head->dvalue, 0, (size_t)padded * VALUE * sizeof(float));
}

// doutput [T, count * VALUE] -> dquery, dkv, shaped as the inputs, and dkey_rope [T, ROPE], the sum of
// all heads.
void attention_backward(const b16 *query, const b16 *kv, const float *key_rope, int stride,
                        const float *cosine, const float *sine, const int32_t *first, int documents,
                        const b16 *doutput, b16 *dquery, b16 *dkv, float *dkey_rope, int count,
                        int plain, int rope, int value, float scale) {
    const struct inputs in = {query, kv, key_rope, stride, cosine, sine};
    const struct heads heads = {count, scale};
    const size_t size = (size_t)first[documents] * ROPE;
    float *parts = malloc(count * size * sizeof(float));
    check_widths(plain, rope, value);
#pragma omp parallel
    {
        struct head head;
        head_allocate(&head);
#pragma omp for schedule(dynamic)
        for (int item = 0; item < documents * count; item++) {
            int d = item / count, h = item % count;
            head_load(&head, &in, &heads, first[d], first[d + 1], h);
            head_begin_backward(&head, doutput + ((size_t)first[d] * count + h) * VALUE, count);
            for (int i = 0; i < head.length; i += QUERIES)
                head_backward(&head, &in, &heads, i,
                              dquery + ((size_t)(first[d] + i) * count + h) * KEY);
            head_store(&head, &in, &heads, first[d], h, dkv, parts + h * size);
        }
#pragma omp for
        for (size_t i = 0; i < size; i++) {
            float sum = 0;
            for (int h = 0; h < count; h++)
                sum += parts[h * size + i];
            dkey_rope[i] = sum;
        }
        head_free(&head);
    }
    free(parts);
}
