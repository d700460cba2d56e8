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
enum {
    EXPERTS_MAX = 256,
    GROUPS_MAX = 32,
    WIDTH_MAX = 2048,
    HEAD_MAX = 256,
    ROPE_MAX = 64,
    DOCUMENT_MAX = 2112
};

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
// first[d + 1] - 1, and positions begin at 0 in each. Interleaved RoPE is applied here.
struct heads {
    int count, plain, rope, value; // heads, widths without and with RoPE, width of a value
    float scale;                   // of the scores
};

// Inputs of the attention. query [T, count * (plain + rope)], kv [T, count * (plain + value)],
// key_rope [T, stride], of which `rope` are used, cosine and sine [positions, rope / 2].
struct inputs {
    const b16 *query, *kv;
    const float *key_rope;
    int stride;
    const float *cosine, *sine;
};

// One head of one document, as float. Transposed arrays are padded with zeros to a multiple of
// 16 tokens.
struct head {
    float *query, *key, *key_t, *value,
        *value_t;               // [L, D], [L, D], [D, padded], [L, V], [V, padded]
    float *probability, *slope; // of one query
    float *dkey, *dvalue;
    int length, padded, width;
};

static void head_allocate(struct head *head, int width, int value) {
    head->width = width;
    float **rows[] = {&head->query, &head->key, &head->key_t, &head->dkey};
    for (int i = 0; i < 4; i++)
        *rows[i] = malloc((size_t)DOCUMENT_MAX * width * sizeof(float));
    float **values[] = {&head->value, &head->value_t, &head->dvalue};
    for (int i = 0; i < 3; i++)
        *values[i] = malloc((size_t)DOCUMENT_MAX * value * sizeof(float));
    head->probability = malloc(DOCUMENT_MAX * sizeof(float));
    head->slope = malloc(DOCUMENT_MAX * sizeof(float));
}

static void head_free(struct head *head) {
    float *all[] = {head->query,   head->key,    head->key_t, head->dkey,       head->value,
                    head->value_t, head->dvalue, head->slope, head->probability};
    for (int i = 0; i < 9; i++)
        free(all[i]);
}

// Rotates pairs of v [width]; sign -1 rotates back.
static void rotate(float *v, const float *cosine, const float *sine, int width, float sign) {
    for (int i = 0; i < width / 2; i++) {
        float a = v[2 * i], b = v[2 * i + 1];
        v[2 * i] = a * cosine[i] - sign * b * sine[i];
        v[2 * i + 1] = sign * a * sine[i] + b * cosine[i];
    }
}

// Reads head h of the document that begins at token `first`.
static void head_load(struct head *head, const struct inputs *in, const struct heads *heads,
                      int first, int h) {
    int N = heads->plain, R = heads->rope, V = heads->value, D = head->width, padded = head->padded;
    for (int t = 0; t < head->length; t++) {
        const float *cosine = in->cosine + t * (R / 2), *sine = in->sine + t * (R / 2);
        const b16 *q = in->query + (size_t)(first + t) * heads->count * D + h * D;
        float *query = head->query + t * D;
        for (int i = 0; i < D; i++)
            query[i] = load16(q[i]);
        rotate(query + N, cosine, sine, R, 1.f);
        for (int i = 0; i < D; i++)
            query[i] *= heads->scale;
        const b16 *kv = in->kv + (size_t)(first + t) * heads->count * (N + V) + h * (N + V);
        float *key = head->key + t * D;
        for (int i = 0; i < N; i++)
            key[i] = load16(kv[i]);
        for (int i = 0; i < R; i++)
            key[N + i] = in->key_rope[(size_t)(first + t) * in->stride + i];
        rotate(key + N, cosine, sine, R, 1.f);
        for (int i = 0; i < D; i++)
            head->key_t[i * padded + t] = key[i];
        for (int i = 0; i < V; i++)
            head->value[t * V + i] = load16(kv[N + i]);
    }
    for (int i = 0; i < D; i++)
        for (int t = head->length; t < padded; t++)
            head->key_t[i * padded + t] = 0;
}

// The probabilities of query i over the tokens 0 .. i; zeros up to a multiple of 16.
static void head_probabilities(struct head *head, int i) {
    int n = (i + 16) & ~15, D = head->width;
    float *p = head->probability;
    for (int j = 0; j < n; j++)
        p[j] = 0;
    for (int d = 0; d < D; d++) {
        float a = head->query[i * D + d];
        const float *key = head->key_t + d * head->padded;
        for (int j = 0; j < n; j++)
            p[j] += a * key[j];
    }
    float largest = -1e30f, sum = 0;
    for (int j = 0; j <= i; j++)
        largest = p[j] > largest ? p[j] : largest;
    for (int j = 0; j <= i; j++) {
        p[j] = fast_exp(p[j] - largest);
        sum += p[j];
    }
    sum = 1.f / sum;
    for (int j = 0; j <= i; j++)
        p[j] *= sum;
    for (int j = i + 1; j < n; j++)
        p[j] = 0;
}

// output [T, count * value]
void attention_forward(const b16 *query, const b16 *kv, const float *key_rope, int stride,
                       const float *cosine, const float *sine, const int32_t *first, int documents,
                       b16 *output, int count, int plain, int rope, int value, float scale) {
    const struct inputs in = {query, kv, key_rope, stride, cosine, sine};
    const struct heads heads = {count, plain, rope, value, scale};
#pragma omp parallel
    {
        struct head head;
        head_allocate(&head, plain + rope, value);
#pragma omp for schedule(dynamic, 4)
        for (int d = 0; d < documents; d++) {
            head.length = first[d + 1] - first[d];
            head.padded = (head.length + 15) & ~15;
            for (int h = 0; h < count; h++) {
                head_load(&head, &in, &heads, first[d], h);
                for (int i = 0; i < head.length; i++) {
                    float sum[HEAD_MAX];
                    head_probabilities(&head, i);
                    for (int c = 0; c < value; c++)
                        sum[c] = 0;
                    for (int j = 0; j <= i; j++)
                        for (int c = 0; c < value; c++)
                            sum[c] += head.probability[j] * head.value[j * value + c];
                    b16 *out = output + (size_t)(first[d] + i) * count * value + h * value;
                    for (int c = 0; c < value; c++)
                        out[c] = store16(sum[c]);
                }
            }
        }
        head_free(&head);
    }
}

// The way back through query i: adds to the head's dkey and dvalue, writes dquery [D].
static void head_backward(struct head *head, const struct inputs *in, const struct heads *heads,
                          int i, const b16 *doutput, b16 *dquery) {
    int N = heads->plain, R = heads->rope, V = heads->value, D = head->width, n = (i + 16) & ~15;
    float d[HEAD_MAX], dq[HEAD_MAX], dot = 0, *p = head->probability, *s = head->slope;
    const float *query = head->query + i * D;
    head_probabilities(head, i);
    for (int c = 0; c < V; c++)
        d[c] = load16(doutput[c]);
    for (int j = 0; j < n; j++)
        s[j] = 0;
    for (int c = 0; c < V; c++)
        for (int j = 0; j < n; j++)
            s[j] += d[c] * head->value_t[c * head->padded + j];
    for (int j = 0; j <= i; j++)
        dot += s[j] * p[j];
    for (int j = 0; j <= i; j++)
        s[j] = p[j] * (s[j] - dot);
    for (int c = 0; c < D; c++)
        dq[c] = 0;
    for (int j = 0; j <= i; j++) {
        float *dvalue = head->dvalue + j * V, *dkey = head->dkey + j * D;
        const float *key = head->key + j * D;
        for (int c = 0; c < V; c++)
            dvalue[c] += p[j] * d[c];
        for (int c = 0; c < D; c++) {
            dkey[c] += s[j] * query[c];
            dq[c] += s[j] * key[c];
        }
    }
    for (int c = 0; c < D; c++)
        dq[c] *= heads->scale;
    rotate(dq + N, in->cosine + i * (R / 2), in->sine + i * (R / 2), R, -1.f);
    for (int c = 0; c < D; c++)
        dquery[c] = store16(dq[c]);
}

// Writes the head's part of dkv, and adds its part of dkey_rope, which all heads share.
static void head_store(struct head *head, const struct inputs *in, const struct heads *heads,
                       int first, int h, b16 *dkv, float *dkey_rope) {
    int N = heads->plain, R = heads->rope, V = heads->value, D = head->width;
    for (int t = 0; t < head->length; t++) {
        b16 *out = dkv + (size_t)(first + t) * heads->count * (N + V) + h * (N + V);
        for (int c = 0; c < N; c++)
            out[c] = store16(head->dkey[t * D + c]);
        for (int c = 0; c < V; c++)
            out[N + c] = store16(head->dvalue[t * V + c]);
        float rope[ROPE_MAX];
        for (int i = 0; i < R; i++)
            rope[i] = head->dkey[t * D + N + i];
        rotate(rope, in->cosine + t * (R / 2), in->sine + t * (R / 2), R, -1.f);
        for (int i = 0; i < R; i++)
            dkey_rope[(size_t)(first + t) * R + i] += rope[i];
    }
}

// The transposed values, and gradients of zero.
static void head_begin_backward(struct head *head, int V) {
    for (int t = 0; t < head->length; t++)
        for (int c = 0; c < V; c++)
            head->value_t[c * head->padded + t] = head->value[t * V + c];
    for (int c = 0; c < V; c++)
        for (int t = head->length; t < head->padded; t++)
            head->value_t[c * head->padded + t] = 0;
    memset(head->dkey, 0, (size_t)head->padded * head->width * sizeof(float));
    memset(head->dvalue, 0, (size_t)head->padded * V * sizeof(float));
}

// doutput [T, count * value] -> dquery, dkv, shaped as the inputs, and dkey_rope [T, rope].
void attention_backward(const b16 *query, const b16 *kv, const float *key_rope, int stride,
                        const float *cosine, const float *sine, const int32_t *first, int documents,
                        const b16 *doutput, b16 *dquery, b16 *dkv, float *dkey_rope, int count,
                        int plain, int rope, int value, float scale) {
    const struct inputs in = {query, kv, key_rope, stride, cosine, sine};
    const struct heads heads = {count, plain, rope, value, scale};
#pragma omp parallel
    {
        struct head head;
        head_allocate(&head, plain + rope, value);
#pragma omp for schedule(dynamic, 4)
        for (int d = 0; d < documents; d++) {
            head.length = first[d + 1] - first[d];
            head.padded = (head.length + 15) & ~15;
            memset(dkey_rope + (size_t)first[d] * rope, 0,
                   (size_t)head.length * rope * sizeof(float));
            for (int h = 0; h < count; h++) {
                head_load(&head, &in, &heads, first[d], h);
                head_begin_backward(&head, value);
                for (int i = 0; i < head.length; i++) {
                    size_t token = (size_t)(first[d] + i) * count + h;
                    head_backward(&head, &in, &heads, i, doutput + token * value,
                                  dquery + token * head.width);
                }
                head_store(&head, &in, &heads, first[d], h, dkv, dkey_rope);
            }
        }
        head_free(&head);
    }
}
